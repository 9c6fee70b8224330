"""The likelihood of an encoder's transitions, and gradient steps, in JAX.

With z standardised over the batch, e = (z, z - z before, other numbers) and n transitions in the batch,

    log P(x', r, end | x, a) = log softmax_j -1/2 sum_k s_k (mu_a(e)_k - z'_jk)^2, at the j that followed,
                               + log N(r; m, v) + log P(end),        m, P(end): functions of e, z' and a

The softmax is over the next images that were seen in the batch: the likelihood of x' among them, with a kernel of low
rank, phi . psi. s_k says how well number k can be foreseen; one that cannot (a signal) may still tell the reward.
Distances between z therefore mean what can happen next, which is what models by neighbours and trends need. Shapes are
the same at every call, so that a step is compiled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tailrank.policies.images import embedded

LEAST = 0.01
"""Of the variance of rewards: errors smaller than this do not count."""
QUICK = 10.0
"""A precision is the exponential of its weight times this: it has to follow the rest at once."""
RULE = optax.scale_by_adam()


class SegmentBatch(NamedTuple):
    """B pieces of episodes with L steps: images (uint8 [B, L + 2, rows, columns, channels] each: one before, those of
    the steps, one after), rest [B, L + 2, k], action, reward, ended and played [B, L] (False: after the end)."""

    images: tuple[Any, ...]
    rest: Any
    action: Any
    reward: Any
    ended: Any
    played: Any


def standard(raw: Any) -> Any:
    """Numbers [n, d] with mean 0 and deviation 1."""
    centre = raw.mean(axis=0)
    return (raw - centre) / jnp.sqrt(((raw - centre) ** 2).mean(axis=0) + 1e-6)


def log_likelihoods(weights: Any, fixed: Any, batch: SegmentBatch) -> tuple[Any, Any, Any]:
    """Log P of the next image, of the reward and of the end, [B L] each (of steps that were not played: 0)."""
    B, L = batch.action.shape
    images = tuple(x.reshape(B * (L + 2), *x.shape[2:]).astype(jnp.float32) for x in batch.images)
    z = standard(embedded(jnp, {**weights, **fixed}, images)).reshape(B, L + 2, -1)
    now, after = z[:, 1:-1].reshape(B * L, -1), z[:, 2:].reshape(B * L, -1)
    moved = now - z[:, :-2].reshape(B * L, -1)
    rest = batch.rest[:, 1:-1].reshape(B * L, -1)
    action, played = batch.action.reshape(-1), batch.played.reshape(-1)
    seen = jnp.concatenate([now, moved, rest], axis=1)
    inner = jnp.tanh(seen @ weights["next"] + weights["next.action"][action])
    mean = now + jnp.einsum("nf,nfd->nd", inner, weights["next.out"][action])
    precision = jnp.exp(QUICK * weights["precision"])
    wrong = (precision * (mean[:, None] - after[None]) ** 2).sum(axis=2)
    odds = jnp.where(played[None, :], -0.5 * wrong, -jnp.inf)
    image = jnp.diagonal(jnp.where(played[None, :], odds, 0.0)) - jax.nn.logsumexp(odds, axis=1)
    both = jnp.concatenate([seen, after], axis=1)
    paid = jnp.tanh(both @ weights["paid"] + weights["paid.action"][action]) @ weights["paid.out"]
    paid = paid + weights["paid.bias"][action]
    variance = LEAST + jnp.exp(weights["variance"])
    reward = -0.5 * (jnp.log(variance) + (paid[:, 0] - batch.reward.reshape(-1)) ** 2 / variance)
    end = -optax.sigmoid_binary_cross_entropy(paid[:, 1], batch.ended.reshape(-1))
    image, reward, end = (jnp.where(played, x, 0.0) for x in (image, reward, end))
    return image, reward, end


def loss(weights: Any, fixed: Any, batch: SegmentBatch) -> Any:
    """Minus the mean log-likelihood of the transitions."""
    return -sum(log_likelihoods(weights, fixed, batch)).sum() / jnp.maximum(batch.played.sum(), 1)


@jax.jit
def advance(weights: Any, memory: Any, fixed: Any, batches: SegmentBatch, rates: Any) -> tuple[Any, Any, Any]:
    """A gradient step for each batch (arrays [steps, ...]), with rates [steps]; and the mean loss."""

    def step(state: tuple[Any, Any], given: tuple[SegmentBatch, Any]) -> tuple[tuple[Any, Any], Any]:
        (weights, memory), (batch, rate) = state, given
        value, slope = jax.value_and_grad(loss)(weights, fixed, batch)
        updates, memory = RULE.update(slope, memory, weights)
        return (jax.tree.map(lambda w, u: w - rate * u, weights, updates), memory), value

    (weights, memory), losses = jax.lax.scan(step, (weights, memory), (batches, rates))
    return weights, memory, losses.mean()


@jax.jit
def mean_loss(weights: Any, fixed: Any, batches: SegmentBatch) -> Any:
    """The mean loss of batches (arrays [steps, ...])."""
    return jax.lax.map(lambda batch: loss(weights, fixed, batch), batches).mean()
