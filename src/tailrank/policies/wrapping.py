"""The base of policies that play another one, which sees, remembers or numbers something in its own way."""

from __future__ import annotations

import numpy as np

from tailrank.policies.moved import Moved
from tailrank.policies.tables import Policy


class WrappingPolicy:
    """Plays `inner`. A subclass says what that sees, remembers and calls the actions; here all are the same.

    Memory: that of the inner policy, followed by what is kept beside it (`past`).
    """

    inner: Policy

    def start(self, n: int) -> np.ndarray:
        """The memory of n fresh episodes."""
        return self.inner.start(n)

    def seen(self, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """What the inner policy sees of states [n]; memory: the whole one, or what is kept beside it alone."""
        return states

    def own_memory(self, memory: np.ndarray) -> np.ndarray:
        """The part of the inner policy."""
        return memory

    def own_actions(self, actions: np.ndarray) -> np.ndarray:
        """Actions [n] by the inner policy's numbers."""
        return actions

    def past(self, states: np.ndarray, actions: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """What is kept beside the inner policy's memory after these actions, [n, k]."""
        return np.zeros((len(memory), 0))

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """That of the inner policy, which is told all in its own way, and what is kept beside it."""
        past = self.past(moved.states, moved.actions, memory)
        seen, after = self.seen(moved.states, memory), self.seen(moved.next_states, past)
        told = Moved(seen, self.own_actions(moved.actions), moved.rewards, after)
        own = self.inner.update(h, told, self.own_memory(memory))
        return np.column_stack([own, past]) if past.shape[1] else own
