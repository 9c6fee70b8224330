"""A model of a simulator that plays fast: a trend, and trees whose leaves hold what really happened.

With x and x' standardised, and two trees for every action:

    x' = f_a(x) + e_i,   i drawn from the transitions in the leaf of (x, h/H),        e_i = x'_i - f_a(x_i)
    r = g_a(x, x') + d_j,   ended_j,   j drawn from the transitions in the leaf of (x, x', h/H),   d_j = r_j - g_a(..)

f_a is a quadratic function by ridge regression; coordinates with few different values are those of transition i as they
are. g_a is linear, or zero where it does not explain most of the rewards; of a step that ends the episode
the reward is r_j. x' stays within what was seen. A step costs less than a microsecond, so that policies can be compared
on thousands of whole episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.learning.simulators.metric import Trend
from tailrank.learning.simulators.played import PlayedEpisodes, PlayedTransitions
from tailrank.learning.standard import standard

LEAST_MOVES, LEAST_PAYS, PRICE = 20, 8, 2.0
"""Transitions in a leaf at least, and what a split must be worth."""
FEW = 16
"""A coordinate with no more different values than this is not moved."""
EXPLAINED = 0.5
"""A linear function of (x, x') is used for rewards where it explains this share of their variance."""


@dataclass(frozen=True)
class Trees:
    """A tree for every action: roots [A], and by node the split, the first child (-1: leaf) and its members."""

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    child: np.ndarray
    begin: np.ndarray
    stop: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, groups: list[np.ndarray], least: int) -> Trees:
        """A tree of y [T, q] on x [T, k] for each group of rows."""
        from tailrank.learning.search._kernels import grow

        spread = y.std(axis=0)
        y = np.ascontiguousarray((y - y.mean(axis=0))[:, spread > 0] / spread[spread > 0])
        parts, roots, nodes, rows = [], [], 0, 0
        for group in groups:
            mine = np.ascontiguousarray(x[group])
            order = np.ascontiguousarray(np.argsort(mine, axis=0, kind="stable").T)
            most = 2 * (group.size // least) + 1
            feature, child, begin, stop = (np.zeros(most, dtype=np.int64) for _ in range(4))
            threshold = np.zeros(most)
            n = grow(mine, y[group], order, least, PRICE, feature, threshold, child, begin, stop)
            child = np.where(child[:n] >= 0, child[:n] + nodes, -1)
            parts.append([feature[:n], threshold[:n], child, begin[:n] + rows, stop[:n] + rows, group[order[0]]])
            roots.append(nodes)
            nodes, rows = nodes + n, rows + group.size
        return cls(np.array(roots), *(np.concatenate(part) for part in zip(*parts, strict=True)))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """For compiled code."""
        return (self.roots, self.feature, self.threshold, self.child, self.begin, self.stop, self.members)


@dataclass(frozen=True)
class TreeModel:
    """centre, spread [m]: of the features; first [n, m]: where episodes began (standardised); the rest as at the head
    of the module: trend [A, p, m], moved, low, high [m], rest [T, m] (e_i, or x'_i), paid, ended [T], linear
    [A, 2 m + 1] (its last entry the constant). worst: the lowest real return; an imagined one that is lower counts as
    this, because small errors of many steps may add up."""

    horizon: int
    centre: np.ndarray
    spread: np.ndarray
    first: np.ndarray
    trend: np.ndarray
    moved: np.ndarray
    low: np.ndarray
    high: np.ndarray
    moves: Trees
    pays: Trees
    rest: np.ndarray
    paid: np.ndarray
    ended: np.ndarray
    linear: np.ndarray
    worst: float

    @classmethod
    def of(cls, played: PlayedEpisodes, data: PlayedTransitions, n_actions: int) -> TreeModel:
        """The model of these transitions; an action that was hardly tried is taken for the mean of all."""
        centre, spread = standard(played.features)
        s, after = ((x.astype(np.float64) - centre) / spread for x in (data.features, data.after))
        groups = [np.flatnonzero(data.actions == a) for a in range(n_actions)]
        groups = [rows if rows.size >= LEAST_MOVES else np.arange(data.n) for rows in groups]
        trend = Trend.of(s, data.actions, after, n_actions)
        moved = np.array([np.unique(column).size > FEW for column in after.T])
        rest = np.where(moved, after - trend.at(s, data.actions), after)
        time = (data.step / played.horizon)[:, None]
        both = np.hstack([s, after])
        linear = _rewards(both, data, groups)
        paid = data.rewards - np.where(data.ended, 0.0, _linear_at(linear, both, data.actions))
        labels = np.column_stack([paid, data.ended])
        return cls(
            played.horizon,
            centre,
            spread,
            (played.first.astype(np.float64) - centre) / spread,
            trend.coefficients,
            moved,
            np.minimum(s.min(axis=0), after.min(axis=0)),
            np.maximum(s.max(axis=0), after.max(axis=0)),
            Trees.of(np.hstack([s, time]), rest, groups, LEAST_MOVES),
            Trees.of(np.hstack([both, time]), labels, groups, LEAST_PAYS),
            rest,
            paid,
            data.ended,
            linear,
            float(played.returns().min()),
        )

    def returns(self, theta: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Returns [P, n] of policies theta [P, A, m + 2] in the same n episodes of the model, and the steps taken."""
        from tailrank.learning.search._kernels import play_all

        first = self.first[rng.integers(0, len(self.first), size=n)]
        draws = rng.random((n, self.horizon, 2))
        result = np.empty((len(theta), n))
        steps = play_all(self.arrays, np.ascontiguousarray(theta), first, draws, self.worst, result)
        return result, int(steps)

    @property
    def arrays(self) -> tuple[object, ...]:
        """For compiled code."""
        products = self.trend.shape[1] > 1 + 2 * self.centre.size
        law = (self.moves.arrays, self.pays.arrays, self.rest, self.paid, self.ended, self.linear)
        return (self.trend, products, self.moved, self.low, self.high, *law)


class ImaginedSimulator:
    """A model of trees as a `Simulator`, for policies of any kind: seeds are those of imagined episodes."""

    name, width = "the model of trees", 64

    def __init__(self, model: TreeModel) -> None:
        self._model = model
        self.horizon, self.n_features, self.n_actions = model.horizon, model.centre.size, len(model.trend)

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Features [n, m] at the first step."""
        model, own = self._model, [np.random.default_rng(int(seed)) for seed in seeds]
        first = model.first[[int(rng.integers(len(model.first))) for rng in own]]
        self._s = np.column_stack([first, np.zeros(len(first))])
        self._draws = np.stack([rng.random((self.horizon, 2)) for rng in own])
        self._h, self._over = 0, np.zeros(len(own), dtype=bool)
        return self._features()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards [n], features [n, m], and whether each episode is over [n]."""
        from tailrank.learning.search._kernels import step_all

        rewards = np.empty(len(actions))
        self._s[:, -1] = self._h / self.horizon
        step_all(self._model.arrays, self._s, np.asarray(actions), self._draws[:, self._h], self._over, rewards)
        self._h += 1
        return rewards, self._features(), self._over | (self._h == self.horizon)

    def _features(self) -> np.ndarray:
        return np.asarray(self._s[:, :-1] * self._model.spread + self._model.centre)


def _rewards(both: np.ndarray, data: PlayedTransitions, groups: list[np.ndarray]) -> np.ndarray:
    """Linear functions [A, 2 m + 1] of (x, x') for the rewards of steps that end nothing, or zeros."""
    basis = np.column_stack([both, np.ones(data.n)])
    linear = np.zeros((len(groups), basis.shape[1]))
    for a, rows in enumerate(groups):
        rows = rows[~data.ended[rows]]
        if rows.size:
            gram = basis[rows].T @ basis[rows] + 1e-3 * np.sqrt(rows.size) * np.eye(basis.shape[1])
            linear[a] = np.linalg.solve(gram, basis[rows].T @ data.rewards[rows])
    going = ~data.ended
    wrong = (data.rewards - _linear_at(linear, both, data.actions))[going]
    spread = data.rewards[going].var() if going.any() else 0.0
    return linear if spread > 0 and (wrong**2).mean() < (1.0 - EXPLAINED) * spread else np.zeros_like(linear)


def _linear_at(linear: np.ndarray, both: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.asarray((both * linear[actions, :-1]).sum(axis=1) + linear[actions, -1])
