"""What should make a reader doubt a policy that was learned from observations.

Two signs of a model that is not the simulator's: what it promises is not what fresh episodes give, and the transitions
that were seen need a rank far above the model's (where it was not chosen by likelihood).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.envs.protocols import Simulator
from tailrank.learning.decoding.choose import label
from tailrank.learning.decoding.rank import numerical_rank
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.observed.ela import ObservedELA
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
            found.append(f"misspecified: {gap}; observations may not be of low rank, or the rank may be too small")
    if isinstance(state, LowRankState):
        return found
    needed, rank = ranks(learner, state, simulator.n_actions, rng)
    if needed > FAR * rank:
        of = (
            f"{rank} was asked for; a table learns every row by itself" if _table(learner) else f"the model's is {rank}"
        )
        found.append(f"misspecified: the transitions that were seen have a numerical rank of at least {needed}, {of}")
    return found


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
