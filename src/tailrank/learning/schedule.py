"""Parameters of the algorithms as functions of the iteration (Theorems 4.1 and 5.1).

`THEORY` is what the theorems ask for, with every unspecified constant set to one; `Schedule()`, the default, has
the same form with scales that make the bonus fall within a run. What the theorems ask for in all: `tailrank theory`.
Settings that the printed text gets wrong have two values, "printed" and "corrected" (docs/paper_notes.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tailrank import checks
from tailrank._system.settings import Checked, setting


@dataclass(frozen=True)
class Schedule(Checked):
    """alpha^k, lambda^k and the cap of the bonus.

    alpha_scale, lam_scale: c_a and c_l. cap: "corrected" is H, "printed" is 2, or a number. log: whether the
    logarithm of alpha^k stands inside the square root ("corrected") or outside ("printed").

    >>> Schedule().cap_for(5), Schedule(cap="printed").cap_for(5)
    (5.0, 2.0)
    """

    alpha_scale: float = setting(0.001, kind=float, check=checks.positive, metavar="X", help="Scale of the bonus.")
    lam_scale: float = setting(
        1e-5, kind=float, check=checks.positive, metavar="X", help="Scale of the regularisation."
    )
    cap: Literal["corrected", "printed"] | float = setting(
        "corrected",
        kind=float,
        words=("corrected", "printed"),
        check=checks.not_negative,
        metavar="corrected|printed|X",
        help="Largest bonus.",
    )
    log: Literal["corrected", "printed"] = setting(
        "corrected",
        words=("corrected", "printed"),
        metavar="corrected|printed",
        help="The logarithm in the bonus: inside the root (corrected) or outside of it.",
    )
    delta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.inside(self.delta, "delta", "(0, 1)")

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


PRACTICAL = Schedule()
THEORY = Schedule(alpha_scale=1.0, lam_scale=1.0)
