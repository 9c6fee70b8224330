"""Counts of a log as a model with a radius for every pair: how far the true law may be from the counted one.

Let the outcomes o_1, o_2, .. of a pair be drawn from its law q, whatever made the pair be visited. A rule that predicts
each outcome from those before, with probabilities w, gives a process prod_t w(o_t) / q(o_t) of mean at most one, which
ever exceeds 1 / delta with probability at most delta (Ville 1939). The rule here is a half-half mixture of two that
need not know what outcomes there are: an outcome that was seen n_o times in N has the chance n_o / (N + 1/2), or
(n_o - 1/2) / N; one that is new has the rest. For a new outcome q is the chance of *any* new one, at most 1, so its
first time counts for w alone. What remains, with K outcomes seen and M = N - K, is

    sum_o (n_o - 1) log(1 / q(o))  <=  log(1 / delta) - log w(o_1, .., o_N),

a ball of radius c / M around the shares (n_o - 1) / M. It holds for all N at once, so N may depend on what was seen,
and for all functions of the outcome, so the plan may come from the same log. delta is divided over the pairs in the
order in which they are first met: the j-th gets delta / (Z (j + 1) log^2(j + 1)), and the law of the first state is j
= 1.

Where the function is fixed beforehand (`fixed`), the outcome is a number x >= 0, and betting on it with Cover and
Ordentlich's universal portfolio gives a ball around the plain shares n_o / N of radius
(log(1 / delta) + log(N + 1) / 2 + log 2) / N: no price for the number of outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline.budgets import Budgets
from tailrank.planning.pessimistic.model import RecordedModel, RecordedStep, StartRecord

SUM = 2.11
"""Z: at least the sum over j of 1 / ((j + 1) log^2(j + 1))."""


@dataclass(frozen=True, eq=False)
class StepCounts:
    """Counted outcomes of pairs s A + a: ptr [S A + 1]; next_state, units, count [m]; price [S A]: log(1 / delta_j)."""

    ptr: np.ndarray
    next_state: np.ndarray
    units: np.ndarray
    count: np.ndarray
    price: np.ndarray

    @cached_property
    def total(self) -> np.ndarray:
        """How often each pair was counted, [S A]."""
        return np.diff(np.concatenate([[0], np.cumsum(self.count)])[self.ptr])

    @cached_property
    def share(self) -> np.ndarray:
        """n_o / N of each outcome, [m]."""
        return self.count / np.repeat(self.total, np.diff(self.ptr))


@dataclass(frozen=True, eq=False)
class LogCounts:
    """steps [H] (one object for all where the dynamics are the same); first [S]: how often episodes began there."""

    steps: tuple[StepCounts, ...]
    first: np.ndarray
    budgets: Budgets
    n_actions: int
    closed: bool = True
    may_end: bool = True

    @property
    def n_states(self) -> int:
        """S."""
        return int(self.first.size)

    @property
    def outcomes(self) -> int:
        """Different outcomes of all pairs, over all steps."""
        return sum(step.count.size for step in self.steps)

    @property
    def distinct(self) -> dict[int, StepCounts]:
        """The different objects among the steps, by their id."""
        return {id(step): step for step in self.steps}

    def scaled(self, factor: float) -> LogCounts:
        """As if the log were `factor` times as long and looked the same."""
        fresh = {
            key: StepCounts(s.ptr, s.next_state, s.units, np.maximum(np.rint(s.count * factor), 1.0), s.price)
            for key, s in self.distinct.items()
        }
        first = np.where(self.first > 0, np.maximum(np.rint(self.first * factor), 1.0), 0.0)
        return replace(self, steps=tuple(fresh[id(s)] for s in self.steps), first=first)


@dataclass(frozen=True)
class Counting:
    """How a log is counted: by_step, or the same for all steps; closed: the log has every state that can be met."""

    by_step: bool
    closed: bool = True


def count(log: EpisodeLog, budgets: Budgets, how: Counting, order: np.ndarray | None = None) -> LogCounts:
    """The counts of a log. order [n]: the episodes as they come, which decides how delta is divided."""
    order = np.arange(log.episodes) if order is None else order
    by_step, more = how.by_step, (how.closed, bool((log.next_state == len(log.states)).any()))
    S, A, H = len(log.states), len(log.actions), log.horizon
    h, pair = log.step, log.state.astype(np.int64) * A + log.action
    unknown = log.next_state < 0
    after = np.where(unknown, S + 1, log.next_state).astype(np.int64)
    last = h == H - 1
    after[last & unknown] = S  # after the last step nothing is earned anyway
    prices = _prices(log, pair + (h * S * A if by_step else 0), (H if by_step else 1) * S * A, order)
    first = np.bincount(log.state[log.begin[:-1]], minlength=S).astype(np.float64)
    if by_step:
        steps = tuple(
            _counted(pair[here], after[here], budgets.units(g, log.reward[here]), prices[g * S * A : (g + 1) * S * A])
            for g in range(H)
            for here in [np.flatnonzero(h == g)]
        )
        return LogCounts(steps, first, budgets, A, *more)
    # At the last step an outcome is only known if it is an end: counting those alone would be a bias.
    used = ~last if bool((last & unknown).any()) else np.ones(last.size, dtype=bool)
    pair, after, reward = pair[used], after[used], log.reward[used]
    if budgets.grid.discount == 1.0:
        return LogCounts((_counted(pair, after, budgets.units(0, reward), prices),) * H, first, budgets, A, *more)
    return LogCounts(
        tuple(_counted(pair, after, budgets.units(g, reward), prices) for g in range(H)), first, budgets, A, *more
    )


def every_law(counts: LogCounts, delta: float) -> RecordedModel:
    """The model whose balls hold all at once with probability 1 - delta, for every function and so for every plan."""
    steps = counts.distinct
    made = {key: _ball(step.ptr, step, step.count, step.price - np.log(delta)) for key, step in steps.items()}
    start = _start(
        counts, *_repeats(np.array([0, int((counts.first > 0).sum())]), counts.first[counts.first > 0], delta)
    )
    return _model(counts, tuple(made[id(step)] for step in counts.steps), start)


def fixed(counts: LogCounts, delta: float, nodes: int) -> RecordedModel:
    """The model that bounds one plan, chosen elsewhere, at `nodes` (step, state, budget): probability 1 - delta."""
    price = np.log((nodes + 1) / delta)
    steps = {key: _plain(step, price + np.log(2.0), 0.5) for key, step in counts.distinct.items()}
    seen = counts.first[counts.first > 0]
    radius = (price + 0.5 * np.log(seen.sum() + 1.0) + np.log(2.0)) / seen.sum()
    return _model(counts, tuple(steps[id(step)] for step in counts.steps), _start(counts, seen / seen.sum(), radius))


def doubted(counts: LogCounts, nats: float = 0.0) -> RecordedModel:
    """The counted model with `nats` of doubt about every pair, a ball of radius nats / N; 0 takes it for the truth.

    No statement is made about these balls: plans are made with them. One outcome that was seen N times keeps
    exp(-nats / N) of what it leads to.
    """
    steps = {key: _plain(step, nats, 0.0) for key, step in counts.distinct.items()}
    seen = counts.first[counts.first > 0]
    start = _start(counts, seen / seen.sum(), nats / float(seen.sum()))
    return _model(counts, tuple(steps[id(step)] for step in counts.steps), start)


def _prices(log: EpisodeLog, key: np.ndarray, keys: int, order: np.ndarray) -> np.ndarray:
    """log(Z (j + 1) log^2(j + 1)) of each key, where j counts from 2 the keys [T] as they are first met."""
    place = np.empty(log.episodes, dtype=np.int64)
    place[order] = np.arange(log.episodes)
    longest = int(log.lengths.max())
    moment = np.repeat(place, log.lengths) * longest + log.step
    earliest = np.full(keys, np.iinfo(np.int64).max)
    np.minimum.at(earliest, key, moment)
    rank = np.empty(keys, dtype=np.int64)
    rank[np.argsort(earliest, kind="stable")] = np.arange(keys)
    return price_of(rank + 2.0)


def price_of(j: np.ndarray | float) -> np.ndarray:
    """What the j-th of all statements pays for the others, log(Z (j + 1) log^2(j + 1)), j = 1, 2, .."""
    return np.asarray(np.log(SUM * (j + 1.0)) + 2.0 * np.log(np.log(j + 1.0)))


def _counted(pair: np.ndarray, after: np.ndarray, units: np.ndarray, price: np.ndarray) -> StepCounts:
    """Counts of (pair, next state, units) [m] from one entry each."""
    wide, tall = (int(units.max(initial=0)) + 1, int(after.max(initial=0)) + 1)
    keys, times = np.unique((pair * tall + after) * wide + units, return_counts=True)
    ptr = np.searchsorted(keys // (tall * wide), np.arange(price.size + 1))
    next_state = ((keys // wide) % tall).astype(np.int32)
    return StepCounts(ptr.astype(np.int64), next_state, keys % wide, times.astype(np.float64), price)


def _ball(ptr: np.ndarray, step: StepCounts, n: np.ndarray, price: np.ndarray) -> RecordedStep:
    share, c = _shares(ptr, n)
    repeated = share > 0.0
    kept = np.concatenate([[0], np.cumsum(repeated)])
    again = _sums(ptr, n - 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.where(again > 0, (price + c) / again, np.inf)
    return RecordedStep(kept[ptr], step.next_state[repeated], step.units[repeated], share[repeated], radius)


def _repeats(ptr: np.ndarray, n: np.ndarray, delta: float) -> tuple[np.ndarray, float]:
    """Shares of the first states and the radius of their ball."""
    share, c = _shares(ptr, n)
    again = float((n - 1.0).sum())
    return share, float((price_of(1.0) - np.log(delta) + c[0]) / again) if again > 0 else np.inf


def _shares(ptr: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n_o - 1) / M of each outcome [m], and for each pair c less its price: how much likelier they are than the
    rule."""
    from scipy.special import gammaln, logsumexp, xlogy

    total, kinds, again = _sums(ptr, n), np.diff(ptr).astype(np.float64), _sums(ptr, n - 1.0)
    owner = np.repeat(np.arange(kinds.size), np.diff(ptr))
    share = (n - 1.0) / np.maximum(again, 1.0)[owner]
    best = _sums(ptr, xlogy(n - 1.0, share))
    some = np.maximum(total, 1.0)
    first = kinds * np.log(0.5) + _sums(ptr, gammaln(n)) - gammaln(some + 0.5) + gammaln(0.5)
    k = np.maximum(kinds, 1.0)
    second = gammaln(k) + (k - 1.0) * np.log(0.5) + _sums(ptr, gammaln(n - 0.5) - gammaln(0.5)) - gammaln(some)
    return share, best - (logsumexp([first, second], axis=0) - np.log(2.0))


def _plain(step: StepCounts, nats: float, growth: float) -> RecordedStep:
    """Shares n_o / N with the radius (nats + growth log(N + 1)) / N."""
    total = step.total
    many = np.maximum(total, 1.0)
    radius = (nats + (growth * np.log(many + 1.0) if growth else 0.0)) / many
    return RecordedStep(step.ptr, step.next_state, step.units, step.share, np.where(total > 0, radius, np.inf))


def _sums(ptr: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The sum over each pair, [S A]."""
    return np.diff(np.concatenate([[0.0], np.cumsum(values)])[ptr])


def _start(counts: LogCounts, share: np.ndarray, radius: float) -> StartRecord:
    states = np.flatnonzero(counts.first > 0)
    kept = share > 0.0
    return StartRecord(states[kept], share[kept], radius)


def _model(counts: LogCounts, steps: tuple[RecordedStep, ...], start: StartRecord) -> RecordedModel:
    budgets = counts.budgets
    return RecordedModel(
        budgets.grid,
        steps,
        start,
        counts.n_states,
        counts.n_actions,
        budgets.widths,
        budgets.ended,
        counts.closed,
        counts.may_end,
    )
