"""ELA (Algorithm 1): learn a low-rank model, add a bonus, plan for the tail.

Every iteration k (`ELA.step`)
- plays H episodes with the last plan (pi^{k-1}, c^{k-1}), each ending in uniform actions    lines 5-10
- fits (phi_h, psi_h) to all transitions of step h by maximum likelihood                     line 11
- adds the bonus alpha^k ||phi_h||_{Sigma_h^{-1}}, capped                                    lines 12, 13
- plans for every starting budget and keeps the best one with its policy                     lines 15, 16

ELLA (Algorithm 3) is the same loop on rewards rounded up to a grid, with CVaR-LSVI (Algorithm 2) as its planner
(`learning/ela/ella.py`). Steps count from 0 here and from 1 in the paper: its D_h is what was seen of step h - 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailrank._system.settings import part
from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import Transitions, walk
from tailrank.episodes.streams import Streams
from tailrank.learning.aim import CVAR, Aim
from tailrank.learning.ela import parts
from tailrank.learning.ela.bonus import BonusRule, elliptical
from tailrank.learning.ela.parts import Counted, ELAState, Oracles, Planner, RolledIn, RollIn
from tailrank.learning.ela.settings import Collecting
from tailrank.learning.oracles.choices import ModelChoice, menu_of
from tailrank.learning.protocol import CountableLearner, Info, promised, single_states
from tailrank.learning.schedule import PRACTICAL, Schedule
from tailrank.models.counts import TransitionCounts, number_of, pooled
from tailrank.models.lowrank import Model
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.planner import LatentPlan


@dataclass(frozen=True)
class ELA(CountableLearner, Collecting):
    """ELA (Algorithm 1).

    With other parts it is many of its rivals: each is a class of its own, see `learning/registry.py`.

    collect: "printed" is Algorithm 1; "rollins", the default, also learns from the transitions that lead to
    the uniform actions; "episode" plays one of the H episodes an iteration, drawn at random, and learns from all of
    it; "plan" and "uniform" play one whole episode with the plan, or with uniform actions.
    share: pool the data of all steps (for a time-homogeneous MDP); None: no, or as held-out likelihood says where it
    chooses the model (`ModelChoice`). batch: collections between two fits; growth: at
    least this share of all collections so far. aim: the tail that is planned for, if it is not tau (1: the mean).
    roll_in: what is played before the uniform actions. counted: what transitions are counted between.

    >>> from tailrank import ModelChoice, learn, make_episodic
    >>> lock = make_episodic("risky-lock", horizon=3, n_actions=3)
    >>> learned = learn(lock, ELA(tau=0.1, oracle=ModelChoice("class")), episodes=60)
    >>> learned.episodes, round(learned.promise, 9)
    (60, 0.8)
    """

    goal: Aim = part(CVAR, kw_only=True)
    oracle: Oracles = part(ModelChoice())
    schedule: Schedule = part(PRACTICAL)
    planner: Planner = field(default=parts.exact_planner)
    bonus: BonusRule = field(default=elliptical)
    roll_in: RollIn = field(default=parts.last_plan)
    counted: Counted = field(default=parts.by_group)

    def sees_groups(self, env: CountableEnv) -> bool:
        """Whether plans are on the environment's groups, or on single states."""
        return self.oracle.sees_groups(env)

    def episodes_each(self, horizon: int) -> int:
        """H episodes, or the one of a collection that plays one."""
        return 1 if self.collect in ("episode", "plan", "uniform") else horizon

    def init(self, env: CountableEnv, streams: Streams) -> ELAState:
        """No data, uniform actions (lines 1-3); raises where the oracle does not fit the environment."""
        menu = menu_of(self.oracle, env, self.share)
        group = env.group if self.sees_groups(env) else single_states(env)
        C = env.rewards.n_budgets
        sizes = [int(self.counted(g.max(), np.array(C - 1), C)) + 1 for g in group]
        seen = TransitionCounts.empty(sizes, env.n_actions, sparse=self.oracle.sparse)
        if len({c.shape for c in seen.counts}) > 1:
            if self.share:
                raise InputError(
                    "share: needs the same groups at every step, this environment has others at some steps"
                )
            menu = replace(menu, candidates=tuple(c for c in menu.candidates if not c.share))
        return ELAState(0, 0, 0, 0, seen, group, menu)

    def step(self, state: ELAState, env: CountableEnv, streams: Streams) -> tuple[ELAState, Info]:
        """One iteration; `streams` gives the random numbers of iteration k, so that any k can be resumed."""
        k, rounds = state.k + 1, max(self.batch, int(self.growth * state.rounds))
        seen = state.seen.copy()  # state in, state out: the caller's counts stay as they are
        state = replace(state, k=k, seen=seen, rounds=state.rounds + rounds)
        played, walked = self._collect(state, env, rounds, streams.environment(k, 0))  # lines 5-10
        menu = state.menu.reconsidered(seen.counts, streams.oracle(k, env.horizon))
        if menu.chosen != state.menu.chosen:
            state = replace(state, model=None)  # another kind of model cannot begin where this one ended
        state = replace(state, menu=menu)
        model, log_likelihood, converged, log_class = self._fit(state, streams)  # line 11
        problem = self._problem(model, state, env, log_class)
        bonus = self.bonus(problem, self.schedule)  # lines 12, 13
        plan = self.planner(problem, bonus, streams.planner(k))  # lines 15, 16
        paid = np.concatenate([b.ravel() for b in bonus[: max(env.horizon - 2, 0)]] or [np.zeros(1)])
        info = Info(
            log_likelihood,
            promised(plan, env),
            float(paid.mean()),
            float((paid >= self.schedule.cap_for(env.horizon)).mean()),
            converged,
        )
        episodes, steps = state.episodes + played, state.steps + walked
        return replace(state, episodes=episodes, steps=steps, plan=plan, model=model), info

    def greedy(self, state: ELAState, env: CountableEnv, streams: Streams) -> LatentPlan:
        """The plan of the last model without bonus: what it believes best, and best for the mean once that is met."""
        if state.model is None:
            raise InputError("state: no iteration has been run, there is no model to plan in")
        problem = self._problem(state.model, state, env, 0.0)
        return self.planner(problem, problem.no_bonus, streams.planner(state.k)).neutral_when_met()

    def taught(
        self, state: ELAState, moves: Iterable[Transitions], env: CountableEnv, streams: Streams
    ) -> ELAState | None:
        """The state whose model is fitted to these moves too, to plan in and not to go on from."""
        seen, C = state.seen.copy(), env.rewards.n_budgets
        for move in moves:
            h, group = move.h, state.group
            if h < env.horizon - 1:
                met = self.counted(group[h][move.states], move.memory, C)
                then = self.counted(group[h + 1][move.after], move.then, C)
                seen.add(h, met, move.actions, then, covariance=True)
        state = replace(state, seen=seen)
        return replace(state, model=self._fit(state, streams)[0])

    def _collect(self, state: ELAState, env: CountableEnv, rounds: int, rng: np.random.Generator) -> tuple[int, int]:
        """Play the episodes of one iteration and count what they show; returns (episodes, steps).

        An episode follows the plan before step `uniform_from` and plays uniform actions from there on. Algorithm 1 has
        one with uniform_from = -1, whose first transition belongs to D~ (lines 5, 6), and one for every step that is
        learned: its first uniform transition belongs to D, the second one to D~ (lines 7-10).
        """
        H, C, group = env.horizon, env.rewards.n_budgets, state.group
        if self.collect in ("plan", "uniform"):
            uniform_from = np.full(rounds, H if self.collect == "plan" else -H)
        elif self.collect == "episode":
            uniform_from = rng.integers(-1, H - 1, size=rounds)
        else:
            uniform_from = np.tile(np.arange(-1, H - 1), rounds)
        # After two uniform steps nothing more is learned, and the episode stops; -H: uniform to the end.
        lasting = np.where(uniform_from == -H, H, uniform_from + 2)
        policy = RolledIn(state, env, uniform_from, self.roll_in, rng)
        walked = 0
        for move in walk(policy, env, uniform_from.size, rng, steps=H - 1, lasting=lasting):
            h, since = move.h, uniform_from[move.memory[:, 1]]
            met = self.counted(group[h][move.states], move.memory[:, 0], C)
            then = self.counted(group[h + 1][move.after], move.then[:, 0], C)
            first, second = since == h, since == h - 1  # into D (line 9), into D~ (lines 6, 10)
            if self.collect != "printed":
                first = first | (h < since) | (since == -H)
            for chosen, covariance in ((first, True), (second, False)):
                if chosen.any():
                    state.seen.add(h, met[chosen], move.actions[chosen], then[chosen], covariance=covariance)
            walked += since.size
        return int(uniform_from.size), walked

    def _fit(self, state: ELAState, streams: Streams) -> tuple[Model[Any], float, bool, float]:
        """The model of every step, its log-likelihood, whether all fits converged, and log |F|."""
        oracles, counts, share = state.oracles, state.seen.counts, state.menu.current.share
        if share and counts:
            counts, oracles = [pooled(counts)], oracles[:1]
        warm = [None] * len(oracles) if state.model is None else list(state.model.steps)
        fits = [
            oracle.fit(c, rng=streams.oracle(state.k, h), warm=w)
            for h, (oracle, c, w) in enumerate(zip(oracles, counts, warm, strict=False))
        ]
        steps = tuple(f.step for f in fits) * (len(state.seen.counts) if share else 1)
        log_class = max(
            (o.log_class_size(number_of(c), c.shape) for o, c in zip(oracles, counts, strict=False)), default=0.0
        )
        model = Model[Any](steps, state.group)
        return model, sum(f.log_likelihood for f in fits), all(f.converged for f in fits), log_class

    def _visits(self, state: ELAState) -> tuple[np.ndarray, ...]:
        """The visits that the covariance of each step counts: those of D_h, or of all steps if they are shared."""
        visits = state.seen.visits
        return (np.sum(visits, axis=0),) * len(visits) if state.menu.current.share else tuple(visits)

    def _problem(self, model: Model[Any], state: ELAState, env: CountableEnv, log_class: float) -> PlanningProblem:
        law_of = env.reward_of
        if not self.sees_groups(env):
            law_of = tuple(env.reward_of[h][env.group[h]] for h in range(env.horizon))
        d = max((o.dimension(c.shape) for o, c in zip(state.oracles, state.seen.counts, strict=True)), default=1)
        return PlanningProblem(
            model,
            env.rewards,
            law_of,
            int(state.group[0][env.start]),
            self.aim or self.tau,
            self._visits(state),
            state.rounds,
            d,
            log_class,
            self.goal.on(self.tau, env.rewards.grid, env.rewards.n_budgets - 1),
        )
