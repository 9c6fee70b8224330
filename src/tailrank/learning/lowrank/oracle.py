"""The maximum-likelihood oracle of low-rank models: phi and psi that make the transitions most likely.

    log likelihood = sum over transitions of log sum_k P(k | x, a) psi_k(x') P(r | k, x, a)

phi is an `OutcomeNetwork`, psi are Gaussians (`gaussians.py`), and the two are untied. A fit alternates an epoch of
minibatch gradient steps on phi, with a rate that falls to zero, and the M-step of EM on psi; of all epochs the one
with the highest held-out likelihood is kept. The class has a few settings, chosen by held-out likelihood as well: the
rank, how strongly weights are pulled to 0, and whether steps share heads and psi. The simpler one wins unless it is
beaten by more than two standard errors. Settings are looked for again when the data has doubled; in between only the
weights are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from tailrank import checks
from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank import network
from tailrank.learning.lowrank.data import OutcomeData, log_psi_of
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.learning.lowrank.gaussians import responsibilities
from tailrank.learning.lowrank.leads import lead_of
from tailrank.learning.lowrank.psi import FAMILIES, Psi
from tailrank.learning.lowrank.settings import PHIS, PSIS
from tailrank.learning.lowrank.transitions import HELD
from tailrank.learning.lowrank.units import MAKERS, Made, UnitData
from tailrank.planning.observed.support import RewardKinds
from tailrank.policies.lowrank import RewardLaws
from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.policies.units import KERNEL

RANKS = (2, 3, 4, 6, 8, 12, 16)
DECAYS = (0.1, 0.3, 1.0, 3.0)
ENOUGH, LEAST_EPOCHS, LEAST_STEPS, LEAST_BETWEEN = 1_000_000, 6, 200, 10
"""Transitions that training looks at, counted each time, are about `ENOUGH`, in at least so many epochs and steps; at
least so many steps lie between two M-steps of psi, where the data is so small that an epoch has fewer."""
UPDATES = 150
"""Steps of an update between two fits."""
SMOOTH = ("network", "features")
"""Kinds of phi whose slopes say how places are to be stretched."""
QUICK = 5_000
"""Transitions that a search for settings looks at, at most."""


@dataclass(frozen=True)
class Setting:
    """A class of models: rank K, weight decay, whether steps share their heads and their psi, and what phi is."""

    rank: int
    decay: float = DECAYS[0]
    shared_heads: bool = True
    shared_psi: bool = True
    phi: str = "network"

    def pull(self, n: int) -> float:
        """The weight decay for n transitions. That of the setting was chosen on at most `QUICK`; a prior is one for all
        transitions, so of more each carries less of it."""
        return self.decay * min(1.0, QUICK / n)


@dataclass(frozen=True)
class LowRankFit:
    """phi, psi [1 or H - 1] (of the next observation), the laws of rewards, the setting and its held-out likelihood.

    ends: whether the last kind of phi is the end of an episode. gains [h]: see `gains`. searched: episodes at the last
    search for settings.
    """

    network: OutcomeNetwork
    psi: tuple[Psi, ...]
    rewards: RewardKinds
    setting: Setting
    ends: bool
    held_out: float
    searched: int
    weights: dict[str, np.ndarray] = field(repr=False)
    known: KnownRewards | None = None

    @property
    def laws(self) -> RewardLaws | None:
        """The laws of rewards [n, A, L] at (h, x), where they are known."""
        return None if self.known is None else partial(self.known.at, n_actions=self.network.n_actions)

    def log_psi(self, h: np.ndarray, after: np.ndarray) -> np.ndarray:
        """log psi_k of next observations [n, m] after steps h [n], [n, K]; without the kind that has ended."""
        return log_psi_of(self.psi, h, self.network.places(after))


@dataclass(frozen=True)
class LowRankOracle:
    """rank, decay and sharing are searched for unless given. width: hidden units; epochs: passes over the data.

    members: networks whose mean phi is, each trained without another fifth of the episodes. phi: one of `MAKERS`, or
    "auto", where held-out likelihood chooses; psi: one of `FAMILIES`. known: the laws of rewards, where they need not
    be learned; phi and psi then explain next observations alone.
    """

    rank: int | str = "auto"
    shared: bool | None = None
    width: int = 32
    epochs: int = 20
    rate: float = 0.01
    batch: int = 256
    members: int = 3
    phi: str = "network"
    psi: str = "gaussian"
    known: KnownRewards | None = None

    def __post_init__(self) -> None:
        checks.one_of(self.phi, "phi", PHIS)
        checks.one_of(self.psi, "psi", PSIS)
        if self.rank != "auto":
            checks.whole(self.rank, "rank")
        for name in ("width", "epochs", "batch", "members"):
            checks.whole(getattr(self, name), name)
        checks.positive(self.rate, "rate")

    def fit(
        self, replay: Replay, n_actions: int, *, rng: np.random.Generator, last: LowRankFit | None = None
    ) -> LowRankFit:
        """The best model for the episodes."""
        if last is not None and replay.n < 2 * last.searched:
            data = OutcomeData.of(replay, n_actions, known=self.known, places=last.network)
            setting, psi, searched = last.setting, last.psi, last.searched
        else:
            data = OutcomeData.of(replay, n_actions, known=self.known)
            best, by = self._search(data, last, rng)
            data, setting, psi, searched = data.stretched(by), best.setting, best.psi, replay.n
        found = self._fit(data, setting, rng, psi)
        return replace(self._join(data, found, rng), searched=searched)

    def candidate(self, replay: Replay, n_actions: int, *, rng: np.random.Generator) -> LowRankFit:
        """A quick fit where a search would begin, with heads for every step if that explains more."""
        data = OutcomeData.of(replay, n_actions, known=self.known).some(QUICK, rng)
        now = self._first_setting
        best, scores = self._tried(data, now, rng)
        if self.shared is None and data.horizon > 2:
            best, _ = self._improved(data, best, scores, [lambda s: [replace(s, shared_heads=False)]], rng)
        return best

    @property
    def _first_setting(self) -> Setting:
        """Where a search begins."""
        now = Setting(RANKS[0] if self.rank == "auto" else int(self.rank))
        if self.phi != "auto":
            now = replace(now, phi=self.phi)
        return now if self.shared is None else replace(now, shared_heads=self.shared, shared_psi=self.shared)

    def updated(self, fit: LowRankFit, replay: Replay, *, rng: np.random.Generator) -> LowRankFit:
        """The fit with phi trained a little further on all episodes, psi as it is: new data counts at once."""
        data = OutcomeData.of(replay, fit.network.n_actions, fit, fit.known)
        weights = network.weights_of(fit.network)
        outcomes = data.outcomes(fit.setting, fit.psi)
        adam = network.DecayedAdam.of(weights, fit.setting.pull(data.h.size))
        for i in range(UPDATES):
            rows = rng.integers(data.h.size, size=self.batch)
            adam.step(weights, network.gradient(weights, outcomes.some(rows))[1], 0.3 * self.rate * (1.0 - i / UPDATES))
        return replace(fit, network=network.network_of(weights, data.centre, data.project, data.n_actions))

    def _search(
        self, data: OutcomeData, last: LowRankFit | None, rng: np.random.Generator
    ) -> tuple[LowRankFit, np.ndarray]:
        """A fit with the setting of the highest held-out likelihood, the simpler unless beaten; the stretch of places.

        Places are stretched by what the last network says, or that of a first search, if that explains more.
        """
        some, flat = data.some(QUICK, rng), np.eye(data.z.shape[1])
        now = self._first_setting if last is None else last.setting
        best, scores = self._tried(some, now, rng)
        if last is None:
            best, scores = self._improved(some, best, scores, self._options(now, True, data.horizon), rng)
        source = best if last is None else last
        if self.psi == "gaussian" and source.setting.phi in SMOOTH:
            by = some.stretch_of(source.network)
            other, score = self._tried(some.stretched(by), best.setting, rng)
            if score.mean() > scores.mean():
                some, best, scores, flat = some.stretched(by), other, score, by
        options = self._options(best.setting, False, data.horizon) if last is not None else [self._decays]
        return self._improved(some, best, scores, options, rng)[0], flat

    def _improved(
        self,
        data: OutcomeData,
        best: LowRankFit,
        scores: np.ndarray,
        every: Iterable[Callable[[Setting], list[Setting]]],
        rng: np.random.Generator,
    ) -> tuple[LowRankFit, np.ndarray]:
        """The best fit, with its scores, after trying what `every` says, one group of settings after the other."""
        for options in every:
            lost = 0
            for other in options(best.setting):
                found, score = self._tried(data, other, rng, best)
                by_step = found.setting.shared_heads < best.setting.shared_heads
                if _wins(score - scores, data.episode[data.held] if by_step else None):
                    best, scores, lost = found, score, 0
                else:
                    lost += 1
                if lost == 2:
                    break  # more does not pay
        return best, scores

    def _options(self, now: Setting, first: bool, horizon: int) -> Iterator[Callable[[Setting], list[Setting]]]:
        """Functions from the best setting so far to those to try next."""
        if self.rank == "auto":
            place = RANKS.index(now.rank)
            yield lambda s: [replace(s, rank=k) for k in RANKS[place + 1 :]]
            if not first and place:
                yield lambda s: [replace(s, rank=RANKS[place - 1])] if s.rank == now.rank else []
        for kind in MAKERS if self.phi == "auto" else ():  # one by one: two that lose do not end the search
            yield partial(_with_phi, kind)
        yield self._decays
        if self.shared is None and horizon > 2:
            yield lambda s: [replace(s, shared_heads=not s.shared_heads)]
            yield lambda s: [replace(s, shared_psi=not s.shared_psi)]

    def _decays(self, setting: Setting) -> list[Setting]:
        """Other decays, the nearest first."""
        others = sorted((x for x in DECAYS if x != setting.decay), key=lambda x: abs(np.log(x / setting.decay)))
        return [replace(setting, decay=x) for x in others]

    def _tried(
        self, data: OutcomeData, setting: Setting, rng: np.random.Generator, like: LowRankFit | None = None
    ) -> tuple[LowRankFit, np.ndarray]:
        """A short fit and its scores. It begins with psi of `like` if that has the same sizes."""
        same = like is not None and (like.setting.rank, like.setting.shared_psi) == (setting.rank, setting.shared_psi)
        found = replace(self, epochs=self.epochs // 2)._fit(data, setting, rng, like.psi if like and same else None)
        return found, data.log_likelihoods(found)[data.held]

    def _fit(
        self, data: OutcomeData, setting: Setting, rng: np.random.Generator, warm: tuple[Psi, ...] | None
    ) -> LowRankFit:
        """phi and psi by turns: an epoch on phi, then the M-step on psi."""
        train = np.flatnonzero(~data.held)
        parts = data.parts(setting.shared_psi, train)
        family = FAMILIES[self.psi].of(data.after[train[data.followed[train]]])
        psi = warm
        if psi is None or len(psi) != len(parts) or self.psi == "table":  # a table is of the places that were met
            psi = tuple(family.begin(data.after[rows], setting.rank, rng) for rows in parts)

        def next_psi(last: tuple[Psi, ...], share: np.ndarray) -> tuple[Psi, ...]:
            mine = share[:, : setting.rank].astype(np.float64)
            both = zip(last, parts, strict=True)
            return tuple(family.refit(one, data.after[rows], mine[rows]) for one, rows in both)

        units = self._units(data, setting, psi, rng)
        best, weights, psi = self._train(data, setting, data.held, psi, next_psi, units, rng)
        acting = network.network_of(weights, data.centre, data.project, data.n_actions)
        best += data.held_scale if self.psi == "gaussian" else 0.0
        return LowRankFit(acting, psi, data.rewards, setting, data.ends, best, 0, weights, self.known)

    def _join(self, data: OutcomeData, fit: LowRankFit, rng: np.random.Generator) -> LowRankFit:
        """The fit with phi the mean (of logits) of `members` networks, trained on other episodes each, psi as it is."""
        found, setting, psi = [fit.weights], fit.setting, fit.psi
        for i in range(1, self.members):
            held = data.episode % HELD == i
            if held.any() and not held.all():
                units = {name: fit.weights[name] for name in ("hidden", "bias", "units")}
                if fit.weights["units"][0] != KERNEL:
                    units = self._units(data, setting, psi, rng)
                found.append(self._train(data, setting, held, psi, lambda last, share: psi, units, rng)[1])
        acting = network.network_of(network.mean_of(found), data.centre, data.project, data.n_actions)
        return replace(fit, network=acting)

    def _units(self, data: OutcomeData, setting: Setting, psi: tuple[Psi, ...], rng: np.random.Generator) -> Made:
        """Hidden units before training, made from what is not held out."""
        rows = np.flatnonzero(~data.held)
        shares = responsibilities(data.log_psi(psi)[rows])
        target = np.hstack([shares, np.eye(data.n_laws)[data.law[rows]]])
        return MAKERS[setting.phi](UnitData(data.z[rows], data.action[rows], target), self.width, rng)

    def _train(
        self,
        data: OutcomeData,
        setting: Setting,
        held: np.ndarray,
        psi: tuple[Psi, ...],
        next_psi: Callable[[tuple[Psi, ...], np.ndarray], tuple[Psi, ...]],
        units: Made,
        rng: np.random.Generator,
    ) -> tuple[float, network.Weights, tuple[Psi, ...]]:
        """The best held-out likelihood (a transition), and weights and psi of that epoch."""
        train = np.flatnonzero(~held)
        steps = 1 if setting.shared_heads else data.horizon
        K, L = setting.rank + int(data.ends), data.n_laws
        weights = network.fresh(steps, data.n_actions, K, L, units)
        weights = {name: x.astype(np.float32) for name, x in weights.items()}
        outcomes = data.outcomes(setting, psi)
        adam = network.DecayedAdam.of(weights, setting.pull(data.h.size))
        batches = -(-train.size // self.batch)
        epochs = max(min(self.epochs, ENOUGH // train.size), LEAST_EPOCHS, -(-LEAST_STEPS // batches))
        every = -(-LEAST_BETWEEN // batches)
        best, kept = -np.inf, (weights, psi)
        for epoch in range(epochs):
            for i, rows in enumerate(np.array_split(rng.permutation(train), batches)):
                _, slope = network.gradient(weights, outcomes.some(rows))
                adam.step(weights, slope, self.rate * (1.0 - (epoch * batches + i) / (epochs * batches)))
            if (epoch + 1) % every and epoch + 1 < epochs:
                continue
            value, share = network.log_likelihoods(weights, outcomes)
            score = float(value[held].mean())
            if score > best:
                best, kept = score, ({name: x.copy() for name, x in weights.items()}, psi)
            after = next_psi(psi, share)
            if after is not psi:
                psi, outcomes = after, data.outcomes(setting, after)
        return best, *kept


def _with_phi(kind: str, setting: Setting) -> list[Setting]:
    return [replace(setting, phi=kind)] if kind != setting.phi else []


def _wins(gain: np.ndarray, episode: np.ndarray | None) -> bool:
    """Whether gains [n] are above 0; by more than two standard errors if told their episodes [n]."""
    return bool(gain.mean() > 0) if episode is None else lead_of(gain, episode) > 2.0
