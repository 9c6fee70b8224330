"""Training of a shortfall network in JAX.

A transition (x, a, x', r) teaches all budgets: with V(x', c) = Q_target(x', c, argmin_a Q(x', c, a)) (the action from
the network that is trained, its value from a slow copy),

    target of Q(x, c, a) = V(x', c - r),   or (c - r)^+ where the episode is over

on the grid of budgets, by interpolation. The loss is the cross-entropy between the slopes of the network and those of
the target: both lie in [0, 1], its minimum is the mean slope, and a small probability of a bad return counts in
proportion. Shapes are the same at every call, so that the step is compiled once.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tailrank.policies.shortfall import forward, shortfalls

POLYAK = 0.01
"""How fast the slow copy follows."""


class TransitionBatch(NamedTuple):
    """n transitions: x, after [n, k] (inputs of the network), action [n], shift [n] (the rewards less the origin, in
    units), over [n] (1 where the episode is over then) and end [n] (place + end is the shortfall of one that is over).
    """

    x: Any
    action: Any
    shift: Any
    after: Any
    over: Any
    end: Any


class TrainingState(NamedTuple):
    """Of one member: layers, the slow copy, Adam's memory."""

    layers: Any
    slow: Any
    memory: Any


def slopes_of(layers: Any, x: Any, n_actions: int) -> Any:
    """Logits of the slopes, [n, A, C - 1]."""
    return forward(jnp, layers, x).reshape(x.shape[0], n_actions, -1)


def looked_up(values: Any, places: Any) -> Any:
    """values [n, C] at real places [n, C]: linear between, constant below, of slope one above."""
    last = values.shape[-1] - 1
    inside = jnp.clip(places, 0.0, last)
    low = jnp.clip(jnp.floor(inside), 0, last - 1).astype(jnp.int32)
    part = inside - low
    at = partial(jnp.take_along_axis, values, axis=-1)
    return (1.0 - part) * at(low) + part * at(low + 1) + jnp.maximum(places - last, 0.0)


def targets(layers: Any, slow: Any, batch: TransitionBatch, n_actions: int) -> Any:
    """What Q should be on the grid of budgets, [n, C]."""
    mine = shortfalls(jnp, slopes_of(layers, batch.after, n_actions))
    theirs = shortfalls(jnp, slopes_of(slow, batch.after, n_actions))
    best = mine.argmin(axis=1)
    values = jnp.take_along_axis(theirs, best[:, None], axis=1)[:, 0]
    places = jnp.arange(values.shape[-1]) - batch.shift[:, None]
    return jnp.where(batch.over[:, None] > 0, jnp.maximum(places + batch.end[:, None], 0.0), looked_up(values, places))


def loss(layers: Any, slow: Any, batch: TransitionBatch, n_actions: int) -> Any:
    """Mean cross-entropy of the slopes."""
    aim = jax.lax.stop_gradient(jnp.clip(jnp.diff(targets(layers, slow, batch, n_actions), axis=-1), 0.0, 1.0))
    logits = slopes_of(layers, batch.x, n_actions)
    mine = jnp.take_along_axis(logits, batch.action[:, None, None], axis=1)[:, 0]
    return optax.sigmoid_binary_cross_entropy(mine, aim).mean()


def start_training(layers: Any, rate: float) -> TrainingState:
    """Before the first step."""
    layers = jax.tree.map(jnp.asarray, layers)
    return TrainingState(layers, layers, optax.adam(rate).init(layers))


@partial(jax.jit, static_argnames=("n_actions", "rate"))
def advance(state: TrainingState, batches: TransitionBatch, n_actions: int, rate: float) -> tuple[TrainingState, Any]:
    """A gradient step for each batch (arrays [steps, n, ...]), and the mean loss."""
    rule = optax.adam(rate)

    def step(state: TrainingState, batch: TransitionBatch) -> tuple[TrainingState, Any]:
        value, slope = jax.value_and_grad(loss)(state.layers, state.slow, batch, n_actions)
        updates, memory = rule.update(slope, state.memory, state.layers)
        layers = optax.apply_updates(state.layers, updates)
        slow = jax.tree.map(lambda s, w: s + POLYAK * (w - s), state.slow, layers)
        return TrainingState(layers, slow, memory), value

    state, losses = jax.lax.scan(step, state, batches)
    return state, losses.mean()
