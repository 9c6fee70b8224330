"""The tables [environment] and [run] of a configuration. Nothing heavy is imported here (`--help` reads them).

The third, [learner], is the dataclass of the learner itself (`learning/registry.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrank import checks
from tailrank._system.settings import Checked, setting
from tailrank.checks import InputError

READING = ("horizon", "discount", "start", "upsilon", "index_base", "axis_order", "imports")
"""How an MDP is read from a source; environments with a name have `settings` instead."""

LATER = {
    "environment": ("workers", "step_timeout", "cluster"),
    "run": (
        *("iterations", "episodes", "output", "output_episodes", "evaluate_every", "evaluation_episodes"),
        *("checkpoint_every", "stop_cvar", "stop_within"),
    ),
}
"""What may still be changed when a run is resumed: how long it is, how it is judged and who computes. What was learned
so far does not depend on it, so the checksum of a run leaves it out."""


def _name(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"environment = {value!r:.60}: must be a name, a file or a Gymnasium id")
    return value


def _scheduler(value: object, name: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"(tcp|tls|ucx)://[^\s/]+:\d+", value):
        raise InputError(f"cluster = {value!r:.60}: must be the address of a Dask scheduler, tcp://HOST:PORT")
    return value


def _imports(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(x, str) for x in value):
        raise InputError(f"imports = {value!r:.60}: must be a list of names of packages")
    return tuple(value)


def plain(value: object) -> bool:
    """Whether a value can stand in a configuration: a finite number, text, true or false, or a list of them."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | tuple):
        return all(plain(x) for x in value)
    return isinstance(value, bool | int | str)


def plain_table(table: object, name: str) -> dict[str, Any]:
    """The table, if it is one of plain values."""
    if not isinstance(table, Mapping):
        raise InputError(f"{name} = {table!r:.60}: must be a table of values by name")
    for key, value in table.items():
        if not plain(value):
            raise InputError(f"{name}.{key} = {value!r:.60}: must be a finite number, text, true or false")
    return dict(table)


@dataclass(frozen=True, kw_only=True)
class EnvironmentConfig(Checked):
    """Where a run plays: a name (`settings` are its own), or a file or Gymnasium id that `tailrank solve` reads."""

    name: str = setting("", check=_name, help="A name, a file or a Gymnasium id.")
    settings: dict[str, Any] = field(default_factory=dict)
    horizon: int | None = setting(None, kind=int, metavar="H", help="Number of steps.")
    discount: float | None = setting(
        None,
        kind=float,
        check=lambda value, name: checks.discount_factor(value),
        only="countable",
        metavar="G",
        help="Discount in (0, 1]; 1 if nobody says.",
    )
    start: str | None = setting(None, only="countable", metavar="S", help='First state, or a law "1:0.5,4:0.5".')
    upsilon: float | None = setting(
        None,
        kind=float,
        check=checks.positive,
        only="countable",
        metavar="U",
        help="Grid that rewards are rounded up to.",
    )
    index_base: str = setting(
        "auto",
        words=("auto", "0", "1"),
        only="countable",
        metavar="[auto|0|1]",
        help="What states and actions in a file are counted from.",
    )
    axis_order: str = setting(
        "auto",
        words=("auto", "state-first", "action-first"),
        only="countable",
        metavar="[auto|state-first|action-first]",
        help="Order of the axes in an .npz file.",
    )
    imports: tuple[str, ...] = setting((), kind=tuple, check=_imports, metavar="PKG", help="Package to import first.")
    rewards: str | None = setting(
        None, words=("learned",), metavar="learned", help="Learn from observations; rewards are learned too."
    )
    action_levels: int | None = setting(
        None, kind=int, only="simulator", metavar="N", help="Values of each continuous action."
    )
    refine: int | None = setting(
        None,
        kind=int,
        least=2,
        only="simulator",
        metavar="N",
        help="Let the grid of continuous actions become N times finer (2, 4, 8) where the plan needs it.",
    )
    width: int | None = setting(
        None, kind=int, only="simulator", metavar="N", help="Copies of the environment that play side by side."
    )
    workers: int | None = setting(
        None, kind=int, only="simulator", metavar="K", help="Processes that play the copies; the result is the same."
    )
    step_timeout: float | None = setting(
        None,
        kind=float,
        check=checks.positive,
        only="simulator",
        metavar="S",
        help="Seconds that a reset or step may take in a worker; then it is replaced and the episode played again.",
    )
    skip_bad: bool | None = setting(
        None,
        kind=bool,
        only="simulator",
        help="Leave out episodes in which the environment fails, and count them.",
    )
    ignore_masks: bool | None = setting(
        None,
        kind=bool,
        only="simulator",
        help="Play all actions, whatever the environment says is allowed (action_mask in its info).",
    )
    cluster: str | None = setting(
        None,
        kind=str,
        check=_scheduler,
        only="simulator",
        metavar="tcp://HOST:PORT",
        help="Play on the workers of this Dask scheduler; the result is the same.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "settings", plain_table(self.settings, "settings"))


@dataclass(frozen=True, kw_only=True)
class RunSettings(Checked):
    """How long a run is, what it returns and how it is judged.

    stop_cvar: stop as soon as the CVaR of a plan reaches this; stop_within: or this share of CVaR* below CVaR*.
    On simulators `episodes` bounds what is played; every `evaluate_every` iterations the policy is judged by
    `evaluation_episodes` fresh episodes.
    """

    iterations: int = setting(kind=int, metavar="K", help="Iterations to run.")
    seed: int = setting(0, kind=int, least=0, metavar="S", help="Seed of everything that is random.")
    output: str = setting(
        "best", words=("best", "uniform", "greedy"), metavar="best|uniform|greedy", help="Which plan is returned."
    )
    output_episodes: int = setting(1000, kind=int, metavar="N", help="Fresh episodes to judge a candidate.")
    checkpoint_every: int = setting(25, kind=int, metavar="K", help="Iterations between checkpoints.")
    stop_cvar: float | None = setting(None, kind=float, metavar="X", help="Stop when the CVaR of a plan reaches this.")
    stop_within: float | None = setting(
        None,
        kind=float,
        check=lambda value, name: checks.inside(value, name, "[0, 1)"),
        only="countable",
        metavar="P",
        help="Stop when it is within this share of CVaR*.",
    )
    episodes: int | None = setting(
        None, kind=int, only="simulator", metavar="N", help="Run until at least N episodes were played."
    )
    evaluate_every: int = setting(
        0, kind=int, least=0, only="simulator", metavar="K", help="Judge the plan every K iterations."
    )
    evaluation_episodes: int = setting(
        1000, kind=int, only="simulator", metavar="N", help="Fresh episodes to judge with."
    )
