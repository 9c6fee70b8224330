"""The settings of a low-rank model of observations. Nothing heavy is imported here (`--help` reads it)."""

from __future__ import annotations

from dataclasses import dataclass

from tailrank._system.settings import Checked, setting

COLLECTS = ("plan", "rollins", "printed")
PHIS = ("network", "features", "kernel", "forest", "auto")
PSIS = ("gaussian", "discriminative", "table")


@dataclass(frozen=True, kw_only=True)
class LowRankSettings(Checked):
    """What phi and psi are, and which episodes are played (see `LowRankELA`)."""

    phi: str = setting(
        "network", words=PHIS, metavar="|".join(PHIS), only="simulator", help="What phi of a low-rank model is."
    )
    psi: str = setting(
        "gaussian", words=PSIS, metavar="|".join(PSIS), only="simulator", help="What psi of a low-rank model is."
    )
    collect: str = setting("plan", words=COLLECTS, metavar="|".join(COLLECTS), help="Which episodes are played.")
