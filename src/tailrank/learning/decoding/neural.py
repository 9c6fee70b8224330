"""Neural decoders: a network finds the latents in what follows them (training: `neural_jax`, acting: `networks`).

A fifth of the episodes is held out. Every restart keeps the weights that were best on them, the best restart is kept,
and a last number, the temperature, makes the decoder as sharp as they allow: what leaks from a decoder leaks at
every step. Half of the restarts begin with groups of observations, the others with random weights (`neural_start`).

Labels of another decoder (numbered by step) make a restart that first learns to say the same and is then trained
like the others; a decoder of an earlier fit makes another. Both stay as they are where training does not improve them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tailrank import checks
from tailrank._system.lazy import has_jax
from tailrank.checks import InputError
from tailrank.episodes.replay import Replay
from tailrank.learning.decoding._neural_batches import TrainingBatch, laid_out, moments, power
from tailrank.learning.decoding._neural_start import continued, grouped, initial
from tailrank.policies.decoders.base import decode
from tailrank.policies.decoders.network import NeuralDecoder, NeuralSettings, standardise

if TYPE_CHECKING:
    from tailrank.learning.decoding._neural_jax import NeuralEngine

__all__ = ["NeuralDecoder", "NeuralFit", "NeuralSettings", "fit_neural"]

TEMPERATURES = tuple(2.0**i for i in range(-2, 6))
INDIFFERENT = 1e-4
"""Nats a transition that a sharper decoder may cost."""
GUIDED, PATIENCE = 0.25, 0.2
"""Of all steps: how many the labels guide, and after how many without an improvement training ends."""
ERRORS = 2.0
"""Standard errors by which a fresh start must beat a given one."""
LEAST = 50
"""Steps that training waits for an improvement, at least."""
LEAST_REWARDS = 8
"""Columns of a table of rewards, at least: where more are met code is compiled again."""


@dataclass(frozen=True)
class NeuralFit:
    """A decoder, its log-likelihood a transition (nats) on held-out and on training episodes, and how training ended.

    converged: training ended by itself. best_step: 0 if the start was best. disagreement: share of held-out
    observations that decoders fitted to other draws of the episodes decode differently, latents matched as well as
    can be; None without an ensemble.
    """

    decoder: NeuralDecoder
    held_out: float
    train: float
    converged: bool
    best_step: int
    disagreement: float | None = None


@dataclass(frozen=True)
class _Task:
    """What all members of an ensemble share."""

    replay: Replay
    rank: int
    n_actions: int
    settings: NeuralSettings
    shared: bool
    labels: np.ndarray | None
    warm: NeuralDecoder | None


def fit_neural(
    replay: Replay,
    rank: int,
    n_actions: int,
    *,
    settings: NeuralSettings,
    shared: bool,
    rng: np.random.Generator,
    labels: np.ndarray | None = None,
    warm: NeuralDecoder | None = None,
    held: np.ndarray | None = None,
) -> NeuralFit:
    """The decoder with `rank` latents under which held-out episodes are likeliest, of those that training finds.

    labels: latents [n, H] to begin with, -1 where unknown. warm: a decoder of the same shape to begin with.
    held: the episodes to hold out (default: drawn, `settings.held_out` of all).
    """
    if not has_jax():
        raise InputError("neural decoder: needs jax and optax; install tailrank[neural]")
    rank, n_actions = checks.whole(rank, "rank"), checks.whole(n_actions, "n_actions")
    task = _Task(replay, rank, n_actions, settings, shared, labels, warm)
    _check(task)
    order = rng.permutation(np.flatnonzero(replay.lengths > 0))
    n_held = min(max(round(settings.held_out * order.size), 1), order.size - 1)
    chosen = np.isin(order, order[:n_held] if held is None else held)
    if chosen.all() or not chosen.any():
        raise InputError(f"held: holds {chosen.sum()} of {order.size} episodes, some must be held out and some be left")
    held, train = order[chosen], order[~chosen]
    fit = _member(task, train, held, rng)
    others = [_member(task, rng.choice(train, size=train.size), held, rng) for _ in range(settings.ensemble - 1)]
    if not others:
        return fit
    return replace(fit, disagreement=float(np.mean([_apart(task, fit.decoder, o.decoder, held) for o in others])))


def _member(task: _Task, train: np.ndarray, held: np.ndarray, rng: np.random.Generator) -> NeuralFit:
    """One decoder from the training episodes, judged by the held-out ones."""
    from tailrank.learning.decoding._neural_jax import NeuralEngine

    settings, replay, image = task.settings, task.replay, task.settings.image_shape
    rewards = np.unique(replay.units[np.arange(replay.horizon) < replay.lengths[:, None]])
    ours, theirs = (
        laid_out(replay, part, rewards, batch=settings.batch, shared=task.shared, labels=task.labels)
        for part in (train, held)
    )
    mean, scale = moments(ours, image[2] if image else None)
    ours, theirs = (part._replace(x=standardise(part.x, mean[:, None], scale)) for part in (ours, theirs))
    engine = NeuralEngine(settings, task.n_actions, max(power(rewards.size), LEAST_REWARDS), ours, theirs)
    patience = max(round(PATIENCE * settings.steps), LEAST)
    starts = _starts(task, ours, mean, scale, rng)
    if task.labels is not None:
        starts[0] = engine.train_from(starts[0], round(GUIDED * settings.steps), patience, guided=True).best_weights
    ends = [engine.train_from(start, settings.steps, patience) for start in starts]
    given = (task.labels is not None) + (task.warm is not None)
    end = ends[_choice([engine.assess(end.best_weights, 1.0)[1] for end in ends], given)]
    kept = {name: np.asarray(array) for name, array in end.best_weights.items()}
    temperature, held_out, fitted = _tempered(engine, kept)
    decoder = NeuralDecoder(kept, mean, scale, temperature, image, task.shared)
    converged = int(end.step) - int(end.best_step) >= patience
    return NeuralFit(decoder, held_out, fitted, converged, int(end.best_step))


def _starts(
    task: _Task, ours: TrainingBatch, mean: np.ndarray, scale: np.ndarray, rng: np.random.Generator
) -> list[dict[str, np.ndarray]]:
    """Weights to begin with: from the labels, the earlier decoder, and then groups and chance in turn."""
    settings, used = task.settings, ours.weight > 0
    steps = 1 if task.shared else task.replay.horizon

    def fresh() -> dict[str, np.ndarray]:
        return initial(settings, n_features=task.replay.n_features, n_latents=task.rank, steps=steps, rng=rng)

    starts = []
    if task.labels is not None:
        starts.append(grouped(fresh(), ours.x, used, settings.image_shape, rng, ours.label))
    if task.warm is not None:
        starts.append(continued(task.warm, fresh(), task.shared, mean, scale))
    for i in range(settings.restarts - len(starts)):
        weights = fresh()
        starts.append(grouped(weights, ours.x, used, settings.image_shape, rng) if i % 2 == 0 else weights)
    return starts


def _choice(values: list[np.ndarray], given: int) -> int:
    """The best by log-likelihoods [n] of held-out transitions; a fresh start must beat the given ones clearly."""
    means = np.array([value.mean() for value in values])
    if given in (0, len(values)):
        return int(means.argmax())
    best, fresh = int(means[:given].argmax()), given + int(means[given:].argmax())
    gain = values[fresh] - values[best]
    return fresh if gain.mean() > ERRORS * gain.std() / np.sqrt(gain.size) else best


def _tempered(engine: NeuralEngine, weights: dict[str, np.ndarray]) -> tuple[float, float, float]:
    """The sharpest temperature that is (almost) best on held-out episodes, and both log-likelihoods there."""
    found = [engine.assess(weights, temperature)[1:] for temperature in TEMPERATURES]
    values = np.array([(theirs.mean(), ours) for theirs, ours in found])
    best = int(np.flatnonzero(values[:, 0] >= values[:, 0].max() - INDIFFERENT)[-1])
    return TEMPERATURES[best], float(values[best, 0]), float(values[best, 1])


def _apart(task: _Task, one: NeuralDecoder, other: NeuralDecoder, episodes: np.ndarray) -> float:
    """Share of the episodes' observations that two decoders decode differently, latents matched (by step)."""
    from scipy.optimize import linear_sum_assignment

    together = np.zeros((task.replay.horizon, task.rank, task.rank))
    for h in range(task.replay.horizon):
        x = task.replay.features[episodes[task.replay.lengths[episodes] > h], h]
        np.add.at(together[h], (decode(one, h, x), decode(other, h, x)), 1.0)
    tables = together.sum(axis=0, keepdims=True) if task.shared else together
    same = sum(table[linear_sum_assignment(table, maximize=True)].sum() for table in tables)
    return 1.0 - float(same / together.sum())


def _check(task: _Task) -> None:
    replay, settings, labels = task.replay, task.settings, task.labels
    if (replay.lengths > 0).sum() < 2:
        raise InputError(f"replay: has {(replay.lengths > 0).sum()} episodes, must have at least 2 (some are held out)")
    if settings.image_shape is not None and int(np.prod(settings.image_shape)) != replay.n_features:
        raise InputError(f"image_shape = {settings.image_shape}: must make {replay.n_features} features")
    if labels is None:
        return
    if labels.shape != (replay.n, replay.horizon):
        raise InputError(f"labels: must have shape {(replay.n, replay.horizon)}, found {labels.shape}")
    if labels.min() < -1 or labels.max() >= task.rank:
        raise InputError(f"labels: must lie in -1..{task.rank - 1}, found {labels.min()}..{labels.max()}")
    if settings.heads != "step" and not task.shared:
        raise InputError("heads = 'shared': labels are numbered by step, which needs heads = 'step'")
