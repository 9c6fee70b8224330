"""The kernel model as a candidate: fit, plan with a bonus to explore, plans without it to be handed out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.settings import Checked, setting, share
from tailrank._system.telling import doing
from tailrank.learning.simulators.candidates import CandidateOutput, FitData
from tailrank.learning.simulators.exploring import CuriousPolicy, ExploringPolicy
from tailrank.learning.simulators.model import KernelModel, fit_kernel
from tailrank.planning.kernel.induction import plan_crossed, plan_kernel
from tailrank.policies.kernel import KernelPolicy, KernelRows, interpolation
from tailrank.policies.tables import Policy

SHARES = (0.0, 0.1)
"""Outputs leave out actions that were tried in a state less than this share of the most tried one."""
CROSSED = 0.1
"""This share for the plan of two halves: it keeps off luck, not off places where an action was hardly tried."""
DRAWN = 3
"""Models of counts that are drawn for exploration."""


@dataclass(frozen=True)
class FittedKernel:
    """A model of what was played, for tail tau; promise: the CVaR of the plan in the model."""

    model: KernelModel
    tau: float
    horizon: int
    bonus: float
    epsilon: float
    returns: np.ndarray

    def plan(
        self, share: float = 0.0, optimistic: bool = False, crossed: tuple[KernelRows, KernelRows] | None = None
    ) -> tuple[KernelPolicy, float]:
        """The policy of a plan, and its promise. optimistic: pairs that were seldom tried are favoured; otherwise a
        state that nobody left is as bad as can be. crossed: values are those of these two halves (`plan_crossed`)."""
        model = self.model if optimistic else self.model.closed()
        visits, scale = model.visits, model.scale
        rare = self.bonus * self.tau * scale.count / (self.horizon * np.sqrt(1.0 + model.nearby))
        bonus = rare if optimistic else np.zeros_like(visits)
        allowed = self._allowed(model, share, optimistic)
        if crossed is None:
            plan = plan_kernel(model.rows, scale, self.horizon, model.start, self.tau, bonus, allowed)
        else:
            plan = plan_crossed(crossed, scale, self.horizon, model.start, self.tau, allowed)
        policy = KernelPolicy(
            model.metric,
            model.representatives,
            model.neighbours,
            model.rows,
            scale,
            bonus,
            allowed,
            plan.steps,
            plan.tables,
            plan.budget,
            self.horizon,
        )
        return policy, plan.promise

    def _allowed(self, model: KernelModel, share: float, optimistic: bool) -> np.ndarray:
        """The actions [M, A] that a plan may take: that the simulator allows, and that were tried often enough."""
        visits, most = model.visits, model.visits.max(axis=1, keepdims=True)
        known = np.diff(model.rows.ptr).reshape(visits.shape) > 0
        if model.counted:  # the prior of a pair that was never tried is for exploration
            known &= (visits > 0) | (most == 0)
        allowed = optimistic | (known & (visits >= share * most))
        return allowed if model.allowed is None else allowed & model.allowed

    def explorer(self, rng: np.random.Generator) -> Policy:
        """What to play next.

        A model of counts plans exactly, so what it knows is played well anyway: it has more to gain from the rest. Its
        curious plans are made in models that are drawn among those that the counts allow, where chance is involved.
        Each of them begins with its own best budget: how much these differ is how much is not known about it.
        """
        model, counted = self.model, self.model.counted
        chance = counted and bool(np.any(np.diff(model.rows.ptr) > 1))
        fits = [replace(self, model=model.drawn(rng)) for _ in range(DRAWN)] if chance else [self]
        curious = [CuriousPolicy(fit.plan(optimistic=True)[0], model.nearby) for fit in fits]
        plans: list[Policy] = [self._plain[0], *curious, *(curious if counted and not chance else [])]
        plans += [] if self._crossed is None else [self._crossed[0]]
        strange = self._unseen if counted else None
        others = None if chance else self.returns
        return ExploringPolicy(tuple(plans), model.visits.shape[1], others, self.epsilon, rng, strange)

    def _unseen(self, h: int, states: np.ndarray) -> np.ndarray:
        """Whether observations [n] are none of those that were counted: the plan for the nearest one means nothing."""
        places = self.model.metric.place(states, h / self.horizon)
        near = self.model.representatives[interpolation(places, self.model.representatives, 1)[0][:, 0]]
        return np.asarray(((places - near) ** 2).sum(axis=1) > 1e-12)

    def neutral(self) -> KernelPolicy:
        """The plan of the same model for the mean."""
        return replace(self, tau=1.0).plan()[0]

    def outputs(self) -> list[CandidateOutput]:
        """Plans without bonus, with more or less caution where that leaves out an action."""
        return list(self._outputs)

    @cached_property
    def _outputs(self) -> tuple[CandidateOutput, ...]:
        closed = self.model.closed()
        masks = [self._allowed(closed, share, False) for share in SHARES]
        shares = [s for s, mask in zip(SHARES, masks, strict=True) if s == 0.0 or not np.array_equal(mask, masks[0])]
        plans = [self._plain if share == 0.0 else self.plan(share) for share in shares]
        found = [CandidateOutput(f"kernel, share {s:g}", *plan) for s, plan in zip(shares, plans, strict=True)]
        return (*found, *([] if self._crossed is None else [CandidateOutput("kernel, crossed", *self._crossed)]))

    @cached_property
    def _crossed(self) -> tuple[KernelPolicy, float] | None:
        """The plan whose choices are valued by other episodes than those that they were made with."""
        halves = self.model.halves
        return None if halves is None else self.plan(CROSSED, crossed=halves)

    @cached_property
    def _plain(self) -> tuple[KernelPolicy, float]:
        """The first output, which exploration plays, too: a plan takes long where the horizon is long."""
        return self.plan(SHARES[0])

    @property
    def promise(self) -> float:
        """What the first output promises."""
        return self._plain[1]

    @property
    def supersedes(self) -> bool:
        """Counts: more of them are better, and few fresh episodes would only choose by luck."""
        return self.model.counted

    def about(self) -> str:
        """Representatives and how outcomes are made."""
        model, choice = self.model, self.model.choice
        drift = "" if model.rows.drift is None else ", rewards that change with the step"
        if np.isnan(model.score):
            what = "pairs with the step" if choice.timed else "observations"
            shared = f", {model.prior:g} transitions shared by the actions of one" if model.prior else ""
            return f"counts of {len(model.representatives)} {what}{shared}{drift}"
        timed = ", step" if choice.timed else ""
        return (
            f"kernel of {len(model.representatives)}, {choice.neighbours} {choice.move} {choice.labels}, "
            f"metric {choice.power}{timed}, score {model.score:.3g}{drift}"
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Nothing: the fit follows from the episodes."""
        return {}


@dataclass(frozen=True)
class KernelCandidate(Checked):
    """The kernel model as a candidate."""

    representatives: int = setting(1000, kind=int, least=2, metavar="N", help="Representative states, at most.")
    budgets: int = setting(160, kind=int, least=3, metavar="N", help="Budgets of a plan, about.")
    transitions: int = setting(200_000, kind=int, least=100, metavar="N", help="Transitions of a fit, at most.")
    bonus: float = setting(
        0.3,
        kind=float,
        check=checks.not_negative,
        metavar="B",
        help="Bonus of an episode of pairs never tried, of tau times the range of returns.",
    )
    epsilon: float = share(0.1, help="Share of random actions in exploration.")

    def fit(self, data: FitData, rng: np.random.Generator, before: Any = None) -> FittedKernel:
        """The model of what was played, whatever was fitted before."""
        played = data.played
        with doing(f"fitting a model to {played.n} episodes"):
            most = (self.representatives, self.budgets, self.transitions)
            model = fit_kernel(played, data.n_actions, *most, rng, data.numbered, data.drifts)
        return FittedKernel(model, data.tau, played.horizon, self.bonus, self.epsilon, played.returns())

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedKernel:
        """The same fit again."""
        return self.fit(data, rng)
