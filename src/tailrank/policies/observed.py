"""A policy that acts on observations it has never seen: decoder, latent tables, remaining budget.

Memory [n, 1 + K]: the budget that is left, and how likely each latent is before the next observation is seen;
[n, 1] without the filter.
The last observation and action say something about the next latent; where one observation does not tell the
latent for sure, the two are put together (a filter). Where it does, the filter changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.models.grid import BudgetGrid
from tailrank.policies.decoders.base import Decoder, decode
from tailrank.policies.moved import Moved
from tailrank.policies.softmax import softmax

FORGIVING = 1e-3
"""Weight of the latents' frequencies in what is expected next: a wrong model must not rule out what is seen."""


@dataclass(frozen=True)
class ObservedPlan:
    """values [H] of [K, A, C_h]: the shortfall of each action; budget and objective in units; curve V_0(c) [C_0].

    support_error: the largest standard error of a table entry that the subsample of observations causes, in units.
    """

    values: tuple[np.ndarray, ...]
    budget: int
    objective: float
    curve: np.ndarray
    support_error: float = 0.0

    def act(self, h: int, mix: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """Actions [n] for latents with probabilities mix [n, K] and remaining budgets [n] (units)."""
        from tailrank.policies import _kernels

        result = np.empty(len(mix), dtype=np.int64)
        _kernels.choose(self.values[h], mix, budgets, result)
        return result

    def act_in(self, h: int, latents: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """Actions [n] in latents [n] that are sure: the first of those with the least shortfall."""
        values = self.values[h]
        rows = values[latents, :, np.clip(budgets, 0, values.shape[2] - 1)]
        least = rows.min(axis=1, keepdims=True)
        return np.asarray((rows <= least + 1e-12 * np.abs(least)).argmax(axis=1))


@dataclass(frozen=True)
class ObservationPolicy:
    """The plan on observations.

    base [steps, K]: frequencies of latents; moves [steps, K, A, K]: P(z' | z, a); steps is 1 where all share a table.

    filtered: whether to look back at all; not needed where one observation tells the latent.
    """

    decoder: Decoder
    plan: ObservedPlan
    grid: BudgetGrid
    base: np.ndarray
    moves: np.ndarray
    filtered: bool = True

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.plan.values)

    @property
    def n_features(self) -> int:
        """m: how many features of an observation the decoder looks at."""
        return self.decoder.n_features

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.moves.shape[2])

    def _step(self, h: int) -> int:
        return 0 if len(self.base) == 1 else h

    def start(self, n: int) -> np.ndarray:
        """The starting budget, and the latents of first observations."""
        budgets = np.full((n, 1), float(self.plan.budget))
        return np.hstack([budgets, np.repeat(self.base[:1], n, axis=0)]) if self.filtered else budgets

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """The action with the least shortfall for each observation [n, m] and its memory."""
        budgets = memory[:, 0].astype(np.int64)
        if not self.filtered:
            return self.plan.act_in(h, decode(self.decoder, h, states), budgets)
        return self.plan.act(h, self.latents(h, states, memory), budgets)

    def latents(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Probabilities of the latents given the observation and what came before, [n, K]."""
        odds = self.decoder.log_odds(h, states)
        if not self.filtered:
            mix = np.zeros_like(odds)
            mix[np.arange(len(odds)), odds.argmax(axis=1)] = 1.0
            return mix
        with np.errstate(divide="ignore"):
            odds = odds + np.log(memory[:, 1:]) - np.log(np.maximum(self.base[self._step(h)], 1e-300))
        return softmax(odds)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The budget less the reward, and the latents to expect next."""
        if h + 1 >= self.horizon:
            return memory
        left = np.maximum(memory[:, 0] - self.grid.units(h, moved.rewards), 0)
        if not self.filtered:
            return left[:, None]
        moves = self.moves[self._step(h)]
        now = self.latents(h, moved.states, memory)
        ahead = np.einsum("nz,nzk->nk", now, moves[:, moved.actions].transpose(1, 0, 2))
        ahead = (1 - FORGIVING) * ahead + FORGIVING * self.base[self._step(h + 1)]
        return np.column_stack([left, ahead / ahead.sum(axis=1, keepdims=True)])
