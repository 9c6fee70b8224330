"""The command `tailrank theory`: what Theorems 4.1 and 5.1 ask for, with every constant set to one.

The printed text is corrected where it is wrong (docs/paper_notes.md). T1 and iota need each other,

    T1 = H^7 d^3 iota / (upsilon^3 accuracy^2),     iota = log^2(H d T1 / (upsilon delta)),

so T1 is the largest fixed point of x -> a log^2(b x), and 1 at least: from there on more iterations are always enough.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import click

from tailrank import checks
from tailrank.checks import InputError
from tailrank.cli.errors import Command
from tailrank.learning.schedule import THEORY


@dataclass(frozen=True)
class Theory:
    """The figures of the theorems for one problem, constants one (docs/paper_notes.md says which are corrected)."""

    H: int
    A: int
    d: int
    class_size: float
    tau: float
    epsilon: float
    delta: float = 0.1

    def __post_init__(self) -> None:
        for name in ("H", "A", "d"):
            checks.whole(getattr(self, name), name)
        checks.tail_level(self.tau)
        checks.positive(self.epsilon, "epsilon")
        if checks.number(self.class_size, "class_size") < 1:
            raise InputError(f"class_size = {self.class_size}: must be at least 1")
        checks.inside(self.delta, "delta", "(0, 1)")

    def table(self) -> list[tuple[str, float, str]]:
        """Rows (quantity, value, formula)."""
        try:
            rows = self._rows()
        except (OverflowError, ZeroDivisionError):
            rows = [("", math.inf, "")]
        if not all(math.isfinite(value) for _, value, _ in rows):
            raise InputError(
                f"theory: the figures for H = {self.H:.3g}, d = {self.d:.3g}, tau = {self.tau:g}, epsilon = "
                f"{self.epsilon:g}, delta = {self.delta:g} are too large for floating-point numbers"
            )
        return rows

    def _rows(self) -> list[tuple[str, float, str]]:
        H, A, d, tau, eps = self.H, self.A, self.d, self.tau, self.epsilon
        log_class = math.log(self.class_size / self.delta)
        iterations = H**6 * A**2 * d**4 * log_class / (tau * eps) ** 2
        upsilon = 1.0 / math.ceil(3 * H / eps)
        accuracy = tau * eps / 6
        span = H + H * max(H - 2, 0)
        inside = H * d / (upsilon * self.delta)
        t1 = largest_fixed_point(H**7 * d**3 / (upsilon**3 * accuracy**2), inside)
        iota = math.log(inside * t1) ** 2
        t2 = H**4 * math.log(t1 / self.delta) / accuracy**2
        schedule = replace(THEORY, delta=self.delta)
        k = max(1, math.ceil(iterations))
        log_f = math.log(self.class_size)
        return [
            ("alpha^K", schedule.alpha(k, H, A, d, log_f), "H sqrt((A + d^2) log(|F| H K / delta))"),
            ("lambda^K", schedule.lam(k, H, d, log_f), "d log(|F| H K / delta)"),
            ("cap", float(H), "H (print: 2)"),
            ("K", iterations, "H^6 A^2 d^4 log(|F| / delta) / (tau eps)^2"),
            ("episodes", iterations * H, "H K"),
            ("upsilon", upsilon, "1 / ceil(3 H / eps) (print: eps tau / 3 H)"),
            ("planner accuracy", accuracy, "tau eps / 6"),
            ("beta", span * math.sqrt(H) * d * iota**0.25 / upsilon, "(H + H (H - 2)) sqrt(H) d iota^(1/4) / upsilon"),
            ("iota", iota, "log^2(H d T1 / (upsilon delta))"),
            ("T1", t1, "H^7 d^3 iota / (upsilon^3 accuracy^2) (print: H^5)"),
            ("T2", t2, "H^4 log(T1 / delta) / accuracy^2 (print: H^2)"),
            ("computation", iterations * d**2 * A * H**3 * t1**2 / upsilon**4, "K d^2 A H^3 T1^2 / upsilon^4"),
        ]


def largest_fixed_point(a: float, b: float) -> float:
    """The largest x >= 1 with x = max(1, a log^2(b x)), for b >= 1: from above, where every step goes down to it."""
    x = max(1.0, a)
    while a * math.log(b * x) ** 2 > x:
        x *= 2.0
    while True:
        below = max(1.0, a * math.log(b * x) ** 2)
        if below >= x * (1.0 - 1e-15):
            return below
        x = below


@click.command(cls=Command)
@click.option("--H", "H", type=int, required=True, help="Steps of an episode.")
@click.option("--A", "A", type=int, required=True, help="Actions.")
@click.option("--d", "d", type=int, required=True, help="Rank.")
@click.option("--class-size", type=float, required=True, metavar="F", help="Number of models in the class.")
@click.option("--tau", type=float, required=True, metavar="T", help="Tail fraction in (0, 1].")
@click.option("--epsilon", type=float, required=True, metavar="E", help="How far from the best CVaR.")
@click.option("--delta", type=float, default=0.1, show_default=True, metavar="P", help="Probability of failure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def theory(as_json: bool, **figures: Any) -> None:
    """What the theorems ask for, with all their constants set to one."""
    rows = Theory(**figures).table()
    if as_json:
        table = [{"quantity": name, "value": value, "formula": formula} for name, value, formula in rows]
        click.echo(json.dumps(figures | {"table": table}, allow_nan=False))
        return
    for name, figure, formula in rows:
        click.echo(f"{name:<18}{figure:>12.4g}  {formula}")
