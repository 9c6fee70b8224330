"""What records say of a decision process: counted outcomes of every pair, and how far the truth may be from them.

Rewards are whole units above an origin, one origin a step, so budgets are 0..W_h at step h, where W_h is the most that
steps h..H-1 can pay. An episode that ends early earns nothing more; nothing more may be more than the origin, so it is
worth Z_h units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tailrank.models.grid import BudgetGrid


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """Outcomes by pair s A + a: those of pair k are ptr[k]:ptr[k + 1].

    ptr [S A + 1]; next_state [n] (S: the episode ends, S + 1: nobody knows); units [n]; share [n], which sums to one
    over a pair; radius [S A]: the true law q has sum of share log(share / q) <= radius (inf: nothing is known).
    """

    ptr: np.ndarray
    next_state: np.ndarray
    units: np.ndarray
    share: np.ndarray
    radius: np.ndarray

    @cached_property
    def longest(self) -> int:
        """The most outcomes of a pair."""
        return int(np.diff(self.ptr).max(initial=1))


@dataclass(frozen=True, eq=False)
class StartRecord:
    """First states [k] that were seen, their share [k], and how far the true law may be from it."""

    states: np.ndarray
    share: np.ndarray
    radius: float


@dataclass(frozen=True, eq=False)
class RecordedModel:
    """steps [H] (the same object where the dynamics are the same at every step); widths, ended [H + 1]: W_h and Z_h.

    closed: every state that can be met is one of the n_states. may_end: an episode may end early.
    """

    grid: BudgetGrid
    steps: tuple[RecordedStep, ...]
    start: StartRecord
    n_states: int
    n_actions: int
    widths: np.ndarray
    ended: np.ndarray
    closed: bool = True
    may_end: bool = True

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.steps)

    def doubted(self, factor: float) -> RecordedModel:
        """The same shares with `factor` times the radii."""
        steps = {id(step): replace(step, radius=step.radius * factor) for step in self.steps}
        start = replace(self.start, radius=self.start.radius * factor)
        return replace(self, steps=tuple(steps[id(step)] for step in self.steps), start=start)

    @property
    def entries(self) -> int:
        """Entries of the tables of all steps."""
        return int((self.n_states + 2) * (self.widths + 1).sum())
