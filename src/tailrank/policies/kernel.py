"""The policy of a kernel model: few representative states, what each action leads to from there, and tables of budgets.

    Q_h(x, c, a) = sum_j phi_j(x) sum_e w_e V_{h+1}(after_e, c - r_e),        V_h(j, c) = E(c - R)^+ of what is to come

phi interpolates among the representatives nearest to x in the metric z = (x, h/H) . project. Budgets are counted from
an origin a step, in units: c = unit (low + place) + origin (H - h), so a reward of `origin` moves nothing. Tables are
kept for some steps only, densely near the end; between two of them the value is linear in the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.policies.tables import ChargedBudget


@dataclass(frozen=True)
class Metric:
    """project [m + 1, k]: what the features less `centre` [m], and h/H in the last row, count for in distances."""

    centre: np.ndarray
    project: np.ndarray

    @property
    def timed(self) -> bool:
        """Whether the step counts."""
        return bool(self.project[-1].any())

    def place(self, features: np.ndarray, time: np.ndarray | float) -> np.ndarray:
        """Coordinates [n, k] of features [n, m] seen at time h/H."""
        z = (np.asarray(features, dtype=np.float64) - self.centre) @ self.project[:-1]
        return z + np.multiply.outer(time, self.project[-1]) if self.timed else z


@dataclass(frozen=True)
class KernelRows:
    """Outcomes of pair (j, a), at j A + a: entries ptr[pair]..ptr[pair + 1] of `after` (a representative, or M: the
    episode is over), `shift` (the reward less the origin, in units) and `weight` (they sum to 1, or there are none).
    drift: what is added to a shift with every step of the episode (None: nothing).
    """

    ptr: np.ndarray
    after: np.ndarray
    shift: np.ndarray
    weight: np.ndarray
    drift: np.ndarray | None = None

    def at(self, h: int) -> KernelRows:
        """The outcomes at step h. A reward that has come between two whole shifts is split."""
        if self.drift is None:
            return self
        moved = self.shift + self.drift * h
        whole = np.floor(moved + 1e-9)
        part = np.where(moved - whole < 2e-9, 0.0, moved - whole)
        two = (part > 0).astype(np.int64)
        entry = np.repeat(np.arange(two.size), 1 + two)
        upper = np.append(False, entry[1:] == entry[:-1])
        weight = self.weight[entry] * np.where(upper, part[entry], 1.0 - part[entry])
        ptr = np.concatenate([[0], np.cumsum(1 + two)])[self.ptr].astype(np.int64)
        return KernelRows(ptr, self.after[entry], whole.astype(np.int64)[entry] + upper, weight)

    def farthest(self, horizon: int) -> int:
        """The largest shift, up or down, of any step."""
        return max(int(np.abs(rows.shift).max(initial=0)) for rows in (self.at(0), self.at(horizon - 1)))


@dataclass(frozen=True)
class BudgetScale:
    """Budgets as places 0..count - 1 of a table: c = unit (low + place) + origin times the steps that are left."""

    unit: float
    low: float
    count: int
    origin: float

    def place(self, budgets: np.ndarray | float, left: np.ndarray | int) -> np.ndarray:
        """Where budgets lie (real numbers) with so many steps left."""
        return (np.asarray(budgets, dtype=np.float64) - self.origin * left) / self.unit - self.low

    def budget(self, places: np.ndarray | float, left: int) -> np.ndarray:
        """The budgets at these places."""
        return self.unit * (self.low + np.asarray(places, dtype=np.float64)) + self.origin * left

    def ended(self, left: int) -> float:
        """place + this is the shortfall, in units, of an episode that is over with so many steps left."""
        return self.low + self.origin * left / self.unit


@dataclass(frozen=True)
class KernelPolicy(ChargedBudget):
    """A `Policy` on features [n, m]; its memory [n] is the budget that is left.

    representatives [M, k] in the metric; neighbours: how many of them a state is made of. bonus, allowed [M, A]: what
    an action is favoured by (units), and whether there is data for it. steps [T]: steps left to which the tables
    [T, M, C] belong, increasing from 0. budget: at the start.
    """

    metric: Metric
    representatives: np.ndarray
    neighbours: int
    rows: KernelRows
    scale: BudgetScale
    bonus: np.ndarray
    allowed: np.ndarray
    steps: np.ndarray
    tables: np.ndarray
    budget: float
    horizon: int

    @property
    def n_features(self) -> int:
        """m."""
        return int(self.metric.centre.size)

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.bonus.shape[1])

    def start(self, n: int) -> np.ndarray:
        """The starting budget, n times."""
        return np.full(n, float(self.budget))

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action with the least shortfall for each observation [n, m] and budget [n]."""
        return self._best(h, states, memory)[0]

    def shortfall(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The shortfall E(c - R)^+ of that action [n], less its bonus, in the model."""
        return self.scale.unit * self._best(h, states, memory)[1]

    def _best(self, h: int, states: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Actions [n], and their shortfalls [n] in units."""
        from tailrank.policies._neighbours import choose_between

        left = self.horizon - h
        above = int(np.searchsorted(self.steps, left - 1))
        below = above if self.steps[above] == left - 1 else above - 1
        gap = int(self.steps[above] - self.steps[below])
        mix = 0.0 if gap == 0 else (left - 1 - int(self.steps[below])) / gap
        actions, least = np.empty(len(states), dtype=np.int64), np.empty(len(states))
        rows = self.rows.at(h)
        choose_between(
            self.metric.place(states, h / self.horizon),
            self.representatives,
            self.neighbours,
            rows.ptr,
            rows.after,
            rows.shift,
            rows.weight,
            self.bonus,
            self.allowed,
            self.tables[below],
            self.tables[above],
            mix,
            float(left),
            self.scale.ended(left - 1),
            self.scale.place(memory, left),
            actions,
            least,
        )
        return actions, least


def interpolation(points: np.ndarray, representatives: np.ndarray, neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """index [n, K] and weight [n, K] of the representatives [M, k] that points [n, k] are made of.

    >>> index, weight = interpolation(np.array([[0.25]]), np.array([[0.0], [1.0], [5.0]]), 2)
    >>> index.tolist(), weight.round(2).tolist()
    ([[0, 1]], [[0.75, 0.25]])
    """
    from tailrank.policies._neighbours import interpolate_all

    K = min(neighbours, len(representatives))
    index, weight = np.empty((len(points), K), dtype=np.int64), np.empty((len(points), K))
    interpolate_all(np.ascontiguousarray(points, dtype=np.float64), representatives, index, weight)
    return index, weight
