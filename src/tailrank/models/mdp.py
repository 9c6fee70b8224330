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

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models import _kernels
from tailrank.models.ragged import offsets, owners


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
        s, a, t = (_indices(c, n) for c, n in ((state, "state"), (action, "action"), (next_state, "next_state")))
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
            block = _indices(step, "step")
            if block.size != s.size or block.min() < 0:
                raise InputError(f"step: must be {s.size} non-negative whole numbers, one for each row")
            H = blocks = int(block.max()) + 1
            if horizon is not None and horizon != H:
                raise InputError(f"horizon = {horizon}: the rows have {H} steps; leave it out or make them agree")
        _check_size((blocks, S, A), s.size)
        checks.affordable(H * S, f"horizon = {H}, states = {S}")
        labels, action_labels = labels or tuple(range(S)), action_labels or tuple(range(A))
        pair = (block * S + s) * A + a
        order = np.argsort(pair, kind="stable")
        counts = np.bincount(pair, minlength=blocks * S * A)
        _check_rows(pair, p, r, counts, (blocks, S, A), labels, action_labels, H)
        totals = np.bincount(pair, weights=p, minlength=counts.size)
        p = checks.normalised(p, totals[pair], counts[pair])
        columns = [t[order], p[order], r[order]]
        counts, columns, absorbing = _add_absorbing(counts.reshape(blocks, S, A), columns)
        return cls(
            ptr=offsets(counts),
            next_state=columns[0].astype(np.int32),
            prob=columns[1],
            reward=columns[2],
            start=_start_law(start, S, labels),
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
        rewards = _reward_array(rewards, kernel.shape, timed)
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
        order = np.lexsort((self.reward, self.next_state, self.pair))
        order = order[self.prob[order] > 0]
        key = self.pair[order], self.next_state[order], self.reward[order]
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


def _indices(column: object, name: str) -> np.ndarray:
    values = np.asarray(column).ravel()
    if values.dtype.kind in "iu" and values.size:
        if values.dtype.kind == "u" and int(values.max()) > np.iinfo(np.int64).max:
            raise InputError(f"{name} = {values.max()}: is too large")
        return values.astype(np.int64)
    numbers = checks.numbers(values, name)
    bad = np.flatnonzero((numbers != np.floor(numbers)) | (np.abs(numbers) > 2**53))
    if bad.size:
        raise InputError(f"{name} = {values[bad[0]]} in row {bad[0]}: must be a whole number")
    return numbers.astype(np.int64)


def _check_size(sizes: tuple[int, int, int], rows: int) -> None:
    """A few rows that name state 10^9 are a mistake, and must not cost 10^9 table entries."""
    most = 5_000_000 + 20 * rows
    if math.prod(sizes) > most:
        raise InputError(
            f"steps x states x actions = {' x '.join(map(str, sizes))}: must be at most {most} for {rows} rows; "
            "are the state, action and step numbers right?"
        )


def _check_rows(
    pair: np.ndarray,
    p: np.ndarray,
    r: np.ndarray,
    counts: np.ndarray,
    shape: tuple[int, int, int],
    labels: tuple[object, ...],
    action_labels: tuple[object, ...],
    horizon: int,
) -> None:
    def place(k: int) -> str:
        b, s, a = np.unravel_index(k, shape)
        step = f"step {b}, " if shape[0] > 1 else ""
        return f"{step}state {labels[s]}, action {action_labels[a]}"

    bad = np.flatnonzero(~((p >= 0) & (p <= 1 + checks.PROBABILITY_TOLERANCE)))
    if bad.size:
        raise InputError(f"probability = {p[bad[0]]} at {place(pair[bad[0]])} (row {bad[0]}): must lie in [0, 1]")
    bad = np.flatnonzero(~np.isfinite(r))
    if bad.size:
        raise InputError(f"reward = {r[bad[0]]} at {place(pair[bad[0]])} (row {bad[0]}): must be finite")
    bad = np.flatnonzero(np.abs(r) > checks.LARGEST_RETURN / horizon)
    if bad.size:
        raise InputError(
            f"reward = {r[bad[0]]} at {place(pair[bad[0]])} (row {bad[0]}): times {horizon} steps it must be at most "
            f"{checks.LARGEST_RETURN:g} in size"
        )
    totals = np.bincount(pair, weights=p, minlength=counts.size)
    bad = np.flatnonzero((counts > 0) & ~(np.abs(totals - 1) <= checks.PROBABILITY_TOLERANCE))
    if bad.size:
        raise InputError(f"probabilities at {place(bad[0])} sum to {totals[bad[0]]:.9g}, expected 1")


def _add_absorbing(
    counts: np.ndarray, columns: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray], tuple[int, ...]]:
    block, state = np.nonzero(counts.sum(axis=2) == 0)
    if block.size == 0:
        return counts, columns, ()
    at = offsets(counts)[(block * counts.shape[1] + state) * counts.shape[2]]
    counts = counts.copy()
    counts[block, state, 0] = 1
    values = (state, np.ones(state.size), np.zeros(state.size))
    filled = [np.insert(c, at, v) for c, v in zip(columns, values, strict=True)]
    empty_everywhere = np.bincount(state, minlength=counts.shape[1]) == counts.shape[0]
    return counts, filled, tuple(int(x) for x in np.flatnonzero(empty_everywhere))


def _start_law(start: object, S: int, labels: tuple[object, ...]) -> np.ndarray:
    if isinstance(start, Mapping):
        result = np.zeros(S)
        for state, p in start.items():
            result[_state(state, S, labels)] += checks.number(p, f"start[{state}]")
        return checks.law(result, "start", S)
    if np.ndim(start) == 0:  # type: ignore[arg-type]
        result = np.zeros(S)
        result[_state(start, S, labels)] = 1.0
        return result
    return checks.law(start, "start", S)


def _state(state: object, S: int, labels: tuple[object, ...]) -> int:
    try:
        index = checks.whole(state, "start", least=0)
    except InputError:
        index = -1
    if not 0 <= index < S:
        raise InputError(f"start = {state}: must be a state in 0..{S - 1}")
    return index


def _reward_array(R: np.ndarray, shape: tuple[int, ...], timed: bool) -> np.ndarray:
    S, A = shape[-3:-1]
    full = {(S,): (S, 1, 1), (S, A): (S, A, 1), (S, A, S): (S, A, S)}
    for short, long in full.items():
        if R.shape == short:
            return R.reshape(long)
        if timed and R.shape == (shape[0], *short) and R.shape not in full:
            return R.reshape(shape[0], *long)
    raise InputError(
        f"R: must have shape [S], [S, A] or [S, A, S] with S = {S}, A = {A}"
        f"{' (or these with the steps first)' if timed else ''}, found {list(R.shape)}"
    )
