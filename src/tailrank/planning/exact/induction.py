"""The one backward induction over (state, remaining budget).

With integer rewards x and integer budgets c (`grid.BudgetGrid`), and steps h = 0..H-1,

    V_H(s, c) = (c - terminal(s))^+
    V_h(s, c) = min_a { -b_h(s, a) + sum over outcomes of p V_{h+1}(s', c - x) }

so that V_0(s, c) = min over policies of E(c - R)^+ (b = 0) for **every** budget c at once, in units. The
paper clamps c at zero (rewards there lie in [0, 1]); here a table covers exactly the budgets from the
least to the most that can still be earned in its state: below, V is constant, above, it has slope one, so
tables are as narrow as the spread of what is still open, for rewards of any sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tailrank._system.parallel import over_states
from tailrank.checks import InputError
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.forward import FAR, budgets_after, moved_by
from tailrank.planning.exact.limits import unlimited
from tailrank.planning.exact.means import mean_rewards, origins_left
from tailrank.planning.exact.start_curve import StartCurve
from tailrank.planning.exact.storage import Storage, Tables

CACHED = 2**19
"""Entries of tables that may stay in a cache."""

LARGEST_PAD = 64
"""Entries that a table is padded with at most, on either side."""

UNEVEN = 2
"""By how many budgets the ends of the tables of next states differ often: pads are so much wider than the rewards."""

TIE = 1e-13
"""Values that differ by less, relative to their size, are tied. Without bonus they are sums of non-negative terms, so
a few units in the last place is all that rounding changes, also of the smallest; tau makes these matter."""

KEPT_UNITS = 5_000_000
"""Rows up to which the units of all steps are kept for the next induction on the same MDP and grid."""


CERTAIN_OF_NONE = -(2**60)
"""A budget that is met for certain, whatever is done: below all."""


@dataclass(frozen=True)
class Layout:
    """Which budgets matter at which step and state: tables [H + 1], the work they stand for, and where they lie."""

    tables: tuple[Tables, ...]
    products: float
    storage: Storage

    @property
    def begins(self) -> np.ndarray:
        """Where the tables of each step begin when they stand one after the other, [H + 1]."""
        return np.concatenate([[0], np.cumsum([t.size for t in self.tables[:-1]])])

    @property
    def entries(self) -> int:
        """Entries of all tables that carry actions."""
        return sum(t.size for t in self.tables[:-1])

    @property
    def value_bytes(self) -> int:
        """Memory for the values of two neighbouring steps, if none takes the place of another."""
        return 8 * max(a.stored + b.stored for a, b in zip(self.tables, self.tables[1:], strict=False))


@dataclass(frozen=True)
class Induction:
    """Result of the induction: the first step's values, and the actions of all tables in order, if kept.

    values, means: memory in which the tables of the first step lie at `places` [S, 3] (see `Tables.place`); a mean is
    the largest of what is earned (above the grid's origin, in reward units) among the policies that attain the value,
    and `means` is empty if it was not asked for.
    """

    layout: Layout
    values: np.ndarray
    actions: np.ndarray
    means: np.ndarray
    places: np.ndarray

    def start_tables(self, states: np.ndarray, n: int) -> np.ndarray:
        """The first n values of some states at the first step, [states, n]."""
        begin = self.places[states, 2] + self.layout.tables[0].first[states]
        return np.asarray(self.values[begin[:, None] + np.arange(n)])

    def curve(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Budgets [C] and min over policies of E(c - R)^+ [C], in units, from the start law [S]; see `StartCurve`."""
        mixed = StartCurve(self.layout.tables[0], start, 1.0)
        mixed.add(0, start.size, self.places, self.values)
        return mixed.budgets, mixed.total

    def mean_curve(self, start: np.ndarray) -> np.ndarray:
        """The best mean of a policy that attains the curve, at each of its budgets, [C]."""
        mixed = StartCurve(self.layout.tables[0], start, 0.0)
        mixed.add(0, start.size, self.places, self.means)
        return mixed.total


@lru_cache(maxsize=8)
def units_of_steps(mdp: FiniteMDP, grid: BudgetGrid) -> Callable[[int], np.ndarray]:
    """The rewards of step h in whole units, as a function of h; kept while few, computed when asked otherwise."""

    def units(h: int) -> np.ndarray:
        return grid.units(h, mdp.scaled_rewards(h))

    if unchanging(mdp, grid):
        once = units(0)
        return lambda h: once
    if mdp.n_blocks > 1 and mdp.prob.size <= KEPT_UNITS:
        kept = [units(h) for h in range(mdp.horizon)]
        return kept.__getitem__
    return units


def unchanging(mdp: FiniteMDP, grid: BudgetGrid) -> bool:
    """Whether rows and their whole units are the same at every step."""
    return mdp.same_every_step and all(x == grid.origin[0] for x in grid.origin)


def reachable(mdp: FiniteMDP) -> np.ndarray:
    """Whether state s can be met at step h (h = 0..H), [H + 1, S]."""
    seen = np.zeros((mdp.horizon + 1, mdp.n_states), dtype=bool)
    seen[0] = mdp.start > 0
    for h in range(mdp.horizon):
        _, next_state, prob, _ = mdp.rows(h)
        seen[h + 1, next_state[np.repeat(seen[h], mdp.rows_of_states(h)) & (prob > 0)]] = True
        if mdp.n_blocks == 1 and h and (seen[h + 1] == seen[h]).all():
            seen[h + 1 :] = seen[h]
            break
    return seen


def layout(
    mdp: FiniteMDP,
    grid: BudgetGrid,
    met: np.ndarray,
    terminal: np.ndarray | None = None,
    *,
    narrow: bool = False,
    most: int | None = None,
) -> Layout:
    """Tables for the first `met.shape[0] - 1` steps of the MDP on this grid.

    terminal [S]: units earned after the last of them. narrow: leave out budgets that a cautious player
    meets for certain; their value is zero, but their actions are not told. most: leave out budgets that
    cannot follow from a starting budget of at most this.
    """
    steps = met.shape[0] - 1
    # Whole units are exact as floats too, so the kernel of ranges is compiled once.
    low = high = np.zeros(mdp.n_states) if terminal is None else terminal.astype(np.float64)
    step_units = units_of_steps(mdp, grid)
    units, real_units, span = np.empty(0, np.int64), np.empty(0), 0
    caps = None if most is None else _caps(mdp, step_units, steps, most)
    tables, spans = [tables_of(low, high, met[-1])], []
    products, same, moved = 0.0, unchanging(mdp, grid), None
    for h in reversed(range(steps)):
        if units is not step_units(h):
            units = step_units(h)
            real_units, span = units.astype(np.float64), int(units.max(initial=0) - units.min(initial=0))
        if moved is None:
            before = low, high
            low, high = range_from(mdp, h, real_units, low, high, cautious=narrow)
            moved = moved_by(before, (low, high)) if same else None
        else:
            low, high = low + moved[0], high + moved[1]
        top = high if caps is None else np.maximum(low, np.minimum(high, caps[h]))
        tables.append(tables_of(low, top, met[h]))
        spans.append(span)
        products += float(mdp.rows_of_states(h).astype(np.float64) @ np.diff(tables[-1].offset).astype(np.float64))
    # Pads never take more than a quarter of the memory: what they cost counts where tables are widest.
    most_pad = min(LARGEST_PAD, max(t.size for t in tables) // (8 * max(1, mdp.n_states)))
    padded = [
        replace(t, pad=min(span + UNEVEN, most_pad) if span else 0)
        for t, span in zip(tables[1:], (*spans[1:], 0), strict=True)
    ]
    tables = [*reversed(padded), tables[0]]
    return Layout(tuple(tables), products, Storage.of(mdp, tuple(tables), unchanging(mdp, grid)))


def _caps(mdp: FiniteMDP, step_units: Callable[[int], np.ndarray], steps: int, most: int) -> list[np.ndarray]:
    """The largest budget that can be left at each step, [S] each, from a starting budget of `most`."""
    caps = [np.where(mdp.start > 0, most, -FAR)]
    for h in range(steps - 1):
        caps.append(budgets_after(mdp, h, step_units(h), caps[-1], caps[-1])[1])
    return caps


def induct(
    mdp: FiniteMDP,
    grid: BudgetGrid,
    plan: Layout,
    *,
    keep_actions: bool,
    at_ends: np.ndarray | None = None,
    bonus: np.ndarray | None = None,
    neutral: np.ndarray | None = None,
    final: np.ndarray | None = None,
    curves: Sequence[StartCurve] = (),
    check: Callable[[], None] = unlimited,
) -> Induction:
    """Run the induction on a layout; `check` is called before every step, or more often.

    at_ends [H, S]: the risk-neutral actions, stored at both ends of each table (none: the lowest minimiser).
    bonus [H, S, A]: exploration bonus in units, subtracted from the values.
    neutral [H + 1, S]: the best means from each step on, in reward units. Where given, actions that tie are told apart
    by the mean, carried in a second table; otherwise the lowest is taken. It is empty for layouts that do not begin
    where all actions tie.
    final: the values of the last tables, if they are not (c - terminal)^+; the layout must then hold all that is met.
    curves: of the values and (if told apart) of the means; where given, the tables of the first step are added to them,
    in the order in which they are computed, and not kept.
    """
    from tailrank.planning._row_kernels import BLOCK
    from tailrank.planning.exact import _kernels

    tables, storage, cuts = plan.tables, plan.storage, plan.storage.cuts
    step_units = units_of_steps(mdp, grid)
    free = list(range(storage.passing if curves else storage.slots))
    values = np.empty(storage.slot * len(free) + BLOCK)  # kernels read whole vectors, past the last table
    means = np.empty(0 if neutral is None else values.size)
    left = origins_left(grid) if neutral is not None and neutral.size else np.empty(0)
    above = neutral - left[:, None] if neutral is not None and left.any() else neutral
    # What can be met for certain, where many actions tie: a bonus or other final values may be of any sign.
    known = neutral is not None and neutral.size > 0 and final is None and bonus is None
    certain = np.full((storage.turns, mdp.n_states if known else 0), CERTAIN_OF_NONE)
    begins = plan.begins
    kept = np.empty(begins[-1] if keep_actions else 0, dtype=action_type(mdp.n_actions))
    places = np.empty((storage.turns, mdp.n_states, 3), np.int64)
    no_action, no_bonus = np.full(mdp.n_states, -1), np.zeros(mdp.n_states * mdp.n_actions)

    def turn(h: int) -> int:
        return h % storage.turns

    # Steps in turn need what is the same for all of them; otherwise one step comes after the other.
    @lru_cache(maxsize=len(tables) if unchanging(mdp, grid) else 1)
    def arguments(h: int) -> tuple[Any, ...]:
        """What the kernel needs for all states at step h."""
        here, after = tables[h], tables[h + 1]
        ptr, next_state, prob, _ = mdp.rows(h)
        return (
            mdp.n_actions,
            ptr,
            next_state,
            prob,
            step_units(h),
            no_bonus if bonus is None else bonus[h].ravel(),
            here.first,
            here.offset,
            here.pad,
            places[turn(h + 1)],
            places[turn(h)],
            values,
            kept[begins[h] : begins[h + 1]] if keep_actions else kept,
            no_action if at_ends is None else at_ends[h],
            TIE,
            after.stored > CACHED and not storage.near,
            no_bonus if neutral is None else mean_rewards(mdp, grid, h),
            *(no_bonus if above is None else above[i] if left.size else above for i in (h, h + 1)),
            means,
            certain[turn(h + 1)],
            certain[turn(h)],
        )

    slot_of = dict[tuple[int, int], int]()
    for task in storage.order:
        check()
        h, here = task.step, tables[task.step]
        begin, end = int(cuts[task.chunk]), int(cuts[task.chunk + 1])
        at = free.pop()
        here.place(slice(begin, end), at * storage.slot, places[turn(h)])
        if h == len(tables) - 1:
            entries = slice(here.offset[begin], here.offset[end])
            own = slice(at * storage.slot, at * storage.slot + entries.stop - entries.start)
            values[own] = 0.0 if final is None else final[entries]
            means[own] = 0.0
            if known:
                certain[turn(h), begin:end] = here.first[begin:end]
        else:
            if known:
                certain[turn(h), begin:end] = CERTAIN_OF_NONE
            work = mdp.rows_of_states(h)[begin:end] * (here.offset[begin + 1 : end + 1] - here.offset[begin:end])
            over_states(_kernels.backup, arguments(h), work, first=begin)
        if h == 0 and curves:
            for curve, column in zip(curves, (values, means), strict=False):
                curve.add(begin, end, places[0], column)
            free.append(at)
        else:
            slot_of[h, task.chunk] = at
        free.extend(slot_of.pop(place) for place in task.released)
    return Induction(plan, values, kept, means, places[0])


def action_type(n_actions: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned integer type that holds every action."""
    for kind in (np.uint8, np.uint16, np.uint32):
        if n_actions - 1 <= np.iinfo(kind).max:
            return np.dtype(kind)
    raise InputError(f"actions = {n_actions}: must be at most {2**32}")


def tables_of(low: np.ndarray, high: np.ndarray, met: np.ndarray) -> Tables:
    """Tables of the budgets low..high [S] for the states that can be met."""
    offset = np.zeros(met.size + 1, np.int64)
    np.cumsum(np.where(met, high - low + 1, 0), out=offset[1:])
    return Tables(low.astype(np.int64, copy=False), offset)


def range_from(
    mdp: FiniteMDP, h: int, reward: np.ndarray, low: np.ndarray, high: np.ndarray, cautious: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Least and most that can be earned from step h on, [S] each, given the same for step h + 1; all are floats.

    cautious: the least is what the most cautious player can be sure of, not the worst player.
    """
    from tailrank.planning.exact import _kernels

    ptr, next_state, _, _ = mdp.rows(h)
    after, before = (low, high), np.empty((2, low.size))
    arguments = (mdp.n_actions, ptr, next_state, reward, *after, cautious, *before)
    over_states(_kernels.return_range, arguments, mdp.rows_of_states(h))
    return before[0], before[1]


def return_ranges(mdp: FiniteMDP) -> tuple[np.ndarray, np.ndarray]:
    """Least and most that can be earned from each step and state on, [H + 1, S] each, in reward units."""
    low = np.zeros((mdp.horizon + 1, mdp.n_states))
    high = np.zeros_like(low)
    for h in reversed(range(mdp.horizon)):
        low[h], high[h] = range_from(mdp, h, mdp.scaled_rewards(h), low[h + 1], high[h + 1])
    return low, high
