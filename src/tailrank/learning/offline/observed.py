"""Logs of observation vectors: a block decoder finds the states behind them, and the rest is as with states.

The decoder (`learning/decoding/mixture.py`) is fitted to the observations of the log. If it is right, an observation
tells its latent, and next latent and reward depend on latent and action alone, then the bounds are those of a log of
latents. The records cannot show that it is right, so every bound says "if the model class holds the truth".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.decoding.mixture import fill_mixture, fit_mixture
from tailrank.models.grid import BudgetGrid
from tailrank.policies.decoders.base import Decoder, decode
from tailrank.policies.decoders.mixture import MixtureDecoder
from tailrank.policies.observed import ObservationPolicy, ObservedPlan
from tailrank.policies.tables import BudgetPolicy

CLASS = "if the model class holds the truth: every observation tells its latent state"
SAMPLE = 5000
"""Observations that the decoder is fitted to."""


def decoded(log: EpisodeLog, rank: int, rng: np.random.Generator) -> tuple[EpisodeLog, Decoder]:
    """The log with latents in place of observations, and the decoder that finds them. rank: most latents."""
    if log.observation is None or log.next_observation is None:
        raise InputError(f"{log.name}: has no observation vectors")
    sample = log.observation[np.sort(rng.permutation(log.transitions)[:SAMPLE])]
    decoder = fitted_decoder(sample, rank, rng)
    state, following = decode(decoder, 0, log.observation), log.next_state.copy()
    inside = (log.next_state >= 0) & (log.next_state < len(log.states))
    following[inside] = decode(decoder, 0, log.next_observation[inside])
    used, place = np.unique(np.concatenate([state, following[inside]]), return_inverse=True)
    following[inside] = place[state.size :]
    following[log.next_state == len(log.states)] = used.size
    fitted = replace(decoder, centres=decoder.centres[:, used], log_weights=decoder.log_weights[:, used])
    latents = replace(
        log,
        state=place[: state.size].astype(np.int32),
        next_state=following.astype(np.int32),
        states=tuple(range(used.size)),
        observation=None,
        next_observation=None,
    )
    return latents, fitted


def fitted_decoder(sample: np.ndarray, rank: int, rng: np.random.Generator) -> MixtureDecoder:
    """The decoder of observations [n, m] that is worth its latents: a mixture, or a cut of the space into 2..rank
    parts.

    Compared is the likelihood of the observations and their latents together, with the price of the parameters:
    cutting a round cloud in two gains less than naming the half costs, while clouds that lie apart pay for a latent
    each.
    """
    choices = [fit_mixture([sample], rank, rng=rng)]
    choices += [fill_mixture([sample], k, rng=rng) for k in range(2, rank + 1)]
    return min(choices, key=lambda one: _price(sample, decode(one, 0, sample)))


def _price(sample: np.ndarray, latents: np.ndarray) -> float:
    """Nats for observations [n, m] and their latents [n], with one variance for each feature within latents."""
    n, m = sample.shape
    found, place, counts = np.unique(latents, return_inverse=True, return_counts=True)
    sums = np.zeros((found.size, m))
    np.add.at(sums, place, sample)
    within = ((sample - (sums / counts[:, None])[place]) ** 2).mean(axis=0)
    spread = np.maximum(within, 1e-12 * np.maximum(sample.var(axis=0), 1e-300))
    names = -float((counts * np.log(counts / n)).sum())
    return 0.5 * n * float(np.log(spread).sum()) + names + 0.5 * found.size * (m + 1) * np.log(n)


def observation_policy(policy: BudgetPolicy, decoder: Decoder, n_actions: int) -> ObservationPolicy:
    """A policy on latents as one on observations: it decodes what it sees, and acts on that and on its budget."""
    H, K = policy.first.shape
    tables = []
    for h in range(H):
        size = int(policy.offset[h, 1] - policy.offset[h, 0])
        played = policy.actions[policy.offset[h, 0] : policy.offset[h, K]].reshape(K, size).astype(np.int64)
        values = np.ones((K, n_actions, size))  # the played action falls short of nothing, the others do
        np.put_along_axis(values, played[:, None, :], 0.0, axis=1)
        tables.append(values)
    plan = ObservedPlan(tuple(tables), policy.budget, 0.0, np.zeros(tables[0].shape[2]))
    moves = np.full((1, K, n_actions, K), 1.0 / K)
    return ObservationPolicy(decoder, plan, _undiscounted(policy.grid), np.full((1, K), 1.0 / K), moves, filtered=False)


def _undiscounted(grid: BudgetGrid) -> BudgetGrid:
    if grid.discount != 1.0:
        raise InputError("discount: must be 1 with observation vectors")
    return grid
