"""From the chosen members of a function class to a policy: the bonus, the support and the plan on them.

    Sigma_h = sum over D_h of phi_h phi_h^T + lambda I
    b_h(x, a) = min(alpha ||phi_h(x, a)||_{Sigma_h^{-1}}, cap)      for h < H - 2 (0-based), zero afterwards

An expectation under psi_k is a weighted mean over the next states seen after the step (`planning.py:psi_weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.learning.ela.bonus import covariance_root, norms_in
from tailrank.learning.lowrank.function_class import FunctionClass, KnownRewards
from tailrank.learning.lowrank.planning import psi_weights
from tailrank.learning.schedule import Schedule
from tailrank.learning.simulators.played import PlayedTransitions
from tailrank.planning.observed.support import RewardKinds, SupportStep, plan_support
from tailrank.policies.lowrank import SupportPlan, SupportPolicy
from tailrank.policies.moved import Moved

MOST_FIRST = 300
"""First states over which V_0 is averaged, at most: the last ones seen."""


@dataclass(frozen=True)
class EllipticalBonus:
    """roots [H - 2] of [d, d]: of Sigma_h. alpha and cap in the units of rewards."""

    roots: tuple[np.ndarray, ...]
    alpha: float
    cap: float

    def at(self, h: int, phi: np.ndarray) -> np.ndarray:
        """b_h [n, A] where phi_h is [n, A, d]."""
        if h >= len(self.roots):
            return np.zeros(phi.shape[:2])
        norms = norms_in(self.roots[h], phi.reshape(-1, phi.shape[2]))
        return np.minimum(self.alpha * norms.reshape(phi.shape[:2]), self.cap)


@dataclass(frozen=True)
class ChosenModel:
    """The member `chosen` [H - 1] at every step of a class, and the known rewards."""

    members: FunctionClass
    chosen: tuple[int, ...]
    rewards: KnownRewards
    n_actions: int

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.chosen) + 1

    @property
    def kinds(self) -> RewardKinds:
        """The rewards as the planner takes them: every level is a law of its own."""
        return self.rewards.kinds(self.horizon)

    def phi(self, h: int, x: np.ndarray) -> np.ndarray:
        """phi_h [n, A, d] at states [n, m]. Where the last step leads does not matter: the phi of the one before."""
        if not self.chosen:
            return np.ones((len(x), self.n_actions, 1))
        return self.members.phi(self.chosen[min(h, self.horizon - 2)], x, self.n_actions)

    def outcomes(self, h: int, x: np.ndarray, bonus: EllipticalBonus | None) -> tuple[np.ndarray, np.ndarray | None]:
        """phi_h times the law of the reward, [n, A, d L], and the bonus [n, A]."""
        x = np.asarray(x, dtype=np.float64)
        phi, law = self.phi(h, x), self.rewards.at(h, x, self.n_actions)
        joint = (phi[..., None] * law[:, :, None, :]).reshape(*phi.shape[:2], -1)
        return joint, None if bonus is None else bonus.at(h, phi)

    def played(self, seen: PlayedTransitions, h: int) -> np.ndarray:
        """phi_h [n, d] of transitions of step h."""
        return self.phi(h, seen.features.astype(np.float64))[np.arange(seen.n), seen.actions]


@dataclass(frozen=True)
class ClassPolicy(SupportPolicy):
    """The plan in a chosen model, with its bonus if it explores. A file holds all but the functions (`UnboundPlan`)."""

    model: ChosenModel
    plan: SupportPlan
    n_features: int
    bonus: EllipticalBonus | None = None

    @property
    def n_actions(self) -> int:
        """A."""
        return self.model.n_actions

    def outcomes(self, h: int, states: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """phi and the bonus of the model."""
        return self.model.outcomes(h, states, self.bonus)


@dataclass(frozen=True)
class UnboundPlan:
    """What a file holds of a `ClassPolicy`: the plan, and which members [H - 1] of the class it is for.

    No file ever holds code, so the functions are handed over again: `bound(members, rewards)` is the policy.
    """

    plan: SupportPlan
    chosen: tuple[int, ...]
    n_features: int
    n_actions: int
    ends: bool = False

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.plan.tables)

    def bound(self, members: Sequence[Any], rewards: KnownRewards) -> ClassPolicy:
        """The policy with the members of the class that it was learned with, in their order, and the known rewards."""
        found = FunctionClass(members, self.ends)
        if max(self.chosen, default=0) >= found.size:
            raise InputError(f"members: the plan is for member {max(self.chosen)}, found {found.size} members")
        model = ChosenModel(found, self.chosen, rewards, self.n_actions)
        J = len(self.plan.tables[0])
        probe, _ = model.outcomes(0, np.zeros((1, self.n_features)), None)
        if probe.shape[2] != J:
            raise InputError(f"members, rewards: make {probe.shape[2]} kinds of outcomes, the plan has {J}")
        return ClassPolicy(model, self.plan, self.n_features)

    def start(self, n: int) -> np.ndarray:
        """Nothing can be played yet."""
        raise InputError("policy: its phi are functions, which no file holds; bound(members, rewards) has them again")

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Nothing can be played yet."""
        return self.start(len(states))

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """Nothing can be played yet."""
        return self.start(0)


def bonus_of(model: ChosenModel, seen: PlayedTransitions, schedule: Schedule, rounds: int) -> EllipticalBonus:
    """The bonus after so many iterations, where D is `seen`; |F| enters as log |F|."""
    H, A, log_class = model.horizon, model.n_actions, model.members.log_size
    rows = [model.played(seen.where(seen.step == h), h) for h in range(H - 1)]
    d, span = rows[0].shape[1], model.kinds.high - model.kinds.low
    lam = schedule.lam(rounds, H, d, log_class)
    roots = tuple(covariance_root(one, lam) for one in rows[: H - 2])
    return EllipticalBonus(roots, span * schedule.alpha(rounds, H, A, d, log_class), span * schedule.cap_for(H))


def policy_in(
    model: ChosenModel,
    seen: PlayedTransitions,
    first: np.ndarray,
    tau: float,
    bonus: EllipticalBonus | None,
    rng: np.random.Generator,
) -> ClassPolicy:
    """The best policy in the model with this bonus: V at the next states seen, from the first states [n, m]."""
    on = seen.where(~(seen.ended & model.members.ends))
    anywhere = on.after if on.n else first

    def step(h: int) -> SupportStep:
        part = on.where(on.step == h)
        kinds = model.played(part, h)
        after = part.after if part.n else anywhere  # all episodes ended before: psi looks at what was seen elsewhere
        d = model.phi(h, first[:1]).shape[2] - int(model.members.ends)
        base = kinds[:, :d].mean(axis=0) if part.n else np.full(d, 1.0 / d)
        after = after.astype(np.float64)
        with np.errstate(divide="ignore"):
            log_psi = np.log(model.members.psi(model.chosen[h], after, d))
        kept, weights = psi_weights(log_psi, base, rng)
        phi, paid = model.outcomes(h + 1, after[kept], bonus)
        return SupportStep(phi, weights, paid)

    start, paid = model.outcomes(0, first[-MOST_FIRST:], bonus)
    plan = plan_support(step, start, model.kinds, model.horizon, tau, start_bonus=paid)
    return ClassPolicy(model, plan, first.shape[1], bonus)
