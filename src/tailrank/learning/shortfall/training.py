"""Gradient steps of shortfall networks, with the gradients written out: nothing but NumPy is needed.

The loss is the cross-entropy between the slopes of the network and those of the targets (`targets`): it is linear in
the targets, its minimum is their mean, and a small probability of a bad return counts in proportion. Of the last layer
only the part of the action that was played is computed, so the rows of a batch come sorted by action.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tailrank.learning.dense import Layers, flat_weights, layer_views
from tailrank.learning.rivals.ascent import Adam

FOLLOW = 0.02
"""How fast the slow copy follows: it is the mean of the last few hundred steps. Targets and plans are made with it."""


@dataclass(frozen=True)
class NetworkTraining:
    """E networks with layers of these sizes: all weights and their slow copy [E, P] (float32), and Adam.

    `advance` changes them in place; `copy` has arrays of its own.
    """

    sizes: tuple[int, ...]
    weights: np.ndarray
    slow: np.ndarray
    adam: Adam

    @classmethod
    def begun(cls, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> NetworkTraining:
        """Before the first step; layers: W [E, k, k'] and b [E, k']."""
        flat = flat_weights(layers)
        sizes = (layers[0][0].shape[1], *(b.shape[1] for _, b in layers))
        return cls(sizes, flat, flat.copy(), Adam(0.0))

    def copy(self) -> NetworkTraining:
        """The same with arrays of its own."""
        return replace(self, weights=self.weights.copy(), slow=self.slow.copy(), adam=self.adam.copy())

    def slow_layers(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """W [E, k, k'] and b [E, k'] of the slow copy."""
        return tuple(layer_views(self.slow, self.sizes))


def advance(state: NetworkTraining, x: np.ndarray, actions: np.ndarray, aim: np.ndarray, rate: float) -> float:
    """A gradient step with every batch, in place: x [S, E, n, k], actions [S, E, n] (sorted along the last axis), aim
    [S, E, n, C - 1]: slopes of the targets. Returns the loss in the last batch."""
    slope, logits = np.zeros_like(state.weights), np.zeros_like(aim[0])
    layers, slopes = layer_views(state.weights, state.sizes), layer_views(slope, state.sizes)
    state.adam.rate = rate
    for i in range(len(x)):
        logits = gradient(layers, slopes, x[i], actions[i], aim[i])
        state.adam.climb([state.weights], [slope])
        np.add(state.slow, np.float32(FOLLOW) * (state.weights - state.slow), out=state.slow)
    return float((np.logaddexp(0.0, logits) - aim[-1] * logits).mean())


def gradient(layers: Layers, slopes: Layers, x: np.ndarray, actions: np.ndarray, aim: np.ndarray) -> np.ndarray:
    """Fill `slopes`, shaped as the layers, with minus the gradient of each network's loss in its own batch:
    x [E, n, k], actions [E, n] (sorted) and aim [E, n, C - 1]; returns the logits of the actions [E, n, C - 1]."""
    seen = [x]
    for w, b in layers[:-1]:
        seen.append(np.maximum(seen[-1] @ w + b[:, None], 0.0))
    (W, B), (dW, dB), width = layers[-1], slopes[-1], aim.shape[2]
    parts = _by_action(actions, width)
    logits = np.empty_like(aim)
    for e, rows, part in parts:
        np.add(seen[-1][e, rows] @ W[e, :, part], B[e, part], out=logits[e, rows])
    wrong = (aim - 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))) / np.float32(aim[0].size)
    dW[:], dB[:] = 0.0, 0.0
    back = np.empty_like(seen[-1])
    for e, rows, part in parts:
        dW[e, :, part] = seen[-1][e, rows].T @ wrong[e, rows]
        dB[e, part] = wrong[e, rows].sum(axis=0)
        back[e, rows] = wrong[e, rows] @ W[e, :, part].T
    for i in range(len(layers) - 2, -1, -1):
        back = back * (seen[i + 1] > 0.0)
        np.matmul(seen[i].transpose(0, 2, 1), back, out=slopes[i][0])
        slopes[i][1][:] = back.sum(axis=1)
        back = back @ layers[i][0].transpose(0, 2, 1) if i else back
    return logits


def _by_action(actions: np.ndarray, width: int) -> list[tuple[int, slice, slice]]:
    """For actions [E, n], sorted: network, rows with one action, and the numbers of the last layer that are its own."""
    found = []
    for e, mine in enumerate(actions.tolist()):
        begin = 0
        while begin < len(mine):
            end = bisect_right(mine, mine[begin])
            found.append((e, slice(begin, end), slice(mine[begin] * width, (mine[begin] + 1) * width)))
            begin = end
    return found
