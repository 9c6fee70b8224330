"""Learners for the nested (iterated) CVaR: ICVaR-RM (Du, Wang and Huang 2022) and a linear form (Chen et al. 2023).

    J_h(s) = max_a CVaR_tau[ r + J_{h+1}(s') ],   J_H = 0           (`planning/criteria/nested.py`)

ICVaR-RM (tabular): the empirical law of (r, s') of every pair, and the bonus c (R / tau) sqrt(L / N). One episode of
the last plan is played between two plans; a pair never tried promises the most.

Linear (ICVaR-L), phi known: CVaR_tau(Y) = sup_x { x - E(x - Y)^+ / tau }, where E(x - J_{h+1}(s'))^+ is a ridge
regression on phi for every x of a grid (all at once, see `learners.lsvi_ucb`), plus the bonus (R / tau) b, b as
there.

Both have regret bounds in their own criterion only. Here they are judged, like all learners, by the static CVaR of
what they earn; the value that they give to their own plan is the objective.

Departures, both: rewards are random here, so the CVaR is that of r + J jointly (r has a known law, independent of s';
with the papers' deterministic rewards it is r + CVaR(J)); R, the most that can be earned after the step, stands for
H, values are clipped to what is left; k, the episodes so far, stands for their final number. ICVaR-RM: c = 1 in the
paper; counts belong to a step, where the paper's MDP is the same at every step (`share` pools them). ICVaR-L: the
paper's models are mixtures theta . phi(s, a, s') and it regresses the next values on the most uncertain of the
functions (x - J)^+ integrated against phi; here P = phi(s, a) . psi(s'), and every x has its own regression on phi(s,
a), replanned as rarely as in LSVI-UCB. The grid costs at most one of its spacings a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tailrank._system.settings import Checked, changed, fixed, part, setting
from tailrank.envs.protocols import CountableEnv
from tailrank.learning.aim import CVAR, Aim
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.parts import Planner
from tailrank.learning.rivals.states.cvar_ucbvi import Tabular
from tailrank.learning.rivals.states.lsvi_ucb import KnownFeatures
from tailrank.models.problem import PlanningProblem
from tailrank.planning.criteria.nested import pair_cvars
from tailrank.planning.latent.markov import plan_markov
from tailrank.planning.latent.optimistic import after_reward, expectation
from tailrank.planning.latent.planner import LatentPlan


def plan_nested(problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
    """The plan with the best nested CVaR in the empirical model, with bonuses [G, A] (a step pays at most 1)."""
    top, optimistic = problem.rewards.top, any(b.any() for b in bonus)

    def q_of(h: int, values: np.ndarray) -> np.ndarray:
        untried = float(problem.left[h + 1]) if optimistic else 0.0
        ptr, prob, value = outcomes(problem, h, values, untried)
        q = np.empty(ptr.size - 1)
        pair_cvars(problem.tau, ptr, prob, value, q)
        return np.asarray(q.reshape(bonus[h].shape) + top * bonus[h] / problem.tau)

    return plan_markov(problem, q_of)


def outcomes(
    problem: PlanningProblem, h: int, values: np.ndarray, untried: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The joint law of reward and next state of every pair: ptr [G A + 1], probabilities [n], r + values(s') [n].

    A pair that was never tried is followed by the value `untried`.
    """
    law_of, laws = problem.law_of[h].ravel(), problem.rewards.laws
    pair, prob, after = np.arange(law_of.size), np.ones(law_of.size), np.zeros(law_of.size)
    if h < problem.horizon - 1:
        step = problem.model.steps[h]
        never = np.flatnonzero(step.first[1:] == step.first[:-1])
        pair = np.concatenate([step.pair, never])
        prob = np.concatenate([step.prob, np.ones(never.size)])
        after = np.concatenate([values[step.after], np.full(never.size, untried)])
    law, units = np.nonzero(laws)
    first = np.searchsorted(law, np.arange(len(laws) + 1))
    count = np.diff(first)[law_of[pair]]
    row = np.repeat(np.arange(pair.size), count)
    reward = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count) + first[law_of[pair[row]]]
    order = np.argsort(pair[row], kind="stable")
    row, reward = row[order], reward[order]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(pair[row], minlength=law_of.size))])
    return ptr, prob[row] * laws[law[reward], units[reward]], units[reward] + after[row]


@dataclass(frozen=True)
class NestedPlanner(Checked):
    """A planner for the nested CVaR by regressions of (x - J)^+, x on a grid of at least so many points."""

    points: int = setting(200, kind=int, help="Points of the grid of x, at least.")

    def __call__(self, problem: PlanningProblem, bonus: list[np.ndarray], rng: np.random.Generator) -> LatentPlan:
        """The plan of the problem."""
        left, tau, laws = problem.left, problem.tau, problem.rewards.laws
        finer = max(1, math.ceil(self.points / max(int(left[0]), 1)))
        spread = np.zeros((len(laws), (laws.shape[1] - 1) * finer + 1))
        spread[:, ::finer] = laws
        optimistic = any(b.any() for b in bonus)

        def q_of(h: int, values: np.ndarray) -> np.ndarray:
            x = np.arange(int(left[h]) * finer + 1) / finer
            anchor = 0.0 if optimistic else x
            short = anchor + expectation(problem, h, np.maximum(x - values[:, None], 0.0) - anchor)
            best, law_of = np.empty(bonus[h].size), problem.law_of[h].ravel()
            for law in np.unique(law_of):
                pairs = law_of == law
                best[pairs] = (x - after_reward(short[pairs], spread[law][: x.size]) / tau).max(axis=1)
            return np.asarray(best.reshape(bonus[h].shape) + left[h + 1] * bonus[h] / tau)

        return plan_markov(problem, q_of)


@dataclass(frozen=True)
class ICVaRRM(Tabular):
    """ICVaR-RM (Du et al. 2022): tabular, nested CVaR; `alpha_scale` is c."""

    goal: Aim = fixed(CVAR)
    planner: Planner = plan_nested
    share: bool = changed(ELA, "share", False)


@dataclass(frozen=True)
class ICVaRLinear(KnownFeatures):
    """ICVaR-L (Chen et al. 2023) in linear MDPs: known features, nested CVaR."""

    planner: Planner = part(NestedPlanner())

    def functions(self, env: CountableEnv) -> int:
        """A regression for every point of the grid."""
        return self.planner.points  # type: ignore[attr-defined]
