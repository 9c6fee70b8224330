"""Episodes laid out for the training of a decoder: S steps of B transitions, the shapes the same from fit to fit.

At each step the first B episodes, in a given order, that reached it. Those of them that go on are the first of those
that reached the next step, so next observations are observations already there: each is decoded once.
A shared decoder has one step, and whole episodes one after another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tailrank.episodes.replay import Replay

NEXT, ENDED, CUT = 0, 1, 2
"""What follows a transition: an observation, the end of the episode, nothing that was seen."""


class TrainingBatch(NamedTuple):
    """Transitions, padded with weight 0: x [S, B, m], all else [S, B].

    reward: place in the list of rewards. after: place s B + b of the next observation in x. label: -1 where unknown.
    """

    x: Any
    action: Any
    reward: Any
    after: Any
    outcome: Any
    weight: Any
    label: Any


def laid_out(
    replay: Replay, order: np.ndarray, rewards: np.ndarray, *, batch: int, shared: bool, labels: np.ndarray | None
) -> TrainingBatch:
    """The transitions of the episodes in `order` [k], at most `batch` a step. rewards: all units, sorted.

    A shared decoder does not see the last step's end as an end: any step may be the last.
    """
    H, lengths = replay.horizon, replay.lengths[order]
    row, step, after = _whole(lengths, batch * H) if shared else _by_step(lengths, H, batch)
    used = row >= 0
    where = (order[np.maximum(row, 0)], step)
    over = (replay.lengths[where[0]] == step + 1) & ~(shared & (step == H - 1))
    return TrainingBatch(
        x=np.where(used[..., None], replay.features[where], np.float32(0.0)),
        action=np.where(used, replay.actions[where], 0).astype(np.int32),
        reward=np.where(used, np.searchsorted(rewards, replay.units[where]), 0).astype(np.int32),
        after=np.maximum(after, 0).astype(np.int32),
        outcome=np.where(after >= 0, NEXT, np.where(over, ENDED, CUT)).astype(np.int32),
        weight=used.astype(np.float32),
        label=np.where(used, -1 if labels is None else labels[where], -1).astype(np.int32),
    )


def _by_step(lengths: np.ndarray, H: int, batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [H, B] of the order (-1: padding), their steps, and the places of what follows (-1: nothing)."""
    row, after = np.full((H, batch), -1), np.full((H, batch), -1)
    for h in range(H):
        alive = np.flatnonzero(lengths > h)[:batch]
        on = lengths[alive] > h + 1
        row[h, : alive.size] = alive
        after[h, : alive.size] = np.where(on, (h + 1) * batch + np.cumsum(on) - 1, -1)
    return row, np.broadcast_to(np.arange(H)[:, None], row.shape), after


def _whole(lengths: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same as one row [1, most]; the last episode may be cut."""
    n = min(int(lengths.sum()), most)
    row, step, after = np.full((1, most), -1), np.zeros((1, most), dtype=np.int64), np.full((1, most), -1)
    row[0, :n] = np.repeat(np.arange(lengths.size), lengths)[:n]
    step[0, :n] = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)[:n]
    on = lengths[row[0, :n]] > step[0, :n] + 1
    on[n - 1 :] = False
    after[0, :n] = np.where(on, np.arange(n) + 1, -1)
    return row, step, after


def power(n: int) -> int:
    """The least power of two from n on."""
    return 1 << max(n - 1, 0).bit_length()


def moments(batch: TrainingBatch, channels: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean [S or 1, m] and deviation [m] of the observations.

    Steps have means of their own, drawn a little to the overall one where episodes are few. Images are
    standardised by channel, the same at every step. The deviation of a constant is 1.
    """
    x, used = np.asarray(batch.x, dtype=np.float64), np.asarray(batch.weight, dtype=np.float64)
    m = x.shape[-1]
    if channels:
        x, used = x.reshape(1, -1, channels), np.repeat(used.reshape(1, -1), m // channels, axis=1)
    total, count = np.einsum("sb,sbm->sm", used, x), used.sum(axis=1)[:, None]
    mean = (total + total.sum(axis=0) / count.sum()) / (count + 1.0)
    scale = np.sqrt(np.einsum("sb,sbm->m", used, (x - mean[:, None]) ** 2) / count.sum())
    scale = np.where(scale > 1e-6 * np.abs(mean).max(axis=0) + 1e-12, scale, 1.0)
    repeat = m // scale.size
    return np.tile(mean, (1, repeat)).astype(np.float32), np.tile(scale, repeat).astype(np.float32)
