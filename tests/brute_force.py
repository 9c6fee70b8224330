"""Independent answers for tests: plain Python and NumPy, nothing from the package under test.

A tiny MDP is a `Tiny`: rows (step or None, s, a, s', p, r), a start law, a horizon and a discount. Its best
CVaR is found in three ways that have nothing in common but the definition:

- `best_cvar_by_brute_force`: for each attainable total c, the least E(c - R)^+ over history-dependent
  policies, by recursion over the tree of histories; no two histories are ever merged;
- `best_cvar_by_enumeration`: every deterministic history-dependent policy, its return law, the mean of the
  sorted tail (the smallest trees only);
- `best_cvar_by_lp`: a linear program over the flow through (step, state, sum so far), one copy for each c.

CVaR of a law is also computed in four ways; `cvar_by_integral` is exact rational arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from tailrank.policies.moved import Moved


@dataclass(frozen=True)
class Tiny:
    """Outcome rows (step or None, s, a, s', p, r) with probabilities that sum to one for each pair."""

    rows: tuple[tuple[int | None, int, int, int, float, float], ...]
    horizon: int
    start: tuple[float, ...]
    discount: float = 1.0
    n_actions: int = 1
    kind: str = ""

    def outcomes(self, h: int, s: int) -> dict[int, list[tuple[int, float, float]]]:
        """The outcomes (s', p, discounted r) of each action that is available in s at step h."""
        found: dict[int, list[tuple[int, float, float]]] = {}
        for step, state, a, t, p, r in self.rows:
            if state == s and step in (None, h):
                found.setdefault(a, []).append((t, p, r * self.discount**h))
        return found or {0: [(s, 1.0, 0.0)]}

    def columns(self) -> dict[str, object]:
        """The arguments of a constructor from rows."""
        step, s, a, t, p, r = zip(*self.rows)
        timed = {"step": step} if step[0] is not None else {"horizon": self.horizon}
        named = {
            "state": s,
            "action": a,
            "next_state": t,
            "probability": p,
            "reward": r,
            "discount": self.discount,
        }
        return named | timed | {"start": self.start, "n_states": len(self.start), "n_actions": self.n_actions}

    def tables(self) -> list[list[dict[int, list[tuple[int, float, float]]]]]:
        """`outcomes(h, s)` for all h and s, looked up once."""
        return [[self.outcomes(h, s) for s in range(len(self.start))] for h in range(self.horizon)]


# The best CVaR, three ways


def totals(m: Tiny) -> np.ndarray:
    """Every total return that some history attains, sorted."""
    table = m.tables()

    def below(h: int, s: int, y: float) -> Iterator[float]:
        if h == m.horizon:
            yield y
            return
        for out in table[h][s].values():
            for t, p, r in out:
                if p > 0:
                    yield from below(h + 1, t, y + r)

    return np.unique([y for s, q in enumerate(m.start) if q > 0 for y in below(0, s, 0.0)])


def least_shortfall(m: Tiny, budgets: np.ndarray) -> np.ndarray:
    """The least E(c - R)^+ over history-dependent policies, for each budget c, [C].

    The tree is walked once; a node returns its answer for all budgets, and for each budget the best action
    of each history is chosen on its own.
    """
    table = m.tables()

    def node(h: int, s: int, y: float) -> np.ndarray:
        if h == m.horizon:
            return np.maximum(budgets - y, 0.0)
        values = [sum(p * node(h + 1, t, y + r) for t, p, r in out if p > 0) for out in table[h][s].values()]
        return np.min(values, axis=0)

    return sum(q * node(0, s, 0.0) for s, q in enumerate(m.start) if q > 0)


def best_cvar_by_brute_force(m: Tiny, taus: Sequence[float]) -> np.ndarray:
    """CVaR* at each tau over all history-dependent policies, [T]."""
    budgets = totals(m)
    shortfall = least_shortfall(m, budgets)
    return np.array([np.max(budgets - shortfall / tau) for tau in taus])


def least_shortfall_by_sums(m: Tiny, budgets: np.ndarray) -> np.ndarray:
    """As `least_shortfall`, histories with the same step, state and sum merged: for trees too large to walk.

    The remaining budget goes below zero freely here: nothing is clamped.
    """
    table = m.tables()
    known: dict[tuple[int, int, float], np.ndarray] = {}

    def node(h: int, s: int, y: float) -> np.ndarray:
        if h == m.horizon:
            return np.maximum(budgets - y, 0.0)
        key = (h, s, round(y, 9))
        if key not in known:
            options = table[h][s].values()
            known[key] = np.min([sum(p * node(h + 1, t, y + r) for t, p, r in o if p > 0) for o in options], axis=0)
        return known[key]

    return sum(q * node(0, s, 0.0) for s, q in enumerate(m.start) if q > 0)


def return_laws(m: Tiny, limit: int = 20_000) -> Iterator[list[tuple[float, float]]]:
    """The return law [(value, probability)] of every deterministic history-dependent policy."""
    if count_policies(m) > limit:
        raise ValueError(f"more than {limit} policies")
    table = m.tables()

    def laws(h: int, s: int, y: float) -> list[list[tuple[float, float]]]:
        if h == m.horizon:
            return [[(y, 1.0)]]
        found = []
        for out in table[h][s].values():
            parts = [[[(x, p * q) for x, q in law] for law in laws(h + 1, t, y + r)] for t, p, r in out]
            found += [list(itertools.chain(*choice)) for choice in itertools.product(*parts)]
        return found

    starts = [[[(x, q * p) for x, p in law] for law in laws(0, s, 0.0)] for s, q in enumerate(m.start) if q > 0]
    for choice in itertools.product(*starts):
        yield list(itertools.chain(*choice))


def count_policies(m: Tiny) -> int:
    """How many deterministic history-dependent policies there are."""
    after = [1] * len(m.start)
    for h in reversed(range(m.horizon)):
        options = [m.outcomes(h, s).values() for s in range(len(m.start))]
        after = [sum(math.prod(after[t] for t, _, _ in out) for out in actions) for actions in options]
    return math.prod(n for n, q in zip(after, m.start) if q > 0)


def best_cvar_by_enumeration(m: Tiny, taus: Sequence[float]) -> np.ndarray:
    """CVaR* at each tau as the best of all deterministic history-dependent policies, [T]."""
    best = np.full(len(taus), -np.inf)
    for law in return_laws(m):
        values, probs = zip(*law)
        best = np.maximum(best, [cvar_by_sorting(values, probs, tau) for tau in taus])
    return best


def best_cvar_by_lp(m: Tiny, taus: Sequence[float]) -> np.ndarray:
    """CVaR* at each tau by a linear program over randomised flows through (step, state, sum so far), [T]."""
    table, node_of, sums = m.tables(), {}, {}
    level = {(s, 0.0): q for s, q in enumerate(m.start) if q > 0}
    inflow = list(level.values())
    node_of.update({(0, *key): i for i, key in enumerate(level)})
    balance, cost, budgets = [], [], totals(m)  # balance: (node, variable, coefficient)
    for h in range(m.horizon):
        nodes, level = list(level), {}
        for s, y in nodes:
            for out in table[h][s].values():
                variable = len(cost)
                balance.append((node_of[h, s, y], variable, 1.0))
                cost.append(np.zeros(budgets.size))
                for t, p, r in out:
                    if h == m.horizon - 1:
                        cost[-1] = cost[-1] + p * np.maximum(budgets - (y + r), 0.0)
                        continue
                    # sums that differ by rounding only are one node, at the first of them
                    y_next = sums.setdefault(round(y + r, 9), y + r)
                    level[t, y_next] = 0.0
                    balance.append((node_of.setdefault((h + 1, t, y_next), len(node_of)), variable, -p))
    node, variable, coefficient = zip(*balance)
    flow = sparse.coo_matrix((coefficient, (node, variable)), shape=(len(node_of), len(cost)))
    right = np.zeros(len(node_of))
    right[: len(inflow)] = inflow
    costs = np.array(cost).T  # one independent copy of the flow for each budget
    solution = linprog(
        costs.ravel(),
        A_eq=sparse.kron(sparse.eye_array(budgets.size), flow, format="csr"),
        b_eq=np.tile(right, budgets.size),
        method="highs",
        options={"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10},
    )
    if solution.status != 0:
        raise RuntimeError(solution.message)
    shortfall = (costs * solution.x.reshape(costs.shape)).sum(axis=1)
    return np.array([np.max(budgets - shortfall / tau) for tau in taus])


def best_mean(m: Tiny) -> float:
    """The greatest expected return."""
    after = [0.0] * len(m.start)
    for h in reversed(range(m.horizon)):
        options = [m.outcomes(h, s).values() for s in range(len(m.start))]
        after = [max(sum(p * (r + after[t]) for t, p, r in out) for out in actions) for actions in options]
    return sum(q * v for q, v in zip(m.start, after))


def only_mean_optimal_law(m: Tiny) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns and probabilities of the policy with the greatest mean; None if two actions tie anywhere."""
    after, best = [0.0] * len(m.start), {}
    for h in reversed(range(m.horizon)):
        values = []
        for s in range(len(m.start)):
            q = {a: sum(p * (r + after[t]) for t, p, r in out) for a, out in m.outcomes(h, s).items()}
            ranked = sorted(q, key=q.get, reverse=True)
            if len(ranked) > 1 and q[ranked[0]] - q[ranked[1]] < 1e-6:
                return None
            best[h, s] = ranked[0]
            values.append(q[ranked[0]])
        after = values
    return follow(m, FixedPolicy(lambda h, s: best[h, s]))


class FixedPolicy:
    """A policy without memory: `rule(h, s)` is its action."""

    def __init__(self, rule):
        self.rule = rule

    def start(self, n):
        return np.zeros(n, dtype=np.int64)

    def act(self, h, states, memory):
        return np.array([self.rule(h, int(s)) for s in states])

    def update(self, h, moved, memory):
        return memory


def follow(m: Tiny, policy: object) -> tuple[np.ndarray, np.ndarray]:
    """Returns [n] and probabilities [n] of every history under `policy`, through its protocol.

    The policy sees undiscounted rewards and one memory entry for each history.
    """
    table = m.tables()
    states = np.flatnonzero(np.array(m.start) > 0)
    probs, returns = np.array(m.start)[states], np.zeros(states.size)
    memory = policy.start(states.size)
    for h in range(m.horizon):
        actions = np.asarray(policy.act(h, states, memory))
        if actions.shape != states.shape:
            raise AssertionError(f"act returned shape {actions.shape}, expected {states.shape}")
        branches = [
            (i, t, p, r) for i, (s, a) in enumerate(zip(states, actions)) for t, p, r in table[h][s][int(a)] if p > 0
        ]
        origin, after, p, r = (np.array(column) for column in zip(*branches))
        raw = r / m.discount**h
        memory = policy.update(h, Moved(states[origin], actions[origin], raw, after), np.asarray(memory)[origin])
        states, probs, returns = after, probs[origin] * p, returns[origin] + r
    return returns, probs


# CVaR and VaR of a law, several ways


def cvar_by_sorting(values: Sequence[float], probs: Sequence[float], tau: float) -> float:
    """The mean of the worst tau-fraction, the atom on the boundary split."""
    left, total = tau, 0.0
    for x, p in sorted(zip(values, probs)):
        take = min(p, left)
        total += take * x
        left -= take
        if left <= 0:
            break
    return total / (tau - max(left, 0.0))


def cvar_by_supremum(values: Sequence[float], probs: Sequence[float], tau: float) -> float:
    """max over all atoms c of c - E(c - X)^+ / tau."""
    return max(c - math.fsum(p * max(c - x, 0.0) for x, p in zip(values, probs)) / tau for c in values)


def cvar_by_lp(values: Sequence[float], probs: Sequence[float], tau: float) -> float:
    """The least mean over reweightings q of the law with q <= p / tau, by HiGHS (values centred first)."""
    x, p = np.asarray(values, dtype=float), np.asarray(probs, dtype=float)
    low, scale = x.min(), float(np.ptp(x)) or 1.0
    bounds = np.column_stack([np.zeros(x.size), p / tau])
    solution = linprog(
        (x - low) / scale,
        A_eq=np.ones((1, x.size)),
        b_eq=[1.0],
        bounds=bounds,
        method="highs",
        options={"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10},
    )
    if solution.status != 0:
        raise RuntimeError(solution.message)
    return float(low + scale * solution.fun)


def cvar_by_integral(values: Sequence[object], probs: Sequence[object], tau: object) -> Fraction:
    """The integral of the quantile function over (0, tau), divided by tau, in rational arithmetic.

    Arguments may be floats (taken as the binary numbers they are), Fractions, or decimal strings.
    """
    x, p, tau = [Fraction(v) for v in values], [Fraction(v) for v in probs], Fraction(tau)
    whole, done, area = sum(p), Fraction(0), Fraction(0)
    for value, weight in sorted(zip(x, p)):
        piece = min(weight / whole, tau - done)
        area, done = area + piece * value, done + piece
    return area / tau


def var_by_definition(values: Sequence[object], probs: Sequence[object], tau: object) -> Fraction:
    """inf{x : P(X <= x) >= tau} in rational arithmetic."""
    x, p = [Fraction(v) for v in values], [Fraction(v) for v in probs]
    level = Fraction(tau) * sum(p)
    return min(v for v in x if sum(w for u, w in zip(x, p) if u <= v) >= level)


# Random instances

REWARDS = ("integers", "tenths", "thirds", "reals")
# How likely 1, 2, 3 or 4 states, actions, steps, outcomes a pair are: mostly trees of some hundred leaves
SIZES = ((0.1, 0.3, 0.3, 0.3), (0.1, 0.5, 0.4, 0.0), (0.05, 0.25, 0.5, 0.2), (0.1, 0.5, 0.4, 0.0))


def random_rows(rng: np.random.Generator, kind: str | None = None, leaves: int = 3000) -> Tiny:
    """A random tiny MDP whose tree of histories has at most `leaves` leaves.

    1-4 states, 1-3 actions, 1-3 outcomes a pair drawn jointly (next state and reward together), horizon 1-4.
    Sometimes: missing actions, states without any action, zero probabilities, a random start, rows that
    change with the step, a discount. `kind` fixes the rewards, see `REWARDS`.
    """
    while True:
        m = _draw(rng, kind or str(rng.choice(REWARDS)))
        if _leaves(m) <= leaves:
            return m


def _draw(rng: np.random.Generator, kind: str) -> Tiny:
    S, A, H, most = (int(rng.choice(4, p=p)) + 1 for p in SIZES)
    timed = bool(rng.random() < 0.35)
    rows: list[tuple[int | None, int, int, int, float, float]] = []
    for h, s, a in itertools.product(range(H) if timed else [None], range(S), range(A)):
        if rng.random() < 0.15 and (a > 0 or rng.random() < 0.3):
            continue
        n = int(rng.integers(1, most + 1))
        p = _law(rng, n)
        rows += [(h, s, a, int(rng.integers(S)), float(q), _reward(rng, kind)) for q in p]
    if not rows or (timed and {row[0] for row in rows} != set(range(H))):
        return _draw(rng, kind)
    start = np.zeros(S)
    if rng.random() < 0.4:
        start[:] = _law(rng, S)
    else:
        start[rng.integers(S)] = 1.0
    discount = float(rng.choice([0.9, 0.8, 0.37])) if rng.random() < 0.25 else 1.0
    return Tiny(tuple(rows), H, tuple(float(q) for q in start), discount, A, kind)


def _law(rng: np.random.Generator, n: int) -> np.ndarray:
    """n probabilities: eighths or arbitrary reals, a zero now and then."""
    if rng.random() < 0.5:
        cuts = np.sort(rng.integers(0, 9, n - 1))
        return np.diff(np.concatenate([[0], cuts, [8]])) / 8
    return rng.dirichlet(np.ones(n))


def _reward(rng: np.random.Generator, kind: str) -> float:
    if kind == "integers":
        return float(rng.integers(-4, 5))
    if kind == "tenths":
        return int(rng.integers(-12, 13)) / 10
    if kind == "thirds":
        return int(rng.integers(-7, 8)) / 3
    return float(rng.normal(0.0, 2.0))


def _leaves(m: Tiny) -> int:
    """How many histories there are over all actions and outcomes."""
    after = [1] * len(m.start)
    for h in reversed(range(m.horizon)):
        options = [m.outcomes(h, s).values() for s in range(len(m.start))]
        after = [sum(after[t] for out in actions for t, _, _ in out) for actions in options]
    return sum(n for n, q in zip(after, m.start) if q > 0)
