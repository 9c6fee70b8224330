"""Whether the planners give what rational arithmetic gives (tests/fuzz.py), on one random problem at a time.

`CHECKS` draw one problem each, compare everything with its exact answer and return the largest deviation of each kind,
in units of what is allowed: above 1 is a failure. tests/test_fuzz.py runs some, studies/fuzz_planner.py as many as
there is time for.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

import brute_force
import tailrank
from brute_force import Tiny
from fuzz import KINDS, ROUNDING, TAUS, allowed, best_cvars, best_mean, draw, law_of, nested, random_law, tail
from fuzz_objectives import deviations
from tailrank.checks import NotConverged
from tailrank.models.grid import BudgetGrid
from tailrank.models.lowrank import Model, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import RewardLaw
from tailrank.planning.exact import induction
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.latent.planner import law_of_plan, plan_latent
from tailrank.policies.tables import MarkovPolicy

__all__ = ["CHECKS", "KINDS", "Report"]


class Report(dict[str, float]):
    """The largest deviation of each kind, in units of what is allowed."""

    def near(self, name: str, found: float, exact: Fraction, allowed: float) -> None:
        """|found - exact| is at most what is allowed."""
        self._add(name, abs(Fraction(found) - exact), allowed)

    def below(self, name: str, found: float, exact: Fraction, allowed: float) -> None:
        """found is at most exact, but for what is allowed."""
        self._add(name, max(Fraction(found) - exact, Fraction(0)), allowed)

    def above(self, name: str, found: float, exact: Fraction, allowed: float) -> None:
        """found is at least exact, but for what is allowed."""
        self._add(name, max(exact - Fraction(found), Fraction(0)), allowed)

    def same(self, name: str, is_so: bool) -> None:
        """No deviation at all is allowed."""
        self[name] = max(self.get(name, 0.0), 0.0 if is_so else np.inf)

    def _add(self, name: str, off: Fraction, allowed: float) -> None:
        share = 0.0 if off == 0 else np.inf if allowed == 0.0 else float(off / Fraction(allowed))
        self[name] = max(self.get(name, 0.0), share)


def check_planner(rng: np.random.Generator, kind: str) -> Report:
    """One MDP: the plan at three levels, its policy, its frontier, the other criteria, evaluation, and a file."""
    m, found = draw(rng, kind), Report()
    taus = tuple(sorted(float(x) for x in {*rng.choice(TAUS, 2, replace=False), rng.uniform(0.01, 1.0)}))
    mdp, best = FiniteMDP.from_rows(**m.columns()), best_cvars(m, taus)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        plans = tailrank.solve(mdp, tau=taus, memory="20MB", seconds=0.3)
        alone = tailrank.solve(mdp, tau=taus[1], memory="20MB", seconds=0.3)
    for plan, (value, budget, least) in zip(plans, best, strict=True):
        exact = plan.status == "exact"
        small = allowed(m, value, budget, least)
        if exact:
            found.near("exact optimum", plan.cvar, value, small)
            found.same("exact bounds", plan.lower == plan.cvar == plan.upper)
        found.below("lower bound", plan.lower, value, small)
        found.above("upper bound", plan.upper, value, small)
        own = tail(law_of(m, plan.policy), plan.tau)
        large = allowed(m, value, budget, least, own)
        if plan.evaluation.exact:
            found.near("claim of the policy", plan.cvar, own, large)
            found.near("law of the policy", plan.evaluation.cvar(plan.tau), own, large)
        found.below("claim of the policy", plan.cvar, own, large)
        found.above("upper claim of the policy", plan.evaluation.cvar_upper(plan.tau), own, large)
        frontier = plans[0].frontier().cvar(plan.tau)
        found.above("frontier", frontier, value, small)
        if exact:
            found.near("frontier", frontier, value, small)
    if alone.status == plans[1].status == "exact":  # either may be broken off where time is short
        found.same("one tau or several", alone.cvar == plans[1].cvar)
    if kind in ("integers", "tenths", "ties") and rng.random() < 0.1 and brute_force.totals(m).size <= 60:
        for plan, value in zip(plans[1:], brute_force.best_cvar_by_lp(m, taus[1:]), strict=True):
            if plan.tau >= 0.01:
                found.below("lower bound against a linear program", plan.lower, Fraction(value), 1e-8)
                found.above("upper bound against a linear program", plan.upper, Fraction(value), 1e-8)
    mean = best_mean(m)
    size = allowed(m, mean, Fraction(0))
    found.near("best mean", plans[0].risk_neutral.mean, mean, size)
    _check_criteria(rng, m, mdp, taus[1], best[1], found)
    _check_evaluation(rng, m, mdp, plans[1], found)
    return found


def _check_criteria(
    rng: np.random.Generator, m: Tiny, mdp: FiniteMDP, tau: float, best: tuple[Fraction, ...], found: Report
) -> None:
    criterion = str(rng.choice(["iterated", "chow", "mean"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        plan = tailrank.solve(mdp, tau=tau, criterion=criterion, memory="20MB", seconds=0.3)
    own = tail(law_of(m, plan.policy), tau)
    size = allowed(m, own, *best)
    found.below(f"{criterion}: claim of the policy", plan.cvar, own, size)
    found.above(f"{criterion}: upper claim", plan.evaluation.cvar_upper(tau), own, size)
    if criterion == "iterated":
        found.near("iterated: value", plan.claim, nested(m, tau), size)
    if criterion == "chow":
        found.above("chow: value", plan.claim, best[0], 50 * size)  # one rounding for each of about 50 levels


def _check_evaluation(rng: np.random.Generator, m: Tiny, mdp: FiniteMDP, plan: tailrank.Plan, found: Report) -> None:
    actions = np.zeros((m.horizon, len(m.start)), dtype=np.int64)
    for h, s in np.ndindex(*actions.shape):
        actions[h, s] = rng.choice(list(m.outcomes(h, s)))
    tau, policy = float(rng.choice(TAUS)), MarkovPolicy(actions)
    law = law_of(m, policy)
    own, mean = tail(law, tau), sum((x * p for x, p in law), Fraction(0))
    worst = min(x for x, _ in law), brute_force.var_by_definition(*zip(*law, strict=True), tau)
    estimate = tailrank.evaluate(policy, mdp, tau)
    found.near("evaluate: CVaR", estimate.cvar, own, allowed(m, own, *worst))
    found.near("evaluate: mean", estimate.mean, mean, allowed(m, mean, *(x for x, _ in law)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.policy"
        tailrank.save(plan, path)
        loaded = tailrank.load(path).policy
        found.same("saved and loaded", law_of(m, loaded) == law_of(m, plan.policy))


def check_larger(rng: np.random.Generator, kind: str) -> Report:
    """An MDP with more states and steps than a tree can list: histories with equal sums merged, in floats."""
    S, A, H, n = (int(rng.integers(a, b)) for a, b in ((2, 10), (1, 4), (3, 7), (1, 4)))
    rows = [
        (None, s, a, int(rng.integers(S)), float(p), float(rng.integers(-3, 4)))
        for s, a in itertools.product(range(S), range(A))
        if a == 0 or rng.random() < 0.7
        for p in random_law(rng, kind, n)
    ]
    m = Tiny(tuple(rows), H, tuple(random_law(rng, "reals", S)), 1.0, A, "integers")
    taus = (1e-6, 0.02, 0.3, 1.0)
    budgets = np.arange(-3.0 * H, 3.0 * H + 1)
    short = brute_force.least_shortfall_by_sums(m, budgets)
    found = Report()
    for tau, plan in zip(taus, tailrank.solve(FiniteMDP.from_rows(**m.columns()), tau=taus), strict=True):
        found.same("larger: exact", plan.status == "exact")
        best = Fraction(float(np.max(budgets - short / tau)))
        found.near("larger: optimum", plan.cvar, best, 1e-10)
        found.near("larger: frontier", plan.frontier().cvar(tau), best, 1e-10)
        returns, probs = plan.law.values, plan.law.probs
        found.near("larger: law", plan.cvar, brute_force.cvar_by_integral(returns, probs, tau), 1e-10)
    return found


def check_latent(rng: np.random.Generator, kind: str) -> Report:
    """One low-rank model with bonuses: the latent planner, the sparse one on the same MDP, and exact values."""
    H, G, A, d, top = (int(rng.integers(1, n)) for n in (5, 4, 4, 4, 4))
    steps = tuple(
        StepModel(
            np.array([random_law(rng, kind, d) for _ in range(G * A)]).reshape(G, A, d),
            np.array([random_law(rng, kind, G) for _ in range(d)]),
        )
        for _ in range(H - 1)
    )
    laws = np.array([random_law(rng, kind, top + 1) for _ in range(3)])
    which = rng.integers(0, 3, (H, G, A))
    rewards = RewardLaw(BudgetGrid(Fraction(1), (Fraction(0),) * H, "exact"), laws, which)
    model, start = Model(steps, (np.arange(G),) * H), int(rng.integers(G))
    paid = rng.random() < 0.5
    bonus = [np.where(paid and h < H - 2, rng.random((G, A)) * 0.3, 0.0) for h in range(H)]
    tau, law_at = float(rng.choice(TAUS)), tuple(which[h] for h in range(H))
    plan = plan_latent(model, rewards, law_at, bonus, tau, start)
    exact = _exact_latent(model, laws, law_at, bonus, top, start)
    found, C = Report(), H * top + 1
    for c in range(C):
        size = ROUNDING * (float(abs(exact[c])) + (1.0 if paid else 0.0)) + 1e-300
        found.near("latent: values", plan.curve[c], exact[c], size)
    value, best = max((Fraction(c) - v / Fraction(tau), c) for c, v in enumerate(exact))
    size = ROUNDING * (best + float(abs(exact[best])) / tau + (1.0 / tau if paid else 0.0))
    found.near("latent: objective", plan.objective, value, size)
    mdp = _expanded(model, laws, law_at, top, start)
    grid = BudgetGrid(Fraction(1), (Fraction(0),) * H, "exact")
    layout = induction.layout(mdp, grid, np.ones((H + 1, G), dtype=bool))
    units = np.stack([b * top for b in bonus])
    index, sparse = induction.induct(mdp, grid, layout, keep_actions=True, bonus=units).curve(mdp.start)
    for c, v in zip(index, sparse, strict=True):
        size = ROUNDING * (float(abs(exact[c])) + (1.0 if paid else 0.0)) + 1e-300
        found.near("sparse with bonus: values", v, exact[c], size)
    own = law_of_plan(model, rewards, law_at, plan, start)
    law = return_law(plan.policy(rewards), mdp, grid).law
    found.near("latent: law of the plan", own.cvar(tau), Fraction(law.cvar(tau)), ROUNDING * C)
    if not paid:
        found.near("latent: claim of the plan", own.cvar(tau), value, ROUNDING * max(best, 1))
    return found


def _exact_latent(
    model: Model[StepModel],
    laws: np.ndarray,
    law_at: tuple[np.ndarray, ...],
    bonus: list[np.ndarray],
    top: int,
    start: int,
) -> list[Fraction]:
    """min over policies of E(c - R)^+ less the bonuses (in units), for c = 0..H top."""
    H = model.horizon
    (G, A), C = law_at[0].shape, H * top + 1
    after = [[Fraction(c) for c in range(C)] for _ in range(G)]
    for h in reversed(range(H)):
        now = []
        for g in range(G):
            options = []
            for a in range(A):
                law = [Fraction(p) for p in laws[law_at[h][g, a]]]
                if h == H - 1:
                    mean = after[0]
                else:
                    phi, psi = model.steps[h].phi[g, a], model.steps[h].psi
                    kernel = [sum(Fraction(w) * Fraction(q) for w, q in zip(phi, psi[:, k])) for k in range(G)]
                    mean = [sum(kernel[k] * after[k][c] for k in range(G)) for c in range(C)]
                paid = Fraction(bonus[h][g, a] * top)
                options.append([sum(p * mean[max(c - x, 0)] for x, p in enumerate(law)) - paid for c in range(C)])
            now.append([min(column) for column in zip(*options, strict=True)])
        after = now
    return after[start]


def _expanded(
    model: Model[StepModel], laws: np.ndarray, law_at: tuple[np.ndarray, ...], top: int, start: int
) -> FiniteMDP:
    """The same as outcome rows."""
    rows = []
    H, (G, A) = model.horizon, law_at[0].shape
    for h, g, a in itertools.product(range(H), range(G), range(A)):
        kernel = model.steps[h].phi[g, a] @ model.steps[h].psi if h < H - 1 else np.eye(G)[0]
        for (t, p), (x, q) in itertools.product(enumerate(kernel), enumerate(laws[law_at[h][g, a]])):
            rows.append((h, g, a, t, p * q, float(x)))
    step, s, a, t, p, r = zip(*rows)
    return FiniteMDP.from_rows(s, a, t, p, r, step=step, start=start, n_states=G, n_actions=A)


def check_objectives(rng: np.random.Generator, kind: str) -> Report:
    """One MDP with few policies: the plan for a random objective against all of them."""
    return Report(deviations(rng, kind))


CHECKS = (check_planner, check_latent, check_larger, check_objectives)
