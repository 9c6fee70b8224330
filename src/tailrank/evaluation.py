"""What a policy earns: its return law, by pushing the law of (state, memory, return) forward.

Three ways, tried in this order:

- *lattice*: on an exact budget grid the return is an integer, and the law is exact however long it is;
- *listed*: any policy, any rewards: every (state, memory, return) is kept, as long as there are few;
- *moments*: rewards rounded to the grid, and with every rounded return the mean and the variance of what
  rounding left out. The law of the means has a CVaR that is never too small (Jensen); with Scarf's bound
  E(c - X)^+ <= (sqrt(v + (c - m)^2) + c - m) / 2 for mean m and variance v, none is too large. The gap
  between the two is of second order in the grid's spacing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tailrank import bellman, checks
from tailrank.grid import BudgetGrid
from tailrank.mdp import FiniteMDP
from tailrank.policy import BudgetPolicy, MarkovPolicy, Policy, check_fits
from tailrank.risk import ReturnLaw

LISTED_LIMIT = 20_000
"""How many (state, memory, return) triples are listed before the law counts as too large."""

LATTICE_LIMIT = 2**29
"""How many (state, budget) pairs of a step are kept."""

Method = Literal["lattice", "listed", "moments"]


@dataclass(frozen=True)
class Evaluation:
    """The return law of a policy; `deviation` [n] is the spread left within each value (zero: exact)."""

    law: ReturnLaw
    deviation: np.ndarray
    method: Method

    @property
    def exact(self) -> bool:
        """Whether the law is exact (to floating-point rounding)."""
        return self.method != "moments"

    @cached_property
    def mean(self) -> float:
        """The exact mean."""
        return self.law.mean

    def var(self, tau: float) -> float:
        """VaR_tau of the law (of the rounded law when it is not exact)."""
        return self.law.var(tau)

    def cvar(self, tau: float) -> float:
        """CVaR_tau if the law is exact, otherwise a certified lower bound on it."""
        if self.exact:
            return self.law.cvar(tau)
        tau = checks.tail_level(tau)
        if tau == 1.0:
            return self.mean
        reach = 4.0 * float(self.deviation.max()) + 1e-300
        low, high = self.law.var(tau) - reach, self.law.var(tau) + reach
        golden = (np.sqrt(5.0) - 1.0) / 2.0
        best = -np.inf
        for _ in range(24):  # the bound is concave in c, and every c gives a valid one
            left, right = high - golden * (high - low), low + golden * (high - low)
            at_left, at_right = self._bound(left, tau), self._bound(right, tau)
            best = max(best, at_left, at_right)
            low, high = (low, right) if at_left >= at_right else (left, high)
        return float(best)

    def cvar_upper(self, tau: float) -> float:
        """CVaR_tau if the law is exact, otherwise a certified upper bound on it."""
        return self.law.cvar(tau)

    def _bound(self, c: float, tau: float) -> float:
        gap = c - self.law.values
        return c - float(self.law.probs @ (np.hypot(self.deviation, gap) + gap)) / (2.0 * tau)


def return_law(
    policy: Policy, mdp: FiniteMDP, grid: BudgetGrid | None = None, listed_limit: int = LISTED_LIMIT
) -> Evaluation:
    """The law of the (discounted) return of `policy` in `mdp`.

    grid: where to round rewards if the law is too large to list (default: the policy's own).
    """
    check_fits(policy, mdp.horizon, mdp.n_states, mdp.n_actions)
    grid = grid or (policy.grid if isinstance(policy, BudgetPolicy) else None)
    tabular = isinstance(policy, BudgetPolicy | MarkovPolicy)
    if tabular and grid is not None and grid.rounding == "exact":
        return _lattice(policy, mdp, grid)  # type: ignore[arg-type]
    listed = _listed(policy, mdp, listed_limit)
    if listed is not None:
        return listed
    if not tabular or grid is None:
        raise checks.InputError(
            f"policy: its return law has more than {listed_limit} values and no budget grid to round them to; "
            "evaluate it by Monte Carlo (episodes=...)"
        )
    return _lattice(policy, mdp, grid)  # type: ignore[arg-type]


def _listed(policy: Policy, mdp: FiniteMDP, limit: int) -> Evaluation | None:
    """Exact law by listing every (state, memory, return); None if there are more than `limit`."""
    states = np.flatnonzero(mdp.start)
    mass, total = mdp.start[states], np.zeros(states.size)
    memory = policy.start(states.size)
    resolution = _resolution(mdp)
    for h in range(mdp.horizon):
        actions = policy.act(h, states, memory)
        ptr, next_state, prob, reward = mdp.rows(h)
        pair = states * mdp.n_actions + actions
        counts = ptr[pair + 1] - ptr[pair]
        _check_available(counts, h, states, actions, mdp)
        if counts.sum() > 8 * limit:
            return None
        parent = np.repeat(np.arange(states.size), counts)
        row = np.arange(parent.size) - np.repeat(np.cumsum(counts) - counts, counts) + ptr[pair][parent]
        memory = policy.update(h, states[parent], actions[parent], reward[row], next_state[row], memory[parent])
        total = total[parent] + reward[row] * mdp.discount**h
        mass, states = mass[parent] * prob[row], next_state[row].astype(np.int64)
        first, where = _groups(states, memory, np.rint(total / resolution))
        if first.size > limit:
            return None
        mass = np.bincount(where, weights=mass, minlength=first.size)
        states, memory, total = states[first], memory[first], total[first]
    _, first, where = np.unique(np.rint(total / resolution), return_index=True, return_inverse=True)
    law = ReturnLaw.of(total[first], np.bincount(where.ravel(), weights=mass))
    return Evaluation(law, np.zeros(law.values.size), "listed")


def _groups(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A row for each distinct combination of the columns [n], and which combination each row has [n]."""
    order = np.lexsort(columns)
    fresh = np.ones(order.size, dtype=bool)
    fresh[1:] = np.any([c[order][1:] != c[order][:-1] for c in columns], axis=0)
    where = np.empty(order.size, dtype=np.int64)
    where[order] = np.cumsum(fresh) - 1
    return order[fresh], where


def _resolution(mdp: FiniteMDP) -> float:
    """Returns this close are the same return summed in another order."""
    return max(1e-13 * float(np.abs(mdp.reward).max(initial=0.0)) * mdp.horizon, 1e-300)


def _check_available(counts: np.ndarray, h: int, states: np.ndarray, actions: np.ndarray, mdp: FiniteMDP) -> None:
    bad = np.flatnonzero(counts == 0)
    if bad.size:
        raise checks.InputError(
            f"step {h}: the policy plays action {actions[bad[0]]} in state {mdp.labels[states[bad[0]]]}, "
            "where it is not available"
        )


def _lattice(policy: BudgetPolicy | MarkovPolicy, mdp: FiniteMDP, grid: BudgetGrid) -> Evaluation:
    """Law on the grid: exact if the grid is, otherwise with the moments of what rounding left out."""
    from tailrank import kernels

    exact = grid.rounding == "exact"
    budget = policy.budget if isinstance(policy, BudgetPolicy) else 0
    states = mdp.start > 0
    low, high = np.where(states, budget, _FAR), np.where(states, budget, -_FAR)
    spread = _spread(low, high)
    law = [mdp.start[states], *(np.zeros(0 if exact else int(spread[-1])) for _ in range(2))]
    stop = mdp.horizon if exact else _last_open_step(mdp, grid)
    step_units = bellman.units_of_steps(mdp, grid)
    for h in range(stop):
        ptr, next_state, prob, _ = mdp.rows(h)
        units = step_units(h)
        error = np.zeros(0) if exact else _units_and_error(mdp, grid, h)[1]
        low_next, high_next = np.full_like(low, _FAR), np.full_like(high, -_FAR)
        kernels.push_range(mdp.n_actions, ptr, next_state, prob, units, low, high, low_next, high_next)
        spread_next = _spread(low_next, high_next)
        size = int(spread_next[-1])
        if size > LATTICE_LIMIT:
            raise checks.InputError(
                f"policy: its grid (unit {float(grid.unit):g}) is too fine for this MDP: {size} budgets at step {h}"
            )
        after = [np.zeros(size), *(np.zeros(0 if exact else size) for _ in range(2))]
        kernels.push_forward(
            mdp.n_actions, ptr, next_state, prob, units, error,
            *_step_tables(policy, h), low, spread, *law, low_next, spread_next, *after,
        )  # fmt: skip
        low, high, spread, law = low_next, high_next, spread_next, after
    if law[0].sum() < 1.0 - 1e-9:
        raise checks.InputError(
            f"policy: plays an action that is not available with probability {1.0 - law[0].sum():.3g}"
        )
    cell_budget = np.arange(int(spread[-1])) - np.repeat(spread[:-1] - low, np.diff(spread))
    if exact:
        return _exact_cells(grid, budget, cell_budget, law[0])
    _add_tail(policy, mdp, grid, stop, np.repeat(np.arange(mdp.n_states), np.diff(spread)), law)
    ended = sum(int(_units_and_error(mdp, grid, h)[0][0]) for h in range(stop, mdp.horizon))
    return _rounded_cells(grid, budget, cell_budget - ended, law)


_FAR = 2**60


def _spread(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.maximum(high - low + 1, 0))]).astype(np.int64)


def _units_and_error(mdp: FiniteMDP, grid: BudgetGrid, h: int) -> tuple[np.ndarray, np.ndarray]:
    """Rounded rewards [n] in units, and true minus rounded [n] in reward units, for step h."""
    reward = mdp.scaled_rewards(h)
    units = grid.units(h, reward)
    return units, reward - float(grid.origin[h]) - units * float(grid.unit)


def _step_tables(policy: BudgetPolicy | MarkovPolicy, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """first [S], offset [S + 1], actions, elsewhere [S]: the tables of step h."""
    if isinstance(policy, BudgetPolicy):
        return policy.first[h], policy.offset[h], policy.actions, policy.elsewhere[h]
    actions = policy.actions[h]
    return np.zeros(actions.size, dtype=np.int64), np.arange(actions.size + 1), actions, actions


def _last_open_step(mdp: FiniteMDP, grid: BudgetGrid) -> int:
    """The first step from which on all rewards of a step round to one number, so budgets cannot differ."""
    for h in reversed(range(mdp.horizon)):
        units = _units_and_error(mdp, grid, h)[0]
        if units.min() != units.max():
            return h + 1
    return 0


def _add_tail(
    policy: BudgetPolicy | MarkovPolicy, mdp: FiniteMDP, grid: BudgetGrid, stop: int,
    state: np.ndarray, law: list[np.ndarray],
) -> None:  # fmt: skip
    """Add the first two moments of the errors from step `stop` on, where the policy is Markov."""
    one: np.ndarray = np.zeros(mdp.n_states)
    two: np.ndarray = np.zeros(mdp.n_states)
    for h in reversed(range(stop, mdp.horizon)):
        ptr, next_state, prob, _ = mdp.rows(h)
        error = _units_and_error(mdp, grid, h)[1]
        actions = policy.act(h, np.arange(mdp.n_states), policy.start(mdp.n_states))
        pair = np.arange(mdp.n_states) * mdp.n_actions + actions
        counts = ptr[pair + 1] - ptr[pair]
        owner = np.repeat(np.arange(mdp.n_states), counts)
        row = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts) + ptr[pair][owner]
        e, p, t = error[row], prob[row], next_state[row]
        one, two = (
            np.bincount(owner, weights=p * (e + one[t]), minlength=mdp.n_states),
            np.bincount(owner, weights=p * (e * (e + 2 * one[t]) + two[t]), minlength=mdp.n_states),
        )
    mass, drift, square = law
    square += 2 * one[state] * drift + two[state] * mass
    drift += one[state] * mass


def _exact_cells(grid: BudgetGrid, budget: int, cell_budget: np.ndarray, mass: np.ndarray) -> Evaluation:
    earned, where = np.unique(budget - cell_budget[mass > 0], return_inverse=True)
    probs = np.bincount(where, weights=mass[mass > 0])
    law = ReturnLaw(np.asarray(grid.value(earned)), probs / probs.sum())
    return Evaluation(law, np.zeros(earned.size), "lattice")


def _rounded_cells(grid: BudgetGrid, budget: int, cell_budget: np.ndarray, law: list[np.ndarray]) -> Evaluation:
    """Cells of equal rounded return together: each a value (its mean), a probability and a deviation."""
    inside = law[0] > 0
    earned, where = np.unique(budget - cell_budget[inside], return_inverse=True)
    mass, drift, square = (np.bincount(where, weights=x[inside]) for x in law)
    shift = drift / mass
    deviation = np.sqrt(np.maximum(square / mass - shift**2, 0.0))
    order = np.argsort(grid.value(earned) + shift, kind="stable")
    values = (grid.value(earned) + shift)[order]
    return Evaluation(ReturnLaw(values, (mass / mass.sum())[order]), deviation[order], "moments")
