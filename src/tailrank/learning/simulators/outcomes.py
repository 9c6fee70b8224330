"""What an action leads to from a state: transitions of that action from nearby, moved to the state, with weights.

    (x', r, ended)_i with weight exp(-d_i^2 / (2 s^2)),  i among the k nearest in the metric, s half the k-th distance

"shift" moves x'_i by the difference of the states; "trend" keeps what the quadratic trend of that action does not
explain: x'_i - f_a(x_i) + f_a(x); "noise" does so with the nearest transitions of all actions, so that the actions of a
state differ by their trends and not by luck. Rewards and ends stay those of transition i ("kept"), or are those of
the transition of the same action whose (x, x') is nearest to the moved one ("near"), or rewards are moved by their own
quadratic trend, too ("trend"; that of a step which ended the episode stays). Which of these is used, how many
neighbours, and whether time counts, is settled by the score of held-out transitions: CRPS of r, of ended and of
the coordinates of x', each as a share of the CRPS of a prediction that does not look at x and a.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.learning.simulators.metric import Trend
from tailrank.learning.simulators.played import PlayedTransitions


@dataclass(frozen=True)
class KernelChoice:
    """How outcomes are made: see the head of the module. power: coordinates are
    weighed by relevance to the power of half of this (0: all the same)."""

    neighbours: int = 16
    move: str = "shift"
    labels: str = "kept"
    power: int = 0
    timed: bool = False


@dataclass(frozen=True)
class OutcomeSample:
    """K weighted outcomes of n queries: after [n, K, k], rewards, ended and weights [n, K]; drift [n, K] as in
    `PlayedTransitions`."""

    after: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray
    weights: np.ndarray
    drift: np.ndarray | None = None


@dataclass(frozen=True)
class OutcomeModel:
    """Transitions in coordinates s, after [T, k], the metric's weights [k], and search trees of (x) and (x, x') an
    action (the last of (x): all actions); fitted [T, k + 1] is the trend of (x', r) at s. What the choice does not need
    is left out.
    """

    s: np.ndarray
    after: np.ndarray
    data: PlayedTransitions
    weights: np.ndarray
    choice: KernelChoice
    places: tuple[ActionTree, ...]
    moves: tuple[ActionTree, ...]
    trend: Trend | None
    fitted: np.ndarray | None

    @classmethod
    def of(
        cls,
        s: np.ndarray,
        after: np.ndarray,
        data: PlayedTransitions,
        weights: np.ndarray,
        choice: KernelChoice,
        n_actions: int,
    ) -> OutcomeModel:
        """The model of these transitions."""
        by_action = [np.flatnonzero(data.actions == a) for a in range(n_actions)]
        both = np.hstack([s, after]) * np.tile(weights, 2)
        places = tuple(ActionTree.of(rows, s * weights) for rows in (*by_action, np.arange(data.n)))
        moves = tuple(ActionTree.of(rows, both) for rows in by_action) if choice.labels == "near" else ()
        follows = np.column_stack([after, data.rewards])
        smooth = "trend" in (choice.move, choice.labels) or choice.move == "noise"
        trend = Trend.of(s, data.actions, follows, n_actions) if smooth else None
        fitted = None if trend is None else trend.at(s, data.actions)
        return cls(s, after, data, weights, choice, places, moves, trend, fitted)

    def around(self, s: np.ndarray, action: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows [n, K] of the transitions of an action, or of all, that are nearest to s [n, k]; K is less
        where there are fewer."""
        tree = self.places[-1 if action is None else action]
        return tree.query(s * self.weights, min(self.choice.neighbours, tree.rows.size))

    def samples(self, s: np.ndarray) -> Iterator[tuple[int, OutcomeSample]]:
        """Each action that was tried, with its outcomes at s [n, k]; neighbours of all actions are found once."""
        shared = self.around(s) if self.choice.move == "noise" else None
        for action, tree in enumerate(self.places[:-1]):
            if tree.rows.size:
                yield action, self.sample(s, action, shared)

    def sample(self, s: np.ndarray, action: int, around: tuple[np.ndarray, np.ndarray] | None = None) -> OutcomeSample:
        """Outcomes of an action at coordinates s [n, k], made of the transitions `around` or of those that are."""
        if around is None:
            around = self.around(s, None if self.choice.move == "noise" else action)
        distance, near = around
        half = 0.5 * distance[:, -1:]
        weights = np.exp(-0.5 * (distance / np.where(half > 0, half, 1.0)) ** 2)
        weights /= weights.sum(axis=1, keepdims=True)
        change = np.zeros((*near.shape, s.shape[1] + 1))
        if self.trend is not None and self.fitted is not None:
            change = self.trend.at(s, np.full(len(s), action))[:, None] - self.fitted[near]
        if self.choice.move == "shift":
            change[..., :-1] = s[:, None] - self.s[near]
        same = (distance == 0) & (self.data.actions[near] == action)
        change[same] = 0.0
        after = self.after[near] + change[..., :-1]
        labels = self._relabelled(s, after, near, same, action) if self.moves else near
        rewards, ended = self.data.rewards[labels], self.data.ended[labels]
        if self.choice.labels == "trend":
            rewards = rewards + np.where(ended, 0.0, change[..., -1])
        drift = None if self.data.drift is None else self.data.drift[labels]
        return OutcomeSample(after, rewards, ended, weights, drift)

    def _relabelled(
        self, s: np.ndarray, after: np.ndarray, near: np.ndarray, same: np.ndarray, action: int
    ) -> np.ndarray:
        """For moved outcomes [n, K] the transition whose (x, x') is nearest."""
        n, K, k = after.shape
        here = np.broadcast_to(s[:, None] * self.weights, (n, K, k))
        points = np.concatenate([here, after * self.weights], axis=2).reshape(n * K, 2 * k)
        return np.where(same, near, self.moves[action].query(points, 1)[1].reshape(n, K))


@dataclass(frozen=True)
class ActionTree:
    """A search tree of the rows of one action."""

    rows: np.ndarray
    tree: Any

    @classmethod
    def of(cls, rows: np.ndarray, points: np.ndarray) -> ActionTree:
        """The tree of points[rows]."""
        from scipy.spatial import cKDTree

        return cls(rows, cKDTree(points[rows]) if rows.size else None)

    def query(self, points: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows [n, K] of the K nearest to points [n, k]."""
        distance, found = self.tree.query(points, k=K)
        return distance.reshape(len(points), K), self.rows[found.reshape(len(points), K)]


def crps(values: np.ndarray, weights: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """CRPS [n] of weighted samples [n, K] at what was seen [n]: E|X - y| - E|X - X'| / 2; smaller is better."""
    near = (weights * np.abs(values - seen[:, None])).sum(axis=1)
    order = np.argsort(values, axis=1)
    v, w = np.take_along_axis(values, order, 1), np.take_along_axis(weights, order, 1)
    below = np.cumsum(w, axis=1) - w
    # E|X - X'| = 2 sum_i w_i v_i (W_below - W_above)
    spread = 2.0 * (w * v * (below - (1.0 - below - w))).sum(axis=1)
    return np.asarray(near - 0.5 * spread)


def held_out_scores(
    model: OutcomeModel, s: np.ndarray, after: np.ndarray, data: PlayedTransitions, v: np.ndarray
) -> np.ndarray:
    """CRPS [n] of held-out transitions, r, ended and x' counting the same; smaller is better.

    Each part is divided by the CRPS that a prediction which looks at nothing has among the model's own transitions.
    v [k]: weights of the coordinates of x'; of an episode that ended, x' does not count.
    """
    plain = [_spread(model.data.rewards), _spread(model.data.ended.astype(np.float64))]
    moved = np.array([_spread((model.after - model.s)[:, j]) for j in range(v.size)])
    found, known = _predictions(model, s, data.actions)
    total, shares = np.where(known, 0.0, 3.0), v / v.sum()
    parts = (found.rewards, data.rewards), (found.ended.astype(float), data.ended.astype(float))
    for (values, seen), scale in zip(parts, plain, strict=True):
        total += crps(values, found.weights, seen) * known / scale if scale > 0 else 0.0
    for j in np.flatnonzero((v > 0) & (moved > 0)):
        part = crps(found.after[:, :, j] - s[:, j, None], found.weights, after[:, j] - s[:, j]) / moved[j]
        total += np.where(data.ended | ~known, 0.0, shares[j] * part)
    return total


def _predictions(model: OutcomeModel, s: np.ndarray, actions: np.ndarray) -> tuple[OutcomeSample, np.ndarray]:
    """Outcomes of actions [n] at s [n, k], with weight 0 where an action has fewer than others; and [n] whether there
    are any."""
    shape = (len(s), min(model.choice.neighbours, model.data.n))
    after, rewards, weights = np.zeros((*shape, s.shape[1])), np.zeros(shape), np.zeros(shape)
    ended, known = np.zeros(shape, dtype=bool), np.zeros(len(s), dtype=bool)
    for a in np.unique(actions):
        if model.places[a].rows.size:
            mine = np.flatnonzero(actions == a)
            found = model.sample(s[mine], int(a))
            K, known[mine] = found.weights.shape[1], True
            after[mine, :K], rewards[mine, :K] = found.after, found.rewards
            ended[mine, :K], weights[mine, :K] = found.ended, found.weights
    return OutcomeSample(after, rewards, ended, weights), known


def _spread(values: np.ndarray) -> float:
    """E|X - X'| / 2 of the values [n]: the CRPS of predicting their law."""
    x = np.sort(values)
    return float((x * (2.0 * np.arange(x.size) - x.size + 1.0)).sum() / x.size**2)
