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
from tailrank._system.parallel import over_states
from tailrank.models.averaged import averaged
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import induction
from tailrank.planning.exact.evaluation import Evaluation as Evaluation
from tailrank.planning.exact.evaluation import mixed
from tailrank.planning.exact.forward import FAR, budgets_after, reach
from tailrank.planning.exact.limits import unlimited
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
    from tailrank.planning.exact import _forward_kernels as _kernels

    exact = grid.rounding == "exact"
    budget = policy.budget if isinstance(policy, BudgetPolicy) else 0
    states = mdp.start > 0
    low, high = np.where(states, budget, FAR), np.where(states, budget, -FAR)
    spread = np.concatenate([[0], np.cumsum(states)])
    nothing = np.zeros(0)
    law = [mdp.start[states], *(nothing if exact else np.zeros(int(spread[-1])) for _ in range(2))]
    stop = mdp.horizon if exact else _last_open_step(mdp, grid)
    step_units = induction.units_of_steps(mdp, grid)
    for h in range(stop):
        check()
        ptr, next_state, prob, _ = mdp.rows(h)
        units = step_units(h)
        error = nothing if exact else _units_and_error(mdp, grid, h)[1]
        low_next, high_next = budgets_after(mdp, h, units, low, high)
        spread_next = np.concatenate([[0], np.cumsum(np.maximum(high_next - low_next + 1, 0))])
        size = int(spread_next[-1])
        if size > LATTICE_LIMIT:
            return None
        after = [np.zeros(size), nothing, nothing] if exact else [np.zeros(size) for _ in range(3)]
        rows = (mdp.n_actions, ptr, next_state, prob, units, error, reach(mdp, h))
        arguments = (*rows, *_step_tables(policy, h), low, spread, *law, low_next, spread_next, *after)
        over_states(_kernels.push_forward, arguments, np.diff(spread_next), finely=False)
        low, high, spread, law = low_next, high_next, spread_next, after
    if law[0].sum() < 1.0 - 1e-9:
        raise checks.InputError(
            f"policy: plays an action that is not available with probability {1.0 - law[0].sum():.3g}"
        )
    if exact:
        earned, (mass,) = _by_return(low, spread, law[:1])
        value = np.asarray(grid.value(budget - earned))
        return Evaluation(ReturnLaw(value, mass / mass.sum()), np.zeros(value.size), "lattice")
    _add_tail(policy, mdp, grid, stop, np.repeat(np.arange(mdp.n_states), np.diff(spread)), law)
    ended = sum(int(_units_and_error(mdp, grid, h)[0][0]) for h in range(stop, mdp.horizon))
    left, cells = _by_return(low, spread, law)
    return _rounded_cells(grid, budget - (left - ended), cells)


def _by_return(low: np.ndarray, spread: np.ndarray, law: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The budgets that are left with positive probability, falling, and the columns of the law added up by them."""
    from tailrank.planning.exact import _forward_kernels as _kernels

    own = np.diff(spread)
    most = int((low + own - 1)[own > 0].max())
    span = most - int(low[own > 0].min()) + 1
    if span > 4 * int(spread[-1]) + 1024:  # far apart: a table of all budgets would be mostly empty
        budgets = np.arange(int(spread[-1])) - np.repeat(spread[:-1] - low, own)
        left, where = np.unique(-budgets[law[0] > 0], return_inverse=True)
        return -left, [np.bincount(where, weights=x[law[0] > 0]) for x in law]
    sums = np.zeros((len(law), span))
    for column, total in zip(law, sums, strict=True):
        _kernels.collect(low, spread, column, most, total)
    met = np.flatnonzero(sums[0] > 0)
    return most - met, list(sums[:, met])


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
    # The type that budget policies have: the kernel need not be compiled for another.
    short = actions.astype(induction.action_type(int(actions.max(initial=0)) + 1))
    return np.zeros(actions.size, dtype=np.int64), np.arange(actions.size + 1), short, actions


def _last_open_step(mdp: FiniteMDP, grid: BudgetGrid) -> int:
    """The first step from which on all rewards of a step round to one number, so budgets cannot differ."""
    for h in reversed(range(mdp.horizon)):
        units = _units_and_error(mdp, grid, h)[0]
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
