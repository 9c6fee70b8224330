"""`learn_modelled`: plans from observation vectors by a low-rank or a kernel model, where one explains the log best.

Two bounds, which share delta. The one of Rep-LCB holds if the model class holds the truth (`classes`), and is its name.
Where the log has the probabilities of its actions, one half of the episodes makes the plan and the other half bounds it
by importance weights, without any model.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.envs.logs.log import EpisodeLog
from tailrank.episodes.streams import Streams
from tailrank.learning.offline import models
from tailrank.learning.offline.candidates import FEWEST
from tailrank.learning.offline.classes import theory
from tailrank.learning.offline.importance import sure_at_least, weigh
from tailrank.learning.offline.stages import once
from tailrank.policies.decoders.base import Decoder
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import Measure
from tailrank.risk.measures.cvar import CVaR

LABEL = "the plan is good if the model class ({}) holds the truth; the bound does not need that"
CLASSED = "if the model class holds the truth"
LABELS = {True: "the bound holds if the model class ({}) holds the truth", False: LABEL}
"""By whether the bound is that of the class."""
FEW = 10
"""Whole episodes below which no model but the block decoder is looked at."""


@dataclass(frozen=True, eq=False)
class Modelled:
    """A plan of a model, its bound, its promise there, what was found on the way, and what all that rests on."""

    plan: models.ModelPlan
    lower: float
    promise: float
    bounds: dict[str, float]
    diagnostics: dict[str, Any]
    label: str


def learn_modelled(
    log: EpisodeLog,
    decoder: Decoder,
    measure: Measure,
    delta: float,
    ends: tuple[float, float],
    model: str,
    streams: Streams,
    stages: MutableMapping[str, Any],
) -> tuple[Modelled | None, dict[str, float]]:
    """The plan of the model that is asked for or explains the log best, None where that is the block decoder.

    And the mean gains of all models on held-out transitions.
    """
    if model == "block" or int(log.whole.sum()) < FEW or not isinstance(measure, CVaR):
        if model in ("lowrank", "kernel"):
            rule = f"needs {FEW} whole episodes and the objective CVaR"
            raise checks.InputError(f"model = {model}: {rule}, found {int(log.whole.sum())} and {measure}")
        return None, {}
    A, tau = len(log.actions), measure.tau
    scores: dict[str, float] = {}
    if model == "auto":

        def compared() -> tuple[str, dict[str, float]]:
            replay, laws = models.replay_of(log)
            fit = models.fit_lowrank(replay, A, streams.oracle(2))
            kernel = models.fit_kernel_model(models.played_episodes(log, held_out=True), A, tau, streams.oracle(3))
            found = models.compare(replay, laws, A, decoder, fit, kernel)
            return found.winner, found.scores

        model, scores = once(stages, "models", compared)
        if model == "block":
            return None, scores
    judging, share = None, delta
    if log.probability is not None and log.episodes >= FEWEST:
        log, judging = log.halves(streams.planner(1))
        share = 0.5 * delta
    schedule = theory(share)
    if model == "lowrank":
        replay, _ = models.replay_of(log)
        fit = models.fit_lowrank(replay, A, streams.oracle(4))
        plan = models.plan_lowrank(fit, replay, tau, streams.oracle(5), schedule, ends[0])
    else:
        kernel = models.fit_kernel_model(models.played_episodes(log), A, tau, streams.oracle(4))
        plan = models.plan_penalised_kernel(kernel, log.horizon, tau, log.episodes, schedule, ends[0])
    bounds, more = {CLASSED: max(plan.classed, ends[0])}, {}
    if judging is not None:
        thresholds = log.returns()[log.whole]
        weighed = weigh(plan.policy, judging, measure, delta=share, ends=ends, thresholds=thresholds)
        sure = sure_at_least(plan.policy, judging, log, measure, delta=share, ends=ends)
        bounds["half, by importance weights"] = sure
        more = {"effective": weighed.effective, "largest_weight": weighed.largest}
    promise = measure.of_law(plan.promise) if isinstance(plan.promise, ReturnLaw) else plan.promise
    diagnostics: dict[str, Any] = {"model": plan.model, "value_with_penalty": plan.penalised, **more}
    lower = max(bounds.values())
    classed = ends[0] < lower == bounds[CLASSED]
    return Modelled(plan, lower, promise, bounds, diagnostics, LABELS[classed].format(plan.model)), scores


def seen_latents(states: np.ndarray, actions: np.ndarray, S: int, A: int) -> tuple[int, int, int, float]:
    """Pairs of latent and action: seen, possible, the least and the median number of visits of seen ones."""
    seen = np.bincount(states.astype(np.int64) * A + actions, minlength=S * A)
    some = seen[seen > 0]
    return int(some.size), S * A, int(some.min()), float(np.median(some))
