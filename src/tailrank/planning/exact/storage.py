"""Where the tables of an induction lie: those of a step may take the place of those of the next one.

States are cut into chunks. A chunk of a step is computed as soon as all chunks of the next step that it reads are
there, and a chunk is let go after the last one that reads it; its slot in memory is then taken by another, while it is
still in the cache. Where next states are near, the induction so goes through all steps with a few chunks of each in
memory; where they are anywhere, step by step with two steps in memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import owners

WHOLE = 2**23
"""Entries of a step up to which its states are one chunk."""

CHUNK = 2**19
"""Entries of a chunk, about."""


NONE = np.empty(0, np.int64)
FEW = 6
"""Chunks that a chunk of a law may come from on average: those who push look at all of them."""


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

    @cached_property
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
        bottom, pads = self.first[states] - self.pad, 2 * self.pad
        offset = self.offset[states.start : states.stop + 1]
        places[states, 0] = bottom
        places[states, 1] = bottom + (offset[1:] - offset[:-1] + pads)
        places[states, 2] = begin - offset[0] + pads * np.arange(bottom.size) + (offset[:-1] - bottom)


@dataclass(frozen=True)
class Task:
    """A chunk of a step that is computed, which chunks of the next step it reads [n], and the (step, chunk) of those
    that nobody reads later."""

    step: int
    chunk: int
    read: np.ndarray
    released: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Storage:
    """Chunk i has the states cuts[i]..cuts[i + 1] - 1 and takes a slot of `slot` entries.

    order: in which chunks are computed, those of the last tables included. slots: how many are in use at most while
    those of the first step are kept, `passing` if they are let go at once. turns: as many steps of one chunk, one after
    the other, are in use at most.
    """

    cuts: np.ndarray
    order: tuple[Task, ...]
    slot: int
    slots: int
    passing: int
    turns: int

    @classmethod
    def of(
        cls, mdp: FiniteMDP, tables: tuple[Tables, ...], ahead: bool, forward: bool = False, whole: bool = False
    ) -> Storage:
        """The chunks for tables [H + 1] of the MDP.

        ahead: whether a step may begin before the next one is done, which takes less memory if there are many chunks.
        forward: the tables are of a law that goes forward, the last first; it reads where it comes from, and if that is
        much, all states are one chunk. whole: they are.
        """
        widest = max(tables, key=lambda t: t.stored)
        cuts, steps = np.array([0, mdp.n_states]), len(tables) - 1
        if widest.stored > WHOLE and not whole:
            chunks = max(1, min(widest.stored // CHUNK, mdp.n_states))
            own = np.cumsum(np.diff(widest.offset) + 2 * widest.pad)
            inner = np.searchsorted(own, own[-1] * np.arange(1, chunks) / chunks)
            cuts = np.unique(np.concatenate([[0], inner, [mdp.n_states]]))
        reads = [_reads(mdp, block, cuts) for block in range(mdp.n_blocks)] if cuts.size > 2 else []
        if forward and reads:
            reads = [_with_sources(found.T) for found in reversed(reads[:steps])]
            if max(found.sum() for found in reads) > FEW * (cuts.size - 1):
                cuts = np.array([0, mdp.n_states])
        if cuts.size == 2:
            held = min(2, steps + 1)
            return cls(cuts, _one_by_one(steps), widest.stored, held, held, held)
        slot = max(int(np.diff(t.offset[cuts] + 2 * t.pad * cuts).max()) for t in tables)
        ways = (_ordered(reads, steps, way) for way in ((False, True) if ahead else (False,)))
        order, slots, passing, turns = min(ways, key=lambda found: found[2])
        return cls(cuts, order, slot, slots, passing, turns)

    @property
    def near(self) -> bool:
        """Whether chunks are known to read little more than their own part of the next step, which caches then hold."""
        return self.slots < 1.5 * (self.cuts.size - 1)


def _reads(mdp: FiniteMDP, block: int, cuts: np.ndarray) -> np.ndarray:
    """Whether chunk i reads chunk j of the next step, [chunks, chunks]."""
    chunks = cuts.size - 1
    ptr, next_state, _, _ = mdp.rows(block)
    chunk_of, found = owners(cuts), np.zeros((chunks, chunks), bool)
    for i, (begin, end) in enumerate(zip(ptr[cuts[:-1] * mdp.n_actions], ptr[cuts[1:] * mdp.n_actions], strict=True)):
        found[i, chunk_of[next_state[begin:end]] if begin < end else i] = True
    return found


def _with_sources(reads: np.ndarray) -> np.ndarray:
    """The same [chunks, chunks], where a chunk that nothing leads to reads itself: it must be computed, as empty."""
    return np.asarray(reads | (np.eye(len(reads), dtype=bool) & ~reads.any(axis=1, keepdims=True)))


@lru_cache(maxsize=8)
def _one_by_one(steps: int) -> tuple[Task, ...]:
    """The order of steps that are one chunk each."""
    rest = (Task(h, 0, np.zeros(1, np.int64), ((h + 1, 0),)) for h in reversed(range(steps)))
    return (Task(steps, 0, NONE, ()), *rest)


def _ordered(reads: list[np.ndarray], steps: int, ahead: bool) -> tuple[tuple[Task, ...], int, int, int]:
    """The order of the chunks of steps 0..steps, and what of them is in use at most: see `Storage`."""
    chunks, blocks = len(reads[0]), len(reads)
    missing = np.stack([reads[h % blocks].sum(axis=1) for h in range(steps)])
    unread = np.stack([reads[h % blocks].sum(axis=0) for h in range(steps)])
    sources = [[np.flatnonzero(row) for row in block] for block in reads]
    readers = [[np.flatnonzero(row) for row in block.T] for block in reads]
    used, order = np.zeros((steps + 1, chunks), bool), list[Task]()
    most = passing = turns = in_use = 0
    ready = deque((steps, i) for i in range(chunks))
    while ready:
        h, i = ready.popleft()
        read, released = NONE, list[tuple[int, int]]()
        used[h, i] = True
        in_use += h > 0
        most, passing = max(most, in_use + int(used[0].sum())), max(passing, in_use + (h == 0))
        turns = max(turns, int(np.flatnonzero(used[:, i])[-1]) - h + 1)
        if h < steps:
            read = sources[h % blocks][i]
            unread[h, read] -= 1
            released = [(h + 1, j) for j in read[unread[h, read] == 0].tolist()]
        if h > 0:
            waiting = readers[(h - 1) % blocks][i]
            missing[h - 1, waiting] -= 1
            fresh = [(h - 1, j) for j in waiting[missing[h - 1, waiting] == 0].tolist()]
            ready.extendleft(reversed(fresh)) if ahead else ready.extend(fresh)
            if not waiting.size:
                released.append((h, i))
        for place in released:
            used[place] = False
        in_use -= len(released)
        order.append(Task(h, i, read, tuple(released)))
    return tuple(order), most, passing, turns
