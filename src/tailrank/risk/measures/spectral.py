"""Spectral measures: several tails together, sum_k mu_k CVaR_{tau_k}(R).

With budgets b_k the objective is sum_k mu_k { b_k - E(b_k - R)^+ / tau_k }: for fixed budgets a concave, piecewise
linear utility of R, one induction from a single budget. Over boxes of budgets lo_k..hi_k it is at most

    sum_k mu_k hi_k - min over policies of E sum_k mu_k (lo_k - R)^+ / tau_k,

so boxes are halved, the one with the largest bound first, until no bound is much above the best policy. No policy is
better than sum_k mu_k CVaR*_{tau_k}, so budgets begin where each tail by itself can still matter.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import BestPolicy, BudgetEngine, Measure
from tailrank.risk.measures.cvar import tail_objective

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Spectral(Measure):
    """sum of weight CVaR_tau over the levels {tau: weight}; the weights are positive and sum to one.

    >>> Spectral({0.5: 0.5, 1.0: 0.5}).of([-1, 0, 1, 2])
    0.0
    """

    levels: tuple[tuple[float, float], ...]
    name: ClassVar[str] = "spectral"

    def __init__(self, levels: Mapping[float, float] | tuple[tuple[float, float], ...]) -> None:
        pairs = tuple(levels.items()) if isinstance(levels, Mapping) else tuple(levels)
        if any(not isinstance(pair, Sequence) or len(pair) != 2 for pair in pairs):
            raise InputError(f"levels: must be a mapping from tau to weight, found {levels!r:.60}")
        found = sorted((checks.tail_level(tau), checks.positive(w, "weight of a level")) for tau, w in pairs)
        if not found:
            raise InputError("levels: at least one level with its weight is needed, found none")
        total = sum(w for _, w in found)
        if abs(total - 1.0) > checks.PROBABILITY_TOLERANCE:
            raise InputError(f"levels: their weights sum to {total:.9g}, expected 1")
        object.__setattr__(self, "levels", tuple((tau, w / total) for tau, w in found))

    def of_law(self, law: ReturnLaw) -> float:
        """The weighted sum of CVaRs."""
        return float(sum(w * law.cvar(tau) for tau, w in self.levels))

    def plan(self, engine: BudgetEngine) -> BestPolicy:
        """Alternate between policy and budgets, then branch and bound."""
        taus, weights = (np.array(x) for x in zip(*self.levels, strict=True))
        table = engine.tails()
        budgets = table.budgets
        tails = np.array([tail_objective(budgets, table.shortfall, tau) for tau in taus])
        best = self._alternate(engine, taus, weights, budgets, [table.policy(int(i)) for i in tails.argmax(axis=1)])
        # A budget matters while its own tail, with all others at their best, can make up what is missing.
        most = tails.max(axis=1)
        rest = float(weights @ most)
        spans = []
        for k in range(taus.size):
            alive = np.flatnonzero(rest - weights[k] * (most[k] - tails[k]) >= best.value)
            alive = alive if alive.size else tails[k].argmax(keepdims=True)
            spans.append((int(alive[0]), int(alive[-1])))
        return self._bound(engine, taus, weights, budgets, tuple(spans), best, rest)

    def _value(
        self, engine: BudgetEngine, taus: Any, weights: Any, low: np.ndarray, high: np.ndarray
    ) -> tuple[float, Any]:
        """The bound for budgets low..high [K], which is a policy's value where they agree, and that policy."""

        def left(b: np.ndarray) -> np.ndarray:
            short = np.maximum(low[:, None] + b[None, :], 0.0)  # b is minus the return
            return -np.asarray((weights / taus) @ short)

        table = engine.table(left, 0.0)
        return float(weights @ high + table.values[0]), table

    def _alternate(
        self, engine: BudgetEngine, taus: Any, weights: Any, budgets: np.ndarray, policies: list[Any]
    ) -> BestPolicy:
        """From each policy: its own quantiles as budgets, the best policy for these, and again while it pays."""
        best: BestPolicy | None = None
        for policy in policies:
            value = -np.inf
            while True:
                law = engine.law(policy)
                b = np.array([law.var(tau) for tau in taus])
                found, table = self._value(engine, taus, weights, b, b)
                if found <= value + 1e-12 * (1.0 + abs(value)):
                    break
                value, policy = found, table.policy(0)
                if best is None or value > best.value:
                    best = BestPolicy(policy, value, value)
        if best is None:
            raise RuntimeError("no tail has a policy")
        return best

    def _bound(
        self,
        engine: BudgetEngine,
        taus: Any,
        weights: Any,
        budgets: np.ndarray,
        spans: Box,
        best: BestPolicy,
        rest: float,
    ) -> BestPolicy:
        """Branch and bound over boxes of budget positions."""
        heap: list[tuple[float, Box]] = [(-rest, spans)]
        while heap:
            upper = -heap[0][0]
            if upper <= best.value + engine.allowed(best.value) or not engine.may_go_on():
                return BestPolicy(best.policy, best.value, max(upper, best.value))
            _, box = heapq.heappop(heap)
            k = max(range(len(box)), key=lambda j: weights[j] * (budgets[box[j][1]] - budgets[box[j][0]]))
            first, last = box[k]
            middle = (first + last) // 2
            halves = {(first, middle), (middle + 1, last) if middle < last else (last, last)}
            for half in sorted(halves):
                part = (*box[:k], half, *box[k + 1 :])
                low, high = (np.array([budgets[span[i]] for span in part]) for i in (0, 1))
                bound, table = self._value(engine, taus, weights, low, high)
                if (low == high).all():
                    if bound > best.value:
                        best = BestPolicy(table.policy(0), bound, bound)
                elif bound > best.value:
                    heapq.heappush(heap, (-min(bound, upper), part))
        return best
