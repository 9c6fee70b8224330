"""A policy on observations from a low-rank model: phi at the observation, the tables of its plan, the budget left.

    a = argmin_a phi_h(x, a) . M_h[:, c] - b_h(x, a)

Nothing else is needed at an observation that was never seen. Budgets are real numbers: rewards are not rounded.
The bonus, of policies that explore, has two parts (`Exploration`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.policies.tables import ChargedBudget

RewardLaws = Callable[[int, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SupportPlan:
    """tables [H] of [J, C_h] (shortfall of each kind of outcome) at budgets (first[h] + 0..C_h - 1) spacing.

    budget: the first one, a number; objective: the CVaR that the model promises; curve [C_0] of V_0 at the budgets of
    the first step; grid_error, support_error: bounds on what interpolation and the subsample of states do to the
    objective (the second is two standard errors, not a certain bound).
    """

    tables: tuple[np.ndarray, ...]
    first: np.ndarray
    spacing: float
    budget: float
    objective: float
    curve: np.ndarray
    grid_error: float = 0.0
    support_error: float = 0.0

    def at(self, h: int, budgets: np.ndarray) -> np.ndarray:
        """Columns of the table of step h at real budgets [n], [n, J]."""
        table = self.tables[h]
        place = budgets / self.spacing - float(self.first[h])
        near = np.round(place)
        place = np.where(np.abs(place - near) < 1e-6, near, place)
        inside = np.clip(place, 0.0, table.shape[1] - 1.0)
        left = np.minimum(inside.astype(np.int64), max(table.shape[1] - 2, 0))
        share = (inside - left)[:, None]
        right = np.minimum(left + 1, table.shape[1] - 1)
        return np.asarray((1.0 - share) * table.T[left] + share * table.T[right])


@dataclass(frozen=True)
class Exploration:
    """The bonus b_h(x, a) = min(alpha ||P(. | x, a)||_{Sigma_h^{-1}} + watchful ||(1, z)||_{Lambda_ha^{-1}}, cap).

    sigma [T, K, K] and lam [T, A, k + 1, k + 1]: the inverses. The first is the paper's, on the learned phi; the second
    asks how much the classifier of action a has seen in this direction at all: what it says elsewhere is a guess.
    """

    sigma: np.ndarray
    lam: np.ndarray
    alpha: float
    watchful: float
    cap: float

    def bonus(self, h: int, kinds: np.ndarray, places: np.ndarray) -> np.ndarray:
        """b_h [n, A] where P(k | x, a) is kinds [n, A, K] and z is places [n, k]."""
        t = 0 if len(self.sigma) == 1 else h
        known = np.einsum("nak,kl,nal->na", kinds, self.sigma[t], kinds, optimize=True)
        z = np.hstack([np.ones((len(places), 1)), places])
        tried = np.stack([((z @ one) * z).sum(axis=1) for one in self.lam[t]], axis=1)
        total = self.alpha * np.sqrt(np.maximum(known, 0.0)) + self.watchful * np.sqrt(np.maximum(tried, 0.0))
        return np.asarray(np.minimum(total, self.cap))


@dataclass(frozen=True)
class Penalty(Exploration):
    """The same with its sign turned: what was seldom seen is feared."""

    @classmethod
    def of(cls, bonus: Exploration) -> Penalty:
        """That of a bonus."""
        return cls(bonus.sigma, bonus.lam, bonus.alpha, bonus.watchful, bonus.cap)

    def bonus(self, h: int, kinds: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Minus the bonus."""
        return -super().bonus(h, kinds, places)


class SupportPolicy(ChargedBudget, ABC):
    """What policies with a `SupportPlan` have in common; memory [n]: the budget that is left.

    A subclass says what it expects at observations (`outcomes`).
    """

    plan: SupportPlan

    @abstractmethod
    def outcomes(self, h: int, states: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """phi_h [n, A, J] of observations [n, m], and the bonus [n, A] if there is one."""

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.plan.tables)

    def start(self, n: int) -> np.ndarray:
        """The first budget."""
        return np.full(n, self.plan.budget)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action with the least shortfall for each observation; of those that tie the first."""
        phi, bonus = self.outcomes(h, states)
        scores = (phi @ self.plan.at(h, memory)[:, :, None])[:, :, 0]
        if bonus is not None:
            scores = scores - bonus
        least = scores.min(axis=1, keepdims=True)
        return np.asarray((scores <= least + 1e-12 * np.abs(least)).argmax(axis=1))


@dataclass(frozen=True)
class LowRankPolicy(SupportPolicy):
    """The plan on observations [n, m] with a learned phi. exploration: None for the plan as it is.

    laws: the laws of rewards [n, A, L] at (h, x), where they are known; otherwise the network has learned them.
    """

    model: OutcomeNetwork
    plan: SupportPlan
    exploration: Exploration | None = None
    laws: RewardLaws | None = None

    @property
    def n_features(self) -> int:
        """m."""
        return self.model.n_features

    @property
    def n_actions(self) -> int:
        """A."""
        return self.model.n_actions

    def outcomes(self, h: int, states: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """phi of the network, and the bonus of `exploration`."""
        return outcomes_of(self.model, h, states, self.exploration, self.laws)


@dataclass(frozen=True)
class CautiousPolicy(LowRankPolicy):
    """The plan with a penalty for what was seldom seen, which is part of it."""


def outcomes_of(
    model: OutcomeNetwork, h: int, x: np.ndarray, exploration: Exploration | None, laws: RewardLaws | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """phi_h [n, A, K L] of observations [n, m], with known laws of rewards or those of the network, and the bonus."""
    kinds, rewards = model.split(h, x)
    if laws is not None:
        rewards = laws(h, x)[:, :, None, :]
    phi = (kinds[..., None] * rewards).reshape(*kinds.shape[:2], -1)
    return phi, None if exploration is None else exploration.bonus(h, kinds, model.places(x))
