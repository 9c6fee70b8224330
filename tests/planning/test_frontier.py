"""The best CVaR at every tau: never below the truth, whatever tau the plan was made for."""

from __future__ import annotations

import base64
import warnings
from dataclasses import replace

import numpy as np

import brute_force
import tailrank
from brute_force import Tiny, random_rows
from tailrank.checks import NotConverged
from tailrank.models.mdp import FiniteMDP
from tailrank.report._levels import pack_curve

LEVELS = np.unique(np.concatenate([np.geomspace(1e-3, 1.0, 25), np.linspace(0.05, 1.0, 20)]))


def several_starts(rng: np.random.Generator) -> Tiny:
    """A tiny MDP with rewards on no grid and at least two starts, whose states pay on levels of their own."""
    while True:
        m = random_rows(rng, "reals", leaves=300)
        S = len(m.start)
        if S > 1:
            break
    level = rng.exponential(float(rng.choice([0.0, 1.0, 10.0])), S)
    rows = tuple((h, s, a, t, p, r + float(level[s])) for h, s, a, t, p, r in m.rows)
    return replace(m, rows=rows, start=tuple(float(q) for q in rng.dirichlet(np.ones(S))))


def unpack(values: list[float] | dict[str, str]) -> np.ndarray:
    """The numbers that the page reads."""
    return np.array(values) if isinstance(values, list) else np.frombuffer(base64.b64decode(values["f8"]))


def least_margin(m: Tiny, tau: float, tolerance: float | str) -> float | None:
    """The least by which the frontier, and what the page shows of it, exceed the truth, over the range of returns.

    None if the plan is exact.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        plan = tailrank.solve(FiniteMDP.from_rows(**m.columns()), tau=tau, tolerance=tolerance, memory="50MB")
    if plan.status == "exact":
        return None
    truth = brute_force.best_cvar_by_brute_force(m, LEVELS)
    width = float(np.ptp(brute_force.totals(m))) or 1.0
    pieces = plan.frontier()
    page = pack_curve(plan.curve, tuple(LEVELS), most=40)
    budget, shortfall = (unpack(page[name]) for name in ("budget", "shortfall"))
    shown = np.max(budget - shortfall / LEVELS[:, None], axis=1)
    margin = np.minimum([pieces.cvar(t) for t in LEVELS] - truth, shown - truth) / width
    assert plan.lower - 1e-9 * width <= brute_force.best_cvar_by_brute_force(m, [tau])[0] <= plan.upper + 1e-9 * width
    return float(margin.min())


def test_the_frontier_of_a_bracketed_plan_is_nowhere_below_the_truth():
    third = 1 / 3
    rows = [(None, 0, 0, 0, third, r) for r in (np.sqrt(2.0), np.pi, 9.0)]
    m = Tiny((*rows, (None, 1, 0, 1, 1.0, 20.0)), 1, (0.5, 0.5))
    margin = least_margin(m, 0.3, "0.05%")
    assert margin is not None
    assert margin >= -1e-9


def test_frontiers_of_random_bracketed_plans_hold_at_every_tau():
    rng = np.random.default_rng(1)
    found = 0
    while found < 40:
        m, tau = several_starts(rng), float(rng.choice([0.02, 0.1, 0.3, 0.6, 0.9]))
        margin = least_margin(m, tau, str(rng.choice(["1%", "0.1%", "0.02%"])))
        if margin is not None:
            found += 1
            assert margin >= -1e-9, (m, tau)
