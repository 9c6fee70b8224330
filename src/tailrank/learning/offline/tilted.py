"""A step from the behaviour: the log's own actions, with more of those that lead to better returns.

    pi(a | s)  =  mu(a | s) exp(eta z(s, a)) / sum of the same over a,

where mu(a | s) is the probability that the log gives for its actions and z what a saves of the budget, on average over
the moments at which s was met, less what the log's actions save there, in units of its deviation. A plan that always
takes the best action shares hardly any long episode with the log, so importance weights say nothing of it. A tilted
behaviour shares them all: its weights are near one while eta is small. One quarter of the episodes finds z, the next
one the eta with the best bound; who judges has seen neither.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tailrank.envs.logs.log import EpisodeLog
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import Budgets
from tailrank.learning.offline.candidates import Planner
from tailrank.learning.offline.coverage import seen_pairs
from tailrank.planning.pessimistic.induction import mean_saved
from tailrank.policies.tables import ClonedPolicy

TILTS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""eta."""
MIDDLE = 1.0
"""Nats of doubt with which z is found."""
Bound = Callable[[ClonedPolicy, EpisodeLog, EpisodeLog], float]
"""What a log proves of a policy at least; another log tells where to look."""


def tilted(
    planner: Planner, log: EpisodeLog, budgets: Budgets, how: counting.Counting, bound: Bound, rng: np.random.Generator
) -> ClonedPolicy:
    """The tilted behaviour of a log with probabilities; eta is chosen by `bound` on one half of it."""
    finding, choosing = log.halves(rng)
    z, mu = advantages(planner, finding, budgets, how), behaviour_law(finding)
    found = [bound(ClonedPolicy(tilt(mu, eta * z), log.horizon), choosing, finding) for eta in TILTS]
    eta = TILTS[int(np.argmax(found))]
    return ClonedPolicy(tilt(behaviour_law(log), eta * advantages(planner, log, budgets, how)), log.horizon)


def tilt(law: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A law [S, A] times exp(by), normalised."""
    weight = law * np.exp(by - np.where(law > 0.0, by, -np.inf).max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def behaviour_law(log: EpisodeLog) -> np.ndarray:
    """The mean of the probabilities that the log gives for each pair, [S, A]; the same for all where nothing was seen.

    They are normalised over the actions that were taken: the others are never taken by who acts by them.
    """
    if log.probability is None:
        raise ValueError("behaviour_law: the log has no probabilities")
    seen = seen_pairs(log)
    pair = log.state.astype(np.int64) * seen.shape[1] + log.action
    total = np.bincount(pair, weights=log.probability, minlength=seen.size).reshape(seen.shape)
    law = np.where(seen > 0, total / np.maximum(seen, 1), 0.0)
    law[seen.sum(axis=1) == 0] = 1.0 if log.admissible is None else log.admissible[seen.sum(axis=1) == 0]
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def advantages(planner: Planner, log: EpisodeLog, budgets: Budgets, how: counting.Counting) -> np.ndarray:
    """z [S, A], zero where nothing was seen. What is saved is that of the plan with a little doubt."""
    model = counting.doubted(counting.count(log, budgets, how), MIDDLE)
    tables = planner.goal.plan(model, planner.allowed, planner.usual)
    budget = int(planner.goal.values(model, tables).argmax())
    saved = mean_saved(model, tables, _met(log, budgets, budget))
    law = behaviour_law(log)
    gain = np.where(law > 0.0, saved - (law * saved).sum(axis=1, keepdims=True), 0.0)
    visits = np.bincount(log.state, minlength=len(log.states)) / log.transitions
    deviation = float(np.sqrt((visits[:, None] * law * gain**2).sum()))
    return np.asarray(gain / deviation if deviation > 0.0 else gain)


def _met(log: EpisodeLog, budgets: Budgets, budget: int) -> tuple[np.ndarray, ...]:
    """How often the log met each state with each budget left, H tables [S, W_h + 1]."""
    h, left, tables = log.step, np.full(log.episodes, budget, dtype=np.int64), []
    for g in range(log.horizon):
        table = np.zeros((len(log.states), int(budgets.widths[g]) + 1))
        at = np.flatnonzero(h == g)
        episode = np.searchsorted(log.begin, at, side="right") - 1
        here = np.clip(left[episode], 0, table.shape[1] - 1)
        np.add.at(table, (log.state[at], here), 1.0)
        left[episode] -= budgets.units(g, log.reward[at])
        tables.append(table)
    return tuple(tables)
