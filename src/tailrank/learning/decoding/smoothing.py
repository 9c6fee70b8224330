"""Latents of whole episodes: where one observation does not tell the latent, its neighbours help (Viterbi).

    maximise over z_0..z_L:   sum_h log q_{z_h}(x_h) / p_{z_h}  +  sum_h log P_h(z_{h+1} | z_h, a_h)

Decoding single observations mistakes some latents, and every mistake looks like a transition that never happened:
at a rate of 1% a step the model believes that a tenth of all episodes fail by themselves, and plans for the tail
give up.
"""

from __future__ import annotations

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.decoding.choose import label, moves
from tailrank.models.latent_counts import LatentCounts
from tailrank.policies.decoders.base import Decoder

PASSES = 3
DOUBT = 0.5
"""Counts of a flat law that are added to what was seen of a pair: no transition is impossible."""


def smoothed(decoder: Decoder, replay: Replay, n_actions: int, top: int, shared: bool) -> np.ndarray:
    """Latents [n, H] of what was seen, -1 where an episode was over; tables and paths are found in turn."""
    H, K = replay.horizon, decoder.n_latents
    labels = label(decoder, replay)
    odds = np.zeros((H, replay.n, K))
    for h in range(H):
        alive = replay.alive(h)
        if alive.size:
            odds[h, alive] = decoder.log_odds(h, replay.features[alive, h])
    for _ in range(PASSES):
        counts = LatentCounts(1 if shared else H, K, n_actions, top)
        m = moves(replay, labels, K, shared)
        counts.add(m.h, m.z, m.a, m.after, m.units)
        before = labels
        labels = _paths(odds, replay, counts)
        if np.array_equal(labels, before):
            break
    return labels


def _paths(odds: np.ndarray, replay: Replay, counts: LatentCounts) -> np.ndarray:
    """The most likely path of each episode, [n, H]."""
    H, n, K = odds.shape
    met = counts.visits().sum(axis=2)
    with np.errstate(divide="ignore"):
        base = np.log(met / np.maximum(met.sum(axis=1, keepdims=True), 1.0))
    table = counts.transitions()[..., :K] + DOUBT / K
    table = np.log(table / table.sum(axis=-1, keepdims=True))
    lengths, everyone = replay.lengths, np.arange(n)
    score = odds[0].copy()
    back = np.zeros((H, n, K), dtype=np.int64)
    for h in range(1, H):
        t, here = (0, 0) if len(table) == 1 else (h - 1, h)
        ways = score[:, :, None] + table[t][:, replay.actions[:, h - 1]].transpose(1, 0, 2)
        back[h] = ways.argmax(axis=1)
        gain = np.where(np.isfinite(base[here]), odds[h] - np.where(np.isfinite(base[here]), base[here], 0.0), -np.inf)
        after = ways.max(axis=1) + gain
        alive = lengths > h
        score = np.where(alive[:, None], after, score)
    labels = np.full((n, H), -1, dtype=np.int64)
    last = score.argmax(axis=1)
    for h in reversed(range(H)):
        alive = lengths > h
        labels[alive, h] = last[alive]
        if h:
            last = np.where(alive, back[h][everyone, last], last)
    return labels
