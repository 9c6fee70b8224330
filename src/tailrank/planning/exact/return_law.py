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

from collections.abc import Callable

import numpy as np

from tailrank import checks
from tailrank.models.averaged import averaged
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import pushing
from tailrank.planning.exact.evaluation import Evaluation as Evaluation
from tailrank.planning.exact.evaluation import mixed
from tailrank.planning.exact.limits import unlimited
from tailrank.planning.exact.storage import Tables
from tailrank.policies.moved import Moved
from tailrank.policies.shapes import check_fits
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, MarkovPolicy, MixedPolicy, Policy
from tailrank.risk.law import ReturnLaw

LISTED_LIMIT = 20_000
"""How many (state, memory, return) triples are listed before the law counts as too large."""

LATTICE_LIMIT = 2**29
"""Entries of the table of what has been earned, over all states of a step."""


def return_law(
    policy: Policy,
    mdp: FiniteMDP,
    grid: BudgetGrid | None = None,
    listed_limit: int = LISTED_LIMIT,
    check: Callable[[], None] = unlimited,
) -> Evaluation:
    """The law of the (discounted) return of `policy` in `mdp`.

    grid: where to round rewards if the law is too large to list (default: the policy's own). check: called before
    every step on the grid. The law of a mixture is the mixture of the laws.
    """
    check_fits(policy, mdp.horizon, mdp.n_states, mdp.n_actions)
    if isinstance(policy, ClonedPolicy):
        return return_law(
            MarkovPolicy(np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)), averaged(mdp, policy.law)
        )
    if isinstance(policy, MixedPolicy):
        first, second = (return_law(one, mdp, grid, listed_limit, check) for one in (policy.first, policy.second))
        return mixed(first, second, policy.share)
    grid = grid or (policy.grid if isinstance(policy, BudgetPolicy) else None)
    tabular = isinstance(policy, BudgetPolicy | MarkovPolicy)
    if tabular and grid is not None and grid.rounding == "exact":
        found = _lattice(policy, mdp, grid, check)  # type: ignore[arg-type]
        if found is not None:
            return found
    listed = _listed(policy, mdp, listed_limit)
    if listed is not None:
        return listed
    if not tabular or grid is None:
        raise checks.InputError(
            f"policy: its return law has more than {listed_limit} values and no budget grid to round them to; "
            "evaluate it by Monte Carlo (episodes=...)"
        )
    found = None if grid.rounding == "exact" else _lattice(policy, mdp, grid, check)  # type: ignore[arg-type]
    if found is None:
        raise checks.InputError(
            f"policy: its return law has more than {listed_limit} values, spread over more than {LATTICE_LIMIT} units "
            f"of {float(grid.unit):g}; evaluate it by Monte Carlo (episodes=...), or solve with a coarser unit=..."
        )
    return found


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
        memory = policy.update(h, Moved(states[parent], actions[parent], reward[row], next_state[row]), memory[parent])
        total = total[parent] + reward[row] * mdp.discount**h
        mass, states = mass[parent] * prob[row], next_state[row].astype(np.int64)
        first, where = _groups(states, memory, _blurred(total, resolution))
        if first.size > limit:
            return None
        mass = np.bincount(where, weights=mass, minlength=first.size)
        states, memory, total = states[first], memory[first], total[first]
    _, first, where = np.unique(_blurred(total, resolution), return_index=True, return_inverse=True)
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
    """Returns this close are the same return summed in another order.

    Unless rewards themselves are as close: next to 10^12 there may be thousandths that matter.
    """
    values = np.unique(mdp.reward)
    gaps = np.diff(values)
    gaps = gaps[gaps > 4.0 * np.finfo(np.float64).eps * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))]
    closest = float(gaps.min(initial=np.inf)) * mdp.discount ** (mdp.horizon - 1)
    return min(1e-13 * float(np.abs(values).max(initial=0.0)) * mdp.horizon, 1e-3 * closest)


def _blurred(total: np.ndarray, resolution: float) -> np.ndarray:
    """Numbers [n] that are equal where the returns [n] are the same."""
    with np.errstate(over="ignore"):
        cells = total / resolution if resolution > 0.0 else total
    return np.rint(cells) if np.abs(cells).max(initial=0.0) < 2**52 else total


def _check_available(counts: np.ndarray, h: int, states: np.ndarray, actions: np.ndarray, mdp: FiniteMDP) -> None:
    bad = np.flatnonzero(counts == 0)
    if bad.size:
        raise checks.InputError(
            f"step {h}: the policy plays action {actions[bad[0]]} in state {mdp.labels[states[bad[0]]]}, "
            "where it is not available"
        )


def _lattice(
    policy: BudgetPolicy | MarkovPolicy, mdp: FiniteMDP, grid: BudgetGrid, check: Callable[[], None]
) -> Evaluation | None:
    """Law on the grid: exact if the grid is, otherwise with the moments of what rounding left out.

    None if what was earned until some step spreads too far for a table.
    """
    exact = grid.rounding == "exact"
    budget = policy.budget if isinstance(policy, BudgetPolicy) else 0
    stop = mdp.horizon if exact else _last_open_step(mdp, grid)
    tables = pushing.budget_tables(mdp, grid, stop, budget, LATTICE_LIMIT, check)
    if tables is None:
        return None
    cells = _Cells(tables[-1], policy, mdp, grid, stop)
    pushing.push(policy, mdp, grid, tables, cells.add, whole=not cells.one_by_one, check=check)
    left, columns = cells.found()
    if columns[0].sum() < 1.0 - 1e-9:
        raise checks.InputError(
            f"policy: plays an action that is not available with probability {1.0 - columns[0].sum():.3g}"
        )
    if exact:
        mass, value = columns[0], np.asarray(grid.value(budget - left))
        return Evaluation(ReturnLaw(value, mass / mass.sum()), np.zeros(value.size), "lattice")
    ended = sum(int(pushing.units_and_error(mdp, grid, h)[0][0]) for h in range(stop, mdp.horizon))
    return _rounded_cells(grid, budget - (left - ended), columns)


class _Cells:
    """The columns of a law added up by the budget that is left, in which chunk of states after the other they come."""

    def __init__(
        self, last: Tables, policy: BudgetPolicy | MarkovPolicy, mdp: FiniteMDP, grid: BudgetGrid, stop: int
    ) -> None:
        self._last, self._rest, self._exact = last, (policy, mdp, grid, stop), grid.rounding == "exact"
        own = np.diff(last.offset) > 0
        self._most = int(last.last[own].max())
        span = self._most - int(last.first[own].min()) + 1
        self._dense = span <= 4 * last.size + 1024  # far apart: a table of all budgets would be mostly empty
        self._sums = np.zeros((1 if self._exact else 3, span if self._dense else 0))
        self._found: tuple[np.ndarray, list[np.ndarray]] | None = None

    @property
    def one_by_one(self) -> bool:
        """Whether chunks may come one by one; otherwise all states are added in one call."""
        return self._exact and self._dense

    def add(self, begin: int, end: int, places: np.ndarray, columns: tuple[np.ndarray, ...]) -> None:
        """See `pushing.Finish`."""
        from tailrank.planning.exact import _forward_kernels as _kernels

        last, size = self._last, self._last.size
        if not self._exact or not self._dense:
            at = int(places[0, 0] + places[0, 2])
            law = [column[at : at + size] for column in columns[: len(self._sums)]]
            state = np.repeat(np.arange(last.first.size), np.diff(last.offset))
        if not self._exact:
            _add_tail(*self._rest, state, law)
        if self._dense:
            for column, total in zip(columns, self._sums, strict=False):
                _kernels.collect(begin, end, places, column, self._most, total)
        else:
            budgets = np.arange(size) + (last.first - last.offset[:-1])[state]
            left, where = np.unique(-budgets[law[0] > 0], return_inverse=True)
            self._found = -left, [np.bincount(where, weights=x[law[0] > 0]) for x in law]

    def found(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The budgets that are left with positive probability, falling, and the columns added up by them."""
        if self._found is not None:
            return self._found
        met = np.flatnonzero(self._sums[0] > 0)
        return self._most - met, list(self._sums[:, met])


def _last_open_step(mdp: FiniteMDP, grid: BudgetGrid) -> int:
    """The first step from which on all rewards of a step round to one number, so budgets cannot differ."""
    for h in reversed(range(mdp.horizon)):
        units = pushing.units_and_error(mdp, grid, h)[0]
        if units.min() != units.max():
            return h + 1
    return 0


def _add_tail(
    policy: BudgetPolicy | MarkovPolicy,
    mdp: FiniteMDP,
    grid: BudgetGrid,
    stop: int,
    state: np.ndarray,
    law: list[np.ndarray],
) -> None:
    """Add the first two moments of the errors from step `stop` on, where the policy is Markov."""
    one: np.ndarray = np.zeros(mdp.n_states)
    two: np.ndarray = np.zeros(mdp.n_states)
    for h in reversed(range(stop, mdp.horizon)):
        ptr, next_state, prob, _ = mdp.rows(h)
        error = pushing.units_and_error(mdp, grid, h)[1]
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


def _rounded_cells(grid: BudgetGrid, earned: np.ndarray, cells: list[np.ndarray]) -> Evaluation:
    """Each rounded return as a value (its mean), a probability and a deviation."""
    mass, drift, square = cells
    shift = drift / mass
    # Rounding must not make the spread smaller than it is.
    rounding = 2.0 * np.finfo(np.float64).eps * (grid.horizon + 2)
    deviation = np.sqrt(np.maximum(square / mass * (1.0 + rounding) - shift**2, 0.0))
    order = np.argsort(grid.value(earned) + shift, kind="stable")
    values = (grid.value(earned) + shift)[order]
    return Evaluation(ReturnLaw(values, (mass / mass.sum())[order]), deviation[order], "moments")
