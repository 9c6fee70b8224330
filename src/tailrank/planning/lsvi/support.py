"""CVaR-LSVI (Algorithm 2) in a low-rank model that was learned from observations: the planner of ELLA there.

The model is that of `planning/observed/support.py`: phi(x, a) [J] over pairs (k, l) of a psi_k and a law of rewards,
psi_k as weights on the observed next states. Algorithm 2 sees it through features and samples alone.

- Rewards are rounded up to multiples of a unit nu, as the paper has it: r becomes ceil(r / nu) nu. Where rewards share
  a unit nothing is rounded. Budgets are counted from the least that can be earned, so that they are never negative.
- A kind k and the reward may depend on each other: what is regressed is V_{h+1}(x', c) on P(k | x, a), and the law of
  (k, r) is applied afterwards (`factored`); or the printed features are all of P(k, r | x, a).
- Bonuses go on to the last step, since rewards are learned.

The plan that comes back has the form of an exact one, tables [J, C], and the inverse covariances on J.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank.models.goal import UnitGoal
from tailrank.planning.lsvi.algorithm2 import LsviPolicy
from tailrank.planning.lsvi.observed import LatentLsvi
from tailrank.planning.observed.support import RewardKinds, SupportStep
from tailrank.policies.lowrank import SupportPlan
from tailrank.policies.optimistic import rounded_up
from tailrank.risk.measures.base import Measure

FINEST = 100
"""Units of a reward, at most, for a shared unit to be taken as it is."""


@dataclass(frozen=True)
class RewardUnits:
    """Rewards in units of `unit` above `low`, a multiple of it: laws [L, nr], and the units `zero` of a reward of 0."""

    unit: float
    low: int
    laws: np.ndarray

    @classmethod
    def of(cls, rewards: RewardKinds, levels: int) -> RewardUnits:
        """With the unit that all rewards share, or so many units over their range."""
        span = max(rewards.high - rewards.low, 1e-12)
        shared = rewards.exact and span / rewards.spacing <= FINEST
        unit = rewards.spacing if shared else span / levels
        low = int(np.floor(rewards.low / unit + 1e-9))
        paid = [np.round(rounded_up(law, unit) / unit).astype(np.int64) - low for law in rewards.values]
        top = max(int(law.max()) for law in paid)
        laws = np.zeros((len(paid), max(top, -low, 1) + 1))
        for row, law in zip(laws, paid, strict=True):
            np.add.at(row, law, 1.0 / law.size)
        return cls(unit, low, laws)

    @property
    def top(self) -> int:
        """The most that a step pays."""
        return self.laws.shape[1] - 1


class SupportModel:
    """A learned low-rank model as a `FeatureModel`, with the arguments of `plan_support`.

    States are points of their step: the states of its support, and after them the end, which nothing leaves.
    """

    def __init__(
        self,
        steps: Callable[[int], SupportStep],
        start: np.ndarray,
        units: RewardUnits,
        horizon: int,
        start_bonus: np.ndarray | None = None,
    ) -> None:
        self.horizon, self.n_actions, self.units = horizon, int(start.shape[1]), units
        self.kinds = start.shape[2] // len(units.laws)
        made: dict[int, tuple[SupportStep, np.ndarray]] = {}
        self._steps: list[tuple[SupportStep, np.ndarray]] = []
        first = SupportStep(start, np.ones((1, len(start))), start_bonus)
        for step in (first, *(steps(h) for h in range(horizon - 1))):
            if id(step) not in made:
                total = np.cumsum(step.weights, axis=1)
                made[id(step)] = step, (total / total[:, -1:] + np.arange(len(total))[:, None]).ravel()
            self._steps.append(made[id(step)])

    def rank(self, h: int) -> int:
        """d: the kinds of outcomes."""
        return self.kinds

    def start(self) -> np.ndarray:
        """The points of the first observations."""
        return np.arange(len(self._steps[0][0].phi))

    def features(self, h: int, states: np.ndarray) -> np.ndarray:
        """P(k | x, a), [n, A, K]."""
        return self._kinds(h, states).sum(axis=3)

    def reward_laws(self, h: int, states: np.ndarray) -> np.ndarray:
        """P(k, r | x, a), [n, A, K, nr]."""
        law = self._kinds(h, states) @ self.units.laws
        over = states == len(self._steps[h][0].phi)
        law[over] = 0.0
        law[over, :, -1, -self.units.low] = 1.0
        return law

    def bonus(self, h: int, states: np.ndarray) -> np.ndarray:
        """Bonuses [n, A] in units; none after the end."""
        given = self._steps[h][0].bonus
        if given is None:
            return np.zeros((states.size, self.n_actions))
        over = states == len(given)
        return np.where(over[:, None], 0.0, given[np.where(over, 0, states)] / self.units.unit)

    def sample_latent(self, h: int, latent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Points [n] of step h + 1 drawn from psi_k, for kinds k [n]; the end for a kind without psi."""
        step, ladder = self._steps[h + 1]
        size = step.weights.shape[1]
        over = latent >= len(step.weights)
        kind = np.where(over, 0, latent)
        at = np.searchsorted(ladder, kind + rng.random(latent.size), side="right") - kind * size
        return np.where(over, size, np.clip(at, 0, size - 1))

    def _kinds(self, h: int, states: np.ndarray) -> np.ndarray:
        """phi [n, A, K, L] at these points; the end is a sure end."""
        phi = self._steps[h][0].phi
        over = states == len(phi)
        found = phi[np.where(over, 0, states)].reshape(states.size, self.n_actions, self.kinds, -1)
        if over.any():
            found[over] = 0.0
            found[over, :, -1, 0] = 1.0
        return found

    def largest_bonus(self) -> float:
        """Of all points, in units."""
        given = (step.bonus for step, _ in self._steps)
        return max((float(b.max(initial=0.0)) for b in given if b is not None), default=0.0) / self.units.unit


def plan_support_lsvi(
    planner: LatentLsvi, model: SupportModel, tau: float, key: int, measure: Measure | None = None
) -> tuple[SupportPlan, np.ndarray, float]:
    """The plan of Algorithm 2, and its optimism: inverse covariances [H, J, J] and beta, in the units of rewards.

    key: of the random numbers, beside the planner's seed. measure: another objective than the CVaR at tau.
    """
    units, H = model.units, model.horizon
    lowest, slope, goal = units.unit * units.low * H, 1.0 / tau, None
    if measure is not None:
        goal = UnitGoal.of(measure, lowest, units.unit, H * units.top)
        slope = min(goal.reduction.slope * goal.reduction.loss, 1e300)
    below = 0 if goal is None else goal.below
    found = planner.planned(model, H * units.top, units.top, model.largest_bonus(), tau, key, goal)
    parts = [_written_out(found.policy, model, h, planner.variant != "factored") for h in range(H)]
    first = units.low * (H - np.arange(H)) - below
    left = np.arange(found.budget + 1)
    curve = units.unit * np.interp(left, found.budgets, found.values)
    plan = SupportPlan(
        tuple(units.unit * table for table, _ in parts),
        first.astype(np.int64),
        units.unit,
        units.unit * (found.budget - below) + lowest,
        units.unit * float(found.objective.max()) + lowest,
        curve,
        0.0,
        2 * units.unit * found.run.error * slope,
    )
    return plan, np.stack([inverse for _, inverse in parts]), units.unit * found.policy.beta


def _written_out(policy: LsviPolicy, model: SupportModel, h: int, printed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Q_h of each pair (k, l) as a table [J, C] for the budgets 0..C - 1, and Lambda_h^{-1} on J: [J, J].

    printed: whether features are those of (k, r). At the last step there is one kind for all.
    """
    laws, K = model.units.laws, model.kinds
    L, nr = laws.shape
    weights, inverse = policy.weights[h], policy.inverse[h]
    budgets = np.clip(np.arange(policy.budget + 1), policy.lowest(h), policy.budget)
    if printed:
        weights = weights.reshape(-1, nr, weights.shape[-1])
        table = np.einsum("lr,krc->klc", laws, weights[:, :, budgets - policy.base[h]])
        to = np.kron(np.eye(len(weights)), laws)
    else:
        place = np.maximum(budgets[None] - np.arange(nr)[:, None], 0) - policy.base[h]
        table = np.einsum("lr,krc->klc", laws, weights[:, place])
        to = np.kron(np.eye(len(weights)), np.ones((L, 1)))
    if len(table) < K:
        table, to = np.repeat(table, K, axis=0), np.tile(to, (K, 1))
    return table.reshape(K * L, -1), to @ inverse @ to.T
