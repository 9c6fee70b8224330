"""ELA (Algorithm 1) and ELLA (Algorithm 3): learn a low-rank model, add a bonus, plan for the tail.

Every iteration k
- plays H episodes with the last plan (pi^{k-1}, c^{k-1}), each ending in uniform actions    lines 5-10
- fits (phi_h, psi_h) to all transitions of step h by maximum likelihood                     line 11
- adds the bonus alpha^k ||phi_h||_{Sigma_h^{-1}}, capped                                    lines 12-13
- plans for every starting budget and keeps the best one with its policy                     lines 15-16

ELLA is the same loop on rewards rounded up to a grid, with CVaR-LSVI (Algorithm 2) as its planner. Steps
are counted from zero here: the paper's D_h is `seen` of step h - 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from tailrank import checks
from tailrank.bonus import elliptical_bonus
from tailrank.data import Seen
from tailrank.lowrank import LowRankModel, StepModel
from tailrank.oracles.discriminative import Discriminative
from tailrank.oracles.fit import MleOracle
from tailrank.planners.latent import LatentPlan, plan_latent
from tailrank.protocols import Episodic
from tailrank.schedules import PRACTICAL, Schedule
from tailrank.streams import Streams

if TYPE_CHECKING:
    from tailrank.learners.learn import Learned

Collect = Literal["printed", "rollins", "episode"]


class Oracles(Protocol):
    """Makes the maximum-likelihood oracle of every step for an environment."""

    @property
    def decoder(self) -> bool:
        """Whether the model sees states through the environment's known groups, or one by one."""
        ...

    def make(self, env: Episodic) -> list[MleOracle]:
        """The H - 1 oracles."""
        ...


class GroupPlanner(Protocol):
    """Plans in a learned model with bonuses; `plan_latent` is the exact one."""

    def __call__(
        self, model: LowRankModel, env: Episodic, law_of: tuple[np.ndarray, ...], bonus: list[np.ndarray],
        tau: float, start: int, rng: np.random.Generator,
    ) -> LatentPlan:  # fmt: skip
        """The plan."""
        ...


def exact_planner(
    model: LowRankModel, env: Episodic, law_of: tuple[np.ndarray, ...], bonus: list[np.ndarray],
    tau: float, start: int, rng: np.random.Generator,
) -> LatentPlan:  # fmt: skip
    """The latent planner, exact on groups."""
    return plan_latent(model, env.rewards, law_of, bonus, tau, start)


@dataclass(frozen=True)
class State:
    """Everything that the next iteration depends on. `plan` is always playable (None: uniform actions)."""

    k: int
    episodes: int
    steps: int
    seen: Seen
    group: tuple[np.ndarray, ...]
    plan: LatentPlan | None = None
    model: LowRankModel | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything but the groups (they come from the environment), for a checkpoint."""
        arrays = {"counters": np.array([self.k, self.episodes, self.steps])}
        for h, (visits, counts) in enumerate(zip(self.seen.visits, self.seen.counts, strict=True)):
            arrays |= {f"visits.{h}": visits, f"counts.{h}": counts}
        if self.plan is not None:
            arrays |= self.plan.to_arrays("plan")
        for h, step in enumerate(self.model.steps if self.model is not None else ()):
            arrays |= {f"phi.{h}": step.phi, f"psi.{h}": step.psi}
        return arrays

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> State:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        steps = range(len(self.seen.counts))
        seen = Seen(
            tuple(arrays[f"visits.{h}"].copy() for h in steps), tuple(arrays[f"counts.{h}"].copy() for h in steps)
        )
        k, episodes, walked = (int(x) for x in arrays["counters"])
        plan = model = None
        if k:
            plan = LatentPlan.from_arrays(arrays, "plan")
            model = LowRankModel(tuple(StepModel(arrays[f"phi.{h}"], arrays[f"psi.{h}"]) for h in steps), self.group)
        return State(k, episodes, walked, seen, self.group, plan, model)


@dataclass(frozen=True)
class Info:
    """What happened in an iteration."""

    log_likelihood: float
    objective: float
    bonus_mean: float
    saturated: float
    converged: bool


@dataclass(frozen=True)
class ELA:
    """Algorithm 1 with its settings.

    collect: "printed" is Algorithm 1; "rollins", the default, also learns from the transitions that lead to
    the uniform actions; "episode" plays one of the H episodes an iteration, drawn at random, and learns from all of it.
    share: pool the data of all steps (for a time-homogeneous MDP). batch: collections between two fits.
    rewards: "learned" with a `Discriminative` oracle, which learns from observations (see `learn`).
    """

    tau: float
    oracle: Oracles | Discriminative
    schedule: Schedule = PRACTICAL
    planner: GroupPlanner = field(default=exact_planner)
    collect: Collect = "rollins"
    share: bool = False
    batch: int = 1
    rewards: Literal["known", "learned"] = "known"

    def __post_init__(self) -> None:
        checks.tail_level(self.tau)
        checks.one_of(self.rewards, "rewards", ("known", "learned"))
        if isinstance(self.oracle, Discriminative) != (self.rewards == "learned"):
            raise checks.InputError(
                f"rewards = {self.rewards!r}: rewards are learned with an oracle for observations (Discriminative), "
                "and known with the others"
            )
        checks.one_of(self.collect, "collect", ("printed", "rollins", "episode"))
        checks.whole(self.batch, "batch")

    def learn(self, env: Any, *, episodes: int, seed: int = 0, horizon: int | None = None, **settings: Any) -> Learned:
        """Learn from at least so many episodes of a Gymnasium environment, a simulator or an `Episodic`.

        settings: of `ObservedELA`, where it learns from observations.
        """
        from tailrank.learners.learn import learn

        return learn(self, env, episodes=episodes, seed=seed, horizon=horizon, **settings)

    @property
    def finite(self) -> Oracles:
        """The oracle for finite environments; an error if it is one for observations."""
        if isinstance(self.oracle, Discriminative):
            raise checks.InputError("oracle: is one for observations; use learn(env, episodes=...)")
        return self.oracle

    def init(self, env: Episodic) -> State:
        """No data, uniform actions (lines 1-3)."""
        group = env.group if self.finite.decoder else (np.arange(env.n_states),) * env.horizon
        sizes = [int(g.max()) + 1 for g in group]
        return State(0, 0, 0, Seen.empty(sizes, env.n_actions), group)

    def step(self, state: State, env: Episodic, streams: Streams) -> tuple[State, Info]:
        """One iteration; `streams` gives the random numbers of iteration k, so that any k can be resumed."""
        k, H, A = state.k + 1, env.horizon, env.n_actions
        state = replace(state, seen=state.seen.copy())  # state in, state out: the caller's counts stay as they are
        episodes, steps = state.episodes, state.steps
        for repeat in range(self.batch):  # lines 5-10
            played, walked = self._collect(state, env, streams.environment(k, repeat))
            episodes, steps = episodes + played, steps + walked
        model, log_likelihood, converged, log_class = self._fit(state, env, streams, k)  # line 11
        d = max((s.psi.shape[0] for s in model.steps), default=1)
        n = self.batch * k
        bonus = elliptical_bonus(  # lines 12-13
            model, self._visits(state), A, self.schedule.alpha(n, H, A, d, log_class),
            self.schedule.lam(n, H, d, log_class), self.schedule.cap_for(H),
        )  # fmt: skip
        plan = self._plan(model, env, state.group, bonus, streams.planner(k))  # lines 15-16
        bonuses = np.concatenate([b.ravel() for b in bonus[: max(H - 2, 0)]] or [np.zeros(1)])
        info = Info(
            log_likelihood, plan.objective * float(env.rewards.grid.unit), float(bonuses.mean()),
            float((bonuses >= self.schedule.cap_for(H)).mean()), converged,
        )  # fmt: skip
        return State(k, episodes, steps, state.seen, state.group, plan, model), info

    def _visits(self, state: State) -> tuple[np.ndarray, ...]:
        """The visits that the covariance of each step counts: those of D_h, or of all steps if they are shared."""
        visits = state.seen.visits
        return (np.sum(visits, axis=0),) * len(visits) if self.share else visits

    def greedy(self, state: State, env: Episodic, streams: Streams) -> LatentPlan:
        """The plan of the last model without bonus: what it believes to be best."""
        if state.model is None:
            raise checks.InputError("state: no iteration has been run, there is no model to plan in")
        bonus = [np.zeros((state.model.groups(h), env.n_actions)) for h in range(env.horizon)]
        return self._plan(state.model, env, state.group, bonus, streams.planner(state.k))

    def _collect(self, state: State, env: Episodic, rng: np.random.Generator) -> tuple[int, int]:
        """Play the episodes of one iteration and count what they show; returns (episodes, steps)."""
        H, A, seen, group = env.horizon, env.n_actions, state.seen, state.group
        # Episode u follows the plan before step u and is uniform from then on; u = -1 belongs to D~ only.
        uniform_from = np.arange(-1, H - 1) if self.collect != "episode" else rng.integers(-1, H - 1, size=1)
        n = uniform_from.size
        states = env.reset(n, rng)
        budgets = np.full(n, 0 if state.plan is None else state.plan.budget, dtype=np.int64)
        walked = 0
        for h in range(H - 1):
            # Two uniform steps, then nothing more is learned: as printed an episode stops there.
            live = np.flatnonzero(uniform_from + 1 >= h)
            if live.size == 0:
                break
            here = group[h][states[live]]
            actions = rng.integers(0, A, size=live.size)
            follows = h < uniform_from[live]
            if state.plan is not None and follows.any():
                actions[follows] = state.plan.act(h, here[follows], budgets[live[follows]])
            reward, after = env.step(h, states[live], actions, rng)
            budgets[live] = env.rewards.charge(h, reward, budgets[live])
            in_d, in_both = uniform_from[live] == h, uniform_from[live] == h - 1
            if self.collect != "printed":
                in_d = in_d | follows
            for chosen, covariance in ((in_d, True), (in_both, False)):
                if chosen.any():
                    seen.add(h, here[chosen], actions[chosen], group[h + 1][after[chosen]], covariance=covariance)
            states[live] = after
            walked += live.size
        return n, walked

    def _fit(self, state: State, env: Episodic, streams: Streams, k: int) -> tuple[LowRankModel, float, bool, float]:
        """The model of every step, its log-likelihood, whether all fits converged, and log |F|."""
        oracles = self.finite.make(env)
        counts = state.seen.counts
        if self.share:
            shapes = {c.shape for c in counts}
            if len(shapes) > 1:
                raise checks.InputError(f"share: needs the same groups at every step, found shapes {sorted(shapes)}")
            counts, oracles = (np.sum(counts, axis=0),), oracles[:1]
        warm = [None] * len(oracles) if state.model is None else list(state.model.steps)
        fits = [
            oracle.fit(c, rng=streams.oracle(k, h), warm=w)
            for h, (oracle, c, w) in enumerate(zip(oracles, counts, warm, strict=False))
        ]
        steps = tuple(f.step for f in fits) * (len(state.seen.counts) if self.share else 1)
        log_class = max(
            (o.log_class_size(float(c.sum()), c.shape) for o, c in zip(oracles, counts, strict=False)), default=0.0
        )
        model = LowRankModel(steps, state.group)
        return model, sum(f.log_likelihood for f in fits), all(f.converged for f in fits), log_class

    def _plan(
        self, model: LowRankModel, env: Episodic, group: tuple[np.ndarray, ...], bonus: list[np.ndarray],
        rng: np.random.Generator,
    ) -> LatentPlan:  # fmt: skip
        law_of = env.reward_of
        if not self.finite.decoder:
            law_of = tuple(env.reward_of[h][env.group[h]] for h in range(env.horizon))
        start = int(group[0][env.start])
        return self.planner(model, env, law_of, bonus, self.tau, start, rng)
