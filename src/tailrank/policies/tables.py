"""Policies with memory.

A policy sees the step h, states [n] and its own memory [n], and answers with actions [n]; after each step
it is told the rewards and moves its memory. One interface serves all: the memory is the integer budget
that is left (`BudgetPolicy`), a confidence level (`LevelPolicy`), what was drawn (`UniformPolicy`) or nothing
(`MarkovPolicy`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from tailrank.checks import InputError
from tailrank.models.grid import BudgetGrid
from tailrank.models.ragged import rows_of
from tailrank.policies.moved import Moved

SAME = 1e-9
"""Shortfalls, in units of real budgets, that differ by no more than this are the same."""


class Policy(Protocol):
    """What a rollout or an evaluation needs. All arrays are [n], one entry an episode."""

    def start(self, n: int) -> np.ndarray:
        """Memory of n fresh episodes."""
        ...

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions at step h."""
        ...

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """Memory after the (undiscounted) rewards of step h."""
        ...


class PolicyHolder(Protocol):
    """A plan, what a policy file holds, or anything else that has a policy."""

    @property
    def policy(self) -> Policy:
        """The policy."""
        ...


def policy_of(item: Policy | PolicyHolder) -> Policy:
    """The policy itself, of a policy or of something that holds one."""
    found: Policy | None = item if hasattr(item, "act") else getattr(item, "policy", None)  # type: ignore[assignment]
    if found is None:
        raise InputError(f"policy: must be a policy, a plan or a loaded policy file, found {item!r:.60}")
    return found


@dataclass(frozen=True)
class BudgetPolicy:
    """Acts on (step, state, remaining budget); the budget is an integer on `grid`.

    first [H, S]: budget of each table's first entry. offset [H, S + 1]: its place in `actions`.
    elsewhere [H, S]: the risk-neutral action, played in states the model says cannot be met.

    >>> from tailrank import FiniteMDP, solve
    >>> rows = [(0, 0, 0, 1, 1), (0, 1, 0, 0.8, 3), (0, 1, 0, 0.2, 0)]  # s, a, s', p, r
    >>> policy = solve(FiniteMDP.from_rows(*zip(*rows), horizon=2), tau=0.2).policy
    >>> memory, state = policy.start(1), np.array([0])
    >>> action = policy.act(0, state, memory)
    >>> moved = Moved(state, action, np.array([3.0]), state)
    >>> policy.start_budget, action.tolist(), policy.update(0, moved, memory).tolist()
    (3.0, [1], [0])
    """

    grid: BudgetGrid
    budget: int
    first: np.ndarray
    offset: np.ndarray
    actions: np.ndarray
    elsewhere: np.ndarray

    def start(self, n: int) -> np.ndarray:
        """The starting budget, n times."""
        return np.full(n, self.budget, dtype=np.int64)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action for each state and remaining budget; beyond a table's ends its end entries hold."""
        begin, count = self.offset[h, states], self.offset[h, states + 1] - self.offset[h, states]
        entry = np.clip(memory - self.first[h, states], 0, np.maximum(count - 1, 0))
        known = self.actions[np.minimum(begin + entry, self.actions.size - 1)]
        return np.where(count > 0, known, self.elsewhere[h, states]).astype(np.int64)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The budget less the reward, in units."""
        return memory - self.grid.units(h, np.asarray(moved.rewards) * self.grid.discount**h)

    def with_budget(self, budget: int) -> BudgetPolicy:
        """The same tables from another starting budget (an index on the grid)."""
        return replace(self, budget=int(budget))

    @property
    def start_budget(self) -> float:
        """The starting budget in reward units."""
        return float(self.grid.value(self.budget))


@dataclass(frozen=True)
class MixedPolicy:
    """One of two policies, drawn once for each episode: `first` with probability `share`, else `second`.

    seed: of the draws, which come from a generator of its own. Memory [n, 2]: which one it is, and what is left of
    its budget.
    """

    first: BudgetPolicy
    second: BudgetPolicy
    share: float
    seed: int = 0
    draws: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", np.random.default_rng(self.seed))

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.first.first.shape[0])

    @property
    def likelier(self) -> BudgetPolicy:
        """The one that is drawn more often."""
        return self.first if self.share >= 0.5 else self.second

    def start(self, n: int) -> np.ndarray:
        """Which one is drawn for each of n episodes, and its starting budget."""
        other = (self.draws.random(n) >= self.share).astype(np.int64)
        return np.column_stack([other, np.where(other, self.second.budget, self.first.budget)])

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action of the one that was drawn."""
        mine, other = (policy.act(h, states, memory[:, 1]) for policy in (self.first, self.second))
        return np.where(memory[:, 0] == 0, mine, other)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """What is left of its budget."""
        mine, other = (policy.update(h, moved, memory[:, 1]) for policy in (self.first, self.second))
        return np.column_stack([memory[:, 0], np.where(memory[:, 0] == 0, mine, other)])


class Memoryless:
    """What policies have in common whose memory stays as it is, and is empty unless they say otherwise."""

    def start(self, n: int) -> np.ndarray:
        """Nothing to remember: zeros [n]."""
        return np.zeros(n, dtype=np.int64)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """Still nothing."""
        return memory


class ChargedBudget:
    """What policies have in common whose memory [n] is the budget that is left, a real number."""

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The budget less the reward."""
        return np.asarray(memory - moved.rewards)


@dataclass(frozen=True)
class MarkovPolicy(Memoryless):
    """Acts on (step, state) alone: actions [H, S].

    >>> policy = MarkovPolicy(np.array([[0, 1], [1, 1]]))
    >>> policy.act(0, np.array([1, 0, 0]), policy.start(3)).tolist()
    [1, 0, 0]
    """

    actions: np.ndarray

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action of each state."""
        return self.actions[h, states].astype(np.int64)


@dataclass(frozen=True)
class UniformPolicy(Memoryless):
    """Uniform actions, drawn for whole episodes, [n, H], so that they do not depend on what happens in them."""

    n_actions: int
    horizon: int
    rng: np.random.Generator

    def start(self, n: int) -> np.ndarray:
        """The actions of n episodes."""
        return self.rng.integers(0, self.n_actions, size=(n, self.horizon))

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Those of step h."""
        return np.asarray(memory[:, h])


@dataclass(frozen=True, eq=False)
class ClonedPolicy(Memoryless):
    """law [S, A]: the probability of every action; horizon: H. Draws are those of `rng`."""

    law: np.ndarray
    horizon: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def start(self, n: int) -> np.ndarray:
        """A random number for each step of n episodes, [n, H], so that draws do not depend on what happens."""
        return self.rng.random((n, self.horizon))

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action that the random number of step h falls on."""
        total = np.cumsum(self.law[states], axis=1)
        drawn = (memory[:, h, None] * total[:, -1:] >= total).sum(axis=1)
        return np.asarray(np.minimum(drawn, self.law.shape[1] - 1))


@dataclass(frozen=True)
class LevelPolicy:
    """Acts on (step, state, confidence level): the policy of Chow et al. (2015), levels on a grid.

    levels [K]; start_level [S]: index of the level of an episode that starts there, whatever the memory says.
    actions [H, S, K]. next_level [n_0 + .. + n_{H-1}, K]: level after each outcome row of each step. ptr,
    next_state, reward: the rows as an MDP keeps them, to tell outcomes apart.
    """

    levels: np.ndarray
    start_level: np.ndarray
    actions: np.ndarray
    next_level: np.ndarray
    ptr: np.ndarray
    next_state: np.ndarray
    reward: np.ndarray
    n_actions: int

    def start(self, n: int) -> np.ndarray:
        """Zeros: the first level depends on the first state."""
        return np.zeros(n, dtype=np.int64)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action for each state and level."""
        level = self.start_level[states] if h == 0 else memory
        return np.asarray(self.actions[h, states, level], dtype=np.int64)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The level that the decomposition gives to the outcome that came."""
        pair = self._first_pair(h) + moved.states * self.n_actions + moved.actions
        owner, row = rows_of(self.ptr, pair)
        same = (self.next_state[row] == moved.next_states[owner]) & np.isclose(self.reward[row], moved.rewards[owner])
        owner, row = owner[same], row[same]
        # Of several rewards that are close, the closest is meant.
        order = np.lexsort((np.abs(self.reward[row] - moved.rewards[owner]), owner))
        matched, first = np.unique(owner[order], return_index=True)
        if matched.size < pair.size:
            i = int(np.setdiff1d(np.arange(pair.size), matched)[0])
            raise InputError(
                f"step {h}: no outcome of state {moved.states[i]}, action {moved.actions[i]} has next state "
                f"{moved.next_states[i]} and reward {moved.rewards[i]}"
            )
        level = self.start_level[moved.states] if h == 0 else memory
        return self.row_level(h, row[order[first]] - self.ptr[self._first_pair(h)], level)

    def row_level(self, h: int, rows: np.ndarray, level: np.ndarray) -> np.ndarray:
        """The level after outcome `rows` [n] (counted from the first row of step h) at `level` [n]."""
        before = self.ptr[self._first_pair(h)] if self._timed else h * self.next_state.size
        return np.asarray(self.next_level[before + rows, level], dtype=np.int64)

    @property
    def _timed(self) -> bool:
        return bool(self.ptr.size - 1 > self.actions.shape[1] * self.n_actions)

    def _first_pair(self, h: int) -> int:
        return h * self.actions.shape[1] * self.n_actions if self._timed else 0
