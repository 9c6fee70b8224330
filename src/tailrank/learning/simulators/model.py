"""The kernel model of a simulator, after kernel-based stochastic factorisation (Barreto et al. 2016).

Representatives are observations near the centres of a k-means of what was seen; what each action leads to from them
is a weighted sample of outcomes (`outcomes`), every next state interpolated among its nearest representatives. This
is a low-rank model: phi interpolates, psi_j is the weighted sample. Where no more than `representatives` different
observations were seen, each is its own representative, and the model is that of counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tailrank.episodes.masks import ever_allowed
from tailrank.learning.simulators.counted import counted_states, ended_by_place, numbers
from tailrank.learning.simulators.drifting import drifting
from tailrank.learning.simulators.metric import Standard, relevance
from tailrank.learning.simulators.outcomes import KernelChoice, OutcomeModel, held_out_scores
from tailrank.learning.simulators.played import PlayedEpisodes, PlayedTransitions
from tailrank.learning.simulators.pooling import pooled_laws
from tailrank.learning.simulators.regions import regions, spread_out
from tailrank.learning.simulators.scale import FINER, budget_scale
from tailrank.planning.kernel.induction import kept_steps
from tailrank.policies.kernel import BudgetScale, KernelRows, Metric, interpolation

METRICS: tuple[dict[str, object], ...] = ({"power": 1}, {"power": 2})
WAYS: tuple[dict[str, object], ...] = (
    {"move": "trend"},
    {"labels": "near"},
    {"move": "noise", "labels": "near", "neighbours": 64},
    {"move": "noise", "labels": "trend", "neighbours": 32},
    {"labels": "trend"},
)
SIZES: tuple[dict[str, object], ...] = ({"neighbours": 8}, {"neighbours": 32}, {"timed": True})
ORDERS = ((*METRICS, *WAYS, *SIZES), ({"timed": True}, *WAYS, *METRICS, *SIZES))
"""What is tried in turn; each is taken where it improves the held-out score by more than
this share and one standard error. Nothing is taken back, so there are two orders, and the better end counts: a metric
that comes first may keep only what the step would have told anyway (a season), and hide the rest."""
GAIN = 0.02
QUERIES = 1000
"""Held-out transitions that are scored."""
MOST_OUTCOMES = 512_000
"""Of all representatives and actions; with many actions there are fewer representatives."""
MOST_WORK = 4e9
"""Numbers that distances of all outcomes to all representatives are made of; many coordinates ask for fewer, too."""
MOST_VALUES = 10_000_000
"""Of the tables of a plan for counted states, where rewards share a unit."""


@dataclass(frozen=True)
class KernelModel:
    """representatives [M, k] in the metric, rows of outcomes, visits [M, A] (transitions from there), nearby
    [M, A] (from the same of a fixed number of regions; of counts: what each law rests on), start [M] (how likely each
    is at first); choice and score say how it was made. prior: transitions that what the actions of a counted state
    have in common counts as (`pooling`). halves: rows of two halves of the episodes, where nothing is counted.
    allowed [M, A]: the actions that were ever allowed there, or nearer to it than to any other (None: all of them).
    """

    metric: Metric
    representatives: np.ndarray
    neighbours: int
    rows: KernelRows
    scale: BudgetScale
    visits: np.ndarray
    nearby: np.ndarray
    start: np.ndarray
    choice: KernelChoice
    score: float
    prior: float = 0.0
    halves: tuple[KernelRows, KernelRows] | None = None
    allowed: np.ndarray | None = None

    @property
    def counted(self) -> bool:
        """Whether every observation is its own representative."""
        return self.neighbours == 1

    def drawn(self, rng: np.random.Generator) -> KernelModel:
        """A model of counts drawn from those that the counts allow: laws from their Dirichlet posterior.

        What is left for the bonus, which goes with 1 / sqrt(1 + nearby), are outcomes that were never seen: of n
        transitions the next one has such an outcome with a probability of about 1 / (1 + n).
        """
        size = np.diff(self.rows.ptr)
        pair = np.repeat(np.arange(size.size), size)
        weight = rng.gamma(self.rows.weight * (self.nearby + self.prior).ravel()[pair]) + 1e-300
        total = np.bincount(pair, weights=weight, minlength=size.size)
        rows = replace(self.rows, weight=weight / total[pair])
        return replace(self, rows=rows, nearby=(1.0 + self.nearby) ** 2 - 1.0)

    def closed(self) -> KernelModel:
        """The model in which states that were never left stay there and pay the least reward seen."""
        rows, A = self.rows, self.visits.shape[1]
        size = np.diff(rows.ptr)
        empty = np.repeat(size.reshape(-1, A).sum(axis=1) == 0, A)
        at = rows.ptr[:-1][empty]
        added = np.where(empty, 1, size)
        ptr = np.concatenate([[0], np.cumsum(added)]).astype(np.int64)
        least = rows.shift.min(initial=0)
        parts = (rows.after, np.flatnonzero(empty) // A), (rows.shift, least), (rows.weight, 1.0)
        drift = None if rows.drift is None else np.insert(rows.drift, at, 0.0)
        rows = KernelRows(ptr, *(np.insert(part, at, value) for part, value in parts))
        return replace(self, rows=replace(rows, drift=drift))


def fit_kernel(
    played: PlayedEpisodes,
    n_actions: int,
    representatives: int,
    budgets: int,
    most: int,
    rng: np.random.Generator,
    numbered: bool = False,
    drifts: bool = True,
) -> KernelModel:
    """The model of what was played, with at most so many representatives, budgets and transitions.

    numbered: observations are counted as long as they are few enough, whether they repeat or not. drifts: whether
    rewards may change with the step (`drifting`).
    """
    if (numbered or played.repeats) and len(played.observations) <= representatives:
        return _counted(played, n_actions, representatives, budgets, rng, drifts)
    data = played.transitions(most, rng)
    data = drifting(data) if drifts else data
    scale = budget_scale(played, budgets, drift=data.drift)
    choice, score = choose(data, played.horizon, n_actions, rng)
    made = Standard.of(data.features, choice.timed, rng)
    s = made.place(data.features, data.step / played.horizon)
    after = made.place(data.after, (data.step + 1) / played.horizon)
    weights = relevance(s, after, data, n_actions) ** (choice.power / 2)
    first = made.place(played.first, np.zeros(played.n))
    count = min(representatives, max(data.n // 8, 2), affordable(n_actions * choice.neighbours, s.shape[1]))
    centres = spread_out(np.vstack([after[~data.ended], first]), weights, count, rng)
    neighbours = min(max(s.shape[1] + 2, 4), 8, len(centres))
    model = OutcomeModel.of(s, after, data, weights, choice, n_actions)
    rows = kernel_rows(model, centres, neighbours, n_actions, scale)
    places = np.ascontiguousarray(centres * weights)
    near = interpolation(s * weights, places, 1)[0][:, 0]
    index, phi = interpolation(first * weights, places, neighbours)
    start = np.bincount(index.ravel(), weights=phi.ravel(), minlength=len(centres)) / played.n
    visits = _visits(near, data.actions, len(centres), n_actions)
    return KernelModel(
        made.metric(weights),
        places,
        neighbours,
        rows,
        scale,
        visits,
        regions(places, visits, rng),
        start,
        choice,
        score,
        halves=_halves(model, centres, neighbours, n_actions, scale, rng),
        allowed=_allowed(data, near, len(centres), n_actions),
    )


def affordable(outcomes: int, coordinates: int) -> int:
    """How many representatives with so many outcomes of their actions are not too many, at least 2."""
    return max(min(MOST_OUTCOMES // outcomes, math.isqrt(int(MOST_WORK / (outcomes * coordinates)))), 2)


def _halves(
    model: OutcomeModel,
    centres: np.ndarray,
    neighbours: int,
    n_actions: int,
    scale: BudgetScale,
    rng: np.random.Generator,
) -> tuple[KernelRows, KernelRows] | None:
    """Rows of the same pairs from two halves of the episodes; None where an action is in one of them only."""
    drawn = model.data.held_out(rng, parts=2)
    parts = [np.flatnonzero(drawn == half) for half in (False, True)]
    tried = [np.unique(model.data.actions[part]) for part in parts]
    if not np.array_equal(tried[0], tried[1]):
        return None
    args = (model.weights, model.choice, n_actions)
    halves = (OutcomeModel.of(model.s[part], model.after[part], model.data.where(part), *args) for part in parts)
    one, other = (kernel_rows(half, centres, neighbours, n_actions, scale) for half in halves)
    return one, other


def _counted(
    played: PlayedEpisodes, n_actions: int, most: int, budgets: int, rng: np.random.Generator, drifts: bool
) -> KernelModel:
    """The model of counts on the different observations, of at most `most` states; all transitions count.

    One terrible episode widens the budgets, and a coarse grid would blur all others: few states can have many budgets.
    """
    data = played.transitions(played.steps, rng)
    data = replace(data, ended=ended_by_place(data, played.horizon))
    data = drifting(data, numbers(data.here, data.actions, data.there)) if drifts else data
    states = counted_states(played, data, most, rng)
    M = len(states.representatives)
    finer = max(MOST_VALUES // (M * len(kept_steps(played.horizon)) * budgets), FINER)
    scale = budget_scale(played, budgets, finer=finer, drift=data.drift)
    after = np.where(data.ended, M, states.there)
    outcome = numbers(after, data.rewards, *([] if data.drift is None else [data.drift]))
    pair = states.here * n_actions + data.actions
    allowed = _allowed(data, states.here, M, n_actions)
    laws = pooled_laws(pair, outcome, data.held_out(rng), M, n_actions, allowed)
    one = np.unique(outcome, return_index=True)[1][laws.outcome]
    shift = (data.rewards[one] - scale.origin) / scale.unit
    drift = None if data.drift is None else data.drift[one] / scale.unit
    rows = merged(laws.pair, after[one], shift, laws.weight, M, n_actions, drift)
    start = np.bincount(states.first, minlength=M) / played.n
    visits, choice = _visits(states.here, data.actions, M, n_actions), KernelChoice(1, timed=states.timed)
    about = (visits, laws.mass, start, choice, np.nan, laws.kappa)
    return KernelModel(states.metric, states.representatives, 1, rows, scale, *about, allowed=allowed)


def _allowed(data: PlayedTransitions, near: np.ndarray, M: int, n_actions: int) -> np.ndarray | None:
    return None if data.allowed is None else ever_allowed(data.allowed, near, M, n_actions)


def _visits(near: np.ndarray, actions: np.ndarray, M: int, n_actions: int) -> np.ndarray:
    counts = np.bincount(near * n_actions + actions, minlength=M * n_actions)
    return counts.reshape(M, n_actions).astype(np.float64)


def choose(
    data: PlayedTransitions, horizon: int, n_actions: int, rng: np.random.Generator
) -> tuple[KernelChoice, float]:
    """The way of making outcomes with the best held-out score, one alternative after the other, in the better of two
    orders; and its score. A fifth of the episodes is held out."""
    held = data.held_out(rng)
    train, test = data.where(~held), data.where(held)
    test = test.where(np.sort(rng.permutation(test.n)[:QUERIES]))
    if train.n < 2 * n_actions or test.n == 0:
        return KernelChoice(), np.nan
    made = {timed: Standard.of(train.features, timed, np.random.default_rng(0)) for timed in (False, True)}
    plain = made[False]
    s, after = (plain.place(x, np.zeros(train.n)) for x in (train.features, train.after))
    v = relevance(s, after, train, n_actions)

    @cache
    def scores(choice: KernelChoice) -> np.ndarray:
        place = made[choice.timed].place
        parts = [place(x, (y.step + i) / horizon) for y in (train, test) for i, x in enumerate((y.features, y.after))]
        extra = parts[0].shape[1] - v.size
        weights = np.append(v, np.ones(extra)) ** (choice.power / 2)
        model = OutcomeModel.of(parts[0], parts[1], train, weights, choice, n_actions)
        return held_out_scores(model, parts[2], parts[3], test, np.append(v, np.zeros(extra)))

    ends = []
    for order in ORDERS:
        best = KernelChoice()
        for change in order:
            other = replace(best, **change)  # type: ignore[arg-type]
            gain = scores(best) - scores(other)
            if gain.mean() > max(GAIN * scores(best).mean(), gain.std() / np.sqrt(gain.size)):
                best = other
        ends.append(best)
    best = min(ends, key=lambda one: float(scores(one).mean()))
    if best.labels == "trend":
        # Outcomes are then good from any neighbours; the metric is for the representatives, which no score sees.
        finer = replace(best, power=max(best.power, 1))
        best = finer if scores(finer).mean() <= (1.0 + GAIN) * scores(best).mean() else best
    return best, float(scores(best).mean())


def kernel_rows(
    model: OutcomeModel, centres: np.ndarray, neighbours: int, n_actions: int, scale: BudgetScale
) -> KernelRows:
    """Rows of all pairs: outcomes at the centres [M, k], interpolated among them."""
    M = len(centres)
    places = np.ascontiguousarray(centres * model.weights)
    parts = []
    for a, found in model.samples(centres):
        n, K, k = found.after.shape
        index, phi = interpolation((found.after * model.weights).reshape(n * K, k), places, neighbours)
        over = found.ended.reshape(n * K)
        index[over], phi[over] = M, 1.0 / index.shape[1]
        weight = found.weights.reshape(n * K, 1) * phi
        pair = np.repeat(np.arange(M) * n_actions + a, K)[:, None]
        shift = (found.rewards.reshape(n * K, 1) - scale.origin) / scale.unit
        drift = np.zeros_like(shift) if found.drift is None else found.drift.reshape(n * K, 1) / scale.unit
        part = (pair, index, shift, weight, drift)
        parts.append([np.broadcast_to(x, index.shape).ravel() for x in part])
    pairs, after, shifts, weights, drifts = (np.concatenate(part) for part in zip(*parts, strict=True))
    return merged(pairs, after, shifts, weights, M, n_actions, drifts)


def merged(
    pair: np.ndarray,
    after: np.ndarray,
    shift: np.ndarray,
    weight: np.ndarray,
    M: int,
    n_actions: int,
    drift: np.ndarray | None = None,
) -> KernelRows:
    """Rows with whole shifts: a reward between two of them is split, and equal outcomes of a pair are added up."""
    whole = np.floor(shift + 1e-9)
    part = np.clip(shift - whole, 0.0, 1.0)
    part[part < 2e-9] = 0.0
    which = np.zeros(1) if drift is None else np.unique(drift)
    kind = np.zeros(pair.size, dtype=np.int64) if drift is None else np.searchsorted(which, drift)
    pair, after, kind = (np.concatenate([x, x]) for x in (pair, after, kind))
    shift = np.concatenate([whole, whole + 1.0]).astype(np.int64)
    weight = np.concatenate([weight * (1.0 - part), weight * part])
    kept = weight > 1e-9
    pair, after, shift, weight, kind = (x[kept] for x in (pair, after, shift, weight, kind))
    low, high = (int(shift.min()), int(shift.max())) if shift.size else (0, 0)
    span = high - low + 1
    key = ((pair * (M + 1) + after) * which.size + kind) * span + (shift - low)
    found, place = np.unique(key, return_inverse=True)
    total = np.bincount(place, weights=weight, minlength=found.size)
    pair = found // ((M + 1) * which.size * span)
    total = total / np.bincount(pair, weights=total, minlength=M * n_actions)[pair]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=M * n_actions))]).astype(np.int64)
    drifts = which[found // span % which.size] if which.any() else None
    return KernelRows(ptr, found // (span * which.size) % (M + 1), found % span + low, total, drifts)
