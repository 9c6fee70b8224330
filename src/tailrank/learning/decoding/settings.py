"""The settings of the oracle for observations. Nothing heavy is imported here (`--help` reads it)."""

from __future__ import annotations

from dataclasses import dataclass

from tailrank import checks
from tailrank._system.settings import Checked, setting

CHOSEN = ("auto", "lowrank")
"""A mixture or a low-rank model, as likelihood says; always a low-rank one (`learning/lowrank/ela.py`)."""
MODELS = (*CHOSEN, "mixture", "linear", "neural", "table")


@dataclass(frozen=True)
class DecoderSettings(Checked):
    """Of `Discriminative`; the last five are those of networks."""

    rank: int | str = setting(
        3, kind=int, words=("auto",), metavar="D|auto", help="Rank of the model (the most latents of a step)."
    )
    model: str = setting("auto", words=MODELS, metavar="|".join(MODELS), help="What is fitted to observations.")
    shared: bool = setting(False, kind=bool, name="share", help="Pool the data of all steps.")
    width: int = setting(64, kind=int, help="Units of a layer.")
    layers: int = setting(1, kind=int, help="Layers.")
    restarts: int = setting(4, kind=int, help="Fits from fresh weights.")
    steps: int = setting(300, kind=int, help="Steps of the optimiser.")
    held_out: float = setting(
        0.2,
        kind=float,
        check=lambda value, name: checks.inside(value, name, "(0, 1)"),
        help="Share of the episodes that judge a fit.",
    )
