"""ELA on observations: the loop of Algorithm 1 where states are never seen, only what they look like.

Every iteration k
- plays one whole episode (or a few) with the last plan, and learns from all of it              lines 5-10
- fits the decoder when the data has grown by a fixed share, else only adds to the tables       line 11
- adds the bonus alpha^k ||phi_h||_{Sigma_h^{-1}} with phi_h(z, a) = P_h(. | z, a), capped      lines 12-13
- plans for every starting budget on the observed support and keeps the best                    lines 15-16

phi of a pair that was never tried is flat, so it points to latents that were never met: the bonus is large
exactly until the step is known. Where the next latent does not matter (the last step, or `bonus="visits"`, for
rewards that must be explored as well) the bonus counts visits of the pair itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from tailrank import checks
from tailrank._system.settings import part
from tailrank._system.telling import doing
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.replay import Replay
from tailrank.episodes.rollout import Observed, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.aim import CVAR, Aim
from tailrank.learning.decoding.choose import Discriminative, depends_on_actions, label, moves
from tailrank.learning.decoding.smoothing import smoothed
from tailrank.learning.ela.bonus import pair_norms
from tailrank.learning.observed.info import ObservedInfo, Output
from tailrank.learning.observed.reward_grid import RewardGrid, remember
from tailrank.learning.observed.settings import Observing
from tailrank.learning.observed.state import ObservedState, policy_of
from tailrank.learning.protocol import ReturnedPolicy, SimulatorLearner
from tailrank.learning.schedule import PRACTICAL, Schedule
from tailrank.models.latent_counts import LatentCounts
from tailrank.planning.observed.planner import plan_observed, supports
from tailrank.planning.observed.problem import CountedProblem, ObservedPlanner
from tailrank.policies.decoders.base import posterior
from tailrank.policies.observed import ObservationPolicy, ObservedPlan
from tailrank.policies.tables import UniformPolicy

WATCHFUL = 0.1
"""Weight of a bonus on the visits of a pair beside the elliptical one: a decoder that does not see yet what a step
holds calls it known, and a lure would end exploration there."""
GROWTH = 1.15
"""The decoder is fitted again when there are this many times as many episodes as at the last fit."""

CAUTION = 3.0
"""-log 0.05: outcomes with a probability of 3 / n are missed in n tries one time in twenty. So after 3 / tau tries what
has the weight of the tail has been seen, and the mean may break ties."""
OUTPUTS = ((0.0, 0.0), (1.0, 0.0), (5.0, 0.0), (0.0, 0.03), (0.0, 0.3))
"""Prior and caution of the plans (`planning/observed/planner.py`) among which fresh episodes choose. Both help
where data is scarce, and cost where every step must succeed."""


@dataclass(frozen=True)
class ObservedELA(SimulatorLearner, Observing):
    """ELA (Algorithm 1) on observations.

    pilot: uniformly random episodes before the first plan; the pilot goes on, up to `longest_pilot`, until the
    decoder tells apart what actions lead to. batch: episodes between two plans; growth: or this share of those
    that were played, if that is more (cheap simulators need many episodes, not many plans).
    reward_range: what rewards can be; taken from the pilot if left out. levels: grid steps over that range.
    planner: `plan_observed` is exact; `LatentLsvi` makes it ELLA (`learning/lowrank/ella.py`).
    """

    outputs: ClassVar[tuple[str, ...]] = ("best", "greedy")
    keeps_episodes: ClassVar[bool] = True
    goal: Aim = part(CVAR, kw_only=True)
    oracle: Discriminative = part(Discriminative())
    schedule: Schedule = part(PRACTICAL)
    longest_pilot: int = 400
    planner: ObservedPlanner = plan_observed

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole(self.longest_pilot, "longest_pilot")

    def prepared(self, env: Simulator, streams: Streams, total: int | None) -> Self:
        """Itself; a network sees images as such where the environment shows some."""
        shape = getattr(getattr(env, "encoder", None), "image_shape", None)
        oracle = self.oracle if shape is None else replace(self.oracle, image_shape=shape)
        return replace(self, total=total, oracle=oracle)

    def policy(self, state: ObservedState, env: Simulator, streams: Streams) -> ObservationPolicy:
        """The policy that the model believes to be best, without bonus."""
        return self.greedy(state, env)

    def choose(
        self, state: ObservedState, env: Simulator, streams: Streams, rule: str, episodes: int
    ) -> ReturnedPolicy:
        """The plan without bonus that so many more training episodes like best ("best"), or the model's own."""
        output = self.output(state, env, streams, episodes if rule == "best" else 0)
        why = f"the highest {self.goal.said_as} of {len(output.scores)} candidates in {episodes} more episodes each"
        if not output.scores:
            why = "the last model's plan without bonus"
        returned = f"greedy, prior {output.prior:g}, caution {output.caution:g}"
        about = {"output_episodes": output.episodes, "model": state.chosen}
        return ReturnedPolicy(
            output.policy, returned, why if output.scores else "the last model's plan without bonus", about
        )

    def neutral(self, state: Any, env: Simulator) -> Any:
        """The plan of the same model for the mean."""
        return replace(self, tau=1.0).greedy(state, env)

    def state_from(self, arrays: dict[str, np.ndarray], replay: Replay) -> Any:
        """The state in a checkpoint with its episodes; its plan is still to be made (see `resumed`)."""
        return ObservedState.from_arrays(arrays, replay)

    def restored(self, arrays: dict[str, np.ndarray], env: Simulator, streams: Streams) -> ObservedState:
        """Cannot be: the episodes are stored elsewhere (see `resumed`)."""
        raise InputError("arrays: the episodes of the checkpoint are needed too; use ObservedState.from_arrays")

    def init(self, simulator: Simulator, streams: Streams) -> ObservedState:
        """The pilot: its rewards set the grid, its observations the first decoder (iteration 0)."""
        *_, state = self.pilots(simulator, streams)
        return state

    def pilots(self, simulator: Simulator, streams: Streams) -> Iterator[ObservedState]:
        """States after a pilot of growing length; the last is one whose decoder sees what actions change."""
        seeds = streams.train_seeds(0, self.longest_pilot)
        parts: list[Observed] = []
        state, n = None, 0
        while state is None or (n < seeds.size and self.blind(state, streams)):
            uniform = UniformPolicy(simulator.n_actions, simulator.horizon, streams.environment(0, n))
            parts.append(play_simulator(uniform, simulator, seeds[n : n + self.pilot], keep_features=True))
            rewards, lengths = (np.concatenate([getattr(p, name) for p in parts]) for name in ("rewards", "lengths"))
            grid = RewardGrid.of(simulator, self.reward_range, rewards, lengths, self.levels)
            replay, n = Replay(simulator.horizon, simulator.n_features), lengths.size
            for played in parts:
                remember(replay, grid, played, simulator, self.levels)
            state = self._fit(replay, grid, simulator, streams, 0, None)
            yield state

    def blind(self, state: ObservedState, streams: Streams) -> bool:
        """Whether the decoder sees nothing that actions change: a plan could not explore then."""
        if state.replay.horizon == 1:  # nothing follows
            return False
        found = moves(state.replay, state.fitted.labels, state.counts.n_latents, self.oracle.shared)
        return not depends_on_actions(found, streams.oracle(0, state.replay.n))

    def step(self, state: ObservedState, simulator: Simulator, streams: Streams) -> tuple[ObservedState, ObservedInfo]:
        """One iteration."""
        k = state.k + 1
        seeds = streams.train_seeds(k, max(self.batch, round(self.growth * state.episodes)))
        played = play_simulator(state.policy, simulator, seeds, keep_features=True)  # lines 5-10
        before = state.replay.n
        grid = remember(state.replay, state.grid, played, simulator, self.levels)
        wider, state = grid != state.grid, replace(state, grid=grid)
        refit = wider or state.replay.n >= max(state.fitted_at + 10, round(GROWTH * state.fitted_at))
        if refit:  # line 11
            state = self._fit(state.replay, state.grid, simulator, streams, k, state)
        else:
            state = self._grow(state, before, k)
        plan, info = self._plan(state, simulator, played)
        return replace(state, policy=replace(state.policy, plan=plan)), replace(info, refitted=refit)

    def greedy(
        self, state: ObservedState, simulator: Simulator, prior: float = 0.0, caution: float = 0.0
    ) -> ObservationPolicy:
        """The policy that the model believes to be best, without bonus."""
        counts = state.counts
        bonus = np.zeros((counts.steps, counts.n_latents, counts.n_actions))
        return replace(state.policy, plan=self._with_plan(state, simulator.horizon, bonus, prior, caution))

    def output(self, state: ObservedState, simulator: Simulator, streams: Streams, episodes: int) -> Output:
        """Of the plans without bonus the one with the best score in so many more training episodes, the same for all.

        0 episodes: the plan that the model believes to be best.
        """
        if episodes == 0:
            return Output(self.greedy(state, simulator), *OUTPUTS[0])
        seeds = streams.train_seeds(state.k + 1, episodes)
        ways = [how for how in OUTPUTS if how[1] == 0.0 or self.planner is plan_observed]  # others know no caution
        policies = [self.greedy(state, simulator, *how) for how in ways]
        scores = []
        for i, policy in enumerate(policies):
            with doing(f"judging candidate {i + 1} of {len(policies)}"):
                scores.append(self.score(play_simulator(policy, simulator, seeds).returns))
        best = int(np.argmax(scores))
        return Output(policies[best], *ways[best], tuple(scores), len(ways) * episodes)

    def promise(self, state: ObservedState, simulator: Simulator, caution: float = 0.0) -> float:
        """What the model promises of its greedy plan (its CVaR); with caution, what is left of it at worst."""
        return state.grid.value(self.greedy(state, simulator, caution=caution).plan.objective, simulator.horizon)

    def cautious_promise(self, state: ObservedState, simulator: Simulator) -> float:
        """The CVaR that is still promised when what was not seen in n tries may have the probability 3 / n."""
        return self.promise(state, simulator, CAUTION if self.planner is plan_observed else 0.0)

    def promise_error(
        self, state: ObservedState, simulator: Simulator, rng: np.random.Generator, draws: int = 20
    ) -> float:
        """Standard error of the promise: how it scatters when each count is weighted at random (Bayesian bootstrap)."""
        found = []
        for _ in range(draws):
            counts = state.counts.copy()
            counts.counts = rng.standard_gamma(counts.counts)
            found.append(self.promise(replace(state, counts=counts), simulator))
        return float(np.std(found))

    def resumed(self, state: ObservedState, simulator: Simulator) -> ObservedState:
        """A state from a checkpoint, with its plan, which follows from it."""
        plan, _ = self._plan(state, simulator, None)
        return replace(state, policy=replace(state.policy, plan=plan))

    def refitted(self, state: ObservedState, simulator: Simulator, streams: Streams) -> ObservedState:
        """The state with its model fitted to all episodes, and a plan."""
        return self.resumed(self._fit(state.replay, state.grid, simulator, streams, state.k, state), simulator)

    def _fit(
        self,
        replay: Replay,
        grid: RewardGrid,
        simulator: Simulator,
        streams: Streams,
        k: int,
        last: ObservedState | None,
    ) -> ObservedState:
        warm = None if last is None or last.counts.top != grid.top else last.fitted.decoder
        with doing(f"fitting a decoder to {replay.n} episodes"):
            fitted = self.oracle.fit(replay, simulator.n_actions, grid.top, rng=streams.oracle(k), warm=warm)
        decoder, shared = fitted.decoder, self.oracle.shared
        K = decoder.n_latents
        counts = LatentCounts(1 if shared else replay.horizon, K, simulator.n_actions, grid.top)
        support = supports(decoder, replay, streams.planner(k))
        labels = fitted.labels
        if not shared and any(s is not None for s in support):
            labels = smoothed(decoder, replay, simulator.n_actions, grid.top, shared)
        m = moves(replay, labels, K, shared)
        counts.add(m.h, m.z, m.a, m.after, m.units)
        policy = policy_of(decoder, counts, grid, replay.horizon, support)
        state = ObservedState(k, replay, grid, fitted, counts, support, policy, replay.n, grid.usual(replay))
        return self.resumed(state, simulator) if last is None else state

    def _grow(self, state: ObservedState, before: int, k: int) -> ObservedState:
        """Add the new episodes to the tables, with new latents for what fits none."""
        replay, decoder = state.replay, state.fitted.decoder
        find = getattr(decoder, "with_novel", None)
        if find is not None:
            for h in range(replay.horizon):
                alive = before + np.flatnonzero(replay.lengths[before:] > h)
                if alive.size:
                    decoder = find(h, replay.features[alive, h])
                    find = decoder.with_novel
        labels = label(decoder, replay, before)
        m = moves(replay, labels, decoder.n_latents, self.oracle.shared, before, known=state.counts)
        state.counts.add(m.h, m.z, m.a, m.after, m.units)
        policy = policy_of(decoder, state.counts, state.grid, replay.horizon, state.support)
        return replace(state, k=k, fitted=replace(state.fitted, decoder=decoder), policy=policy)

    def _plan(
        self, state: ObservedState, simulator: Simulator, played: Observed | None
    ) -> tuple[ObservedPlan, ObservedInfo]:
        H, A, counts = simulator.horizon, simulator.n_actions, state.counts
        d, n = counts.n_latents, max(state.k, 1)
        alpha, lam = self.schedule.alpha(n, H, A, d, 0.0), self.schedule.lam(n, H, d, 0.0)
        cap = self.schedule.cap_for(H)
        visits = counts.visits()
        bonus = np.minimum(alpha / np.sqrt(visits + lam), cap)
        if self.bonus == "elliptical" and H > 1:
            last = H - 1 if counts.steps == H else 1
            norms = alpha * pair_norms(counts.transitions()[:last, :, :, :d], visits[:last], lam)
            bonus[:last] = np.minimum(norms + WATCHFUL / np.sqrt(visits[:last] + 1.0), cap)
        if self.bonus == "none":
            bonus[:] = 0.0
        plan = self._with_plan(state, H, bonus * state.grid.top)  # lines 15-16
        present = state.policy.base > 0
        here = bonus[np.broadcast_to(present[:, :, None], bonus.shape)]
        returns = np.zeros(0) if played is None else played.returns
        return plan, ObservedInfo(
            returns,
            min(state.grid.value(plan.objective, H), state.most),
            float(here.mean()),
            float((here >= cap).mean()),
            state.fitted.held_out,
            int(present.sum()),
            False,
            plan.support_error * state.grid.unit,
            state.fitted.converged,
        )

    def _with_plan(
        self, state: ObservedState, H: int, bonus: np.ndarray, prior: float = 0.0, caution: float = 0.0
    ) -> ObservedPlan:
        first = state.replay.features[:, 0]
        start = posterior(state.fitted.decoder, 0, first[-200:])
        present = np.broadcast_to((state.policy.base > 0), (H, state.counts.n_latents))
        problem = CountedProblem(
            state.counts,
            H,
            bonus,
            present,
            start,
            self.tau,
            zero=state.grid.zero,
            usual=state.usual,
            prior=prior,
            caution=caution,
            enough=CAUTION / self.tau,
            support=state.support,
            goal=lambda most: self.goal.units(self.tau, state.grid.value(0, H), state.grid.unit, most),
            undominated=self.undominated,
        )
        return self.planner(problem)
