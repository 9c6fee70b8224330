"""The witness-rank algorithm (Sun, Jiang, Krishnamurthy, Agarwal and Langford 2019) for the CVaR: eliminate models.

OLIVE's loop, but what is eliminated are models, and what refutes them is a test function: with transitions of step h
that follow a roll-in and a uniform action, model M is eliminated where some f of a finite class F has

    E[ A 1{a = pi_M(g, c)} ( E_{g' ~ M(g, a)} f(g', c') - f(g', c') ) ]

surely not zero. F holds the next values V_{h+1} of all members, which makes every Bellman error a misfit that is
witnessed, and the indicators of the next groups, which see differences that no value function sees. The class is
enumerated (`model_class`); the loop and its departures are in `elimination`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank.learning.rivals.states.elimination import Elimination, TestedCells, bernstein_reach, blocks
from tailrank.learning.rivals.states.model_class import Members


def witnesses(members: Members, h: int) -> np.ndarray:
    """F for step h, [K, G', C]: the different next values of the class, and the indicators of the groups."""
    values = np.unique(members.values[h + 1].round(9), axis=0)
    groups = np.eye(values.shape[1])[:, :, None] * np.ones(values.shape[2])
    return np.concatenate([values, groups])


def refuted_by_witnesses(members: Members, cells: TestedCells, delta: float) -> np.ndarray:
    """The tails whose misfit a test function witnesses, [tails] of bool."""
    h, row, A = cells.h, members.row(cells.h, cells.group), cells.n_actions
    tests = witnesses(members, h)
    width = 2.0 * A * np.ptp(tests[:, :, : cells.budget + 1], axis=1).max(axis=1)
    own = (members.actions[h][:, row, cells.left] == cells.action).reshape(len(members.kernels[h]), -1, row.size)
    refuted = np.zeros(own.shape[:2], dtype=bool)
    for part in blocks(len(tests), tests.shape[1] * row.size):
        f = tests[part][:, :, cells.next_left]  # [K, G', m]
        found = np.take_along_axis(f, cells.next_group[None, None, :], axis=1)[:, 0]
        for j, kernel in enumerate(members.kernels[h]):
            misfit = A * (np.einsum("mg,kgm->km", kernel[cells.group, cells.action], f) - found)
            mean, square = (own[j] @ (x * cells.count).T / cells.n for x in (misfit, misfit**2))
            reach = bernstein_reach(mean, square, cells.n, width[part], delta / (2 * len(tests)))
            refuted[j] |= (np.abs(mean) > reach).any(axis=1)
    return refuted.ravel()


@dataclass(frozen=True)
class Witness(Elimination):
    """The witness-rank algorithm (Sun et al. 2019): eliminates models, tiny classes only."""

    name: ClassVar[str] = "witness"

    def refuted(self, members: Members, cells: TestedCells, delta: float) -> np.ndarray:
        """The tails that are refuted, [tails] of bool."""
        return refuted_by_witnesses(members, cells, delta)
