"""The maximum-likelihood oracle for observations: which decoder makes the transitions most likely?

    log likelihood = sum over transitions of log sum_{z, j} q_z(x) P_h(j, r | z, a) q_j(x') / p_j,   p_j = mean q_j

is normalised by construction on the observed next states, so no density over observations is needed, and decoders
of any kind can be compared by it. It is taken on held-out episodes: on the data that a decoder was fitted to,
a large enough network memorises every transition.

Candidates: mixtures found from geometry (`mixture`), with well-separated latents or filling the space; a network on
the observations, linear or deeper, trained on the likelihood itself from the best mixture and from fresh weights
(`linear`, `neural`; needs the extra "neural"); for finite observation spaces every value its own latent (`table`).
A more complicated candidate must win by more than two standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.decoding.mixture import fill_mixture, fit_mixture
from tailrank.learning.decoding.settings import CHOSEN, DecoderSettings
from tailrank.learning.decoding.table import fit_table
from tailrank.models.latent_counts import LatentCounts
from tailrank.policies.decoders.base import Decoder, decode
from tailrank.policies.decoders.mixture import MixtureDecoder

LEAST = 1e-3
"""Smallest weight in a likelihood: outcomes never seen are not impossible."""
RANKS = (2, 4, 8, 16, 32, 64)
PRIORS = (0.0, 0.1, 1.0, 5.0)
"""Weights of a latent's pooled outcomes in those of its single actions, among which the likelihood chooses."""


@dataclass(frozen=True)
class Fitted:
    """A decoder with the held-out likelihood (nats a transition) that chose it, and how."""

    decoder: Decoder
    labels: np.ndarray
    held_out: float
    chosen: str
    converged: bool = True


@dataclass(frozen=True)
class Discriminative(DecoderSettings):
    """The oracle and its settings.

    rank: the most latents a step may have, or "auto". shared: one decoder and one table for all steps (for
    time-homogeneous environments). width, layers, restarts, steps: of networks; image_shape: for convolutions.

    >>> from tailrank import ObservedELA, learn, make_simulator
    >>> learner = ObservedELA(tau=0.1, oracle=Discriminative(rank=3))
    >>> learn(make_simulator("rich-lock", horizon=3), learner, episodes=30, seed=0).episodes >= 30
    True
    """

    image_shape: tuple[int, ...] | None = None

    @property
    def largest_rank(self) -> int:
        """The most latents that any candidate has."""
        if self.rank != "auto":
            return int(self.rank)
        return max(RANKS) if self.shared else 8

    def fit(
        self, replay: Replay, n_actions: int, top: int, *, rng: np.random.Generator, warm: Decoder | None = None
    ) -> Fitted:
        """The best decoder for the episodes."""
        split = rng.permutation(replay.n)
        test = np.sort(split[: max(1, round(self.held_out * replay.n))]) if replay.n > 4 else np.arange(replay.n)
        judge = _Judge(replay, n_actions, top, self.shared, test)
        if self.model == "table":
            return judge.fitted(fit_table(replay), "table")
        best = self._mixture(replay, judge, rng, warm if isinstance(warm, MixtureDecoder) else None)
        if self.model in ("mixture", *CHOSEN):
            return best
        return self._network(replay, n_actions, judge, best, rng, warm)

    def _mixture(self, replay: Replay, judge: _Judge, rng: np.random.Generator, warm: MixtureDecoder | None) -> Fitted:
        samples = (
            [replay.features[np.arange(replay.horizon) < replay.lengths[:, None]]]
            if self.shared
            else [replay.features[replay.alive(h), h] for h in range(replay.horizon)]
        )
        samples = [x if len(x) else np.zeros((1, replay.n_features), dtype=np.float32) for x in samples]
        seeds = None if self.shared or warm is None else suspects(replay, label(warm, replay), judge.n_actions)
        best = judge.fitted(fit_mixture(samples, self.largest_rank, rng=rng, warm=warm, seeds=seeds), "separated")
        for rank in (RANKS if self.rank == "auto" else (self.largest_rank,)) if self.shared else ():
            found = judge.fitted(fill_mixture(samples, rank, rng=rng), f"filled with {rank}")
            if judge.better(found, best):
                best = found
        return best

    def _network(
        self,
        replay: Replay,
        n_actions: int,
        judge: _Judge,
        best: Fitted,
        rng: np.random.Generator,
        warm: Decoder | None,
    ) -> Fitted:
        from tailrank.learning.decoding.neural import NeuralDecoder, NeuralSettings, fit_neural

        architecture = "linear" if self.model == "linear" else "conv" if self.image_shape else "mlp"
        settings = NeuralSettings(
            width=self.width,
            layers=self.layers,
            restarts=self.restarts,
            steps=self.steps,
            held_out=self.held_out,
            architecture=architecture,
            image_shape=self.image_shape,
        )
        previous = warm if isinstance(warm, NeuralDecoder) else None
        found = fit_neural(
            replay,
            self.largest_rank,
            n_actions,
            settings=settings,
            shared=self.shared,
            rng=rng,
            labels=best.labels,
            warm=previous,
            held=np.flatnonzero(judge.held),
        )
        network = judge.fitted(found.decoder, f"{self.model} network", found.converged)
        return network if judge.better(network, best) else best


class _Judge:
    """Held-out likelihood of decoders on the same episodes."""

    def __init__(self, replay: Replay, n_actions: int, top: int, shared: bool, test: np.ndarray) -> None:
        self.replay, self.n_actions, self.top, self.shared = replay, n_actions, top, shared
        self.held = np.zeros(replay.n, dtype=bool)
        self.held[test] = True
        self.scores: dict[int, np.ndarray] = {}

    def fitted(self, decoder: Decoder, chosen: str, converged: bool = True) -> Fitted:
        """The decoder with its score, under the prior that the likelihood prefers."""
        labels = label(decoder, self.replay)
        values = {prior: self._score(decoder.n_latents, labels, prior) for prior in PRIORS}
        best = PRIORS[0]
        for prior in PRIORS[1:]:
            if _wins(values[prior], values[best]):
                best = prior
        result = Fitted(decoder, labels, float(values[best].mean()), chosen, converged)
        self.scores[id(result)] = values[best]
        return result

    def better(self, new: Fitted, old: Fitted) -> bool:
        """Whether the new one wins by more than chance."""
        return _wins(self.scores[id(new)], self.scores[id(old)])

    def _score(self, K: int, labels: np.ndarray, prior: float) -> np.ndarray:
        """Log likelihood ratio of each held-out transition against next states drawn blindly, [n]."""
        everything = moves(self.replay, labels, K, self.shared, whole=True)
        held = self.held[everything.episode]
        train, test = everything.where(~held), everything.where(held)
        counts = LatentCounts(1 if self.shared else self.replay.horizon, K, self.n_actions, self.top)
        counts.add(train.h, train.z, train.a, train.after, train.units)
        return outcome_log_likelihood(counts, train, test, prior)


def judged(decoder: Decoder, replay: Replay, n_actions: int, top: int, shared: bool, test: np.ndarray) -> np.ndarray:
    """log P(x', r | x, a) / P(x') of the transitions of the episodes `test`, [n], by what the others show."""
    judge = _Judge(replay, n_actions, top, shared, test)
    return judge.scores[id(judge.fitted(decoder, ""))]


@dataclass(frozen=True)
class Moves:
    """Transitions [n] between latents; h is the step of the table, after = K: ended."""

    episode: np.ndarray
    h: np.ndarray
    z: np.ndarray
    a: np.ndarray
    after: np.ndarray
    units: np.ndarray

    def where(self, mask: np.ndarray) -> Moves:
        """Those that the mask picks."""
        return Moves(*(getattr(self, name)[mask] for name in ("episode", "h", "z", "a", "after", "units")))


def label(decoder: Decoder, replay: Replay, since: int = 0) -> np.ndarray:
    """Latents [n - since, H] of what was seen, -1 where an episode was over."""
    labels = np.full((replay.n - since, replay.horizon), -1, dtype=np.int64)
    for h in range(replay.horizon):
        alive = np.flatnonzero(replay.lengths[since:] > h)
        if alive.size:
            labels[alive, h] = decode(decoder, h, replay.features[since + alive, h])
    return labels


def moves(
    replay: Replay,
    labels: np.ndarray,
    K: int,
    shared: bool,
    since: int = 0,
    *,
    known: LatentCounts | None = None,
    whole: bool = False,
) -> Moves:
    """All transitions of the episodes from `since` on.

    The horizon cuts episodes off where the environment might go on. Where steps share a table such a transition is no
    end, and is left out if others, or those counted in `known`, show what follows its pair (with `whole`, always:
    then labels make no difference).
    """
    episode, h = np.nonzero(labels >= 0)
    ended = h + 1 >= replay.lengths[since + episode]
    after = np.where(ended, K, labels[episode, np.minimum(h + 1, replay.horizon - 1)])
    i = since + episode
    found = Moves(
        i,
        np.zeros_like(h) if shared else h,
        labels[episode, h],
        replay.actions[i, h].astype(np.int64),
        after,
        replay.units[i, h].astype(np.int64),
    )
    if not shared:
        return found
    cut = (h + 1 == replay.horizon) & (replay.horizon > 1)
    pair = found.z * (int(found.a.max(initial=0)) + 1) + found.a
    shown = np.isin(pair, pair[~cut])
    if known is not None:
        shown |= (known.going_on()[0] > 0)[found.z, found.a]
    return found.where(~cut if whole else ~cut | ~shown)


def suspects(replay: Replay, labels: np.ndarray, n_actions: int, most: int = 2) -> list[np.ndarray]:
    """For each step the places [s, m] where a latent is suspected: what followed some latent and action.

    Means of the observations after each pair (z, a) of the step before; those are taken whose distance from the mean
    of all is largest against the error of the mean. They show latents that no single observation gives away.
    """
    result = [np.zeros((0, replay.n_features))]
    for h in range(1, replay.horizon):
        alive = replay.alive(h)
        if alive.size < 4:
            result.append(result[0])
            continue
        x = replay.features[alive, h].astype(np.float64)
        pair = np.unique(labels[alive, h - 1] * n_actions + replay.actions[alive, h - 1], return_inverse=True)[1]
        counts = np.bincount(pair)
        means = np.zeros((counts.size, x.shape[1]))
        np.add.at(means, pair, x)
        means /= counts[:, None]
        away = counts * ((means - x.mean(axis=0)) ** 2).sum(axis=1)
        away[counts < 2] = -1.0
        result.append(means[np.argsort(-away)[:most]])
    return result


def outcome_log_likelihood(counts: LatentCounts, train: Moves, test: Moves, prior: float) -> np.ndarray:
    """log P(j, r | z, a) / p_j of each transition in `test` [n], with probabilities counted in `train`.

    Outcomes of a pair are smoothed by those of its latent, these by those of the step, these by a flat law.
    """
    outcomes = (counts.n_latents + 1) * (counts.top + 1)

    def key(m: Moves, level: int) -> np.ndarray:
        pair = m.h
        if level >= 1:
            pair = pair * counts.n_latents + m.z
        if level >= 2:
            pair = pair * counts.n_actions + m.a
        return pair * outcomes + m.after * (counts.top + 1) + m.units

    p = np.full(test.h.size, 1.0 / outcomes)
    for level, weight in ((0, 1.0), (1, 1.0), (2, prior)):
        joint = _lookup(key(train, level), key(test, level))
        total = _lookup(key(train, level) // outcomes, key(test, level) // outcomes)
        p = (joint + max(weight, LEAST) * p) / (total + max(weight, LEAST))
    base = counts.n_latents + 1
    after = _lookup(train.h * base + train.after, test.h * base + test.after)
    blind = (after + 1.0 / base) / (_lookup(train.h, test.h) + 1.0)
    return np.log(p) - np.log(blind)


def depends_on_actions(found: Moves, rng: np.random.Generator, draws: int = 200) -> bool:
    """Whether next latents depend on actions, given step and latent: a permutation test at level 1 / draws.

    The statistic is the likelihood ratio of P(z' | z, a) against P(z' | z), summed over steps.
    """
    wide = int(found.after.max(initial=0)) + 1
    place = np.unique(np.stack([found.h, found.z], axis=1), axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(place, kind="stable")
    place, action, after = place[order], found.a[order], found.after[order]

    def statistic(a: np.ndarray) -> float:
        joint = _counts((place * (found.a.max() + 1) + a) * wide + after)
        pair = _counts(place * (found.a.max() + 1) + a)
        return float((joint * np.log(joint)).sum() - (pair * np.log(pair)).sum())

    actual = statistic(action)
    for _ in range(draws):
        shuffled = np.lexsort((rng.random(place.size), place))  # places stay together, actions move within them
        if statistic(action[shuffled]) >= actual - 1e-9:
            return False
    return True


def _counts(keys: np.ndarray) -> np.ndarray:
    return np.unique(keys, return_counts=True)[1].astype(np.float64)


def _lookup(seen: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """How often each of the asked keys was seen."""
    keys, counts = np.unique(seen, return_counts=True)
    if keys.size == 0:
        return np.zeros(asked.size)
    place = np.minimum(np.searchsorted(keys, asked), keys.size - 1)
    return np.where(keys[place] == asked, counts[place], 0).astype(np.float64)


def _wins(new: np.ndarray, old: np.ndarray) -> bool:
    gain = new - old
    return bool(gain.size > 1 and gain.mean() > 2.0 * gain.std() / np.sqrt(gain.size) + 1e-9)
