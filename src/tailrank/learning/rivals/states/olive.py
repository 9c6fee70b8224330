"""OLIVE (Jiang, Krishnamurthy, Agarwal, Langford and Schapire 2017) for the CVaR: eliminate value functions.

The class is that of the value functions in the budget-augmented MDP that a finite class of models implies, one for
each member. With transitions of step h that follow a roll-in and a uniform action, the average Bellman error of
member f under its own action at step h is estimated with importance weights,

    A 1{a = pi_f(g, c)} (V^f_{h+1}(g', c') - Q^f_h(g, c, a)),

and f is eliminated where this is surely not zero, as it is for the truth. The number of iterations is bounded by the
Bellman rank times H, up to logarithms; the time by nothing better than the size of the class, which is enumerated
(`model_class`). The loop and its departures are in `elimination`; the CVaR comes in by the state (group, budget), the
cost c at the end, and the starting budget, which is chosen by optimism together with the member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank.learning.rivals.states.elimination import Elimination, TestedCells, bernstein_reach, blocks
from tailrank.learning.rivals.states.model_class import Members


def refuted_by_bellman_errors(members: Members, cells: TestedCells, delta: float) -> np.ndarray:
    """The tails whose average Bellman error is not zero, [tails] of bool."""
    h, row, A = cells.h, members.row(cells.h, cells.group), cells.n_actions
    after = members.values[h + 1][:, cells.next_group, cells.next_left]
    refuted = np.zeros(members.tails(h), dtype=bool)
    for part in blocks(refuted.size, 4 * row.size):
        own = members.actions[h][part][:, row, cells.left] == cells.action
        then = after[np.arange(part.start, part.stop) % after.shape[0]]
        error = A * own * (then - members.q[h][part][:, row, cells.action, cells.left])
        mean, square = error @ cells.count / cells.n, error**2 @ cells.count / cells.n
        reach = bernstein_reach(mean, square, cells.n, 2.0 * A * cells.budget, delta / 2)
        refuted[part] = np.abs(mean) > reach
    return refuted


@dataclass(frozen=True)
class Olive(Elimination):
    """OLIVE (Jiang et al. 2017): eliminates value functions, tiny classes only."""

    name: ClassVar[str] = "olive"

    def refuted(self, members: Members, cells: TestedCells, delta: float) -> np.ndarray:
        """The tails that are refuted, [tails] of bool."""
        return refuted_by_bellman_errors(members, cells, delta)
