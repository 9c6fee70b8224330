"""ELA on observations with the model chosen by likelihood: a block decoder, or a low-rank model.

The block decoder (`observed/ela.py`) is the simpler model. Both explain the same held-out episodes, in the same units
(log P(x', r | x, a) / P(x'), normalised on the observed next states), and the low-rank model is in charge as long as it
wins by more than three standard errors. The comparison is made after the pilot and whenever the data has grown by half.
Where the block decoder is in charge every iteration is that of `ObservedELA`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import Observed, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import MODELS as DECODERS
from tailrank.learning.decoding.choose import judged
from tailrank.learning.lowrank.oracle import LowRankFit, LowRankOracle, gains
from tailrank.learning.lowrank.planning import ObservedSupport, exploration_of, policy_for, support_of
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.lowrank.transitions import HELD
from tailrank.learning.observed.ela import ObservedELA, ObservedInfo, Output, remember
from tailrank.learning.observed.state import ObservedState
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.observed import ObservationPolicy

MODELS = ("auto", "lowrank", *DECODERS)
"""Models of observations: chosen by likelihood, always of low rank, or a decoder of this kind."""
AGAIN = 1.5
"""The models are compared when there are this many times as many episodes as at the last comparison."""
REFIT = 1.5
"""The low-rank model is fitted again when there are this many times as many episodes."""
CLEAR = 3.0
"""Standard errors by which the low-rank model must win: it is tried many times."""
SHARE = 0.1
"""Episodes between two plans of a low-rank model, as a share of all so far."""


@dataclass(frozen=True)
class LowRankELA:
    """The learner. block: the simpler one, whose settings of collection and schedule hold for both.

    always: the low-rank model is in charge whatever the likelihood says.
    """

    block: ObservedELA
    oracle: LowRankOracle = LowRankOracle()  # noqa: RUF009 (frozen)
    always: bool = False

    @property
    def tau(self) -> float:
        """The tail that plans are made for."""
        return self.block.tau

    def init(self, simulator: Simulator, streams: Streams) -> LowRankState:
        """The pilot, which goes on until one of the models sees what actions do."""
        state, compared = None, 0
        for block in self.block.pilots(simulator, streams):
            if state is None or block.episodes >= 2 * compared:
                state, compared = self._compared(block, simulator, streams, None), block.episodes
                if state.fit is not None:
                    return state
        return LowRankState(block, block.policy, compared=compared)

    def step(self, state: LowRankState, simulator: Simulator, streams: Streams) -> tuple[LowRankState, ObservedInfo]:
        """One iteration."""
        if state.fit is None:
            block, info = self.block.step(state.block, simulator, streams)
            state = replace(state, block=block, policy=block.policy)
            if info.refitted and state.episodes >= AGAIN * state.compared:
                state = self._compared(block, simulator, streams, state)
            return state, info
        k = state.k + 1
        batch = max(self.block.batch, round(max(self.block.growth, SHARE) * state.episodes))
        played = play_simulator(state.policy, simulator, streams.train_seeds(k, batch), keep_features=True)
        remember(state.block.replay, state.block.grid, played, simulator.name)
        state = replace(state, block=replace(state.block, k=k))
        refit = state.episodes >= REFIT * state.fitted_at
        if refit and state.episodes >= AGAIN**2 * state.compared and not self.always:
            block = self.block.refitted(state.block, simulator, streams)
            state = self._compared(block, simulator, streams, state)
        elif refit:
            state = self._fitted(state, simulator, streams)
        elif state.fit is not None:
            fit = self.oracle.updated(state.fit, state.block.replay, rng=streams.oracle(k, 2))
            state = replace(state, fit=fit)
        if state.fit is not None:
            state = self._planned(state, simulator)
        return state, self._info(state, played, refit)

    def greedy(self, state: LowRankState, simulator: Simulator) -> ObservationPolicy | LowRankPolicy:
        """The policy that the model in charge believes to be best, without bonus."""
        if state.fit is None:
            return self.block.greedy(state.block, simulator)
        return policy_for(state.fit, self._support(state), simulator.horizon, self.tau)

    def promise(self, state: LowRankState, simulator: Simulator) -> float:
        """The CVaR that the model in charge promises of its greedy plan."""
        policy = self.greedy(state, simulator)
        if isinstance(policy, LowRankPolicy):
            return policy.plan.objective
        return self.block.promise(state.block, simulator)

    def output(self, state: LowRankState, simulator: Simulator, streams: Streams, episodes: int) -> Output:
        """The policy to use: see `ObservedELA.output`. A low-rank model is fitted to all episodes first, and has one plan."""
        if state.fit is None:
            return self.block.output(state.block, simulator, streams, episodes)
        return Output(self.greedy(self._fitted(state, simulator, streams), simulator), 0.0, 0.0)

    def promise_error(self, state: LowRankState, simulator: Simulator, rng: np.random.Generator) -> float:
        """Standard error of the promise: what as many episodes of the policy as were played would tell of its CVaR."""
        if state.fit is None:
            return self.block.promise_error(state.block, simulator, rng)
        plan, returns = (
            policy_for(state.fit, self._support(state), simulator.horizon, self.tau).plan,
            state.replay.rewards.sum(axis=1),
        )
        short = np.maximum(plan.budget - returns[-max(returns.size // 2, 1) :], 0.0)
        return float(short.std() / self.tau / np.sqrt(returns.size)) + plan.grid_error + plan.support_error / 2

    def cautious_promise(self, state: LowRankState, simulator: Simulator) -> float:
        """The CVaR that is still promised with caution; a low-rank model knows none."""
        if state.fit is None:
            return self.block.cautious_promise(state.block, simulator)
        return self.promise(state, simulator)

    def resumed(self, state: LowRankState, simulator: Simulator) -> LowRankState:
        """A state from a checkpoint, with its plan, which follows from it."""
        if state.fit is not None:
            return self._planned(state, simulator)
        block = self.block.resumed(state.block, simulator)
        return replace(state, block=block, policy=block.policy)

    def _compared(
        self, block: ObservedState, simulator: Simulator, streams: Streams, last: LowRankState | None
    ) -> LowRankState:
        """Fit a low-rank model, and put in charge whichever explains the held-out episodes."""
        n = block.episodes
        before = None if last is None else last.fit
        fit = self.oracle.fit(block.replay, simulator.n_actions, rng=streams.oracle(block.k, 1, n), last=before)
        if not self.always and not self._wins(block, fit, simulator.n_actions, before is not None):
            return LowRankState(block, block.policy, compared=n)
        return self._planned(self._supported(LowRankState(block, block.policy, fit, None, n, n), streams), simulator)

    def _wins(self, block: ObservedState, fit: LowRankFit, n_actions: int, charge: bool) -> bool:
        """Whether the low-rank model explains held-out transitions better than the block decoder, beyond chance.

        charge: it is in charge already, and stays so unless it is worse beyond chance.
        """
        replay, shared = block.replay, self.block.oracle.shared
        held = np.flatnonzero(np.arange(replay.n) % HELD == 0)
        old = judged(block.fitted.decoder, replay, n_actions, block.grid.top, shared, held)
        t, new = gains(fit, replay, n_actions, by_step=not shared)
        keep = t.held & ~t.cut if shared and replay.horizon > 1 else t.held
        gain = new[keep] - old
        return bool(gain.mean() > (-CLEAR if charge else CLEAR) * gain.std() / np.sqrt(gain.size))

    def _fitted(self, state: LowRankState, simulator: Simulator, streams: Streams) -> LowRankState:
        rng = streams.oracle(state.k, 1, state.episodes)
        fit = self.oracle.fit(state.block.replay, simulator.n_actions, rng=rng, last=state.fit)
        return self._supported(replace(state, fit=fit, fitted_at=state.episodes), streams)

    def _supported(self, state: LowRankState, streams: Streams) -> LowRankState:
        if state.fit is None:
            return state
        return replace(state, support=support_of(state.fit, state.block.replay, streams.planner(state.k, 1)))

    def _planned(self, state: LowRankState, simulator: Simulator) -> LowRankState:
        if state.fit is None:
            return state
        exploration = None
        if self.block.bonus != "none":
            exploration = exploration_of(state.fit, state.replay, self.block.schedule, state.k)
        policy = policy_for(state.fit, self._support(state), simulator.horizon, self.tau, exploration)
        return replace(state, policy=policy)

    def _support(self, state: LowRankState) -> ObservedSupport:
        if state.support is None:
            raise InputError("state: a low-rank model without its support")
        return state.support

    def _info(self, state: LowRankState, played: Observed, refit: bool) -> ObservedInfo:
        plan = state.policy.plan
        latents = 0 if state.fit is None else state.fit.setting.rank
        held_out = state.block.fitted.held_out if state.fit is None else state.fit.held_out
        return ObservedInfo(played.returns, plan.objective, 0.0, 0.0, held_out, latents, refit, plan.support_error)
