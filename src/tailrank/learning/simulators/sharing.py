"""Which episodes a candidate explores, how many of them at once, and the returns of several on the same seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import Observed
from tailrank.learning.simulators.candidates import FittedCandidate, practising

MOST_KEPT = 20_000_000
"""Numbers of features in a rollout; more episodes are played one part after the other."""


def shared_seeds(seeds: np.ndarray, fitted: Sequence[FittedCandidate]) -> list[np.ndarray]:
    """The seeds [n] that each candidate explores, all of them before the first fit.

    Candidates that learn from whatever was played get the same share. One that practises gets as much as those
    together: what it plays next hangs on what it played itself.
    """
    others = sum(practising(fit) is None for fit in fitted)
    weights = np.array([1.0 if practising(fit) is None else max(others, 1) for fit in fitted] or [1.0])
    cuts = np.rint(np.cumsum(weights)[:-1] / weights.sum() * seeds.size).astype(np.int64)
    return np.split(seeds, cuts)


def portions(seeds: np.ndarray, fit: FittedCandidate | None, env: Simulator) -> Iterator[np.ndarray]:
    """Parts of the seeds that are played one after the other: what fits into memory, or what a fit that learns as
    it plays wants to be told of at once."""
    most, at = max(MOST_KEPT // ((env.horizon + 1) * env.n_features), 1), 0
    learning = None if fit is None else practising(fit)
    most = most if learning is None else min(most, learning.portion)
    while at < seeds.size:
        # A rest of less than half a portion belongs to the last one.
        size = seeds.size - at if seeds.size - at < 1.5 * most else most
        yield seeds[at : at + size]
        at += size


def bare(batch: Observed) -> Observed:
    """The same without what was seen."""
    return replace(batch, features=None, allowed=None)


def joined(parts: Sequence[Observed], env: Simulator) -> Observed:
    """Bare portions as one rollout. Where bad episodes are left out, a portion may have none: a few, or one, were asked
    of it. All together must have one."""
    names = ("actions", "rewards", "returns", "lengths", "seeds")
    found = Observed(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    if not found.seeds.size:
        raise InputError(f"{env.name}: no episode went well; first {getattr(env, 'first_bad', 'unknown')}")
    return found


def on_same_seeds(batches: Sequence[Observed], n: int) -> np.ndarray:
    """Returns [batches, at most n] on the first n seeds, without those on which an episode of some batch went wrong;
    where these are all, as many as each batch has, on whatever seeds."""
    if all(batch.seeds.size >= n for batch in batches):
        return np.stack([batch.returns[:n] for batch in batches])
    shared = batches[0].seeds
    for batch in batches:
        shared = shared[np.isin(shared, batch.seeds)]
    if not shared.size:
        return np.stack([batch.returns[: min(one.seeds.size for one in batches)] for batch in batches])
    return np.stack([batch.returns[np.isin(batch.seeds, shared)] for batch in batches])
