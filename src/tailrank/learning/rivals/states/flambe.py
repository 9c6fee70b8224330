"""FLAMBE (Agarwal, Kakade, Krishnamurthy and Sun 2020): explore without rewards, then plan for whatever is asked.

Every iteration (their Algorithm 1)
- for each step h an elliptical planner (their Algorithm 2) finds policies of the last model that cover phi_h:

      Sigma = I;  repeat: pi = argmax E[phi_h^T Sigma^{-1} phi_h | pi, model];  Sigma += E[phi_h phi_h^T | pi, model]

  until the largest expectation is at most `beta`, which takes at most 4 d log(1 + 4 / beta) / beta rounds;
- episodes follow one of the policies found for step h, drawn uniformly, and are uniform after that step;
- the model is fitted to all transitions by maximum likelihood.

Rewards and tau play no part in this, so one exploration serves every tau: the plan of the last model without bonus
holds the policies of all budgets, and `frontier` reads off the best for any tail.

Departures: the mixture over h is played evenly instead of drawn, in ELA's collections (H episodes: two that are uniform
from the start, one for each phi_h with h < H - 2); an episode teaches all its transitions, not one of them
(collect = "printed" keeps to those after uniform actions); beta is a setting (0.1), which the theorem asks to be tiny.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailrank import checks
from tailrank._system.settings import Checked, fixed, part, setting
from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.learning.aim import CVAR, Aim
from tailrank.learning.ela.bonus import BonusRule, none
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.parts import Act, ELAState, RollIn
from tailrank.learning.ela.settings import Collect
from tailrank.learning.protocol import promised
from tailrank.learning.schedule import PRACTICAL, Schedule
from tailrank.models.lowrank import Model, StepModel
from tailrank.planning.latent.planner import LatentPlan


@dataclass(frozen=True)
class Covering(Checked):
    """Roll in by the policies that cover phi of the step before the uniform actions."""

    beta: float = setting(
        0.1,
        kind=float,
        check=lambda x, name: checks.inside(x, name, "(0, 1]"),
        help="Expectation at which a feature counts as covered.",
    )

    def __call__(
        self, state: ELAState, env: CountableEnv, uniform_from: np.ndarray, rng: np.random.Generator
    ) -> Act | None:
        """What episodes play that are uniform from these steps [n] on."""
        if state.model is None:
            return None
        start = int(state.group[0][env.start])
        policies: list[list[np.ndarray]] = []
        first, number = np.zeros(uniform_from.size, dtype=np.int64), np.ones(uniform_from.size, dtype=np.int64)
        for u in np.unique(uniform_from[uniform_from > 0]):
            found, chosen = cover(state.model, int(u) - 1, start, self.beta).policies, uniform_from == u
            first[chosen], number[chosen] = len(policies), len(found)
            policies += found
        drawn = first + rng.integers(number)

        def act(h: int, episodes: np.ndarray, groups: np.ndarray, budgets: np.ndarray) -> np.ndarray:
            over = sum(len(policy) <= h for policy in policies)  # shorter policies come first
            return np.stack([policy[h] for policy in policies[over:]])[drawn[episodes] - over, groups]

        return act


@dataclass(frozen=True)
class Flambe(ELA):
    """FLAMBE (Agarwal et al. 2020): explores without rewards."""

    goal: Aim = fixed(CVAR)
    schedule: Schedule = PRACTICAL
    bonus: BonusRule = none
    roll_in: RollIn = part(Covering())
    collect: Collect = setting(
        "rollins", words=("printed", "rollins", "episode"), kw_only=True, help="Which episodes are played."
    )


@dataclass(frozen=True)
class Cover:
    """Policies [T] of [h + 1] of [G] (actions), the T + 1 largest expectations, and Sigma [d, d] of them all."""

    policies: list[list[np.ndarray]]
    objectives: list[float]
    sigma: np.ndarray


def cover(model: Model[StepModel], h: int, start: int, beta: float) -> Cover:
    """The elliptical planner for phi_h. At least one policy is returned, whatever beta is."""
    sigma = np.eye(model.steps[h].phi.shape[-1])
    policies: list[list[np.ndarray]] = []
    objectives: list[float] = []
    while True:
        policy, value = widest(model, h, start, np.linalg.inv(sigma))
        objectives.append(value)
        if policies and value <= beta:
            return Cover(policies, objectives, sigma)
        policies.append(policy)
        sigma = sigma + covariance(model, policy, start)


def widest(model: Model[StepModel], h: int, start: int, inverse: np.ndarray) -> tuple[list[np.ndarray], float]:
    """The policy [h + 1] of [G] with the largest E[phi_h^T inverse phi_h] in the model, and that number."""
    phi = model.steps[h].phi
    q = ((phi @ inverse) * phi).sum(axis=-1)
    policy = [q.argmax(axis=1)]
    for step in reversed(model.steps[:h]):
        q = step.expect(q.max(axis=1)[:, None]).reshape(step.shape[:2])
        policy.append(q.argmax(axis=1))
    return policy[::-1], float(q[start].max())


def covariance(model: Model[StepModel], policy: list[np.ndarray], start: int) -> np.ndarray:
    """E[phi_h phi_h^T], [d, d], of a policy [h + 1] of [G] in the model."""
    here = np.zeros(model.groups(0))
    here[start] = 1.0
    for h, actions in enumerate(policy):
        phi = model.steps[h].phi[np.arange(actions.size), actions]
        if h == len(policy) - 1:
            return np.asarray((phi * here[:, None]).T @ phi)
        here = (here @ phi) @ model.steps[h].psi
    raise InputError("policy: must have at least one step")


class Judging(Protocol):
    """Knows the law of what a plan earns (`learning/judge.py:ExactJudge`)."""

    def law(self, plan: LatentPlan) -> Any:
        """Something with `cvar(tau)`."""
        ...


@dataclass(frozen=True)
class Point:
    """One tail of a frontier: what the model promises, and what its plan for this tail earns in truth."""

    tau: float
    promised: float
    earned: float


def frontier(plan: LatentPlan, env: CountableEnv, judge: Judging, taus: Sequence[float]) -> list[Point]:
    """The best CVaR in the model and its true value for every tau, from the one plan of a model without bonus."""
    own = [(tau, plan.at(tau)) for tau in checks.tail_levels(taus)]
    return [Point(tau, promised(best, env), float(judge.law(best).cvar(tau))) for tau, best in own]
