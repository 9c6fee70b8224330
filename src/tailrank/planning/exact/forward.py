"""Which budgets can be left after a step, and which states lead where: what every push forward needs first."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tailrank._system.parallel import over_states
from tailrank.models.mdp import FiniteMDP

FAR = 2**60
"""Beyond every budget."""


@lru_cache(maxsize=8)
def _reach(mdp: FiniteMDP, block: int) -> np.ndarray:
    ptr, next_state, _, _ = mdp.rows(block)
    begins = ptr[: -1 : mdp.n_actions]
    some = begins < np.append(begins[1:], ptr[-1])  # in a chain of what can be met others have no rows
    found = np.full((2, begins.size), -1, dtype=next_state.dtype)
    for i, extreme in enumerate((np.minimum, np.maximum)):
        found[i, some] = extreme.reduceat(next_state, begins[some])
    return found


def reach(mdp: FiniteMDP, h: int) -> np.ndarray:
    """The first and the last state that each state leads to at step h, [2, S]; -1: none."""
    return _reach(mdp, h if mdp.n_blocks > 1 else 0)


def moved_by(before: tuple[np.ndarray, ...], after: tuple[np.ndarray, ...]) -> tuple[Any, ...] | None:
    """By how much each array [S] moved, if all of its entries moved by the same.

    Ranges that a step moves as a whole are moved so by every further step with the same rows.
    """
    moves = [b - a for a, b in zip(before, after, strict=True)]
    return tuple(m[0] for m in moves) if all((m == m[0]).all() for m in moves) else None


def budgets_after(
    mdp: FiniteMDP, h: int, units: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most budget that can be left after step h, [S] each, from those before it, whatever is done.

    Where a state cannot be met, the least is above the most.
    """
    from tailrank.planning.exact import _forward_kernels as _kernels

    ptr, next_state, prob, _ = mdp.rows(h)
    after = np.full(low.size, FAR), np.full(high.size, -FAR)
    arguments = (mdp.n_actions, ptr, next_state, prob, units, reach(mdp, h), low, high, *after)
    over_states(_kernels.push_range, arguments, mdp.rows_of_states(h), finely=False)
    return after
