"""`solve`: the policy with the best CVaR in a known finite MDP, with certified bounds.

If all rewards lie on one budget grid the answer is exact. Otherwise two inductions bracket it: rewards
rounded up give an upper bound on CVaR*, and the policy that is optimal for rewards rounded to the nearest
grid point, evaluated in the true MDP, gives a lower bound. The grid is refined until the bracket is as
narrow as asked, or until memory or time runs out; then the plan says so.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, overload

import numpy as np

from tailrank import checks
from tailrank.checks import InputError, NotConverged
from tailrank.envs import sources
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.registry import CRITERIA, replan
from tailrank.planning.criteria.sampled_nested import Sampling
from tailrank.planning.exact import induction
from tailrank.planning.exact.bracket import refine_brackets
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.curve import Curve, InductionRequest
from tailrank.planning.exact.limits import Limits, OutOfTime
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.objectives.optimise import plan_for
from tailrank.planning.plan import Plan, Reference, Status
from tailrank.policies.tables import BudgetPolicy, Policy
from tailrank.risk.measures.base import Measure, a_measure
from tailrank.risk.measures.cvar import CVaR

EXACT_SHARE = 0.75
"""How much of the time limit an exact induction may use; what is left is for a bracket."""

EXACT_PRODUCTS_A_SECOND = 1e9
"""A hopeful guess at the speed of an exact induction, to tell beforehand whether to begin it."""


@overload
def solve(
    source: Any,
    tau: float | None = ...,
    *,
    objective: Measure | None = ...,
    criterion: str = ...,
    tolerance: float | str = ...,
    unit: float | None = ...,
    memory: float | str = ...,
    seconds: float = ...,
    samples: int | None = ...,
    seed: int | None = ...,
    undominated: bool = ...,
    horizon: int | None = ...,
    discount: float | None = ...,
    start: object = ...,
    **reading: Any,
) -> Plan: ...
@overload
def solve(
    source: Any,
    tau: Sequence[float],
    *,
    objective: Measure | None = ...,
    criterion: str = ...,
    tolerance: float | str = ...,
    unit: float | None = ...,
    memory: float | str = ...,
    seconds: float = ...,
    samples: int | None = ...,
    seed: int | None = ...,
    undominated: bool = ...,
    horizon: int | None = ...,
    discount: float | None = ...,
    start: object = ...,
    **reading: Any,
) -> tuple[Plan, ...]: ...
def solve(
    source: Any,
    tau: float | Sequence[float] | None = None,
    *,
    objective: Measure | None = None,
    criterion: str = "cvar",
    tolerance: float | str = "1%",
    unit: float | None = None,
    memory: float | str = "4GB",
    seconds: float = 60.0,
    samples: int | None = None,
    seed: int | None = None,
    undominated: bool = True,
    horizon: int | None = None,
    discount: float | None = None,
    start: object = None,
    **reading: Any,
) -> Plan | tuple[Plan, ...]:
    """The plan for `tau` (or a tuple of plans, for several, at the cost of one); tau is 0.1 if nobody says.

    source: what is known: a `FiniteMDP`, a path (.csv, .json, .npz), a Gymnasium id, a data frame, a list of rows
    (state, action, next state, probability, reward), or arrays (P, R); horizon, discount, start say what it does not
    say, and reading takes the other options of `tailrank.envs.read`. tau: tail fraction in (0, 1].
    objective: a risk measure of `tailrank.risk.measures` in place of the CVaR at `tau`; CVaR and VaR of its policy are
    told at `tau`.
    criterion: "cvar" (the best static CVaR), or for comparison "mean", "iterated" (nested CVaR), "sampled-iterated"
    (the same from `samples` outcomes of each pair, 1000 if not given, drawn with `seed`), "chow" (Chow et al. 2015,
    whose own value overestimates) or another row of `planning/criteria/registry.py:CRITERIA`.
    tolerance: the widest bracket allowed when the answer is not exact, in reward units or as "1%" of |CVaR|.
    unit: a fixed grid spacing in place of the automatic one. memory, seconds: limits; what takes longer is broken
    off, but one pass over a coarse grid is always made.
    undominated: of the plans with the best CVaR, one with the best mean (otherwise any; a little faster).

    >>> rows = [("shop", "rent", "shop", 1, 1), ("shop", "buy", "shop", 0.9, 2), ("shop", "buy", "shop", 0.1, -5)]
    >>> plan = solve(rows, tau=0.2, horizon=1)
    >>> plan.cvar, plan.risk_neutral.cvar, plan.predict("shop")[0]
    (1.0, -1.5, 'rent')
    """
    began = time.perf_counter()
    if tau is None:
        tau = getattr(objective, "tau", 0.1)
    levels = checks.tail_levels(tau)
    if objective is not None and criterion != "cvar":
        raise InputError(f"objective, criterion: give one of them, found {objective} and {criterion}")
    checks.one_of(criterion, "criterion", ("cvar", *CRITERIA))
    given = {name: value for name, value in (("samples", samples), ("seed", seed)) if value is not None}
    if given and criterion != "sampled-iterated":
        raise InputError(f"{next(iter(given))}: is only for the criterion sampled-iterated, found {criterion}")
    sampling = Sampling(**given) if given else None
    limits = Limits(tolerance_of(tolerance), bytes_of(memory), checks.number(seconds, "seconds"), began)
    read = sources.read(source, horizon=horizon, discount=discount, start=start, **reading)
    problem = SolveContext.of(read.mdp, undominated)
    fixed = None if unit is None else checks.positive(unit, "unit")
    if objective is None or (isinstance(objective, CVaR) and levels == (objective.tau,)):
        plans = _plan_cvar(problem, levels, limits, fixed)
    else:
        plans = plan_for(problem, a_measure(objective), levels, limits, fixed)
    unfinished = {line for p in plans for line in p.notes}
    if criterion != "cvar":
        plans = replan(criterion, problem.mdp, plans, sampling)
    finished = time.perf_counter() - began
    plans = tuple(replace(p, seconds=finished, source=read) for p in plans)
    for line in unfinished:
        warnings.warn(line, NotConverged, stacklevel=2)
    return plans[0] if np.ndim(tau) == 0 else plans


def _plan_cvar(
    problem: SolveContext, levels: tuple[float, ...], limits: Limits, unit: float | None
) -> tuple[Plan, ...]:
    lattice = problem.lattice() if unit is None else None
    if lattice is not None:
        job = InductionRequest(
            problem.mdp,
            lattice,
            induction.layout(problem.mdp, lattice, problem.met),
            keep_actions=True,
            neutral=problem.ties,
        )
        if job.bytes <= limits.bytes and job.layout.products <= _affordable(problem.mdp, limits):
            try:
                return _exact_plans(problem, levels, job, limits.part(EXACT_SHARE))
            except OutOfTime:
                pass
    brackets, found, note = refine_brackets(problem, levels, limits, unit)
    notes = (note,) if note else ()
    neutral, plans = partial(_same, found.neutral), []
    for b in brackets:
        play, evaluation = b.best
        law, bounds = partial(_same, evaluation), (b.lower, b.upper)
        plans.append(_plan(problem, b.tau, play, law, neutral, found.curve, bounds, "bracketed", notes))
    return tuple(plans)


def _affordable(mdp: FiniteMDP, limits: Limits) -> float:
    """Products an exact induction may take: an exact grid of a discounted MDP is never asked for, only cheap."""
    return EXACT_PRODUCTS_A_SECOND * (EXACT_SHARE * limits.seconds if mdp.discount == 1.0 else 0.1)


def _exact_plans(
    problem: SolveContext, levels: tuple[float, ...], job: InductionRequest, limits: Limits
) -> tuple[Plan, ...]:
    curve, policy = job.run(problem.mean_policy.actions, limits.check)
    law_of = partial(return_law, mdp=problem.mdp, grid=job.grid)
    neutral, plans = cache(partial(law_of, problem.mean_policy)), []
    for tau in levels:
        play = policy.with_budget(curve.index[curve.best(tau)])  # type: ignore[union-attr]
        bounds = 2 * (float(curve.objective(tau).max()),)  # of budgets that tie, one may be a rounding below
        plans.append(_plan(problem, tau, play, partial(law_of, play), neutral, curve, bounds, "exact", ()))
    return tuple(plans)


def _plan(
    problem: SolveContext,
    tau: float,
    policy: Policy,
    law: Callable[[], Evaluation],
    neutral: Callable[[], Evaluation],
    curve: Curve,
    bounds: tuple[float, float],
    status: Status,
    notes: tuple[str, ...],
) -> Plan:
    return Plan(
        tau=tau,
        criterion="cvar",
        policy=policy,
        budget=policy.start_budget if isinstance(policy, BudgetPolicy) else None,
        value=bounds[0],
        lower=bounds[0],
        upper=bounds[1],
        risk_neutral=Reference(lambda: (problem.mean_policy, problem.mean), tau, neutral),
        compute_law=law,
        budget_curve=curve,
        status=status,
        seconds=0.0,
        notes=notes,
        objective=CVaR(tau),
    )


def _same(evaluation: Evaluation) -> Evaluation:
    return evaluation


def tolerance_of(tolerance: float | str) -> tuple[float, float]:
    """(absolute, relative) from a number or a percentage such as "1%"."""
    text = str(tolerance).strip()
    relative = text.endswith("%")
    value = checks.number(text.removesuffix("%"), "tolerance") / (100 if relative else 1)
    if value <= 0:
        raise InputError(f"tolerance = {tolerance}: must be positive")
    return (0.0, value) if relative else (value, 0.0)


def bytes_of(memory: float | str) -> int:
    """Bytes from a number or a text such as "500MB"."""
    text = str(memory).strip().upper().removesuffix("B")
    scale = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(text[-1:], 0)
    value = checks.number(text[:-1] if scale else text, "memory") * (scale or 1)
    if value <= 0:
        raise InputError(f"memory = {memory}: must be positive")
    return int(value)
