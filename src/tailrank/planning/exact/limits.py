"""What a solve may cost: tolerance, memory and time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from tailrank._system.compiler_clock import COMPILING


class OutOfTime(Exception):
    """The time limit was reached in the midst of a pass."""


@dataclass(frozen=True)
class Limits:
    """When to stop refining: tolerance is (absolute, relative to |CVaR|), one of them zero.

    A CVaR near zero would make a relative tolerance impossible: it never asks for less than that fraction of
    a hundredth of the range of returns. compiled: seconds of compiling before it began.
    """

    tolerance: tuple[float, float]
    bytes: int
    seconds: float
    began: float
    compiled: float = field(default_factory=lambda: COMPILING.seconds)

    def allowed(self, lower: float, upper: float, width: float) -> float:
        """The widest bracket allowed around a CVaR in [lower, upper], for returns in a range of this width."""
        nearest_to_zero = 0.0 if lower <= 0 <= upper else min(abs(lower), abs(upper))
        return max(self.tolerance[0], self.tolerance[1] * max(nearest_to_zero, 0.01 * width))

    def left(self) -> float:
        """Seconds left; compiling, which is done once for a machine, does not count."""
        return self.seconds - (time.perf_counter() - self.began - (COMPILING.seconds - self.compiled))

    def check(self) -> None:
        """Raise `OutOfTime` if no time is left."""
        if self.left() < 0.0:
            raise OutOfTime

    def part(self, share: float) -> Limits:
        """The same limits with a share of the time."""
        return replace(self, seconds=share * self.seconds)


def unlimited() -> None:
    """The check of work that may take any time."""
