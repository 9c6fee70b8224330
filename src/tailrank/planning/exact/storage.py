"""Where the tables of an induction lie: those of a step may take the place of those of the next one.

States are cut into chunks, and the chunks of a step are computed in order. A chunk of the next step is let go after
the last chunk that reads it; its slot in memory is then taken by the next chunk to be computed, while it is still in
the cache. Where next states are near, little more than one step is in memory; where they are anywhere, two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import owners

WHOLE = 2**23
"""Entries of a step up to which its states are one chunk."""

CHUNK = 2**19
"""Entries of a chunk, about."""


@dataclass(frozen=True)
class Tables:
    """Ragged tables of one step: state s owns entries offset[s]:offset[s + 1], budgets from first[s].

    In memory each is padded with `pad` entries of its constant and of its linear tail, so that the outcomes of a pair,
    shifted by their different rewards, can be added without looking at their ends.
    """

    first: np.ndarray
    offset: np.ndarray
    pad: int = 0

    @property
    def stored(self) -> int:
        """Values in memory: every state's table with `pad` more on either side."""
        return self.size + 2 * self.pad * self.first.size

    @property
    def size(self) -> int:
        """Entries in all."""
        return int(self.offset[-1])

    @property
    def last(self) -> np.ndarray:
        """Budget of the last entry of each state, [S]."""
        return self.first + np.diff(self.offset) - 1

    def place(self, states: slice, begin: int, places: np.ndarray) -> None:
        """Put into places [S, 3] where the padded tables of some states lie that stand one after the other from
        values[begin] on.

        With (bottom, top, place) in its row, that of s holds the budgets bottom <= c < top, at values[place + c].
        """
        bottom = self.first[states] - self.pad
        own = np.diff(self.offset[states.start : states.stop + 1]) + 2 * self.pad
        places[states, 0] = bottom
        places[states, 1] = bottom + own
        places[states, 2] = begin + np.cumsum(own) - own - bottom


@dataclass(frozen=True)
class Storage:
    """Chunk i has the states cuts[i]..cuts[i + 1] - 1 and takes a slot of `slot` entries; there are `slots` of these.

    released: for each block of the MDP and each chunk, which chunks of the next step no later chunk reads.
    """

    cuts: np.ndarray
    released: tuple[tuple[tuple[int, ...], ...], ...]
    slot: int
    slots: int

    @classmethod
    def of(cls, mdp: FiniteMDP, tables: tuple[Tables, ...]) -> Storage:
        """The chunks for tables [H + 1] of the MDP."""
        widest = max(tables, key=lambda t: t.stored)
        if widest.stored <= WHOLE:
            return cls(np.array([0, mdp.n_states]), (((0,),),) * mdp.n_blocks, widest.stored, 2)
        chunks = max(1, min(widest.stored // CHUNK, mdp.n_states))
        own = np.cumsum(np.diff(widest.offset) + 2 * widest.pad)
        inner = np.searchsorted(own, own[-1] * np.arange(1, chunks) / chunks)
        cuts = np.unique(np.concatenate([[0], inner, [mdp.n_states]]))
        slot = max(int(np.diff(t.offset[cuts] + 2 * t.pad * cuts).max()) for t in tables)
        released = tuple(_released(mdp, block, cuts) for block in range(mdp.n_blocks))
        most = max(_most_in_use(block) for block in released)
        return cls(cuts, released, slot, most)

    @property
    def near(self) -> bool:
        """Whether chunks are known to read little more than their own part of the next step, which caches then hold."""
        return self.slots < 1.5 * (self.cuts.size - 1)

    @property
    def entries(self) -> int:
        """Entries of all slots."""
        return self.slot * self.slots


def _released(mdp: FiniteMDP, block: int, cuts: np.ndarray) -> tuple[tuple[int, ...], ...]:
    chunks = cuts.size - 1
    ptr, next_state, _, _ = mdp.rows(block)
    chunk_of, last = owners(cuts), np.zeros(chunks, np.int64)
    for i, (begin, end) in enumerate(zip(ptr[cuts[:-1] * mdp.n_actions], ptr[cuts[1:] * mdp.n_actions], strict=True)):
        last[chunk_of[next_state[begin:end]]] = i
    return tuple(tuple(np.flatnonzero(last == i).tolist()) for i in range(chunks))


def _most_in_use(released: tuple[tuple[int, ...], ...]) -> int:
    """How many slots are in use at most: those of the next step that are left, and those of this one so far."""
    let_go = np.cumsum([0, *(len(chunks) for chunks in released)])
    return int((len(released) + np.arange(1, len(released) + 1) - let_go[:-1]).max())
