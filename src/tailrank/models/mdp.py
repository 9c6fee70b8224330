"""Finite Markov decision processes as outcome rows.

An outcome of taking action a in state s at step h is a row (h, s, a, s', p, r): with probability p the
next state is s' and the reward is r. Reward and next state may depend on each other, so rows with the
same (h, s, a, s') and different rewards are different outcomes and stay apart. Rows are kept in
compressed form: those of the pair (s, a) in step block b are `ptr[k]:ptr[k + 1]`, k = (b S + s) A + a. A
time-homogeneous process has one block, otherwise there are H.

A pair without rows is an action that is not available. A state without any rows is absorbing: it gets
one row (action 0, back to itself, reward 0) and is listed in `absorbing`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models import _kernels, _rows
from tailrank.models.ragged import offsets, owners

MANY_ROWS = 1_000_000
"""Rows above which those of each pair are sorted on their own, as long as few must move far."""

LONG_PAIR = 64
"""How far a row may be moved when the rows of a pair are sorted one by one."""


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """A finite-horizon MDP; build it with `from_rows` or `from_arrays`, which validate.

    ptr [B S A + 1], next_state [n], prob [n], reward [n]: the rows (B = 1 or horizon step blocks).
    start [S]: law of the first state. `labels` [S] and `action_labels` [A] are the user's own names.

    >>> rows = [(0, 0, 0, 1, 1), (0, 1, 0, 0.9, 2), (0, 1, 0, 0.1, -5)]  # s, a, s', p, r
    >>> mdp = FiniteMDP.from_rows(*zip(*rows), horizon=3)
    >>> mdp.n_states, mdp.n_actions, mdp.horizon
    (1, 2, 3)
    """

    ptr: np.ndarray
    next_state: np.ndarray
    prob: np.ndarray
    reward: np.ndarray
    start: np.ndarray
    n_actions: int
    horizon: int
    discount: float = 1.0
    labels: tuple[object, ...] = ()
    action_labels: tuple[object, ...] = ()
    absorbing: tuple[int, ...] = ()

    @classmethod
    def from_rows(
        cls,
        state: object,
        action: object,
        next_state: object,
        probability: object,
        reward: object,
        *,
        horizon: int | None = None,
        start: object = 0,
        step: object = None,
        discount: float = 1.0,
        n_states: int | None = None,
        n_actions: int | None = None,
        labels: tuple[object, ...] = (),
        action_labels: tuple[object, ...] = (),
    ) -> FiniteMDP:
        """The MDP with these outcome rows, five columns [n] (and `step` [n], 0-based, if they change).

        `start` is a state, a mapping from states to probabilities, or a law [S].
        """
        s, a, t = (_rows.indices(c, n) for c, n in ((state, "state"), (action, "action"), (next_state, "next_state")))
        p, r = checks.numbers(probability, "probability"), checks.numbers(reward, "reward")
        if s.size == 0:
            raise InputError("rows: an MDP needs at least one outcome row, found none")
        for name, column in (("action", a), ("next_state", t), ("probability", p), ("reward", r)):
            if column.size != s.size:
                raise InputError(f"{name}: has {column.size} entries, expected {s.size} (one for each row)")
        S = checks.whole(n_states if n_states is not None else max(s.max(), t.max()) + 1, "n_states")
        A = checks.whole(n_actions if n_actions is not None else a.max() + 1, "n_actions")
        for name, column, size in (("state", s, S), ("next_state", t, S), ("action", a, A)):
            bad = np.flatnonzero((column < 0) | (column >= size))
            if bad.size:
                raise InputError(f"{name} = {column[bad[0]]} in row {bad[0]}: must lie in 0..{size - 1}")
        if step is None:
            if horizon is None:
                raise InputError("horizon: must be given when the rows have no step column")
            H, block, blocks = checks.steps(horizon), np.zeros_like(s), 1
        else:
            block = _rows.indices(step, "step")
            if block.size != s.size or block.min() < 0:
                raise InputError(f"step: must be {s.size} non-negative whole numbers, one for each row")
            H = blocks = int(block.max()) + 1
            if horizon is not None and horizon != H:
                raise InputError(f"horizon = {horizon}: the rows have {H} steps; leave it out or make them agree")
        _rows.check_size((blocks, S, A), s.size)
        checks.affordable(H * S, f"horizon = {H}, states = {S}")
        labels, action_labels = _rows.names(labels, "labels", S), _rows.names(action_labels, "action_labels", A)
        pair = (block * S + s) * A + a
        order = np.argsort(pair, kind="stable")
        counts = np.bincount(pair, minlength=blocks * S * A)
        _rows.check_rows(pair, p, r, counts, (blocks, S, A), labels, action_labels, H)
        totals = np.bincount(pair, weights=p, minlength=counts.size)
        p = checks.normalised(p, totals[pair], counts[pair])
        columns = [t[order], p[order], r[order]]
        counts, columns, absorbing = _rows.add_absorbing(counts.reshape(blocks, S, A), columns)
        return cls(
            ptr=offsets(counts),
            next_state=columns[0].astype(np.int32),
            prob=columns[1],
            reward=columns[2],
            start=_rows.start_law(start, S, labels),
            n_actions=A,
            horizon=H,
            discount=checks.discount_factor(discount),
            labels=labels,
            action_labels=action_labels,
            absorbing=absorbing,
        )

    @classmethod
    def from_arrays(cls, P: object, R: object, *, horizon: int | None = None, **options: object) -> FiniteMDP:
        """The MDP with kernel P and rewards R, state first.

        P is [S, A, S] or [H, S, A, S]; R is [S], [S, A] or [S, A, S] (each with or without [H]). A pair
        whose probabilities are all zero is an action that is not available.
        """
        kernel, rewards = np.asarray(P, dtype=np.float64), np.asarray(R, dtype=np.float64)
        if kernel.ndim not in (3, 4) or kernel.shape[-1] != kernel.shape[-3]:
            raise InputError(f"P: must have shape [S, A, S] or [H, S, A, S], found {list(kernel.shape)}")
        timed, (S, A) = kernel.ndim == 4, kernel.shape[-3:-1]
        rewards = _rows.reward_array(rewards, kernel.shape, timed)
        nonzero = kernel != 0
        where = np.nonzero(nonzero)
        reward = np.broadcast_to(rewards, kernel.shape)[nonzero]
        step = where[0] if timed else None
        if timed and horizon is not None and horizon != kernel.shape[0]:
            raise InputError(f"horizon = {horizon}: P has {kernel.shape[0]} steps; leave it out or make them agree")
        s, a, t = where[-3:]
        return cls.from_rows(
            s,
            a,
            t,
            kernel[nonzero],
            reward,
            step=step,
            horizon=None if timed else horizon,
            n_states=S,
            n_actions=A,
            **options,  # type: ignore[arg-type]
        )

    @property
    def n_states(self) -> int:
        """S."""
        return int(self.start.size)

    @cached_property
    def n_blocks(self) -> int:
        """1 when every step has the same rows, otherwise the horizon."""
        return (self.ptr.size - 1) // (self.n_states * self.n_actions)

    @cached_property
    def pair(self) -> np.ndarray:
        """The index (b S + s) A + a of the pair each row belongs to, [n]."""
        return owners(self.ptr)

    @cached_property
    def _rows_of_states(self) -> np.ndarray:
        return np.diff(self.ptr[:: self.n_actions]).reshape(self.n_blocks, self.n_states)

    def rows_of_states(self, h: int) -> np.ndarray:
        """How many rows each state has at step h, [S]."""
        return self._rows_of_states[h if self.n_blocks > 1 else 0]

    def rows(self, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows of step h: ptr [S A + 1] (from zero), next_state, prob, reward (undiscounted)."""
        if self.n_blocks == 1:
            return self.ptr, self.next_state, self.prob, self.reward
        pairs = self.n_states * self.n_actions
        ptr = self.ptr[h * pairs : (h + 1) * pairs + 1]
        span = slice(ptr[0], ptr[-1])
        return ptr - ptr[0], self.next_state[span], self.prob[span], self.reward[span]

    @cached_property
    def _cumulative(self) -> list[np.ndarray]:
        return [np.concatenate([[0.0], np.cumsum(self.rows(b)[2])]) for b in range(self.n_blocks)]

    def draw_rows(self, h: int, pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One outcome row of step h for each pair s A + a [n] (each must have rows), as indices into `rows(h)`."""
        return self.rows_at(h, pairs, rng.random(pairs.size))

    def rows_at(self, h: int, pairs: np.ndarray, u: np.ndarray) -> np.ndarray:
        """The outcome rows at the points u [n] in [0, 1) of the distribution functions of the pairs [n]."""
        ptr, total = self.rows(h)[0], self._cumulative[h if self.n_blocks > 1 else 0]
        begin, end = ptr[pairs], ptr[pairs + 1]
        found = np.empty(pairs.size, dtype=np.int64)
        _kernels.find_rows(total, begin, end, total[begin] + u * (total[end] - total[begin]), found)
        return found

    def scaled_rewards(self, h: int) -> np.ndarray:
        """discount^h times the rewards of step h, in the order of `rows`."""
        reward = self.rows(h)[3]
        return reward if self.discount == 1.0 else reward * self.discount**h

    @property
    def same_every_step(self) -> bool:
        """Whether every step has the same rows and the same (discounted) rewards."""
        return self.n_blocks == 1 and self.discount == 1.0

    def table(self) -> dict[str, np.ndarray]:
        """The rows as 0-based columns: step (only if there are H blocks), state, action, next_state, ..."""
        rest, action = np.divmod(self.pair, self.n_actions)
        block, state = np.divmod(rest, self.n_states)
        step = {"step": block} if self.n_blocks > 1 else {}
        return step | {
            "state": state,
            "action": action,
            "next_state": self.next_state.astype(np.int64),
            "probability": self.prob,
            "reward": self.reward,
        }

    def merged(self) -> FiniteMDP:
        """The same MDP with rows of equal (h, s, a, s', r) added up and impossible rows left out."""
        if self.prob.size > MANY_ROWS:  # otherwise sorting takes less time than compiling
            counts, rows = np.empty(self.ptr.size - 1, np.int64), (self.next_state, self.prob, self.reward)
            found = tuple(np.empty_like(column) for column in rows)
            n = _kernels.merge_rows(self.ptr, *rows, LONG_PAIR, counts, *found, np.empty_like(self.prob))
            if n == self.prob.size:
                return self
            if n >= 0:
                state, prob, reward = (column[:n] for column in found)
                return replace(self, ptr=offsets(counts), next_state=state, prob=prob, reward=reward)
        pair = owners(self.ptr)
        if (self.prob > 0).all():  # one sort tells whether any two rows could be equal
            places = np.sort(pair * self.n_states + self.next_state)
            if (places[1:] != places[:-1]).all():
                return self
        order = np.lexsort((self.reward, self.next_state, pair))
        order = order[self.prob[order] > 0]
        key = pair[order], self.next_state[order], self.reward[order]
        first = np.ones(order.size, dtype=bool)
        first[1:] = (key[0][1:] != key[0][:-1]) | (key[1][1:] != key[1][:-1]) | (key[2][1:] != key[2][:-1])
        if first.all() and first.size == self.prob.size:
            return self
        begin = np.flatnonzero(first)
        counts = np.bincount(key[0][begin], minlength=self.ptr.size - 1)
        return replace(
            self,
            ptr=offsets(counts),
            next_state=key[1][begin],
            prob=np.add.reduceat(self.prob[order], begin),
            reward=key[2][begin],
        )
