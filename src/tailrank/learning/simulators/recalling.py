"""Candidates that see what came before, where what follows depends on it.

Whether it does is asked of episodes that were held out, every third one. What follows, (o' - o, r, ended), is predicted
by the mean of the nearest neighbours among the other episodes with the same action, in x without and with the past. The
step is known, and a quadratic trend of the present is taken off a number that follows, where that predicts it better
without a past: models may know both, and the past must tell more. (A past that repeats a number of the present, such
as a position that is the last action, only makes that number count for more among neighbours; the trend knows it.) The
errors, as those of a normal law of their own variance, have a likelihood; the past counts where it makes that clearly
larger. Neighbours get worse with every number that does not matter, so that a past that tells nothing is left out.
Where few different observations repeat, counts take the place of neighbours (`counted.held_out_laws`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrank.learning.simulators import counted
from tailrank.learning.simulators.candidates import FitData, FittedCandidate, LearningCandidate, WrappedFit
from tailrank.learning.simulators.metric import Trend
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.standard import varies
from tailrank.policies.recall import Recall, RecallPolicy, differences
from tailrank.policies.tables import Policy

TRIED = (Recall(0, True), Recall(1), Recall(1, True), Recall(2, True))
NEIGHBOURS = 4
LEARNED, ASKED = 1500, 500
"""Transitions that predictions are made from, and those that are predicted, at most."""
FEWEST = 200
"""Transitions below which nothing is asked."""
WIDEST = 64
"""Numbers of x, at most."""
GAIN, SURE = 0.2, 3.0
"""What the past must add to the log-likelihood of a transition, and how many standard errors that must be."""
LEAST = 0.01
"""Of the variance: errors smaller than this do not count."""


def recalled(recall: Recall, played: PlayedEpisodes, n_actions: int) -> PlayedEpisodes:
    """The same episodes with x in place of observations."""
    if recall == Recall():
        return played
    x = _seen(recall, played, n_actions, np.arange(played.seen.size))
    found = PlayedEpisodes.of(played.horizon, x, played.actions, played.rewards, played.lengths)
    return replace(found, allowed=played.allowed)


def _seen(recall: Recall, played: PlayedEpisodes, n_actions: int, rows: np.ndarray) -> np.ndarray:
    """x [n, m'] at these rows of the observations."""
    length = played.lengths + 1
    episode = np.repeat(np.arange(played.n), length)[rows]
    step = rows - (np.cumsum(length) - length)[episode]
    parts = differences(
        [played.observations[played.seen[rows - np.minimum(step, j)]] for j in range(recall.observations + 1)]
    )
    if recall.action:
        before = np.zeros((rows.size, n_actions), dtype=played.observations.dtype)
        later = np.flatnonzero(step > 0)
        before[later, played.actions[rows[later] - episode[later] - 1]] = 1.0
        parts.append(before)
    return np.hstack(parts)


def needed_recall(played: PlayedEpisodes, n_actions: int) -> Recall:
    """What of the past counts."""
    m, best = played.n_features, Recall()
    if played.steps < FEWEST or played.n < 9 or m > WIDEST:
        return best
    likelihoods = _by_counts if played.repeats else _by_neighbours
    plain, timed = (likelihoods(best, played, n_actions, timed) for timed in (False, True))
    step = float(timed[0].mean()) > float(plain[0].mean())
    now, episode = timed if step else plain
    for recall in TRIED:
        if recall.width(m, n_actions) > WIDEST or recall.observations > best.observations + 1:
            continue
        found, _ = likelihoods(recall, played, n_actions, step)
        gains = np.array([(found - now)[episode == e].mean() for e in np.unique(episode)])
        error = float(gains.std(ddof=1)) / np.sqrt(gains.size) if gains.size > 1 else np.inf
        if float((found - now).mean()) > GAIN and float(gains.mean()) > SURE * error:
            best, now = recall, found
    return best


def _by_counts(recall: Recall, played: PlayedEpisodes, n_actions: int, timed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The log-likelihood of held-out transitions [n], and their episodes [n]. timed: the step is known."""
    episode, step = np.repeat(np.arange(played.n), played.lengths), played.step_numbers()
    held, rows = episode % 3 == 2, np.arange(played.steps) + episode
    seen = played.seen
    ended = np.append(np.diff(episode) > 0, True) & (step + 1 < played.horizon)
    outcome = counted.numbers(np.where(ended, -1, seen[rows + 1]), played.rewards)
    pair = counted.numbers(seen[rows], played.actions)
    cells = [pair, counted.numbers(pair, step)] if timed else [pair]
    past = [seen[rows - np.minimum(step, j)] for j in range(1, recall.observations + 1)]
    if recall.action:
        past.append(np.where(step > 0, np.append(0, played.actions[:-1]), n_actions))
    if past:
        cells.append(counted.numbers(pair, *past))
    return np.log(counted.held_out_laws(cells, outcome, held)[-1]), episode[held]


def _by_neighbours(
    recall: Recall, played: PlayedEpisodes, n_actions: int, timed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The log-likelihood of held-out transitions [n], and their episodes [n]. timed: the step is known."""
    episode = np.repeat(np.arange(played.n), played.lengths)
    held = episode % 3 == 2
    ask, learn = _some(np.flatnonzero(held), ASKED), _some(np.flatnonzero(~held), LEARNED)
    taken = np.concatenate([ask, learn])
    rows = taken + episode[taken]
    ended = np.append(np.diff(episode) > 0, True)[taken] & (played.step_numbers()[taken] + 1 < played.horizon)
    features = played.features
    moved = (features[rows + 1] - features[rows]).astype(np.float64)
    follows = np.hstack([_scaled(part) for part in (moved, played.rewards[taken, None], ended[:, None])])
    other = played.actions[ask][:, None] != played.actions[learn]
    step = [played.step_numbers()[taken]] if timed else []
    here = _scaled(np.column_stack([features[rows].astype(np.float64), *step]))
    trend = Trend.of(here[ask.size :], played.actions[learn], follows[ask.size :], n_actions)
    less = follows - trend.at(here, played.actions[taken])
    better = _errors(here, less, other).mean(axis=0) < _errors(here, follows, other).mean(axis=0)
    follows = np.where(better, less, follows)
    x = np.column_stack([_seen(recall, played, n_actions, rows).astype(np.float64), *step])
    errors = _errors(_scaled(x), follows, other)
    variance = errors.mean(axis=0) + LEAST
    return np.asarray(-0.5 * (np.log(variance) + errors / variance).sum(axis=1)), episode[ask]


def _errors(x: np.ndarray, follows: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Squared errors of the first n rows of `follows`, predicted by the rest; other [n, rest]: another action."""
    n = len(other)
    square = (x[:n] ** 2).sum(axis=1)[:, None] + (x[n:] ** 2).sum(axis=1) - 2.0 * x[:n] @ x[n:].T
    few = min(NEIGHBOURS, other.shape[1] - 1)
    near = np.argpartition(np.where(other, np.inf, square), few, axis=1)[:, :few]
    return np.asarray((follows[:n] - follows[n:][near].mean(axis=1)) ** 2)


def _scaled(values: np.ndarray) -> np.ndarray:
    """Columns of deviation 1, without those that are constant."""
    spread = values.std(axis=0)
    kept = varies(spread, values.mean(axis=0))
    return values[:, kept] / spread[kept]


def _some(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the rows, evenly."""
    return rows if rows.size <= most else rows[np.linspace(0, rows.size - 1, most).astype(np.int64)]


@dataclass(frozen=True)
class FittedRecalling(WrappedFit):
    """A fit on x; its policies see observations and recall the rest, which follows from the episodes."""

    recall: Recall
    n_features: int
    n_actions: int

    def playing(self, policy: Policy) -> Policy:
        """One that recalls."""
        return RecallPolicy(policy, self.recall, self.n_features, self.n_actions)

    def seen(self, played: PlayedEpisodes) -> PlayedEpisodes:
        """With what is recalled."""
        return recalled(self.recall, played, self.n_actions)

    def about(self) -> str:
        """What was fitted, and to what."""
        return f"{self.inner.about()}, with {self.recall.words}"


@dataclass(frozen=True)
class RecallingCandidate:
    """A candidate that sees what of the past it needs: what `needed_recall` says of the episodes of the fit."""

    inner: LearningCandidate
    recall: Recall

    def fit(self, data: FitData, rng: np.random.Generator, before: Any = None) -> FittedCandidate:
        """The fit to all episodes; it goes on from the last one where that saw the same."""
        then = before.recall if isinstance(before, FittedRecalling) else Recall()
        last = (before.inner if isinstance(before, FittedRecalling) else before) if then == self.recall else None
        return self._seeing(self.inner.fit(self._recalled(data), rng, last), data)

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedCandidate:
        """The fit in a checkpoint."""
        return self._seeing(self.inner.restored(arrays, self._recalled(data), rng), data)

    def _recalled(self, data: FitData) -> FitData:
        return replace(data, played=recalled(self.recall, data.played, data.n_actions))

    def _seeing(self, found: FittedCandidate, data: FitData) -> FittedCandidate:
        m = data.played.n_features
        return found if self.recall == Recall() else FittedRecalling(found, self.recall, m, data.n_actions)
