"""Exploration: episodes of several plans in turn, begun with different budgets, with a share of random actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tailrank.policies.kernel import KernelPolicy, interpolation
from tailrank.policies.moved import Moved
from tailrank.policies.tables import Policy
from tailrank.policies.wrapping import WrappingPolicy


@dataclass
class ExploringPolicy:
    """Plays policies whose memory [n] is the budget that is left, one an episode in turn; it is not made to be saved.

    Memory [n, 2]: the budget, and which policy. Every other round of the policies begins with budgets drawn from
    `budgets` [k], if there are any, and not with those of their plans: the same tables hold the plan of every budget.
    A share `epsilon` of the actions is drawn at random, and all of them where `strange` says so of a state.
    """

    policies: tuple[Policy, ...]
    n_actions: int
    budgets: np.ndarray | None
    epsilon: float
    rng: np.random.Generator
    strange: Callable[[int, np.ndarray], np.ndarray] | None = None
    _begun: int = field(default=0, repr=False)

    def start(self, n: int) -> np.ndarray:
        """Budgets and policies of n episodes."""
        number = self._begun + np.arange(n)
        self._begun += n
        which = number % len(self.policies)
        planned = np.stack([policy.start(n) for policy in self.policies])[which, np.arange(n)]
        if self.budgets is not None:
            drawn = self.rng.choice(self.budgets, size=n)
            planned = np.where(number // len(self.policies) % 2 == 0, planned, drawn)
        return np.column_stack([planned, which])

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The actions of the plans, or random ones."""
        n = len(states)
        result = self.rng.integers(0, self.n_actions, size=n)
        planned = self.rng.random(n) >= self.epsilon
        if self.strange is not None:
            planned &= ~self.strange(h, states)
        for i, policy in enumerate(self.policies):
            mine = planned & (memory[:, 1] == i)
            if mine.any():
                result[mine] = policy.act(h, states[mine], memory[mine, 0])
        return result

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The budget less the reward."""
        return np.column_stack([memory[:, 0] - moved.rewards, memory[:, 1]])


@dataclass
class CuriousPolicy(WrappingPolicy):
    """A kernel policy with a bonus that wears off as its pairs are played, until the next plan.

    visits [M, A]: what the bonus was made of. Without this all episodes between two plans would go to the same place,
    and stay there. A pair without outcomes counts as known after a few tries.
    """

    inner: KernelPolicy
    visits: np.ndarray
    _played: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._played = np.zeros_like(self.visits)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] with what is left of the bonus."""
        inner, played = self.inner, self._played
        empty = np.diff(inner.rows.ptr).reshape(played.shape) == 0
        wear = np.where(empty, (1.0 + played) ** 2, np.sqrt(1.0 + played / (1.0 + self.visits)))
        actions = replace(inner, bonus=inner.bonus / wear).act(h, states, memory)
        places = inner.metric.place(states, h / inner.horizon)
        np.add.at(played, (interpolation(places, inner.representatives, 1)[0][:, 0], actions), 1.0)
        return actions
