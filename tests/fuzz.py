"""Random problems of every shape, and their answers in rational arithmetic: nothing here but the definition.

A float is the binary number that it is, so answers are exact, and what a check allows is rounding alone: `ROUNDING`
relative to how far apart the returns are that the tail is made of, and units in the last place of what is added up.

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

import oracles
import tailrank
from oracles import Tiny
from tailrank import bellman
from tailrank.checks import NotConverged
from tailrank.evaluation import return_law
from tailrank.grid import BudgetGrid
from tailrank.lowrank import Model, StepModel
from tailrank.mdp import FiniteMDP
from tailrank.planners.latent import law_of_plan, plan_latent
from tailrank.policy import MarkovPolicy
from tailrank.rewards import RewardLaw

ROUNDING = 1e-12
KINDS = ("integers", "tenths", "thirds", "reals", "ties", "decades", "offset", "rare", "minute", "huge")
TAUS = (1e-12, 1e-6, 1e-3, 0.05, 0.25, 1 / 3, 0.5, 0.9, 1 - 1e-16, 1.0)
Exact = dict[int, list[tuple[int, Fraction, Fraction, float]]]


# Problems


def draw(rng: np.random.Generator, kind: str, leaves: int = 150) -> Tiny:
    """A tiny MDP whose tree of histories has at most `leaves` leaves."""
    while True:
        S, A, H, most = (int(rng.integers(1, n)) for n in (5, 4, 5, 5))
        timed = bool(rng.random() < 0.3)
        rows = []
        for h, s, a in itertools.product(range(H) if timed else [None], range(S), range(A)):
            if rng.random() < 0.15:
                continue  # not available; a state without any action is absorbing
            n = int(rng.integers(1, most + 1))
            law = _law(rng, kind, n)
            rows += [(h, s, a, int(rng.integers(S)), float(p), _reward(rng, kind)) for p in law]
        if rows and rng.random() < 0.2:  # an outcome twice, and an action twice
            h, s, a, t, p, r = rows.pop()
            rows += [(h, s, a, t, p / 2, r), (h, s, a, t, p / 2, r)]
            rows += [(i, j, A, *rest) for i, j, k, *rest in rows if (j, k) == (s, a)]
            A += 1
        if not rows or (timed and {row[0] for row in rows} != set(range(H))):
            continue
        start = np.eye(S)[rng.integers(S)] if rng.random() < 0.6 else _law(rng, kind, S)
        discount = float(rng.choice([0.9, 0.5, 1e-3, 1 - 1e-12])) if rng.random() < 0.2 else 1.0
        m = Tiny(tuple(rows), H, tuple(float(q) for q in start), discount, A, kind)
        if oracles._leaves(m) <= leaves:
            return m


def _law(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    if kind == "rare":
        p = 10.0 ** -rng.uniform(0, 14, n) if rng.random() < 0.9 else np.append(np.full(n - 1, 5e-324), 1.0)
    elif kind == "ties" or rng.random() < 0.4:
        p = rng.integers(0, 5, n).astype(float)
    else:
        p = rng.dirichlet(np.ones(n))
    return p / p.sum() if p.sum() > 0 else np.full(n, 1 / n)


def _reward(rng: np.random.Generator, kind: str) -> float:
    if kind == "ties":
        return float(rng.integers(0, 2))
    if kind == "tenths":
        return int(rng.integers(-12, 13)) / 10
    if kind == "thirds":
        return int(rng.integers(-7, 8)) / 3
    if kind == "reals":
        return float(rng.normal(0.0, 2.0))
    if kind == "decades":
        return float(rng.integers(-3, 4)) * float(rng.choice([1e-6, 1e-3, 1.0, 1e6, 1e12]))
    if kind == "offset":
        return 1e12 + int(rng.integers(-3, 4)) / 500
    if kind == "minute":
        return float(rng.choice([-0.0, 0.0, 1e-12, 3e-12, -2e-12]))
    if kind == "huge":
        return float(rng.integers(-3, 4)) * 1e90
    return float(rng.integers(-4, 5))


# Exact answers


def tables(m: Tiny) -> list[list[Exact]]:
    """For each step and state the outcomes (s', p, discounted r, r) of every action, laws summing to one."""
    found: list[list[Exact]] = []
    for h in range(m.horizon):
        found.append([])
        for s in range(len(m.start)):
            options: Exact = {}
            for step, state, a, t, p, r in m.rows:
                if state == s and step in (None, h):
                    options.setdefault(a, []).append((t, Fraction(p), Fraction(r * m.discount**h), r))
            for a, out in options.items():
                total = sum(p for _, p, _, _ in out)
                options[a] = [(t, p / total, x, r) for t, p, x, r in out if p > 0]
            found[-1].append(options or {0: [(s, Fraction(1), Fraction(0), 0.0)]})
    return found


def starts(m: Tiny) -> list[tuple[int, Fraction]]:
    """The states that an episode may begin in, with their probabilities."""
    total = sum(Fraction(q) for q in m.start)
    return [(s, Fraction(q) / total) for s, q in enumerate(m.start) if q > 0]


def best_cvars(m: Tiny, taus: tuple[float, ...]) -> list[tuple[Fraction, Fraction, Fraction]]:
    """For each tau the best CVaR over all policies with memory, the budget that attains it, and the least return."""
    table = tables(m)

    def totals(h: int, s: int, y: Fraction) -> set[Fraction]:
        if h == m.horizon:
            return {y}
        return set().union(*(totals(h + 1, t, y + x) for out in table[h][s].values() for t, _, x, _ in out))

    budgets = sorted(set().union(*(totals(0, s, Fraction(0)) for s, _ in starts(m))))

    def node(h: int, s: int, y: Fraction) -> list[Fraction]:
        if h == m.horizon:
            return [max(c - y, Fraction(0)) for c in budgets]
        options = []
        for out in table[h][s].values():
            after = [(p, node(h + 1, t, y + x)) for t, p, x, _ in out]
            options.append([sum(p * v[i] for p, v in after) for i in range(len(budgets))])
        return [min(column) for column in zip(*options, strict=True)]

    first = [(q, node(0, s, Fraction(0))) for s, q in starts(m)]
    short = [sum(q * v[i] for q, v in first) for i in range(len(budgets))]
    found = []
    for tau in taus:
        value, c = max((c - v / Fraction(tau), c) for c, v in zip(budgets, short, strict=True))
        found.append((value, c, budgets[0]))
    return found


def best_mean(m: Tiny) -> Fraction:
    """The greatest mean."""
    after = [Fraction(0)] * len(m.start)
    for step in reversed(tables(m)):
        after = [max(sum(p * (x + after[t]) for t, p, x, _ in out) for out in options.values()) for options in step]
    return sum((q * after[s] for s, q in starts(m)), Fraction(0))


def nested(m: Tiny, tau: float) -> Fraction:
    """The greatest CVaR of CVaRs."""
    after = [Fraction(0)] * len(m.start)
    g = Fraction(m.discount)
    for h in reversed(range(m.horizon)):
        step = tables(m)[h]
        after = [
            max(_tail([(Fraction(r) + g * after[t], p) for t, p, _, r in out], tau) for out in options.values())
            for options in step
        ]
    return _tail([(after[s], q) for s, q in starts(m)], tau)


def _tail(law: list[tuple[Fraction, Fraction]], tau: float) -> Fraction:
    return oracles.cvar_by_integral([x for x, _ in law], [p for _, p in law], tau)


def law_of(m: Tiny, policy: object) -> list[tuple[Fraction, Fraction]]:
    """Every history of a policy: its return and its probability."""
    table, found = tables(m), []

    def walk(h: int, s: int, memory: np.ndarray, y: Fraction, q: Fraction) -> None:
        if h == m.horizon:
            found.append((y, q))
            return
        state = np.array([s])
        a = int(policy.act(h, state, memory)[0])
        for t, p, x, r in table[h][s][a]:
            after = policy.update(h, state, np.array([a]), np.array([r]), np.array([t]), memory)
            walk(h + 1, t, np.asarray(after), y + x, q * p)

    for s, q in starts(m):
        walk(0, s, policy.start(1), Fraction(0), q)
    return found


# Checks


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


def allowed(m: Tiny, *values: Fraction) -> float:
    """Rounding relative to how far apart these returns are, and two units in the last place of the terms of a sum."""
    terms = m.horizon * max(abs(row[5]) for row in m.rows)
    spread, size = float(max(values) - min(values)), max(float(abs(x)) for x in values)
    return ROUNDING * spread + 2 * np.finfo(float).eps * (size + terms)


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
        own = _tail(law_of(m, plan.policy), plan.tau)
        large = allowed(m, value, budget, least, own)
        if plan.evaluation.exact:
            found.near("claim of the policy", plan.cvar, own, large)
        found.below("claim of the policy", plan.cvar, own, large)
        found.above("upper claim of the policy", plan.evaluation.cvar_upper(plan.tau), own, large)
        frontier = plans[0].frontier().cvar(plan.tau)
        found.above("frontier", frontier, value, small)
        if exact:
            found.near("frontier", frontier, value, small)
    if alone.status == "exact":
        found.same("one tau or several", alone.cvar == plans[1].cvar)
    if kind in ("integers", "tenths", "ties") and rng.random() < 0.1 and oracles.totals(m).size <= 60:
        for plan, value in zip(plans[1:], oracles.best_cvar_by_lp(m, taus[1:]), strict=True):
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
    own = _tail(law_of(m, plan.policy), tau)
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
    own, mean = _tail(law, tau), sum((x * p for x, p in law), Fraction(0))
    tail = min(x for x, _ in law), oracles.var_by_definition(*zip(*law, strict=True), tau)
    estimate = tailrank.evaluate(policy, mdp, tau)
    found.near("evaluate: CVaR", estimate.cvar, own, allowed(m, own, *tail))
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
        for p in _law(rng, kind, n)
    ]
    m = Tiny(tuple(rows), H, tuple(_law(rng, "reals", S)), 1.0, A, "integers")
    taus = (1e-6, 0.02, 0.3, 1.0)
    budgets = np.arange(-3.0 * H, 3.0 * H + 1)
    short = oracles.least_shortfall_by_sums(m, budgets)
    found = Report()
    for tau, plan in zip(taus, tailrank.solve(FiniteMDP.from_rows(**m.columns()), tau=taus), strict=True):
        found.same("larger: exact", plan.status == "exact")
        best = Fraction(float(np.max(budgets - short / tau)))
        found.near("larger: optimum", plan.cvar, best, 1e-10)
        found.near("larger: frontier", plan.frontier().cvar(tau), best, 1e-10)
        returns, probs = plan.law.values, plan.law.probs
        found.near("larger: law", plan.cvar, oracles.cvar_by_integral(returns, probs, tau), 1e-10)
    return found


def check_latent(rng: np.random.Generator, kind: str) -> Report:
    """One low-rank model with bonuses: the latent planner, the sparse one on the same MDP, and exact values."""
    H, G, A, d, top = (int(rng.integers(1, n)) for n in (5, 4, 4, 4, 4))
    steps = tuple(
        StepModel(
            np.array([_law(rng, kind, d) for _ in range(G * A)]).reshape(G, A, d),
            np.array([_law(rng, kind, G) for _ in range(d)]),
        )
        for _ in range(H - 1)
    )
    laws = np.array([_law(rng, kind, top + 1) for _ in range(3)])
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
    layout = bellman.layout(mdp, grid, np.ones((H + 1, G), dtype=bool))
    units = np.stack([b * top for b in bonus])
    index, sparse = bellman.induct(mdp, grid, layout, keep_actions=True, bonus=units).curve(mdp.start)
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
    model: Model[StepModel], laws: np.ndarray, law_at: tuple[np.ndarray, ...], bonus: list[np.ndarray], top: int,
    start: int,
) -> list[Fraction]:  # fmt: skip
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


CHECKS = (check_planner, check_latent, check_larger)
