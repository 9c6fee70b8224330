"""Every objective against all policies of a random problem: a check for tests/test_fuzz.py and studies/fuzz_planner.py.

The best value is the largest measure of the law of any policy that looks at the whole past (`brute_force.return_laws`).
What a measure of a law is, is tested against its definition elsewhere. Also compared: a bound on the mean.
"""

from __future__ import annotations

import warnings

import numpy as np

import tailrank
from brute_force import Tiny, count_policies, return_laws
from fuzz import draw
from tailrank.checks import InputError, NotConverged
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.return_law import return_law
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures import (
    CVaR,
    Entropic,
    EVaR,
    Expectile,
    Mean,
    MeanCVaR,
    MeanVariance,
    Spectral,
    Target,
    Utility,
    VaR,
    WorstCase,
)
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.target import NEAR as TARGET_NEAR

MOST_POLICIES = 60
RARE = 1e-100
"""Probabilities below this may have products that no float holds: then a law lacks an outcome that can happen."""
REFUSED = {"too far from zero for a grid": "returns differ too little", "no grid fits in the memory": "the limit is"}
"""Why a plan may be refused, and how that is told."""


def random_measure(rng: np.random.Generator, values: np.ndarray) -> Measure:
    """A measure with random parameters, on the scale of returns like these [n]."""
    tau, share = float(rng.uniform(0.02, 1.0)), float(rng.uniform(0.05, 0.95))
    apart, near = float(np.ptp(values)), TARGET_NEAR * float(np.abs(values).max())
    width = apart if apart > near else 1.0
    points, beyond = np.sort(rng.choice(values, 2, replace=False)) if values.size > 2 else np.zeros(2), width
    if points[1] - points[0] <= near:  # apart by a rounding error only
        points, beyond = np.array([0.0, 1.0]), 1.0
    at = (*(float(x) for x in points), float(points[-1]) + beyond)
    return (
        CVaR(tau),
        MeanCVaR(tau, weight=share),
        Entropic(share / width),
        Entropic(40.0 / width),
        EVaR(tau),
        VaR(tau),
        Target(float(rng.choice(values))),
        Expectile(share),
        MeanVariance(share / width),
        Utility(tuple(zip(at, (0.0, 2.0, 2.5), strict=True))),
        Spectral({tau / 2: share, 1.0: 1.0 - share}),
        Mean(),
        WorstCase(),
    )[int(rng.integers(13))]


def few_policies(rng: np.random.Generator, kind: str) -> Tiny:
    """A problem whose policies can all be listed."""
    while True:
        m = draw(rng, kind, leaves=40)
        if count_policies(m) <= MOST_POLICIES:
            return m


def moved(law: ReturnLaw, size: float) -> ReturnLaw:
    """The law with all returns larger by a rounding error of this size: a sum of rewards has one, and a target or a
    steep utility sees it. All measures grow with the returns."""
    return ReturnLaw(law.values + 8.0 * np.finfo(np.float64).eps * size, law.probs)


def deviations(rng: np.random.Generator, kind: str) -> dict[str, float]:
    """How far the plan for a random objective is from what it must be, in units of what is allowed."""
    m = few_policies(rng, kind)
    laws = [ReturnLaw.of(*map(np.array, zip(*law, strict=True))) for law in return_laws(m)]
    values = np.unique(np.concatenate([law.values for law in laws]))
    measure = random_measure(rng, values)
    if isinstance(measure, WorstCase) and min(row[4] for row in m.rows) < RARE:
        return {"worst: not compared, a path is too rare for floats": 0.0}
    if isinstance(measure, EVaR) and min(row[4] for row in m.rows) < RARE:
        return {"evar: not compared, the logarithm of so rare a path has few digits": 0.0}
    if isinstance(measure, Target) and np.diff(values).min(initial=np.inf) < TARGET_NEAR * abs(measure.at):
        return {"target: not compared, returns are as close as rounding errors": 0.0}
    size = max(float(np.abs(values).max()), *(abs(row[5]) for row in m.rows))  # rewards may cancel
    least, most = (max(measure.of_law(moved(law, side * size)) for law in laws) for side in (-1, 1))
    mdp = FiniteMDP.from_rows(**m.columns())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        try:
            plan = tailrank.solve(mdp, 0.3, objective=measure, memory="20MB", seconds=0.3)
        except InputError as error:
            for why, said in REFUSED.items():
                if said in str(error):
                    return {f"{measure.name}: refused, {why}": 0.0}
            raise
    own = measure.of_law(return_law(plan.policy, mdp).law)
    scale = {"target": 1.0, "utility": 1.0 + abs(most)}.get(measure.name, 1.0 + size)
    small = 1e-8 * scale
    found = {
        f"{measure.name}: lower bound": max(plan.lower - most, 0.0) / small,
        f"{measure.name}: upper bound": max(least - plan.upper, 0.0) / small,
        f"{measure.name}: claim of the policy": max(plan.value - own, 0.0) / small,
    }
    if plan.status == "exact":
        found[f"{measure.name}: exact optimum"] = max(plan.value - most, least - plan.value, 0.0) / small
    return found
