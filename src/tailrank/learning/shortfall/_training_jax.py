"""Gradient steps of a shortfall network in JAX.

The loss is the cross-entropy between the slopes of the network and those of the targets (`targets`): it is linear in
the targets, its minimum is their mean, and a small probability of a bad return counts in proportion. Shapes are the
same at every call, so that the step is compiled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tailrank.policies.shortfall import forward

FOLLOW = 0.02
"""How fast the slow copy follows: it is the mean of the last few hundred steps. Targets and plans are made with it."""

RULE = optax.scale_by_adam()


class TargetBatch(NamedTuple):
    """n steps: x [n, k] (inputs of the network), action [n], aim [n, C - 1] (slopes of the targets)."""

    x: Any
    action: Any
    aim: Any


class TrainingState(NamedTuple):
    """Of E networks: layers (W [E, k, k'], b [E, k']), their slow copy, and Adam's memory."""

    layers: Any
    slow: Any
    memory: Any


def loss(layers: Any, batch: TargetBatch) -> Any:
    """Mean cross-entropy of the slopes."""
    n, width = batch.aim.shape
    logits = forward(jnp, layers, batch.x).reshape(n, -1, width)
    mine = jnp.take_along_axis(logits, batch.action[:, None, None], axis=1)[:, 0]
    return optax.sigmoid_binary_cross_entropy(mine, batch.aim).mean()


def start_training(layers: Any) -> TrainingState:
    """Before the first step."""
    layers = jax.tree.map(jnp.asarray, layers)
    return TrainingState(layers, layers, RULE.init(layers))


@jax.jit
def advance(state: TrainingState, batches: TargetBatch, rate: Any) -> tuple[TrainingState, Any]:
    """A gradient step for each batch (arrays [steps, E, n, ...]: every network has its own), and the mean loss."""

    def total(layers: Any, batch: TargetBatch) -> Any:
        # The sum: the gradient of each network is then that of its own loss.
        return jax.vmap(loss)(layers, batch).sum()

    def step(state: TrainingState, batch: TargetBatch) -> tuple[TrainingState, Any]:
        value, slope = jax.value_and_grad(total)(state.layers, batch)
        updates, memory = RULE.update(slope, state.memory, state.layers)
        layers = jax.tree.map(lambda w, u: w - rate * u, state.layers, updates)
        slow = jax.tree.map(lambda s, w: s + FOLLOW * (w - s), state.slow, layers)
        return TrainingState(layers, slow, memory), value

    state, losses = jax.lax.scan(step, state, batches)
    return state, losses.mean() / batches.action.shape[1]
