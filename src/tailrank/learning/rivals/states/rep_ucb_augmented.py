"""Rep-UCB (Uehara, Zhang and Sun 2022) run on the budget-augmented MDP: what ELA saves by knowing how budgets move.

The state is (group, remaining budget), counted under g C + c. Transitions (g, c) -> (g', c') are collected and fitted
as such, the bonus is elliptical in their features, and the lowest value is taken at every augmented state:

    V_{H-1}(g, c) = min_a E (c - r)^+          the known cost of the augmented MDP
    V_h(g, c) = min_a { E_{(g', c') ~ P((g, c), a)} V_{h+1}(g', c') - b_h((g, c), a) }

The start is (first group, c) with the c that promises most, as in ELA. Two classes of models:

- "counts": relative frequencies of augmented states. Nothing tells that c' = max(c - r, 0), or that the law of g' does
  not depend on c: as many pairs as S C A.
- "class": the class F of the environment, lifted to rank d C,

      phi((g, c), a)[(j, c')] = phi_j(g, a) P(max(c - r, 0) = c' | g, a)
      psi[(j, c')](g', c'') = psi_j(g') 1{c'' = c'}

  The likelihood of the lifted class is that of F up to factors that all its members share, so the same member is
  fitted to the same data; what differs is the bonus, which is paid for every budget anew, its rank, and the cost.

ELA's bonus depends on (group, action) alone, because the only thing to be learned is the law of the next group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank._system.settings import Checked, fixed, part, setting
from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.parts import Counted, Oracles, Planner
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.oracles.counts import EmpiricalCounts
from tailrank.learning.oracles.finite_class import FiniteClass
from tailrank.learning.oracles.fit import MleOracle
from tailrank.models.lowrank import StepModel
from tailrank.models.problem import PlanningProblem
from tailrank.models.rewards import RewardLaw
from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent.optimistic import after_rewards, best_start, lowest
from tailrank.planning.latent.planner import LatentPlan

MODELS = ("class", "counts")
MOST_NUMBERS = 100_000_000
"""Logarithms that the lifted class may keep for one step."""


def with_budget(groups: np.ndarray, budgets: np.ndarray, n_budgets: int) -> np.ndarray:
    """g C + c."""
    return groups * n_budgets + budgets


@dataclass(frozen=True)
class AugmentedOracles(Checked):
    """The oracles on augmented states: relative frequencies, or the environment's class, lifted."""

    model: str | None = setting(None, words=MODELS, help="What is fitted: the environment's class, or counts.")

    def sees_groups(self, env: CountableEnv) -> bool:
        """Groups for the class, single states for counts, as in ELA."""
        return ModelChoice(self.model or "auto").sees_groups(env)

    @property
    def sparse(self) -> bool:
        """Augmented states are too many for tables of counts."""
        return True

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles."""
        if not self.sees_groups(env):
            return [EmpiricalCounts()] * (env.horizon - 1)
        return lifted_class(env)


def lifted_class(env: CountableEnv) -> list[MleOracle]:
    """The environment's class on augmented states; raises where there is none, or it is too large."""
    ModelChoice("class").make(env)  # raises where there is no class
    for models in env.candidates:
        groups, actions, after = models[0].shape
        kept = len(models) * groups * actions * after * env.rewards.n_budgets**2
        if kept > MOST_NUMBERS:
            raise InputError(
                f"model = 'class': lifted to (group, budget) it takes {kept:.3g} numbers a step, at most "
                f"{MOST_NUMBERS:.3g} can be kept; use counts, or ela, which needs no lift"
            )
    return [
        FiniteClass([lifted(step, env.rewards, law_of) for step in models])
        for models, law_of in zip(env.candidates, env.reward_of, strict=False)
    ]


def lifted(step: StepModel, rewards: RewardLaw, law_of: np.ndarray) -> StepModel:
    """A step of rank d on groups as one of rank d C on augmented states; law_of [G, A]."""
    (G, A, after), C, d = step.shape, rewards.n_budgets, step.psi.shape[0]
    moves = np.stack([budget_moves(law, C) for law in rewards.laws])  # [L, c, c']
    phi = np.einsum("gaj,gacb->gcajb", step.phi, moves[law_of]).reshape(G * C, A, d * C)
    psi = np.einsum("jn,bc->jbnc", step.psi, np.eye(C)).reshape(d * C, after * C)
    return StepModel(phi, psi)


def budget_moves(law: np.ndarray, n_budgets: int) -> np.ndarray:
    """P(c' | c) = P(max(c - r, 0) = c') under a law of r in units, [C, C]."""
    budgets, moves = np.arange(n_budgets), np.zeros((n_budgets, n_budgets))
    for units in np.flatnonzero(law):
        moves[budgets, np.maximum(budgets - units, 0)] += law[units]
    return moves


def plan_augmented(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The plan on augmented states, bonus [G C, A] of every step (or [G, A]); its tables are [G, C] again."""
    C, kind = problem.rewards.n_budgets, action_type(problem.n_actions)
    pairs = problem.law_of[-1].size
    cost = after_rewards(problem, problem.horizon - 1, np.broadcast_to(np.arange(C, dtype=np.float64), (pairs, C)))
    chosen, values = lowest(problem, problem.horizon - 1, cost)
    actions = [chosen]
    for h in reversed(range(problem.horizon - 1)):
        groups, A = problem.law_of[h].shape
        q = problem.model.steps[h].expect(values.reshape(-1, 1)).reshape(groups, C, A)
        q = q - problem.rewards.top * bonus[h].reshape(groups, -1, A)
        actions.append(q.argmin(axis=2).astype(kind))
        values = q.min(axis=2)
    return best_start(problem, actions, values)


@dataclass(frozen=True)
class RepUCBAugmented(ELA):
    """Rep-UCB on the budget-augmented MDP, for the tail."""

    oracle: Oracles = part(AugmentedOracles())
    planner: Planner = plan_augmented
    counted: Counted = with_budget
    share: bool = fixed(False)
