"""CVaR-LSVI (Algorithm 2): planning in a model that can only be sampled, with features phi.

The minimised value, in units and with budgets i in whole units, clamped at 0:

    V_H(s, i) = i,   Q_h(s, i, a) = -b_h(s, a) + E[V_{h+1}(s', max(i - r, 0))],   V_h = min_a Q_h

The expectation is linear in the features, so it is regressed on simulated trajectories, with an optimistic
-beta ||x||; cost does not depend on the number of states. Where a model can be listed, the exact induction
over (state, budget) is both exact and far cheaper. Steps are 0-based here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.checks import InputError, NotConverged
from tailrank.models.goal import UnitGoal
from tailrank.planning.lsvi._fast import FastFit
from tailrank.planning.lsvi._literal import LiteralFit
from tailrank.planning.lsvi._policy import Clip, LsviPolicy
from tailrank.planning.lsvi.model import FeatureModel, GroupModel, rollout
from tailrank.planning.lsvi.settings import CLIPS, VARIANTS

__all__ = ["CvarLsvi", "FeatureModel", "GroupModel", "LsviPlan", "LsviPolicy", "LsviRun"]


@dataclass(frozen=True)
class LsviRun:
    """One call of Algorithm 2, for one initial budget. Everything in units.

    value: the least mean over evaluation episodes, error: its standard error (the choice of the least makes it
    a little too low). values [n], optimistic [n]: for each iterate its mean and the value it is greedy for;
    weights [n]: for how many of the T1 iterations it was in use.
    """

    budget: int
    value: float
    error: float
    policy: LsviPolicy
    values: np.ndarray
    optimistic: np.ndarray
    weights: np.ndarray
    simulated: int
    status: str

    @property
    def lost_optimism(self) -> bool:
        """Whether the value that the last iterate is greedy for surely exceeds what a policy was evaluated to."""
        return bool(self.optimistic[-1] > self.value + 3.0 * self.error + 1e-9)


@dataclass(frozen=True)
class LsviPlan:
    """The best initial budget and its policy: budget = argmax_i { i - V(i) / tau } over `budgets`."""

    tau: float
    budgets: np.ndarray
    values: np.ndarray
    objective: np.ndarray
    run: LsviRun
    simulated: int

    @property
    def budget(self) -> int:
        """i*, in units."""
        return self.run.budget

    @property
    def policy(self) -> LsviPolicy:
        """The policy to be started with `budget`."""
        return self.run.policy

    @property
    def status(self) -> str:
        """`estimated`, or with a tolerance `converged` or `not converged`."""
        return self.run.status


@dataclass(frozen=True)
class CvarLsvi:
    """Settings of Algorithm 2: T1 iterations, T2 evaluation episodes for each policy, lambda, beta in units.

    variant: `literal` (as printed), `doubling` (printed features, recomputed only when a determinant has grown
    by the factor `growth`; 1 recomputes always) or `factored` (the same, and the known reward law is not learned).
    clip: `corrected`, or `printed` ([-H, H], which is wrong for H >= 5). cap: the largest bonus, in units
    (default: H times the largest reward). tolerance: in units, see `LsviPlan.status`. quiet: last steps without a
    bonus, two where the reward laws are known.
    """

    iterations: int
    evaluations: int
    beta: float
    lam: float = 1.0
    clip: str = "corrected"
    cap: float | None = None
    variant: str = "factored"
    growth: float = 2.0
    tolerance: float | None = None
    quiet: int = 2

    def __post_init__(self) -> None:
        for name in ("iterations", "evaluations"):
            object.__setattr__(self, name, checks.whole(getattr(self, name), name))
        checks.one_of(self.variant, "variant", VARIANTS)
        checks.one_of(self.clip, "clip", CLIPS)
        for name, low in (("beta", 0.0), ("cap", 0.0), ("growth", 1.0), ("tolerance", 0.0)):
            value = getattr(self, name)
            if value is not None and checks.number(value, name) < low:
                raise InputError(f"{name} = {value}: must be at least {low:g}")
        checks.positive(self.lam, "lam")

    def plan(
        self,
        model: FeatureModel,
        budget: int | Sequence[int] | None = None,
        *,
        tau: float,
        rng: np.random.Generator,
        skip: bool = False,
        goal: UnitGoal | None = None,
    ) -> LsviPlan:
        """The plan for one initial budget, the best of several, or the best of all (None). Budgets in units.

        Exploration depends on the initial budget, so this is one call of Algorithm 2 for each of them. skip: leave out
        those that cannot be best. V never falls as budgets grow, so from budget i to j the objective grows by j - i at
        most; that holds of the estimates up to their error, which is what skipping may cost. goal: another objective,
        whose budgets are indices (`models/goal.py`); none of them is skipped.
        """
        tau = checks.tail_level(tau)
        most = model.horizon * _top(model) if goal is None else goal.terminal.size - 1
        every = range(most + 1) if goal is None else goal.starts
        given = every if budget is None else np.atleast_1d(budget)
        budgets = [checks.whole(i, "budget", least=0) for i in given]
        if not budgets or max(budgets) > most:
            raise InputError(f"budget = {max(budgets, default=None)}: must lie in 0..{most}, at least one is needed")
        tried: list[int] = []
        values: list[float] = []
        objective: list[float] = []
        simulated, best = 0, None
        for i, stream in zip(budgets, rng.spawn(len(budgets)), strict=True):
            if skip and goal is None and tried and objective[-1] + i - tried[-1] <= max(objective):
                continue
            run = self.run(model, i, stream, None if goal is None else goal.terminal)
            simulated += run.simulated
            found = i - run.value / tau if goal is None else float(goal.promises(np.array(i), np.array(run.value)))
            if best is None or found > max(objective):
                best = run
            tried.append(i)
            values.append(run.value)
            objective.append(found)
        if best is None:
            raise InputError("budget: at least one is needed, found none")
        if best.lost_optimism:
            text = (
                f"CVaR-LSVI: beta = {self.beta:g} units lost optimism: the optimistic value exceeds the evaluated one"
            )
            warnings.warn(f"{text}; a larger beta keeps it", NotConverged, stacklevel=2)
        if best.status == "not converged":
            gap = best.value - best.optimistic[-1]
            warnings.warn(f"CVaR-LSVI: gap {gap:.3g} units, asked for {self.tolerance}", NotConverged, stacklevel=2)
        return LsviPlan(tau, np.array(tried), np.array(values), np.array(objective), best, simulated)

    def run(
        self, model: FeatureModel, budget: int, rng: np.random.Generator, terminal: np.ndarray | None = None
    ) -> LsviRun:
        """Algorithm 2 for the initial budget i1; terminal [C]: V_H where it is not that of CVaR.

        Each policy is evaluated (lines 14-17) as soon as it is formed, so only the best one is ever kept.
        """
        explore, judge = rng.spawn(2)
        fit = self._fit(model, budget, terminal)
        start = model.start()
        left = np.full(len(start), budget)
        values: list[float] = []
        optimistic: list[float] = []
        counts: list[int] = []
        best, error = None, np.inf
        while fit.count < self.iterations:  # line 2
            policy = fit.policy()  # lines 3-11
            earned = rollout(model, policy.choose, budget, self.evaluations, judge).values(budget, terminal)  # line 15
            values.append(float(earned.mean()))  # line 16
            optimistic.append(float(policy.value(0, start, left).mean()))
            if best is None or values[-1] < min(values[:-1]):  # line 18: min, not max
                best, error = policy, float(earned.std() / np.sqrt(earned.size))
            before = fit.count
            fit.collect(policy, self.iterations, explore)  # line 12
            counts.append(fit.count - before)
        if best is None:
            raise InputError(f"iterations = {self.iterations}: no policy was formed")
        status = "estimated"
        if self.tolerance is not None:
            status = "converged" if min(values) - optimistic[-1] <= self.tolerance else "not converged"
        return LsviRun(
            budget,
            min(values),
            error,
            best,
            np.array(values),
            np.array(optimistic),
            np.array(counts),
            fit.simulated + len(values) * self.evaluations,
            status,
        )

    def _fit(self, model: FeatureModel, budget: int, terminal: np.ndarray | None) -> LiteralFit | FastFit:
        """The regression of this variant, without data."""
        top = _top(model)
        cap = float(model.horizon * top) if self.cap is None else self.cap
        clip = Clip(model.horizon, top, cap, self.clip == "printed", self.quiet, terminal)
        if self.variant == "literal":
            return LiteralFit(model, budget, self.lam, self.beta, clip, self.iterations)
        factored = self.variant == "factored"
        return FastFit(model, budget, self.lam, self.beta, clip, self.iterations, self.growth, factored)


def _top(model: FeatureModel) -> int:
    """The largest reward in units."""
    return int(model.reward_laws(0, model.start()).shape[-1]) - 1
