"""What outputs earn in a model of trees: the evidence beside few fresh episodes.

A tail of ten fresh episodes is one episode: policies that fail once in ten and once in a hundred look the same. The
model of trees knows both from all that was played, and has no part in the plans of kernel models and networks. But the
search was made in it, and promises more there than it keeps. So its episodes only stand in for real ones that are
missing: they count as many as a tail of `FEWEST` lacks, `WEIGHT` at most. A fifth of imagined episodes would be all of
a tail of a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailrank.episodes.rollout import play_simulator
from tailrank.learning.search.model import ImaginedSimulator, TreeModel
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.tables import Policy
from tailrank.risk.law import cvar

WEIGHT = 20
STEPS, LEAST = 20_000, 50
"""Steps of the imagined episodes of an output, about; and episodes, at least."""
WIDEST = 64
"""Observations with more features have no model of trees."""
MOST = 200_000
"""Transitions of the model, at most."""
FEWEST = 5
"""A tail of fewer episodes than this, imagined ones included, is widened."""


def imagined_returns(
    played: PlayedEpisodes, n_actions: int, policies: Sequence[Policy], rng: np.random.Generator
) -> np.ndarray:
    """Returns [policies, n] in the same imagined episodes; n = 0 where there are too many features."""
    if played.n_features > WIDEST or len(policies) < 2:
        return np.zeros((len(policies), 0))
    model = TreeModel.of(played, played.transitions(MOST, rng), n_actions)
    seeds = rng.integers(2**31, size=max(STEPS // played.horizon, LEAST))
    found = [play_simulator(policy, ImaginedSimulator(model), seeds).returns for policy in policies]
    return np.asarray(np.maximum(np.stack(found), model.worst))


def imagined_weight(n: int, tau: float) -> float:
    """How many real episodes imagined ones count as together, beside n real ones.

    >>> [imagined_weight(n, 0.1) for n in (10, 35, 50, 1000)]
    [20.0, 15.0, 0.0, 0.0]
    """
    return min(float(WEIGHT), max(FEWEST / tau - n, 0.0))


def weighed_cvar(real: np.ndarray, imagined: np.ndarray, tau: float) -> float:
    """CVaR of returns [n] with imagined ones [k] (`imagined_weight`); of few episodes a larger tail is taken.

    >>> round(weighed_cvar(np.zeros(5), np.full(7, -1.0), 0.2), 9)
    -1.0
    >>> round(weighed_cvar(np.zeros(25), np.full(7, -1.0), 0.2), 9)
    0.0
    >>> round(weighed_cvar(np.arange(10.0), np.zeros(0), 0.1), 9)
    2.0
    """
    weight = imagined_weight(real.size, tau) if imagined.size else 0.0
    values = np.concatenate([real, imagined])
    probs = np.concatenate([np.ones(real.size), np.full(imagined.size, weight / max(imagined.size, 1))])
    total = real.size + weight
    return cvar(values, min(max(tau, FEWEST / total), 1.0), probs / probs.sum())
