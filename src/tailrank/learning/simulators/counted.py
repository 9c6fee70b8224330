"""The model of counts, where few different observations repeat: each is its own representative.

Steps of the episode are told apart where that predicts held-out transitions better: with counts n and outcomes o (the
next observation and the reward),

    p(o | x, a) = (n(x, a, o) + 1 / N) / (n(x, a) + 1),          N different outcomes
    p(o | x, a, h) = (n(x, a, h, o) + p(o | x, a)) / (n(x, a, h) + 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.learning.simulators.metric import Standard
from tailrank.learning.simulators.played import PlayedEpisodes, PlayedTransitions
from tailrank.policies.kernel import Metric


@dataclass(frozen=True)
class CountedStates:
    """Representatives [M, k] in the metric; numbers of the states before and after each transition [T], and at first
    [n]."""

    metric: Metric
    representatives: np.ndarray
    here: np.ndarray
    there: np.ndarray
    first: np.ndarray
    timed: bool


def counted_states(
    played: PlayedEpisodes, data: PlayedTransitions, most: int, rng: np.random.Generator
) -> CountedStates:
    """The different observations [M, m] as states, or pairs of observation and step if that predicts better."""
    H, M, distinct = played.horizon, len(played.observations), played.observations
    here, there, first = data.here, data.there, played.seen[played.begin]
    pairs = np.unique(np.concatenate([here + M * data.step, there + M * (data.step + 1), first]))
    timed = len(pairs) <= most and steps_matter(here, there, data, rng)
    if not timed:
        made = Standard.of(distinct, False, rng)
        places = np.ascontiguousarray(made.place(distinct, np.zeros(M)))
        return CountedStates(made.metric(np.ones(places.shape[1])), places, here, there, first, False)
    made = Standard.of(distinct, True, np.random.default_rng(0))
    places = np.ascontiguousarray(made.place(distinct[pairs % M], pairs // M / H))
    here, there = (np.searchsorted(pairs, x + M * (data.step + i)) for i, x in enumerate((here, there)))
    return CountedStates(
        made.metric(np.ones(places.shape[1])), places, here, there, np.searchsorted(pairs, first), True
    )


def ended_by_place(data: PlayedTransitions, horizon: int) -> np.ndarray:
    """Whether the episode ended with each transition [T]; also with its last step, which it would have ended with
    anyway, where all that came to the same observation before ended."""
    early, M = data.step + 1 < horizon, len(data.observations)
    came = np.bincount(data.there[early], minlength=M)
    over = np.bincount(data.there[early & data.ended], minlength=M)
    return np.asarray(data.ended | (~early & ((came > 0) & (came == over))[data.there]))


def steps_matter(here: np.ndarray, there: np.ndarray, data: PlayedTransitions, rng: np.random.Generator) -> bool:
    """Whether held-out transitions (a fifth of the episodes) are likelier when steps are told apart."""
    outcome = numbers(np.where(data.ended, -1, there), data.rewards)
    pair = here * (int(data.actions.max()) + 1) + data.actions
    late = pair * (int(data.step.max()) + 1) + data.step
    held = data.held_out(rng)
    shared, apart = held_out_laws([pair, late], outcome, held)
    gain = np.log(apart) - np.log(shared)
    return bool(gain.size and gain.mean() > 2.0 * gain.std() / np.sqrt(gain.size))


def held_out_laws(cells: list[np.ndarray], outcome: np.ndarray, held: np.ndarray) -> list[np.ndarray]:
    """How likely the outcomes [n] of held-out transitions are by the counts of the others, for each kind of cell.

    Every law leans on the one before it, the first on the uniform one, with the weight of one transition.
    """
    N = int(outcome.max()) + 1
    laws = [np.full(int(held.sum()), 1.0 / N)]
    for cell in cells:
        both, alone = (_frequency(x[~held], x[held]) for x in (cell * N + outcome, cell))
        laws.append((both + laws[-1]) / (alone + 1.0))
    return laws[1:]


def numbers(*columns: np.ndarray) -> np.ndarray:
    """A number for each row of the columns [n], the same for equal rows, [n]."""
    found = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        names, place = np.unique(column, return_inverse=True)
        found = np.unique(found * names.size + place.ravel(), return_inverse=True)[1].ravel()
    return found


def _frequency(cells: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """How often each of `asked` is among the cells."""
    found, counts = np.unique(cells, return_counts=True)
    place = np.minimum(np.searchsorted(found, asked), found.size - 1)
    return np.where(found[place] == asked, counts[place], 0).astype(np.float64)
