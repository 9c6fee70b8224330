"""What should make a reader doubt a policy that was learned from observations, each in a word with one meaning.

- *misspecified*: the model cannot be right, however much data there is. What it leaves open of the next observation
  can be told from the observation (`residuals.py`), or the transitions seen need a rank far above a decoder's.
- *too little data*, *overpromised*: the model promises another CVaR than fresh episodes give. A plan is the best of
  many, so it profits from errors of the model: that happens with right models, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.envs.protocols import Simulator
from tailrank.learning.decoding.choose import label
from tailrank.learning.decoding.rank import numerical_rank
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.observed.ela import ObservedELA
from tailrank.learning.observed.residuals import LeftOpen, left_open
from tailrank.learning.observed.state import ObservedState

FAR = 2
"""A rank this many times that of the model is far above it."""


def doubts(
    learner: Any,
    state: Any,
    simulator: Simulator,
    interval: tuple[float, float],
    rng: np.random.Generator,
) -> list[str]:
    """One line for each reason to doubt what an `ObservedELA` or a `LowRankELA` learned.

    interval: of the policy's CVaR, or other objective, in fresh episodes.
    """
    found = []
    if isinstance(state, LowRankState) and state.fit is None:
        learner, state = learner.block, state.block
    if not state.converged:
        found.append("the decoder's training did not converge")
    promised, (low, high) = learner.promise(state, simulator), interval
    error = 2 * learner.promise_error(state, simulator, rng)
    if not low - error <= promised <= high + error:
        gap = (
            f"the model promises a {learner.goal.said_as} of {promised:.4g} (give or take {error:.2g}), "
            f"fresh episodes give {low:.4g} to {high:.4g}"
        )
        sure = learner.cautious_promise(state, simulator)
        if sure - error <= high < promised:
            found.append(f"too little data: {gap}; of what was tried so rarely no more than {sure:.4g} is certain")
        else:
            found.append(f"overpromised: {gap}; a plan profits from errors of its model")
    missed = missed_by(learner, state, simulator.n_actions, rng)
    if missed.clear:
        found.append(
            f"misspecified: {missed.share:.1%} (give or take {2 * missed.error:.1%}) of what the model leaves open of "
            "the next observation can be told from the observation and the action"
        )
    if isinstance(state, LowRankState):
        return found
    needed, rank = ranks(learner, state, simulator.n_actions, rng)
    if needed > FAR * rank:
        seen = f"the transitions that were seen have a numerical rank of at least {needed}"
        if _table(learner):
            found.append(f"high rank: {seen}, {rank} was asked for; a table learns every row by itself")
        else:
            found.append(f"misspecified: {seen}, the model's is {rank}")
    return found


def missed_by(learner: Any, state: Any, n_actions: int, rng: np.random.Generator) -> LeftOpen:
    """What the model of this state leaves open that the observation tells; nothing for a table, which tells all."""
    replay = state.replay
    if isinstance(state, LowRankState) and state.fit is not None:
        network, setting = state.fit.network, state.fit.setting
        summary = np.zeros((replay.n, replay.horizon, network.sizes[0]))
        for h in range(replay.horizon):
            kinds = network.split(h, replay.features[:, h])[0]
            summary[:, h] = kinds[np.arange(replay.n), replay.actions[:, h]]
        shared = setting.shared_heads and setting.shared_psi
        return left_open(replay, summary, n_actions, shared=shared, rng=rng)
    if _table(learner):
        return LeftOpen(0.0, 0.0)
    pair = label(state.fitted.decoder, replay).astype(np.int64) * n_actions + replay.actions
    return left_open(replay, pair, n_actions, shared=learner.oracle.shared, rng=rng)


def ranks(learner: ObservedELA, state: ObservedState, n_actions: int, rng: np.random.Generator) -> tuple[int, int]:
    """The rank that the transitions need at least, and that of the model: how many latents it was given.

    A table has as many latents as there are observations, so there it is the rank that was asked for.
    """
    decoder, oracle = state.fitted.decoder, learner.oracle
    labels = label(decoder, state.replay) if _table(learner) else None
    needed = numerical_rank(state.replay, n_actions, shared=oracle.shared, rng=rng, labels=labels)
    return needed, oracle.largest_rank if _table(learner) else decoder.n_latents


def _table(learner: ObservedELA) -> bool:
    return learner.oracle.model == "table"
