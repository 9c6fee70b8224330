"""The settings of ELA that say what is played between two fits. Nothing heavy is imported here (`--help` reads it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tailrank import checks
from tailrank._system.settings import Checked, setting

Collect = Literal["printed", "rollins", "episode", "plan", "uniform"]
"""Which episodes are played and what is learned from them (see `ELA`)."""
COLLECTS: tuple[str, ...] = get_args(Collect)


@dataclass(frozen=True, kw_only=True)
class Collecting(Checked):
    """What is played and counted between two fits (see `ELA`)."""

    collect: Collect = setting(
        "rollins", words=COLLECTS, metavar="rollins|printed|episode", help="Which episodes are played."
    )
    share: bool | None = setting(None, kind=bool, help="Pool the data of all steps.")
    batch: int = setting(1, kind=int, metavar="B", help="Collections between two fits.")
    growth: float = setting(
        0.0,
        kind=float,
        check=lambda value, name: checks.inside(value, name, "[0, 1]"),
        metavar="P",
        help="Or this share of all so far, if it is more.",
    )
