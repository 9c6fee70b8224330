"""Which model is fitted, chosen by what it says about transitions that it has not seen.

A fifth of the transitions is held out: the count N of every cell is thinned, and Binomial(N, 1/5) of it is kept aside,
which is fair because transitions are independent given their pairs. Each candidate is fitted to the rest and scored by

    sum over held-out transitions of log P~(g' | g, a),       P~ = (n P + q) / (n + 1),

n the visits of the pair that the candidate has learned from and q the law of the next group over all pairs: one
imagined visit, so that an outcome which was never seen is not impossible. A finite class needs none.

The simplest candidate wins unless another is better; it is simpler if its log |F| is smaller. A finite class is what
somebody claims to know, so more than chance must speak against it: four standard errors, in at least 30 held-out
transitions. The choice is made anew whenever there are half as many transitions again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tailrank.checks import InputError
from tailrank.learning.oracles.counts import TabularCounts
from tailrank.learning.oracles.finite_class import FiniteClass
from tailrank.learning.oracles.fit import MleOracle
from tailrank.models.counts import Counts, SparseCounts, number_of

HELD_OUT = 0.2
GROWTH = 1.5
"""Transitions, over those of the last choice, at which the choice is made anew."""
LEAST_AGAINST_A_CLASS = 30
TRUST = 1.0 - 1e-6
"""Of the law that a finite class says: the rest is q, so that no outcome is impossible."""


@dataclass(frozen=True)
class Candidate:
    """A model that could be fitted: the oracle of each of the H - 1 steps, and whether all steps are fitted as one."""

    name: str
    oracles: tuple[MleOracle, ...]
    share: bool = False

    @property
    def said(self) -> str:
        """In words."""
        return f"{self.name}, all steps as one" if self.share else self.name

    @property
    def claimed(self) -> bool:
        """Whether it is a finite class: what somebody claims to know."""
        return isinstance(self.oracles[0], FiniteClass)

    def size(self, counts: list[Counts]) -> float:
        """log |F|, over all steps."""
        n = 1.0 + sum(map(number_of, counts))
        sizes = [o.log_class_size(n, c.shape) for o, c in zip(self.oracles, counts, strict=True)]
        return sizes[0] if self.share else sum(sizes)

    def predicted(self, counts: list[np.ndarray], held: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """log P~ of every cell that was held out, all steps one after the other; fitted to `counts`."""
        data = [np.sum(counts, axis=0)] if self.share else counts
        laws = [_smoothed(oracle, c, rng) for oracle, c in zip(self.oracles, data, strict=False)]
        laws = laws * len(counts) if self.share else laws
        return np.concatenate([np.log(law[out > 0]) for law, out in zip(laws, held, strict=True)])


@dataclass(frozen=True)
class Menu:
    """The candidates and the one that was chosen. scores: held-out nats a transition, [n]; seen: when it was chosen."""

    candidates: tuple[Candidate, ...]
    chosen: int = 0
    seen: float = 0.0
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def current(self) -> Candidate:
        """The one that is fitted."""
        return self.candidates[self.chosen]

    @property
    def said(self) -> str:
        """What was chosen and why; nothing where there was nothing to choose, or nothing to go by."""
        if not self.scores.size:
            return ""
        ranked = (int(i) for i in np.argsort(-self.scores, kind="stable"))
        other = next(i for i in ranked if i != self.chosen)
        than = f"; {self.candidates[other].said}: {self.scores[other]:.4g}"
        return (
            f"model: {self.current.said}, chosen among {len(self.candidates)} by held-out likelihood "
            f"({self.scores[self.chosen]:.4g} nats a transition{than})"
        )

    def reconsidered(self, counts: list[Counts], rng: np.random.Generator) -> Menu:
        """The menu with the choice that these counts ask for, where there are enough new ones to ask."""
        total = sum(map(number_of, counts))
        if len(self.candidates) == 1 or not counts or total < GROWTH * self.seen or total == 0:
            return self
        chosen, scores = choose(self.candidates, counts, rng)
        return replace(self, chosen=chosen, scores=scores, seen=total)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        if len(self.candidates) == 1:
            return {}
        scores = self.scores if self.scores.size else np.full(len(self.candidates), np.nan)
        return {"menu.chosen": np.array([self.chosen]), "menu.seen": np.array([self.seen]), "menu.scores": scores}

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Menu:
        """From a checkpoint."""
        if len(self.candidates) == 1:
            return self
        chosen, seen, scores = int(arrays["menu.chosen"][0]), float(arrays["menu.seen"][0]), arrays["menu.scores"]
        if not 0 <= chosen < len(self.candidates):
            raise InputError(f"menu.chosen = {chosen}: must lie in 0..{len(self.candidates) - 1}")
        return replace(self, chosen=chosen, seen=seen, scores=scores[:0] if np.isnan(scores).all() else scores)


def choose(candidates: tuple[Candidate, ...], counts: list[Counts], rng: np.random.Generator) -> tuple[int, np.ndarray]:
    """The number of the candidate to fit, and the held-out nats a transition of each; -inf where one does not fit."""
    tables = [_table(c) for c in counts]
    held = [rng.binomial(c.astype(np.int64), HELD_OUT).astype(np.float64) for c in tables]
    kept = [c - out for c, out in zip(tables, held, strict=True)]
    weight = np.concatenate([out[out > 0] for out in held])
    by_size = np.argsort([candidate.size(counts) for candidate in candidates], kind="stable")
    if not weight.size or not any(c.any() for c in kept):
        return int(by_size[0]), np.zeros(0)
    scores, best, told = np.full(len(candidates), -np.inf), -1, np.zeros(0)
    for i in by_size.tolist():
        try:
            predicted = candidates[i].predicted(kept, held, rng)
        except InputError:  # a class that excludes what was seen
            continue
        scores[i] = weight @ predicted / weight.sum()
        if best < 0 or _beats(predicted - told, weight, candidates[best].claimed):
            best, told = i, predicted
    return best, scores


def _beats(gain: np.ndarray, weight: np.ndarray, claimed: bool) -> bool:
    """Whether the sum of gains [n], each as often as weight [n] says, is a gain; `claimed`: one beyond chance."""
    total, n = float(weight @ gain), float(weight.sum())
    error = np.sqrt(max(float(weight @ gain**2) - total**2 / n, 0.0))
    return total > 4.0 * error and n >= LEAST_AGAINST_A_CLASS if claimed else total > 1e-9 * n


def _smoothed(oracle: MleOracle, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """P~ [G, A, G'] of a fit to these counts."""
    n, after = counts.sum(axis=2, keepdims=True), counts.sum(axis=(0, 1))
    q = (after + 1.0) / (after.sum() + after.size)
    if isinstance(oracle, TabularCounts):  # without its phi, which has a column for every pair
        return np.asarray((counts + q) / (n + 1.0))
    share = TRUST if isinstance(oracle, FiniteClass) else n / (n + 1.0)
    return np.asarray(share * oracle.fit(counts, rng=rng).step.kernel + (1.0 - share) * q)


def _table(counts: Counts) -> np.ndarray:
    """Counts [G, A, G'], whichever form they came in."""
    if not isinstance(counts, SparseCounts):
        return counts
    table = np.zeros(counts.shape)
    table.reshape(-1, counts.shape[2])[counts.pair, counts.after] = counts.count
    return table
