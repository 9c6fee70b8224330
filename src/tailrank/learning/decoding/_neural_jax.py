"""Training of a neural decoder in JAX: gradients for the decoder, expectation maximisation for the tables.

The log-likelihood of a transition (x, a, r, x'), up to what does not depend on the model, is

    log sum_{z, z'} q_z(x) R[z, a, r] T[z, a, z'] q_z'(x') / p_z',      p_z' = mean of q_z' over observed next states,

with T[z, a, K] in place of the sum over z' where the episode ended. A step of EM multiplies a table by the gradient of
the log-likelihood and normalises; so one backward pass serves the decoder and the tables. Tables are drawn by a small
prior to the marginal law, which says nothing: an action never tried in a latent then costs nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tailrank.learning.decoding._neural_batches import ENDED, NEXT, TrainingBatch
from tailrank.policies.decoders.network import NeuralSettings, forward

PRIOR = 0.1
"""Pseudo-counts of every row of a table."""
EVERY = 10
"""Gradient steps between two looks at the held-out episodes."""
ROUNDS = 20
"""Steps of EM that fit tables to a decoder that stands still."""
TINY = 1e-12


class LatentTables(NamedTuple):
    """T [S, K, A, K + 1] and R [S, K, A, n_rewards]."""

    following: Any
    reward: Any


class FitState(NamedTuple):
    """One restart: weights, AdamW's memory, tables, and the best weights on held-out episodes so far."""

    weights: Any
    memory: Any
    tables: Any
    guide: Any
    best: Any
    best_weights: Any
    best_step: Any
    step: Any


def log_likelihood(log_q: Any, tables: LatentTables, batch: TrainingBatch) -> Any:
    """Of every transition, [S, B]."""
    S, K, A, _ = tables.following.shape
    q = jnp.exp(log_q)
    q_next, p = following(q, batch)
    pair = jax.nn.one_hot(batch.action, A)
    cell = batch.action * tables.reward.shape[-1] + batch.reward
    paid = jnp.take_along_axis(tables.reward.transpose(0, 2, 3, 1).reshape(S, -1, K), cell[..., None], axis=1)
    left = q * paid
    rows = (left[..., None] * pair[:, :, None]).reshape(S, -1, K * A)
    phi = rows @ tables.following.reshape(S, K * A, K + 1)
    seen = (phi[..., :K] * q_next / p[:, None]).sum(axis=-1)
    unseen = jnp.where(batch.outcome == ENDED, phi[..., K], left.sum(axis=-1))
    return jnp.log(jnp.where(batch.outcome == NEXT, seen, unseen) + TINY)


def following(q: Any, batch: TrainingBatch) -> tuple[Any, Any]:
    """q of the next observations [S, B, K], and its mean p over those that were seen, [S, K]."""
    K = q.shape[-1]
    q_next = q.reshape(-1, K)[batch.after]
    weight = (batch.weight * (batch.outcome == NEXT))[..., None]
    return q_next, ((weight * q_next).sum(axis=1) + TINY / K) / (weight.sum(axis=1) + TINY)


def marginals(log_q: Any, batch: TrainingBatch, n_rewards: int) -> tuple[Any, Any]:
    """Laws of what follows, [S, K + 1], and of the reward, [S, n_rewards], whatever the latent and the action."""
    _, p = following(jnp.exp(log_q), batch)
    seen = (batch.weight * (batch.outcome == NEXT)).sum(axis=1, keepdims=True)
    ended = (batch.weight * (batch.outcome == ENDED)).sum(axis=1, keepdims=True)
    share = (ended + 0.5) / (seen + ended + 1.0)
    counts = (jax.nn.one_hot(batch.reward, n_rewards) * batch.weight[..., None]).sum(axis=1)
    paid = (counts + 1.0 / n_rewards) / (counts.sum(axis=-1, keepdims=True) + 1.0)
    return jnp.concatenate([p * (1.0 - share), share], axis=-1), paid


def maximised(
    tables: LatentTables, slopes: LatentTables, log_q: Any, batch: TrainingBatch, prior: float = PRIOR
) -> LatentTables:
    """The tables after one step of EM; slopes: gradient of the summed log-likelihood."""
    laws = marginals(log_q, batch, tables.reward.shape[-1])

    def normal(table: Any, slope: Any, law: Any) -> Any:
        counts = table * slope
        return (counts + prior * law[:, None, None]) / (counts.sum(axis=-1, keepdims=True) + prior)

    return LatentTables(*(normal(*each) for each in zip(tables, slopes, laws, strict=True)))


def settled(log_q: Any, batch: TrainingBatch, n_actions: int, n_rewards: int, prior: float = PRIOR) -> LatentTables:
    """Tables fitted to a decoder that stands still."""
    S, _, K = log_q.shape
    laws = marginals(log_q, batch, n_rewards)
    start = LatentTables(*(jnp.broadcast_to(law[:, None, None], (S, K, n_actions, law.shape[-1])) for law in laws))

    def one(tables: LatentTables, _: None) -> tuple[LatentTables, None]:
        slopes = jax.grad(lambda t: (batch.weight * log_likelihood(log_q, t, batch)).sum())(tables)
        return maximised(tables, slopes, log_q, batch, prior), None

    return jax.lax.scan(one, start, None, length=ROUNDS)[0]


def decoded(weights: Any, batch: TrainingBatch, image: tuple[int, ...] | None, temperature: Any = 1.0) -> Any:
    """log q of every observation, [S, B, K]."""
    return jax.nn.log_softmax(temperature * forward(jnp, weights, batch.x, image), axis=-1)


def mean(values: Any, batch: TrainingBatch) -> Any:
    """Of values [S, B] over the transitions."""
    return (values * batch.weight).sum() / jnp.maximum(batch.weight.sum(), TINY)


def followed(log_q: Any, batch: TrainingBatch) -> Any:
    """Mean log-likelihood of the labels that are known."""
    known = batch.weight * (batch.label >= 0)
    named = jnp.take_along_axis(log_q, jnp.maximum(batch.label, 0)[..., None], axis=-1)[..., 0]
    return (known * named).sum() / jnp.maximum(known.sum(), 1.0)


def loss(
    weights: Any, tables: LatentTables, batch: TrainingBatch, guide: Any, image: tuple[int, ...] | None
) -> tuple[Any, Any]:
    """Minus the log-likelihood a transition, and log q; where guide is 1 the labels alone train the decoder."""
    log_q = decoded(weights, batch, image)
    free = guide * jax.lax.stop_gradient(log_q) + (1.0 - guide) * log_q
    return -mean(log_likelihood(free, tables, batch), batch) - guide * followed(log_q, batch), log_q


class Fixed(NamedTuple):
    """What compiled code depends on besides the shapes of arrays."""

    rate: float
    decay: float
    image: tuple[int, ...] | None
    n_actions: int
    n_rewards: int


@partial(jax.jit, static_argnames="fixed")
def _assess(
    weights: Any, temperature: Any, train: TrainingBatch, held: TrainingBatch, fixed: Fixed
) -> tuple[LatentTables, Any, Any]:
    log_q = decoded(weights, train, fixed.image, temperature)
    tables = settled(log_q, train, fixed.n_actions, fixed.n_rewards)
    theirs = log_likelihood(decoded(weights, held, fixed.image, temperature), tables, held)
    return tables, theirs, mean(log_likelihood(log_q, tables, train), train)


@partial(jax.jit, static_argnames="fixed")
def _advance(state: FitState, train: TrainingBatch, held: TrainingBatch, fixed: Fixed) -> FitState:
    rule = optax.adamw(fixed.rate, weight_decay=fixed.decay)
    total = train.weight.sum()

    def step(state: FitState, _: None) -> tuple[FitState, None]:
        (slope, ascent), log_q = jax.grad(loss, argnums=(0, 1), has_aux=True)(
            state.weights, state.tables, train, state.guide, fixed.image
        )
        tables = maximised(state.tables, jax.tree.map(lambda g: -total * g, ascent), log_q, train)
        updates, memory = rule.update(slope, state.memory, state.weights)
        return state._replace(weights=optax.apply_updates(state.weights, updates), memory=memory, tables=tables), None

    state = jax.lax.scan(step, state, None, length=EVERY)[0]
    log_q = decoded(state.weights, held, fixed.image)
    value = mean(log_likelihood(log_q, state.tables, held), held)
    value = jnp.where(state.guide > 0, followed(log_q, held), value)
    better, now = value > state.best, state.step + EVERY
    return state._replace(
        step=now,
        best=jnp.where(better, value, state.best),
        best_step=jnp.where(better, now, state.best_step),
        best_weights=jax.tree.map(partial(jnp.where, better), state.weights, state.best_weights),
    )


class NeuralEngine:
    """Trains decoders on the same data, one after another: side by side (`vmap`) is no faster on a CPU, and so each
    ends when it no longer improves.

    Compiled code is kept from fit to fit for as long as settings and shapes are the same.
    """

    def __init__(
        self, settings: NeuralSettings, n_actions: int, n_rewards: int, train: TrainingBatch, held: TrainingBatch
    ) -> None:
        rate, decay = settings.learning_rate, settings.weight_decay
        self.fixed = Fixed(rate, decay, settings.image_shape, n_actions, n_rewards)
        self.train, self.held = (TrainingBatch(*map(jnp.asarray, batch)) for batch in (train, held))

    def assess(self, weights: Any, temperature: float) -> tuple[LatentTables, np.ndarray, float]:
        """Of a decoder that stands still: fitted tables, log-likelihood of held-out transitions [n], mean of others."""
        tables, theirs, ours = _assess(weights, jnp.float32(temperature), self.train, self.held, self.fixed)
        return tables, np.asarray(theirs, dtype=np.float64)[np.asarray(self.held.weight) > 0], float(ours)

    def train_from(self, weights: Any, steps: int, patience: int, *, guided: bool = False) -> FitState:
        """The state when nothing has improved for `patience` steps, after at most `steps`; the start may be the best.

        guided: the labels train the decoder, and their held-out likelihood says which weights are the best.
        """
        weights = {name: jnp.asarray(array) for name, array in weights.items()}
        tables, theirs, _ = self.assess(weights, 1.0)
        memory = optax.adamw(self.fixed.rate, weight_decay=self.fixed.decay).init(weights)
        zero, guide = jnp.int32(0), jnp.float32(guided)
        best = jnp.float32(-np.inf if guided else theirs.mean())
        state = FitState(weights, memory, tables, guide, best, weights, zero, zero)
        for done in range(0, steps, EVERY):
            if done - int(state.best_step) >= patience:
                break
            state = _advance(state, self.train, self.held, self.fixed)
        return state
