"""The policies of CVaR-LSVI: weights and a covariance for each step, evaluated lazily at any state.

    Q_h(s, i, a) = clip( -b_h(s, a) + <x_h(s, a), w_h(i)> - beta ||x_h(s, a)||_{Lambda_h^-1} )

Clipping is monotone, so the least unclipped score is also a least clipped one: policies compare unclipped
scores, which is how ties at the clip are broken, and remaining ties go to the lowest action.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError
from tailrank.planning.lsvi import _kernels as _kernels
from tailrank.planning.lsvi.model import FeatureModel, View, view

TIE = 1e-9
"""Scores (in units) that differ by less are tied; the lowest action wins."""


@dataclass(frozen=True)
class Clip:
    """Ends of the clip of Q_h in units.

    Corrected: from minus the bonuses still to come, cap (H - quiet - h)^+, to the budget i itself; the last `quiet`
    steps have no bonus. Printed: -H to H (in units, hence times the largest reward `top`), which cuts off values that
    can be reached when H >= 5. terminal [C]: V_H at every budget, None for that of CVaR, the budget itself.
    """

    horizon: int
    top: int
    cap: float
    printed: bool = False
    quiet: int = 2
    terminal: np.ndarray | None = None

    def low(self, h: int) -> float:
        """The lower end at step h."""
        least = 0.0 if self.terminal is None else float(self.terminal[0])
        if self.printed:
            return least - float(self.horizon * self.top)
        return least - self.cap * max(self.horizon - self.quiet - h, 0)

    def high(self, budgets: np.ndarray) -> np.ndarray:
        """The upper end at these budgets."""
        ends = self.last(budgets)
        return np.full_like(ends, self.horizon * self.top) if self.printed else ends

    def last(self, budgets: np.ndarray) -> np.ndarray:
        """V_H at these budgets."""
        return np.asarray(budgets, dtype=np.float64) if self.terminal is None else self.terminal[budgets]

    def check(self, h: int, bonus: np.ndarray) -> None:
        """Raise if a bonus exceeds what the corrected clip allows for."""
        most = self.cap if h < self.horizon - self.quiet else 0.0
        if not self.printed and not (bonus <= most + 1e-9).all():
            raise InputError(f"bonus at step {h} is {float(bonus.max()):.9g} units, must be at most {most:.9g}")


@dataclass(frozen=True)
class LsviPolicy:
    """Greedy in Q_h. weights [H]: W [d, nr, C] (printed features) or M [d, C] (factored); inverse [H]: Lambda^-1.

    base [H]: the budget of the first of the C columns; columns for budgets that cannot be met may be missing.
    """

    model: FeatureModel
    budget: int
    weights: tuple[np.ndarray, ...]
    inverse: tuple[np.ndarray, ...]
    beta: float
    clip: Clip
    base: tuple[int, ...]

    def lowest(self, h: int) -> int:
        """The least budget that can be left at step h."""
        return max(self.budget - h * self.clip.top, 0)

    def scores(self, h: int, seen: View, budgets: np.ndarray) -> np.ndarray:
        """Q before the clip, [n, A]."""
        weights, inverse = self.weights[h], self.inverse[h]
        budgets = np.minimum(np.maximum(budgets, self.lowest(h)), self.budget) - self.base[h]
        if weights.ndim == 3:
            table = weights.reshape(-1, weights.shape[2])
            return _kernels.scores_printed(seen.joint(), seen.bonus, budgets, table, inverse, self.beta)
        kernel = _kernels.scores_joint if seen.law.ndim == 4 else _kernels.scores_factored
        return kernel(*seen, budgets, weights, inverse, self.beta)

    def choose(self, h: int, seen: View, budgets: np.ndarray) -> np.ndarray:
        """Actions [n] for what the model shows of n states, and their budgets [n]."""
        return np.asarray(_kernels.first_least(self.scores(h, seen, budgets), TIE))

    def act(self, h: int, states: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """Actions [n] in these states with these budgets (whole units; those that cannot be met are clamped)."""
        return self.choose(h, view(self.model, h, np.asarray(states)), np.asarray(budgets))

    def value(self, h: int, states: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """V_h = min_a Q_h, [n]: the estimate the policy is greedy for, not what it earns."""
        q = self.scores(h, view(self.model, h, np.asarray(states)), np.asarray(budgets)).min(axis=1)
        return np.clip(q, self.clip.low(h), self.clip.high(budgets))
