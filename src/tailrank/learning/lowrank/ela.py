"""ELA on observations with the model chosen by likelihood: a block decoder, or a low-rank model.

The block decoder (`observed/ela.py`) is the simpler model. Both explain the same held-out episodes, in the same units
(log P(x', r | x, a) / P(x'), normalised on the observed next states). The low-rank model takes over when it wins by
more than two standard errors (`leads.py`), and stays as long as it leads. The comparison is made after the pilot and
whenever the data has grown by half; a quick fit is compared first, and what it says is enough unless it wins.
Where the block decoder is in charge every iteration is that of `ObservedELA`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from tailrank._system.settings import fixed
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.replay import Replay, RollIns
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import judged
from tailrank.learning.decoding.settings import CHOSEN
from tailrank.learning.lowrank.collection import rolled_in
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.learning.lowrank.gains import gains
from tailrank.learning.lowrank.leads import lead_of
from tailrank.learning.lowrank.oracle import LowRankFit, LowRankOracle
from tailrank.learning.lowrank.pace import share_between_plans
from tailrank.learning.lowrank.planning import ObservedSupport, exploration_of, policy_for, support_of
from tailrank.learning.lowrank.settings import LowRankSettings
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.lowrank.transitions import HELD
from tailrank.learning.observed.ela import ObservedELA
from tailrank.learning.observed.info import ObservedInfo, Output
from tailrank.learning.observed.reward_grid import RewardGrid, remember
from tailrank.learning.observed.state import ObservedState
from tailrank.policies.lowrank import Exploration, LowRankPolicy

AGAIN = 1.5
"""The models are compared when there are this many times as many episodes as at the last comparison."""
REFIT = 1.5
"""The low-rank model is fitted again when there are this many times as many episodes."""
CLEAR = 2.0
"""Standard errors by which the low-rank model must win. It stays in charge as long as it leads at all; the simpler
model is taken unless beaten."""
LEAST = 40
"""Episodes below which models are not compared: a fifth is held out, and the error of so few is itself not known."""
HOPEFUL = 1.0
"""Standard errors by which a quick candidate (`LowRankOracle.candidate`) must win to be worth a search for the best
settings. Where both were made (a rich and a low-rank lock, 11 comparisons), the search added -.1 to 3.3 to the lead."""
LOST, WAITS = 5.0, 2
"""A model that lost by so many standard errors is compared again as if there had been so many times the episodes."""


@dataclass(frozen=True)
class LowRankELA(ObservedELA, LowRankSettings):
    """ELA (Algorithm 1) on observations.

    Where `model` is "auto" the likelihood decides between a mixture and a low-rank model; "lowrank" is always the
    second, of the rank that is given unless it is "auto". Any other model is that of `ObservedELA`.
    rewards: their laws, where they are known (`KnownRewards.of(simulator)`: those that it tells). The model is then
    the low-rank one. For Python only: a policy that holds functions cannot be saved.
    phi, psi: what they are (`units.py`, `psi.py`); phi = "auto": what explains held-out transitions best.
    collect: whole episodes of the plan, or H episodes with two uniform actions each, as in Algorithm 1; "rollins"
    learns from the steps before these actions too, "printed" does not.
    """

    lowrank: LowRankOracle = fixed(LowRankOracle())
    rewards: KnownRewards | None = fixed(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rewards is not None and not self.chooses:
            raise InputError(f"rewards: known laws need the model auto or lowrank, found {self.oracle.model!r}")
        if self.collect != "plan" and not self.always:
            raise InputError(f"collect = {self.collect!r}: is for model = 'lowrank', found {self.oracle.model!r}")

    @property
    def chooses(self) -> bool:
        """Whether there may be a low-rank model."""
        return self.oracle.model in CHOSEN

    @property
    def always(self) -> bool:
        """Whether the low-rank model is in charge whatever the likelihood says."""
        return self.oracle.model == "lowrank" or self.rewards is not None

    @property
    def block(self) -> ObservedELA:
        """The learner with the simpler model and the same settings."""
        values = {f.name: getattr(self, f.name) for f in fields(ObservedELA)}
        return ObservedELA(**values | {"oracle": replace(self.oracle, model="mixture", rank=self._block_rank)})

    @property
    def _block_rank(self) -> int | str:
        return "auto" if self.oracle.shared else 3 if self.oracle.rank == "auto" else self.oracle.rank

    @property
    def _oracle(self) -> LowRankOracle:
        rank = self.oracle.rank if self.oracle.model == "lowrank" else self.lowrank.rank
        return replace(self.lowrank, rank=rank, phi=self.phi, psi=self.psi, known=self.rewards)

    def init(self, simulator: Simulator, streams: Streams) -> Any:
        """The pilot, which goes on until one of the models sees what actions do."""
        if not self.chooses:
            return super().init(simulator, streams)
        state, compared = None, 0
        for block in self.block.pilots(simulator, streams):
            if state is None or block.episodes >= 2 * compared:
                state, compared = self._compare(block, simulator, streams, None), block.episodes
                if state.fit is not None:
                    return state
        return LowRankState(block, block.policy, compared=compared)

    def step(self, state: Any, simulator: Simulator, streams: Streams) -> tuple[Any, ObservedInfo]:
        """One iteration."""
        if not isinstance(state, LowRankState):
            return super().step(state, simulator, streams)
        if state.fit is None:
            block, info = self.block.step(state.block, simulator, streams)
            state = replace(state, block=block, policy=block.policy)
            if info.refitted and state.episodes >= AGAIN * state.compared:
                state = self._compare(block, simulator, streams, state)
            return state, info
        k = state.k + 1
        returns, grid = self._play(state, simulator, streams, k, self.next_batch(state))
        wider, block = grid != state.block.grid, replace(state.block, k=k, grid=grid)
        state = replace(state, block=self.block.refitted(block, simulator, streams) if wider else block)
        refit = wider or state.episodes >= REFIT * state.fitted_at
        if refit and state.episodes >= AGAIN**2 * state.compared and not self.always:
            block = self.block.refitted(state.block, simulator, streams)
            state = self._compare(block, simulator, streams, state)
        elif refit:
            state = self._with_fit(state, simulator, streams)
        elif state.fit is not None:
            fit = self._oracle.updated(state.fit, state.block.replay, rng=streams.oracle(k, 2))
            state = replace(state, fit=fit)
        if state.fit is not None:
            state = self._replanned(state, simulator)
        return state, self._info(state, returns, refit)

    def _play(
        self, state: LowRankState, simulator: Simulator, streams: Streams, k: int, batch: int
    ) -> tuple[np.ndarray, RewardGrid]:
        """Play and remember at least `batch` episodes; their returns, and the grid that holds all rewards."""
        if self.collect == "plan":
            parts = [play_simulator(state.policy, simulator, streams.train_seeds(k, batch), keep_features=True)]
        else:
            seeds = streams.train_seeds(k, -(-batch // simulator.horizon) * simulator.horizon)
            parts = list(rolled_in(state.policy, simulator, seeds, streams.planner(k, 2)))
        grid = state.block.grid
        for played in parts:
            grid = remember(state.block.replay, grid, played, simulator, self.levels)
        return np.concatenate([played.returns for played in parts]), grid

    def next_batch(self, state: Any) -> int:
        """Episodes of the next iteration."""
        share = 0.0
        if isinstance(state, LowRankState) and state.fit is not None:
            share = share_between_plans(state.replay, self.tau)
        return max(self.batch, round(max(self.growth, share) * state.episodes))

    def greedy(self, state: Any, simulator: Simulator, prior: float = 0.0, caution: float = 0.0) -> Any:
        """The policy that the model in charge believes to be best, without bonus."""
        if not isinstance(state, LowRankState):
            return super().greedy(state, simulator, prior, caution)
        if state.fit is None:
            return self.block.greedy(state.block, simulator)
        return self._planned(state, simulator)

    def promise(self, state: Any, simulator: Simulator, caution: float = 0.0) -> float:
        """The CVaR that the model in charge promises of its greedy plan."""
        if not isinstance(state, LowRankState):
            return super().promise(state, simulator, caution)
        policy = self.greedy(state, simulator)
        if isinstance(policy, LowRankPolicy):
            return policy.plan.objective
        return self.block.promise(state.block, simulator)

    def output(self, state: Any, simulator: Simulator, streams: Streams, episodes: int) -> Output:
        """The policy to use: see `ObservedELA.output`. A low-rank model is fitted to all episodes and has one plan."""
        if not isinstance(state, LowRankState):
            return super().output(state, simulator, streams, episodes)
        if state.fit is None:
            return self.block.output(state.block, simulator, streams, episodes)
        return Output(self.greedy(self._with_fit(state, simulator, streams), simulator), 0.0, 0.0)

    def promise_error(self, state: Any, simulator: Simulator, rng: np.random.Generator, draws: int = 20) -> float:
        """Standard error of the promise: what as many episodes of the policy as were played would tell of its CVaR."""
        if not isinstance(state, LowRankState):
            return super().promise_error(state, simulator, rng, draws)
        if state.fit is None:
            return self.block.promise_error(state.block, simulator, rng)
        plan, returns = self._planned(state, simulator).plan, state.replay.rewards.sum(axis=1)
        recent, known = returns[-max(returns.size // 2, 1) :], plan.grid_error + plan.support_error / 2
        if not self.goal.tail:
            again = [self.measure.of(rng.choice(recent, returns.size)) for _ in range(draws)]
            return float(np.std(again)) + known
        short = np.maximum(plan.budget - recent, 0.0)
        return float(short.std() / self.tau / np.sqrt(returns.size)) + known

    def cautious_promise(self, state: Any, simulator: Simulator) -> float:
        """The CVaR that is still promised with caution; a low-rank model knows none."""
        if not isinstance(state, LowRankState):
            return super().cautious_promise(state, simulator)
        if state.fit is None:
            return self.block.cautious_promise(state.block, simulator)
        return self.promise(state, simulator)

    def state_from(self, arrays: dict[str, np.ndarray], replay: Replay) -> Any:
        """The state in a checkpoint with its episodes; its plan is still to be made."""
        if not self.chooses:
            return super().state_from(arrays, replay)
        return LowRankState.from_arrays(arrays, self._marked(replay), self.rewards)

    def _marked(self, replay: Replay) -> Replay:
        """The episodes, told which of their steps are learned from; the pilot's are all."""
        replay.roll_ins = (
            None
            if self.collect == "plan"
            else RollIns(min(self.pilot, self.longest_pilot), counted=self.collect == "rollins")
        )
        return replay

    def resumed(self, state: Any, simulator: Simulator) -> Any:
        """A state from a checkpoint, with its plan, which follows from it."""
        if not isinstance(state, LowRankState):
            return super().resumed(state, simulator)
        if state.fit is not None:
            return self._replanned(state, simulator)
        block = self.block.resumed(state.block, simulator)
        return replace(state, block=block, policy=block.policy)

    def _compare(
        self, block: ObservedState, simulator: Simulator, streams: Streams, last: LowRankState | None
    ) -> LowRankState:
        """Fit a low-rank model, and put in charge whichever explains the held-out episodes."""
        replay, A = self._marked(block.replay), simulator.n_actions
        n, before = replay.n, None if last is None else last.fit
        if before is None and not self.always:
            if n < LEAST:
                return self._kept(block, 0.0)
            quick = self._oracle.candidate(replay, A, rng=streams.oracle(block.k, 3, n))
            lead = self._lead(block, quick, A)
            if lead <= HOPEFUL:
                return self._kept(block, lead)
        fit = self._oracle.fit(replay, A, rng=streams.oracle(block.k, 1, n), last=before)
        if not self.always:
            lead = self._lead(block, fit, A)
            if lead <= (CLEAR if before is None else 0.0):
                return self._kept(block, lead)
        return self._replanned(self._supported(LowRankState(block, block.policy, fit, None, n, n), streams), simulator)

    def _kept(self, block: ObservedState, lead: float) -> LowRankState:
        """The block model stays in charge; by how many standard errors the other one won says when to look again."""
        return LowRankState(block, block.policy, compared=block.replay.n * (1 if lead > -LOST else WAITS))

    def _lead(self, block: ObservedState, fit: LowRankFit, n_actions: int) -> float:
        """By how many standard errors the low-rank model explains held-out transitions better than the block one."""
        replay, shared = block.replay, self.oracle.shared
        held = np.flatnonzero(np.arange(replay.n) % HELD == 0)
        old = judged(block.fitted.decoder, replay, n_actions, block.grid.top, shared, held)
        t, new = gains(fit, replay, n_actions, by_step=not shared)
        keep = t.held & ~t.cut if shared and replay.horizon > 1 else t.held
        return lead_of(new[keep] - old, t.episode[keep])

    def _with_fit(self, state: LowRankState, simulator: Simulator, streams: Streams) -> LowRankState:
        rng = streams.oracle(state.k, 1, state.episodes)
        fit = self._oracle.fit(state.block.replay, simulator.n_actions, rng=rng, last=state.fit)
        return self._supported(replace(state, fit=fit, fitted_at=state.episodes), streams)

    def _supported(self, state: LowRankState, streams: Streams) -> LowRankState:
        if state.fit is None:
            return state
        return replace(state, support=support_of(state.fit, state.block.replay, streams.planner(state.k, 1)))

    def _replanned(self, state: LowRankState, simulator: Simulator) -> LowRankState:
        if state.fit is None:
            return state
        exploration = None
        if self.bonus != "none":
            exploration = exploration_of(state.fit, state.replay, self.schedule, state.k)
        return replace(state, policy=self._planned(state, simulator, exploration))

    def _planned(
        self, state: LowRankState, simulator: Simulator, exploration: Exploration | None = None
    ) -> LowRankPolicy:
        """The plan in the low-rank model of the state."""
        measure = None if self.goal.tail else self.measure
        return policy_for(*fitted(state), simulator.horizon, self.tau, exploration, measure, self.undominated)

    def _info(self, state: LowRankState, returns: np.ndarray, refit: bool) -> ObservedInfo:
        plan = state.policy.plan
        latents = 0 if state.fit is None else state.fit.setting.rank
        held_out = state.block.fitted.held_out if state.fit is None else state.fit.held_out
        objective = min(plan.objective, state.block.most) if self.goal.tail else plan.objective
        return ObservedInfo(returns, objective, 0.0, 0.0, held_out, latents, refit, plan.support_error)


def fitted(state: LowRankState) -> tuple[LowRankFit, ObservedSupport]:
    """The low-rank model of a state in which one is in charge, and its support."""
    if state.fit is None or state.support is None:
        raise InputError("state: no low-rank model, or one without its support")
    return state.fit, state.support
