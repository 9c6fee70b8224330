"""The mean against the tail: every policy that is undominated at one level, from a few inductions.

For a budget b let V = E(b - R)^+ and W = E R. A policy whose V is at most tau (b - k) has CVaR_tau >= k. The points
(V, W) of all policies, and of mixtures of two drawn once at the start, form a convex set for each b, and the induction
with weight w finds, for **every b at once**, the point where V - w W is least. So

    lower(k) = max_b of the best mean on a line between two points of b that were found, at V = tau (b - k)
    upper(k) = max_b min over weights of { (least V - w W of b) against the line V = tau (b - k) }

and a new weight, the slope of the line where the two are furthest apart, brings them together. Mixtures must be of the
same b: CVaR is convex in the law, and others could break the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tailrank.planning.objectives.engine import GridEngine, ShortfallTable
from tailrank.policies.tables import BudgetPolicy, MixedPolicy

MOST_INDUCTIONS = 11
"""Inductions of a frontier, beside that for the best CVaR and the law of the risk-neutral policy."""


@dataclass(frozen=True)
class Mixed:
    """Two policies of one budget, the first drawn with probability `share` at the start of an episode."""

    first: BudgetPolicy
    second: BudgetPolicy
    share: float
    mean: float
    budget: float
    weight: float

    @property
    def policy(self) -> BudgetPolicy | MixedPolicy:
        """What is played."""
        return self.first if self.pure else MixedPolicy(self.first, self.second, self.share)

    @property
    def pure(self) -> bool:
        """Whether one of the two is always played."""
        return self.share >= 1.0 - 1e-12


@dataclass
class TradeOff:
    """Points (V, W) for all budgets, at the weights that were tried (infinite: the risk-neutral policy)."""

    engine: GridEngine
    tau: float
    weights: list[float] = field(default_factory=list)
    tables: list[ShortfallTable | None] = field(default_factory=list)
    shortfalls: list[np.ndarray] = field(default_factory=list)
    means: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.try_weight(0.0)
        neutral, budgets = self.engine.law(self.engine.problem.mean_policy), self.budgets
        below = np.searchsorted(neutral.values, budgets)
        mass = np.concatenate([[0.0], np.cumsum(neutral.probs)])[below]
        first = np.concatenate([[0.0], np.cumsum(neutral.probs * (neutral.values - neutral.values[0]))])[below]
        self.weights.append(np.inf)
        self.tables.append(None)
        self.shortfalls.append(np.maximum(mass * (budgets - neutral.values[0]) - first, 0.0))
        self.means.append(np.full(budgets.size, self.engine.problem.mean))

    @property
    def budgets(self) -> np.ndarray:
        """All budgets [C]."""
        return self.tables[0].budgets  # type: ignore[union-attr]

    @property
    def best_cvar(self) -> float:
        """The best CVaR of any policy."""
        return float((self.budgets - self.shortfalls[0] / self.tau).max())

    def try_weight(self, weight: float) -> None:
        """One more induction."""
        table = self.engine.tails(weight)
        self.weights.append(weight)
        self.tables.append(table)
        self.shortfalls.append(table.shortfall)
        self.means.append(table.means)

    def upper(self, k: float) -> tuple[float, int]:
        """No policy with CVaR >= k has a larger mean, and the position of the budget that says so."""
        room = self.tau * (self.budgets - k)
        bound = np.full(self.budgets.size, np.inf)
        for w, v, m in zip(self.weights, self.shortfalls, self.means, strict=True):
            if w == 0.0:  # none has less shortfall than this
                slack = 1e-12 * (np.abs(room) + v)
                bound = np.where(v <= room + slack, bound, -np.inf)
            else:
                bound = np.minimum(bound, m + (0.0 if np.isinf(w) else (room - v) / w))
        i = int(np.argmax(bound))
        return float(bound[i]), i

    def lower(self, k: float) -> tuple[float, int, int, int, float]:
        """The best mean of a mixture with CVaR >= k: mean, position of the budget, its two weights, share of the first.

        The mean is -inf where no policy has CVaR >= k.
        """
        room = self.tau * (self.budgets - k)
        order = np.argsort(self.weights)
        best = (-np.inf, 0, 0, 0, 1.0)
        for a, i in enumerate(order):
            v, m = self.shortfalls[i], self.means[i]
            fits = np.where(v <= room + 1e-12 * (np.abs(room) + v), m, -np.inf)
            c = int(np.argmax(fits))
            best = max(best, (float(fits[c]), c, int(i), int(i), 1.0))
            for j in order[a + 1 :]:
                far, more = self.shortfalls[j], self.means[j]
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.clip((far - room) / (far - v), 0.0, 1.0)
                    mean = share * m + (1.0 - share) * more
                mixed = np.where((v <= room) & (far > room) & np.isfinite(mean), mean, -np.inf)
                c = int(np.argmax(mixed))
                if mixed[c] > best[0]:
                    best = (float(mixed[c]), c, int(i), int(j), float(share[c]))
        return best

    def narrow(self, k: float) -> bool:
        """Try the weight at which the two bounds at k are furthest apart; False if it was tried before."""
        _, c = self.upper(k)
        room = self.tau * (self.budgets[c] - k)
        v, m = (np.array([x[c] for x in column]) for column in (self.shortfalls, self.means))
        order = np.argsort(self.weights)
        inside = [i for i in order if v[i] <= room + 1e-12 * (abs(room) + v[i])]
        outside = [i for i in order if i not in inside]
        if not inside or not outside:
            return False
        i, j = max(inside, key=lambda x: m[x]), min(outside, key=lambda x: m[x])
        weight = (v[j] - v[i]) / (m[j] - m[i]) if m[j] > m[i] else 0.0
        if weight <= 0.0 or min(abs(weight - w) for w in self.weights) <= 1e-12 * weight:
            return False
        self.try_weight(float(weight))
        return True

    def mixture(self, k: float) -> Mixed | None:
        """The policies behind lower(k); None where no policy has CVaR >= k."""
        mean, c, i, j, share = self.lower(k)
        if not np.isfinite(mean):
            return None
        slope = self.weights[j] if np.isfinite(self.weights[j]) else self.weights[i]
        first, second = self._policy(i, c), self._policy(j, c)
        return Mixed(first, second, share, mean, float(self.budgets[c]), slope)

    def _policy(self, i: int, c: int) -> BudgetPolicy:
        table = self.tables[i]
        if table is not None:
            return table.policy(c)
        # From the largest budget on, every table holds the risk-neutral actions throughout.
        start = self.tables[0]
        return start.policy(start.budgets.size - 1)  # type: ignore[union-attr]
