"""Parameters of the algorithms as functions of the iteration (Theorems 4.1 and 5.1).

`THEORY` is what the theorems ask for, with every unspecified constant set to one; `PRACTICAL`, the default, has
the same form with scales that make the bonus fall within a run. `Theory` tells what the theorems ask for in all.
Settings that the printed text gets wrong have two values, "printed" and "corrected" (docs/paper_notes.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tailrank import checks
from tailrank.checks import InputError


@dataclass(frozen=True)
class Schedule:
    """alpha^k, lambda^k and the cap of the bonus.

    alpha_scale, lam_scale: c_a and c_l. cap: "corrected" is H, "printed" is 2, or a number. log: whether the
    logarithm of alpha^k stands inside the square root ("corrected") or outside ("printed").

    >>> Schedule().cap_for(5), Schedule(cap="printed").cap_for(5)
    (5.0, 2.0)
    """

    alpha_scale: float = 1.0
    lam_scale: float = 1.0
    cap: Literal["corrected", "printed"] | float = "corrected"
    log: Literal["corrected", "printed"] = "corrected"
    delta: float = 0.1

    def __post_init__(self) -> None:
        for name in ("alpha_scale", "lam_scale"):
            checks.positive(getattr(self, name), name)
        checks.inside(self.delta, "delta", "(0, 1)")
        if isinstance(self.cap, str):
            checks.one_of(self.cap, "cap", ("corrected", "printed"))
        else:
            checks.not_negative(self.cap, "cap")
        checks.one_of(self.log, "log", ("corrected", "printed"))

    def confidence(self, k: int, H: int, log_class: float) -> float:
        """log(|F| H k / delta)."""
        return log_class + math.log(H * k / self.delta)

    def alpha(self, k: int, H: int, A: int, d: int, log_class: float) -> float:
        """alpha^k."""
        confidence = self.confidence(k, H, log_class)
        inside = confidence if self.log == "corrected" else confidence**2
        return self.alpha_scale * H * math.sqrt((A + d * d) * inside)

    def lam(self, k: int, H: int, d: int, log_class: float) -> float:
        """lambda^k."""
        return self.lam_scale * d * self.confidence(k, H, log_class)

    def cap_for(self, H: int) -> float:
        """The cap of the bonus, on the scale where a step pays at most 1."""
        if isinstance(self.cap, str):
            return float(H) if self.cap == "corrected" else 2.0
        return float(self.cap)


PRACTICAL = Schedule(alpha_scale=0.001, lam_scale=1e-5)
THEORY = Schedule()


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
        iota = math.log(H * d / (upsilon * self.delta)) ** 2
        t1 = H**7 * d**3 * iota / (upsilon**3 * accuracy**2)
        t2 = H**4 * math.log(t1 / self.delta) / accuracy**2
        schedule = Schedule(delta=self.delta)
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
            ("T1", t1, "H^7 d^3 iota / (upsilon^3 accuracy^2) (print: H^5)"),
            ("T2", t2, "H^4 log(T1 / delta) / accuracy^2 (print: H^2)"),
            ("computation", iterations * d**2 * A * H**3 * t1**2 / upsilon**4, "K d^2 A H^3 T1^2 / upsilon^4"),
        ]
