"""Learners for linear MDPs, whose features phi are known: LSVI-UCB (Jin, Yang, Wang and Jordan 2020) and its tail form.

P_h(. | s, a) = phi_h(s, a) . psi_h with psi unknown. What is kept of the transitions of a step is

    Lambda = lambda I + sum phi phi^T  [d, d],     B = sum phi e_{s'}^T  [d, G']

so the ridge regression of any function V of the next state on phi has the weights Lambda^{-1} B V: Lambda^{-1} B
stands where a model has psi, and all budgets are regressed at once. With b = C d sqrt(log(2 d H k n / delta))
||phi||_{Lambda^-1} (n functions are regressed; lambda = 1; the paper leaves the constant C, `alpha_scale`, open) and R
the most that can be earned after the step,

    for the mean     Q = E r + phi . w + R b                                      V = max Q, in [0, what is left]
    for the tail     Q(c) = sum_x r(x) [phi . w(c - x) - min(c - x, R) b]         V = min Q, in [(c - left)^+, c]

The second is CVaR-LSVI (Algorithm 2), run online on real episodes instead of inside a learned model.

The cost of an episode does not grow: Lambda^{-1} and log det Lambda follow by rank-one updates (Sherman-Morrison),
and the plan is made anew only when det Lambda of a step has grown by the factor `switch` = 2 since the last one
(Wang, Zhou and Gu 2021), of the order of d H log K times; there Lambda^{-1} is computed afresh, which keeps rounding
errors small.

Departures: rewards are known here; R stands for H; k, the episodes so far, for their final number; values are
regressed from their optimistic end instead of from zero, so that what was never seen is promised the most also where
C is small (and from the pessimistic end in the plan without bonus).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tailrank import checks
from tailrank._system.settings import fixed, setting
from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import walk
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.parts import Planner
from tailrank.learning.playing import PlayedPlan
from tailrank.learning.protocol import CountableLearner, Info, promised
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.problem import PlanningProblem
from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent.markov import plan_markov
from tailrank.planning.latent.optimistic import after_rewards, best_start, expectation
from tailrank.planning.latent.planner import LatentPlan

DELTA = 0.1


def _switch(value: object, name: str) -> float:
    if checks.number(value, name) < 1.0:
        raise InputError(f"{name} = {value}: must be at least 1")
    return checks.number(value, name)


LARGEST = 200_000_000
"""Numbers that the statistics may hold: 1.6 GB."""


@dataclass(frozen=True)
class Ridge:
    """The statistics of a step: gram [d, d], its inverse, sums B [d, G'], and how much log det grew since a plan."""

    gram: np.ndarray
    inverse: np.ndarray
    sums: np.ndarray
    grown: float = 0.0

    @classmethod
    def empty(cls, d: int, after: int, lam: float) -> Ridge:
        """No data."""
        return cls(lam * np.eye(d), np.eye(d) / lam, np.zeros((d, after)))

    @property
    def psi(self) -> np.ndarray:
        """Lambda^{-1} B, [d, G']."""
        return np.asarray(self.inverse @ self.sums)

    def plus(self, phi: np.ndarray, after: np.ndarray) -> Ridge:
        """The same and transitions with features phi [n, d] to groups after [n]."""
        gram, inverse, sums, grown = self.gram.copy(), self.inverse.copy(), self.sums.copy(), self.grown
        for x, g in zip(phi, after, strict=True):
            image = inverse @ x
            more = 1.0 + float(x @ image)
            gram += np.multiply.outer(x, x)
            inverse -= np.multiply.outer(image, image / more)
            sums[:, g] += x
            grown += math.log(more)
        return Ridge(gram, inverse, sums, grown)

    def settled(self) -> Ridge:
        """The inverse afresh, and log det counted from here."""
        inverse = np.linalg.inv(self.gram)
        return replace(self, inverse=np.ascontiguousarray((inverse + inverse.T) / 2.0), grown=0.0)

    def norms(self, phi: np.ndarray) -> np.ndarray:
        """||phi||_{Lambda^-1} of features [G, A, d], [G, A]."""
        return np.sqrt(np.maximum(((phi @ self.inverse) * phi).sum(axis=-1), 0.0))


@dataclass(frozen=True)
class LSVIState:
    """Everything that the next iteration depends on; nothing in it grows. plans: how often a plan was made."""

    k: int
    episodes: int
    steps: int
    plans: int
    group: tuple[np.ndarray, ...]
    ridges: tuple[Ridge, ...]
    plan: LatentPlan | None = None
    paid: tuple[float, float] = (0.0, 0.0)
    """Mean bonus of the last plan (in what is left to earn) and the share of bonuses that promise all of it."""

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything but the groups."""
        arrays = {"counters": np.array([self.k, self.episodes, self.steps, self.plans]), "paid": np.array(self.paid)}
        for h, ridge in enumerate(self.ridges):
            arrays |= {f"gram.{h}": ridge.gram, f"inverse.{h}": ridge.inverse, f"sums.{h}": ridge.sums}
            arrays[f"grown.{h}"] = np.array([ridge.grown])
        return arrays if self.plan is None else arrays | self.plan.to_arrays("plan")

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> LSVIState:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, episodes, walked, plans = (int(x) for x in arrays["counters"])
        ridges = tuple(
            Ridge(arrays[f"gram.{h}"], arrays[f"inverse.{h}"], arrays[f"sums.{h}"], float(arrays[f"grown.{h}"][0]))
            for h in range(len(self.ridges))
        )
        plan = LatentPlan.from_arrays(arrays, "plan") if k else None
        mean, full = (float(x) for x in arrays["paid"])
        return LSVIState(k, episodes, walked, plans, self.group, ridges, plan, (mean, full))


def plan_mean(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """LSVI-UCB's plan; bonus [H] of [G, A]: b."""
    means, left = problem.rewards.means, problem.left
    optimistic = any(b.any() for b in bonus)

    def q_of(h: int, values: np.ndarray) -> np.ndarray:
        anchor = left[h + 1] if optimistic else 0.0
        after = anchor + expectation(problem, h, (values - anchor)[:, None]).reshape(bonus[h].shape)
        return np.asarray(means[problem.law_of[h]] + after + left[h + 1] * bonus[h])

    return plan_markov(problem, q_of)


def plan_tail(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The plan for the tail: the best budget and its policy; bonus [H] of [G, A]: b."""
    budgets, left = np.arange(problem.rewards.n_budgets, dtype=np.float64), problem.left
    optimistic = any(b.any() for b in bonus)
    least = [np.maximum(budgets - most, 0.0) for most in left]
    values, actions = budgets[None, :], []
    for h in reversed(range(problem.horizon)):
        anchor = least[h + 1] if optimistic else budgets
        mean = anchor + expectation(problem, h, values - anchor)
        q = after_rewards(problem, h, mean - bonus[h].reshape(-1, 1) * np.minimum(budgets, left[h + 1]))
        table = q.reshape(*bonus[h].shape, -1)
        actions.append(table.argmin(axis=1).astype(action_type(table.shape[1])))
        values = np.clip(table.min(axis=1), least[h], budgets)
    return best_start(problem, actions, values)


@dataclass(frozen=True)
class KnownFeatures(CountableLearner):
    """A learner that regresses on known features; `planner` makes its plans."""

    planner: Planner = plan_tail
    alpha_scale: float = setting(
        0.01, kind=float, check=checks.positive, kw_only=True, help="C, the scale of the bonus."
    )
    lam_scale: float = setting(1.0, kind=float, check=checks.positive, kw_only=True, help="lambda.")
    switch: float = setting(
        2.0,
        kind=float,
        check=_switch,
        kw_only=True,
        help="Growth of a determinant that calls for a new plan.",
    )
    batch: int = setting(1, kind=int, kw_only=True, help="Episodes an iteration.")

    def sees_groups(self, env: CountableEnv) -> bool:
        """Features are those of groups."""
        return True

    def functions(self, env: CountableEnv) -> int:
        """n, how many functions are regressed: one for each budget."""
        return env.rewards.n_budgets

    def init(self, env: CountableEnv, streams: Streams) -> LSVIState:
        """No data, no plan."""
        shapes = [(step.phi.shape[2], step.psi.shape[1]) for step in env.model.steps]
        numbers = sum(2 * d * d + d * after for d, after in shapes)
        if numbers > LARGEST:
            raise InputError(
                f"{env.name}: features of dimension {max(d for d, _ in shapes)} need {numbers} numbers for a ridge "
                f"regression at every step, must be at most {LARGEST}"
            )
        return LSVIState(0, 0, 0, 0, env.group, tuple(Ridge.empty(d, after, self.lam_scale) for d, after in shapes))

    def step(self, state: LSVIState, env: CountableEnv, streams: Streams) -> tuple[LSVIState, Info]:
        """Play `batch` episodes with the last plan, update the statistics, plan anew if they changed enough."""
        k = state.k + 1
        if state.plan is None:
            state = self._with_plan(state, env, streams, k)
        ridges = self._played(state, env, streams.environment(k, 0))
        state = replace(
            state,
            k=k,
            episodes=state.episodes + self.batch,
            ridges=ridges,
            steps=state.steps + self.batch * (env.horizon - 1),
        )
        if any(ridge.grown >= math.log(self.switch) for ridge in ridges):
            state = self._with_plan(state, env, streams, k)
        objective = np.nan if state.plan is None else promised(state.plan, env)
        return state, Info(objective=objective, bonus_mean=state.paid[0], saturated=state.paid[1])

    def greedy(self, state: LSVIState, env: CountableEnv, streams: Streams) -> LatentPlan:
        """The plan of the regressions without bonus."""
        problem = self._problem(state, env)
        return self.planner(problem, problem.no_bonus, streams.planner(state.k))

    def bonus(self, state: LSVIState, env: CountableEnv) -> list[np.ndarray]:
        """b of every step, [H] of [G, A]; zero at the last, whose transition does not matter."""
        n = self.functions(env)
        paid = []
        for ridge, step in zip(state.ridges, env.model.steps, strict=True):
            d = step.phi.shape[2]
            confidence = math.log(2 * d * env.horizon * max(state.episodes, 1) * n / DELTA)
            paid.append(self.alpha_scale * d * math.sqrt(confidence) * ridge.norms(step.phi))
        return [*paid, np.zeros(env.reward_of[-1].shape)]

    def _with_plan(self, state: LSVIState, env: CountableEnv, streams: Streams, k: int) -> LSVIState:
        state = replace(state, ridges=tuple(ridge.settled() for ridge in state.ridges), plans=state.plans + 1)
        bonus = self.bonus(state, env)
        paid = np.concatenate([b.ravel() for b in bonus[:-1]] or [np.zeros(1)])
        plan = self.planner(self._problem(state, env), bonus, streams.planner(k))
        return replace(state, plan=plan, paid=(float(np.minimum(paid, 1.0).mean()), float((paid >= 1.0).mean())))

    def _problem(self, state: LSVIState, env: CountableEnv) -> PlanningProblem:
        steps = tuple(StepModel(s.phi, r.psi) for s, r in zip(env.model.steps, state.ridges, strict=True))
        d = max((s.phi.shape[2] for s in steps), default=1)
        return PlanningProblem(
            LowRankModel(steps, state.group),
            env.rewards,
            env.reward_of,
            int(state.group[0][env.start]),
            self.aim or self.tau,
            (),
            max(state.episodes, 1),
            d,
            0.0,
        )

    def _played(self, state: LSVIState, env: CountableEnv, rng: np.random.Generator) -> tuple[Ridge, ...]:
        """The statistics after `batch` more episodes of the plan."""
        plan: LatentPlan = state.plan  # type: ignore[assignment]
        group, ridges = state.group, []
        policy = PlayedPlan.of(plan, env, group)
        for move in walk(policy, env, self.batch, rng, steps=len(state.ridges)):
            h, here = move.h, group[move.h][move.states]
            phi = env.model.steps[h].phi[here, move.actions]
            ridges.append(state.ridges[h].plus(phi, group[h + 1][move.after]))
        return tuple(ridges)


@dataclass(frozen=True)
class LSVIUCB(KnownFeatures):
    """LSVI-UCB (Jin et al. 2020): known features, for the mean."""

    planner: Planner = plan_mean
    aim: float | None = fixed(1.0)

    def functions(self, env: CountableEnv) -> int:
        """One: the value."""
        return 1


@dataclass(frozen=True)
class CvarLSVIUCB(KnownFeatures):
    """LSVI-UCB for the tail: CVaR-LSVI online, known features."""
