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

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailrank import checks
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.ela import parts
from tailrank.learning.ela.bonus import BonusRule, elliptical
from tailrank.learning.ela.parts import Collect, Counted, ELAState, Oracles, Planner, RollIn
from tailrank.learning.protocol import Info, promised
from tailrank.learning.schedule import PRACTICAL, Schedule
from tailrank.models.counts import TransitionCounts, number_of, pooled
from tailrank.models.lowrank import Model
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.planner import LatentPlan

if TYPE_CHECKING:
    from tailrank.learning.learn import Learned


@dataclass(frozen=True)
class ELA:
    """Algorithm 1 with its settings. With other parts it is many of its rivals: see `learners.registry`.

    collect: "printed" is Algorithm 1; "rollins", the default, also learns from the transitions that lead to
    the uniform actions; "episode" plays one of the H episodes an iteration, drawn at random, and learns from all of
    it; "plan" and "uniform" play one whole episode with the plan, or with uniform actions.
    share: pool the data of all steps (for a time-homogeneous MDP). batch: collections between two fits; growth: at
    least this share of all collections so far. aim: the tail that is planned for, if it is not tau (1: the mean).
    roll_in: what is played before the uniform actions. counted: what transitions are counted between.
    rewards: "learned" with a `Discriminative` oracle, which learns from observations (see `learn`).

    >>> from tailrank import ModelChoice, make_episodic
    >>> lock = make_episodic("risky-lock", horizon=3, n_actions=3)
    >>> learned = ELA(tau=0.1, oracle=ModelChoice("class")).learn(lock, episodes=60)
    >>> learned.episodes, round(learned.promise, 9)
    (60, 0.8)
    """

    tau: float
    oracle: Oracles | Discriminative
    schedule: Schedule = PRACTICAL
    planner: Planner = field(default=parts.exact_planner)
    collect: Collect = "rollins"
    share: bool = False
    batch: int = 1
    rewards: Literal["known", "learned"] = "known"
    bonus: BonusRule = field(default=elliptical)
    aim: float | None = None
    growth: float = 0.0
    roll_in: RollIn = field(default=parts.last_plan)
    counted: Counted = field(default=parts.by_group)

    def __post_init__(self) -> None:
        checks.tail_level(self.tau)
        checks.one_of(self.rewards, "rewards", ("known", "learned"))
        if isinstance(self.oracle, Discriminative) != (self.rewards == "learned"):
            raise checks.InputError(
                f"rewards = {self.rewards!r}: rewards are learned with an oracle for observations (Discriminative), "
                "and known with the others"
            )
        checks.one_of(self.collect, "collect", parts.COLLECTS)
        checks.whole(self.batch, "batch")
        checks.inside(self.growth, "growth", "[0, 1]")

    def learn(self, env: Any, *, episodes: int, seed: int = 0, horizon: int | None = None, **settings: Any) -> Learned:
        """Learn from at least so many episodes of a Gymnasium environment, a simulator or an `CountableEnv`.

        settings: of `ObservedELA`, where it learns from observations.
        """
        from tailrank.learning.learn import learn

        return learn(self, env, episodes=episodes, seed=seed, horizon=horizon, **settings)

    @property
    def finite(self) -> Oracles:
        """The oracle for finite environments; an error if it is one for observations."""
        if isinstance(self.oracle, Discriminative):
            raise checks.InputError("oracle: is one for observations; use learn(env, episodes=...)")
        return self.oracle

    @property
    def decoder(self) -> bool:
        """Whether plans are on the environment's groups, or on single states."""
        return self.finite.decoder

    def init(self, env: CountableEnv) -> ELAState:
        """No data, uniform actions (lines 1-3); raises where the oracle does not fit the environment."""
        self.finite.make(env)
        group = env.group if self.decoder else (np.arange(env.n_states),) * env.horizon
        C = env.rewards.n_budgets
        sizes = [int(self.counted(g.max(), np.array(C - 1), C)) + 1 for g in group]
        return ELAState(0, 0, 0, 0, TransitionCounts.empty(sizes, env.n_actions, sparse=self.finite.sparse), group)

    def step(self, state: ELAState, env: CountableEnv, streams: Streams) -> tuple[ELAState, Info]:
        """One iteration; `streams` gives the random numbers of iteration k, so that any k can be resumed."""
        k, rounds = state.k + 1, max(self.batch, int(self.growth * state.rounds))
        seen = state.seen.copy()  # state in, state out: the caller's counts stay as they are
        state = replace(state, seen=seen, rounds=state.rounds + rounds)
        played, walked = self._collect(state, env, rounds, streams.environment(k, 0))  # lines 5-10
        model, log_likelihood, converged, log_class = self._fit(state, env, streams, k)  # line 11
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
        return ELAState(
            k, state.rounds, state.episodes + played, state.steps + walked, seen, state.group, plan, model
        ), info

    def greedy(self, state: ELAState, env: CountableEnv, streams: Streams) -> LatentPlan:
        """The plan of the last model without bonus: what it believes best, and best for the mean once that is met."""
        if state.model is None:
            raise checks.InputError("state: no iteration has been run, there is no model to plan in")
        problem = self._problem(state.model, state, env, 0.0)
        return self.planner(problem, problem.no_bonus, streams.planner(state.k)).neutral_when_met()

    def _collect(self, state: ELAState, env: CountableEnv, rounds: int, rng: np.random.Generator) -> tuple[int, int]:
        """Play the episodes of one iteration and count what they show; returns (episodes, steps).

        An episode follows the plan before step `uniform_from` and plays uniform actions from there on. Algorithm 1 has
        one with uniform_from = -1, whose first transition belongs to D~ (lines 5, 6), and one for every step that is
        learned: its first uniform transition belongs to D, the second one to D~ (lines 7-10).
        """
        H, A, C, seen, group = env.horizon, env.n_actions, env.rewards.n_budgets, state.seen, state.group
        if self.collect in ("plan", "uniform"):
            uniform_from = np.full(rounds, H if self.collect == "plan" else -H)
        elif self.collect == "episode":
            uniform_from = rng.integers(-1, H - 1, size=rounds)
        else:
            uniform_from = np.tile(np.arange(-1, H - 1), rounds)
        n = uniform_from.size
        states = env.reset(n, rng)
        budgets = np.full(n, 0 if state.plan is None else state.plan.budget, dtype=np.int64)
        follow = self.roll_in(state, env, uniform_from, rng)
        walked = 0
        for h in range(H - 1):
            # After two uniform steps nothing more is learned, and the episode stops; -H: uniform to the end.
            live = np.flatnonzero((uniform_from + 1 >= h) | (uniform_from == -H))
            if live.size == 0:
                break
            since, here = uniform_from[live], group[h][states[live]]
            actions = rng.integers(0, A, size=live.size)
            follows = h < since
            if follow is not None and follows.any():
                actions[follows] = follow(h, live[follows], here[follows], budgets[live[follows]])
            reward, after = env.step(h, states[live], actions, rng)
            left = env.rewards.charge(h, reward, budgets[live])
            met, then = self.counted(here, budgets[live], C), self.counted(group[h + 1][after], left, C)
            first, second = since == h, since == h - 1  # into D (line 9), into D~ (lines 6, 10)
            if self.collect != "printed":
                first = first | follows | (since == -H)
            for chosen, covariance in ((first, True), (second, False)):
                if chosen.any():
                    seen.add(h, met[chosen], actions[chosen], then[chosen], covariance=covariance)
            states[live], budgets[live] = after, left
            walked += live.size
        return n, walked

    def _fit(
        self, state: ELAState, env: CountableEnv, streams: Streams, k: int
    ) -> tuple[Model[Any], float, bool, float]:
        """The model of every step, its log-likelihood, whether all fits converged, and log |F|."""
        oracles, counts = self.finite.make(env), state.seen.counts
        if self.share and counts:
            counts, oracles = [pooled(counts)], oracles[:1]
        warm = [None] * len(oracles) if state.model is None else list(state.model.steps)
        fits = [
            oracle.fit(c, rng=streams.oracle(k, h), warm=w)
            for h, (oracle, c, w) in enumerate(zip(oracles, counts, warm, strict=False))
        ]
        steps = tuple(f.step for f in fits) * (len(state.seen.counts) if self.share else 1)
        log_class = max(
            (o.log_class_size(number_of(c), c.shape) for o, c in zip(oracles, counts, strict=False)), default=0.0
        )
        model = Model[Any](steps, state.group)
        return model, sum(f.log_likelihood for f in fits), all(f.converged for f in fits), log_class

    def _visits(self, state: ELAState) -> tuple[np.ndarray, ...]:
        """The visits that the covariance of each step counts: those of D_h, or of all steps if they are shared."""
        visits = state.seen.visits
        return (np.sum(visits, axis=0),) * len(visits) if self.share else tuple(visits)

    def _problem(self, model: Model[Any], state: ELAState, env: CountableEnv, log_class: float) -> PlanningProblem:
        law_of = env.reward_of
        if not self.decoder:
            law_of = tuple(env.reward_of[h][env.group[h]] for h in range(env.horizon))
        oracles = self.finite.make(env)
        d = max((o.dimension(c.shape) for o, c in zip(oracles, state.seen.counts, strict=True)), default=1)
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
        )
