"""What a model leaves open of the next observation, and how much of that the observation itself could have told.

A model says that x' depends on (x, a) only through a summary: the latent of x and the action (a block decoder), or phi
(a low-rank model); E[x' | x, a] is then linear in it. So x' is regressed on the summary, and what is left, R, on
features of x, for each action by itself and all steps together, on one half of the episodes for the other. The share of
|R|^2 that this explains is zero, or a little less, for a model that is right. Where it is clearly more the model misses
something that is plainly there.

Nothing is assumed about how x' is distributed. What the features cannot express is not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrank.episodes.replay import Replay

MOST_STEPS, MOST_NEXT, MOST_PLACES, UNITS = 8, 8, 16, 8
"""Steps that are looked at; directions of x' and of x; random units of x beside them."""
LEAST_EPISODES, MOST_EPISODES = 20, 5000
"""With fewer there is nothing to say; of more so many are looked at."""
TRIFLE = 0.005
"""A share below this is no reason to doubt."""


@dataclass(frozen=True)
class LeftOpen:
    """The share of what a model leaves open that x explains, and its standard error over episodes."""

    share: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether it is more than chance and more than a trifle."""
        return self.share - 3.0 * self.error > TRIFLE


def left_open(
    replay: Replay, summary: np.ndarray, n_actions: int, *, shared: bool, rng: np.random.Generator
) -> LeftOpen:
    """For a model whose summary of every step is `summary`; shared: all steps have one model.

    summary: numbers [n, H, K], or whole numbers [n, H] that say to which class a step belongs.
    """
    H, n = replay.horizon, replay.n
    none = LeftOpen(0.0, 0.0)
    if H == 1 or n < LEAST_EPISODES:
        return none
    parts = [np.arange(H - 1)] if shared else [np.array([h]) for h in range(H - 1)]
    if len(parts) > MOST_STEPS:
        parts = [parts[i] for i in np.linspace(0, H - 2, MOST_STEPS).astype(int)]
    columns: list[tuple[np.ndarray, ...]] = []
    looked = np.zeros(n, dtype=bool)
    looked[np.unique(np.linspace(0, n - 1, MOST_EPISODES).astype(int))] = True
    for steps in parts:
        episode, place = np.nonzero((steps + 1 < replay.lengths[:, None]) & looked[:, None])
        if episode.size < LEAST_EPISODES:
            continue
        h = steps[place]
        x, after = (replay.features[episode, step].astype(np.float64) for step in (h, h + 1))
        columns.append((episode, replay.actions[episode, h].astype(np.int64), x, after, summary[episode, h]))
    if not columns:
        return none
    episode, action, x = (np.concatenate([column[i] for column in columns]) for i in range(3))
    after = np.split(_directions(np.concatenate([c[3] for c in columns]), MOST_NEXT), _cuts(columns))
    rest = np.concatenate([_without(y, column[4]) for y, column in zip(after, columns, strict=True)])
    half = np.searchsorted(np.flatnonzero(looked), episode) % 2 == 0
    told = _told(_features(x, rng), action, rest, half, n_actions)
    gains = np.bincount(episode, (rest**2 - (rest - told) ** 2).sum(axis=1), minlength=n)
    open_ = np.bincount(episode, (rest**2).sum(axis=1), minlength=n)
    total = float(open_.sum())
    if total <= 0.0:
        return none
    share = float(gains.sum()) / total
    spread = gains - share * open_  # of a ratio, over episodes
    return LeftOpen(share, float(np.sqrt((spread**2).sum())) / total)


def _cuts(columns: Sequence[tuple[np.ndarray, ...]]) -> np.ndarray:
    return np.cumsum([column[0].size for column in columns])[:-1]


def _directions(x: np.ndarray, most: int) -> np.ndarray:
    """Standardised columns, or the `most` directions in which they vary most, [n, <= most]."""
    spread = x.std(axis=0)
    z = (x[:, spread > 0] - x.mean(axis=0)[spread > 0]) / spread[spread > 0]
    if z.shape[1] <= most:
        return np.asarray(z)
    _, vectors = np.linalg.eigh(z.T @ z)
    return np.asarray(z @ vectors[:, -most:])


def _features(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(1, z, tanh of random sums of z), each with variance about one, [n, F]."""
    z = _directions(x, MOST_PLACES)
    z = z / np.maximum(z.std(axis=0), 1e-12) if z.size else z
    weights = rng.standard_normal((z.shape[1], UNITS)) / np.sqrt(max(z.shape[1], 1)) * 1.5
    return np.hstack([np.ones((len(z), 1)), z, np.tanh(z @ weights + rng.standard_normal(UNITS))])


def _without(y: np.ndarray, summary: np.ndarray) -> np.ndarray:
    """What is left of y [n, m] after regression on the summary [n, K], or after the means of classes [n]."""
    if summary.ndim == 1:
        where = np.unique(summary, return_inverse=True)[1]
        sums = np.stack([np.bincount(where, column) for column in y.T], axis=1)
        return np.asarray(y - (sums / np.bincount(where)[:, None])[where])
    used = summary[:, summary.any(axis=0)]
    gram = used.T @ used + 1e-6 * np.eye(used.shape[1])
    return np.asarray(y - used @ np.linalg.solve(gram, used.T @ y))


def _told(f: np.ndarray, action: np.ndarray, rest: np.ndarray, half: np.ndarray, n_actions: int) -> np.ndarray:
    """What ridge regression on f [n, F] says of `rest` [n, m], learned on the other half, by action."""
    told = np.zeros_like(rest)
    for a in range(n_actions):
        for mine in (half, ~half):
            learn, say = (action == a) & ~mine, (action == a) & mine
            if learn.any() and say.any():
                gram = f[learn].T @ f[learn] + f.shape[1] * np.eye(f.shape[1])
                told[say] = f[say] @ np.linalg.solve(gram, f[learn].T @ rest[learn])
    return told
