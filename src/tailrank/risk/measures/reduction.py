"""A measure as an expected utility of what is left: the form in which learners can plan for it.

    measure of the best policy = max over policies, and over budgets b where they are free, of close(b, E u(R - b))

- An optimised certainty equivalent (OCE): b is free, close(b, v) = b + v (Wang, Liang, Kallus and Sun 2025).
- A utility or a target: b = 0, close(b, v) = v.
- Entropic risk: b is the least return, u(t) = (1 - exp(-beta t)) / beta, close(b, v) = b - log(1 - beta v) / beta. As
  an OCE it would ask for exp(beta t) at losses; counted from the least return u never rises faster than 1.

What a model may get wrong about E u is at most its error in the law times the span of u. So bonuses that were made for
u(t) = -t^- (CVaR) hold for u when they are multiplied by its largest slope; a jump counts as a slope over all returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Utility1D = Callable[[np.ndarray], np.ndarray]
Close = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Reduction:
    """u, its largest slope (u(t) for t between -width and width, width = largest less least return), and the rest.

    kind: "OCE", "utility" or "target". start: the budget, None where it is free. jumps: whether u is a step.
    loss: what the measure may fall at most when E u falls by 1.
    """

    kind: str
    utility: Utility1D
    slope: float
    start: float | None
    close: Close
    jumps: bool = False
    loss: float = 1.0

    def cost(self, left: np.ndarray) -> np.ndarray:
        """-u(-b) over the largest slope, for budgets b [n] that are left at the end: it never rises faster than 1."""
        return np.asarray(-self.utility(-left) / self.slope)

    def value(self, budgets: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """The measure where E cost is costs [n] from budgets [n]."""
        return np.asarray(self.close(budgets, -self.slope * costs))

    def guarantee(self) -> str:
        """What a learner's bound for CVaR becomes here, in one sentence."""
        worst = f"{self.slope * self.loss:.4g}"
        if self.jumps:
            return f"a {self.kind} jumps by 1: bounds on CVaR's regret hold with {self.slope:.4g} in place of 1/tau"
        article = "an" if self.kind == "OCE" else "a"
        return (
            f"{article} {self.kind} whose u has the largest slope {self.slope:.4g}: bounds on the regret in CVaR hold "
            f"with {worst} in place of 1/tau (Wang et al. 2025)"
        )


def certainty(utility: Utility1D, slope: float) -> Reduction:
    """The reduction of an OCE with this u."""
    return Reduction("OCE", utility, slope, None, lambda b, v: b + v)
