"""Random problems of every shape, and their answers in rational arithmetic: nothing here but the definition.

A float is the binary number that it is, so answers are exact, and what a check allows is rounding alone: `ROUNDING`
relative to how far apart the returns are that the tail is made of, and units in the last place of what is added up.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

import brute_force
from brute_force import Tiny
from tailrank.policies.moved import Moved

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
            law = random_law(rng, kind, n)
            rows += [(h, s, a, int(rng.integers(S)), float(p), _reward(rng, kind)) for p in law]
        if rows and rng.random() < 0.2:  # an outcome twice, and an action twice
            h, s, a, t, p, r = rows.pop()
            rows += [(h, s, a, t, p / 2, r), (h, s, a, t, p / 2, r)]
            rows += [(i, j, A, *rest) for i, j, k, *rest in rows if (j, k) == (s, a)]
            A += 1
        if not rows or (timed and {row[0] for row in rows} != set(range(H))):
            continue
        start = np.eye(S)[rng.integers(S)] if rng.random() < 0.6 else random_law(rng, kind, S)
        discount = float(rng.choice([0.9, 0.5, 1e-3, 1 - 1e-12])) if rng.random() < 0.2 else 1.0
        m = Tiny(tuple(rows), H, tuple(float(q) for q in start), discount, A, kind)
        if brute_force._leaves(m) <= leaves:
            return m


def random_law(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    """n probabilities: quarters or arbitrary reals, zeros now and then, or over many decades."""
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
            max(tail([(Fraction(r) + g * after[t], p) for t, p, _, r in out], tau) for out in options.values())
            for options in step
        ]
    return tail([(after[s], q) for s, q in starts(m)], tau)


def tail(law: list[tuple[Fraction, Fraction]], tau: float) -> Fraction:
    """CVaR of a law of values and probabilities."""
    return brute_force.cvar_by_integral([x for x, _ in law], [p for _, p in law], tau)


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
            after = policy.update(h, Moved(state, np.array([a]), np.array([r]), np.array([t])), memory)
            walk(h + 1, t, np.asarray(after), y + x, q * p)

    for s, q in starts(m):
        walk(0, s, policy.start(1), Fraction(0), q)
    return found


def allowed(m: Tiny, *values: Fraction) -> float:
    """Rounding relative to how far apart these returns are, and two units in the last place of the terms of a sum."""
    terms = m.horizon * max(abs(row[5]) for row in m.rows)
    spread, size = float(max(values) - min(values)), max(float(abs(x)) for x in values)
    return ROUNDING * spread + 2 * np.finfo(float).eps * (size + terms)
