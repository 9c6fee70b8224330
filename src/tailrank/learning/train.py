"""The driver: run a learner on an environment, iteration by iteration, with exact regret where it can be.

    for state, row in train(ELA(tau=0.1, oracle=ModelChoice("class")), env, iterations=200, seed=0):
        print(row["episodes"], row["cvar"])

Regret is the paper's: the sum over k of CVaR* - CVaR(R(pi^k, c^k)), of the plans, not of the episodes that
were played to learn (they end in uniform actions).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import Learner
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import dependence
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.latent.planner import LatentPlan, law_of_plan
from tailrank.planning.solve import solve
from tailrank.policies.tables import BudgetPolicy
from tailrank.risk.law import ReturnLaw

Row = dict[str, float | int | bool | None]
LARGEST_RAW = 20_000_000
QUICK_PAIRS = 20_000
"""Pairs up to which it is checked that rewards and next states are independent."""


def train(
    learner: Learner,
    env: CountableEnv,
    *,
    iterations: int,
    seed: int | None = None,
    rng: np.random.Generator | None = None,
    state: Any = None,
    judge: Judge | None = None,
) -> Iterator[tuple[Any, Row]]:
    """States and rows after each iteration, from the first one (or from `state` on) to `iterations`.

    Give a `seed`, or an `rng` from which one is drawn. `judge` evaluates the plans (made here if left out).

    >>> from tailrank import ELA, ModelChoice, make_episodic
    >>> lock = make_episodic("risky-lock", horizon=3, n_actions=3)
    >>> *_, (state, row) = train(ELA(tau=0.1, oracle=ModelChoice("class")), lock, iterations=20, seed=0)
    >>> row["episodes"], round(row["cvar"], 9)
    (60, 0.8)
    """
    if (seed is None) == (rng is None):
        raise checks.InputError("seed, rng: exactly one of them must be given")
    streams = Streams(int(rng.integers(2**63)) if seed is None else seed)  # type: ignore[union-attr]
    last = checks.whole(iterations, "iterations")
    state = learner.init(env) if state is None else state
    judge = Judge.of(learner, env) if judge is None else judge
    while state.k < last:
        state, info = learner.step(state, env, streams)
        row: Row = {
            "k": state.k,
            "episodes": state.episodes,
            "steps": state.steps,
            "cvar": judge.cvar(state.plan),
            "objective": info.objective,
            "bonus": info.bonus_mean,
            "saturated": info.saturated,
            "log_likelihood": info.log_likelihood,
            "converged": info.converged,
        }
        yield state, row


@dataclass(frozen=True)
class Judge:
    """Evaluates plans exactly in the true MDP of the environment. `star` is CVaR*.

    `quick` says that the environment's own model with its reward laws is the truth, so that the law of a plan can be
    pushed through its latents, which is far cheaper than through the rows of the MDP, and as cheap for plans on
    single states (`decoder` false) as their number allows.
    """

    tau: float
    env: CountableEnv
    decoder: bool
    star: float
    quick: bool

    @classmethod
    def of(cls, learner: Learner, env: CountableEnv) -> Judge:
        """The judge of a learner's plans; `star` comes from the exact planner."""
        quick = _on_grid(env) and env.truth.ptr.size <= QUICK_PAIRS and dependence(env.truth) < 1e-12
        return cls(learner.tau, env, learner.decoder, solve(env.truth, tau=learner.tau).cvar, quick)

    @cached_property
    def truth(self) -> FiniteMDP:
        """The true MDP of what plans see."""
        return self.env.truth if self.decoder else raw_truth(self.env)

    @cached_property
    def model(self) -> tuple[LowRankModel, tuple[np.ndarray, ...], int]:
        """The true model of what plans see, the reward law of each pair, and the first group."""
        env = self.env
        if self.decoder:
            return env.model, env.reward_of, int(env.group[0][env.start])
        return raw_model(env), tuple(env.reward_of[h][env.group[h]] for h in range(env.horizon)), env.start

    @property
    def labels(self) -> tuple[object, ...]:
        """The names of what plans see."""
        return self.env.truth.labels if self.decoder else tuple(range(self.env.n_states))

    def policy(self, plan: LatentPlan) -> BudgetPolicy:
        """The plan as a policy of the true MDP."""
        return plan.policy(self.env.rewards)

    def law(self, plan: LatentPlan) -> Evaluation:
        """The exact law of what the plan earns."""
        if self.quick and not self.decoder:
            law = self._pushed(plan)
            return Evaluation(law, np.zeros(law.values.size), "lattice")
        return return_law(self.policy(plan), self.truth)

    def cvar(self, plan: LatentPlan | None) -> float | None:
        """The exact CVaR of the plan."""
        if plan is None:
            return None
        return (self._pushed(plan) if self.quick else self.law(plan)).cvar(self.tau)

    def _pushed(self, plan: LatentPlan) -> ReturnLaw:
        model, law_of, start = self.model
        return law_of_plan(model, self.env.rewards, law_of, plan, start)


def raw_model(env: CountableEnv) -> LowRankModel:
    """The true model on single states, which each group emits uniformly."""
    steps = []
    for h, step in enumerate(env.model.steps):
        here, after = env.group[h], env.group[h + 1]
        sizes = np.bincount(after, minlength=step.psi.shape[1])
        steps.append(StepModel(step.phi[here], step.psi[:, after] / sizes[after]))
    return LowRankModel(tuple(steps), (np.arange(env.n_states),) * env.horizon)


def _on_grid(env: CountableEnv) -> bool:
    """Whether the rewards of the true MDP are those of the learner's laws, not rounded versions of them."""
    grid, unit = env.rewards.grid, float(env.rewards.grid.unit)
    for h in range(env.horizon):
        reward = env.truth.scaled_rewards(h)
        off = reward - float(grid.origin[h]) - grid.units(h, reward) * unit
        if np.abs(off).max(initial=0.0) > 1e-9 * unit:
            return False
    return True


def raw_truth(env: CountableEnv) -> FiniteMDP:
    """The true MDP on states, from the one on groups: every group emits its states uniformly."""
    if all(np.array_equal(g, np.arange(env.truth.n_states)) for g in env.group):
        return env.truth
    columns: list[list[np.ndarray]] = [[] for _ in range(6)]
    S, A, H = env.n_states, env.n_actions, env.horizon
    if H * S * A * S > LARGEST_RAW:
        raise checks.InputError(
            f"states = {S}: the true MDP on single states is too large to evaluate a model of single states "
            "exactly; use model 'class', which sees groups"
        )
    for h in range(H):
        ptr, next_group, prob, _ = env.truth.rows(h)
        reward = env.truth.scaled_rewards(h)
        after = env.group[h + 1] if h + 1 < H else env.group[h]
        sizes = np.bincount(after, minlength=env.truth.n_states)
        for s in range(S):
            for a in range(A):
                k = env.group[h][s] * A + a
                for row in range(ptr[k], ptr[k + 1]):
                    members = np.flatnonzero(after == next_group[row]) if h + 1 < H else np.array([s])
                    share = prob[row] / (sizes[next_group[row]] if h + 1 < H else 1)
                    for column, value in zip(columns, (h, s, a, members, share, reward[row]), strict=True):
                        column.append(np.broadcast_to(value, members.shape))
    step, state, action, next_state, probability, rewards = (np.concatenate(c) for c in columns)
    return FiniteMDP.from_rows(
        state, action, next_state, probability, rewards, step=step, start=env.start, n_states=S, n_actions=A
    )
