"""The episodes that policy gradients on tables learn from: a softmax policy, and a start drawn from any law."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import walk
from tailrank.learning.playing import Charged
from tailrank.models.lowrank import draw
from tailrank.models.rewards import RewardLaw
from tailrank.policies.softmax import softmax


@dataclass(frozen=True)
class GradientBatch:
    """n episodes: states [H + 1, n], places [H + 1, n] (what is left, as an index), actions [H, n], returns [n] in
    units, weights [n] (p / q of the start).
    """

    states: np.ndarray
    places: np.ndarray
    actions: np.ndarray
    returns: np.ndarray
    weights: np.ndarray


def play(
    env: CountableEnv,
    logits: tuple[np.ndarray, ...],
    budget: int,
    n: int,
    rng: np.random.Generator,
    start: np.ndarray | None = None,
) -> GradientBatch:
    """Episodes of the softmax policy from this budget (units); start [S]: the law that first states are drawn from."""
    H = env.horizon
    states, left = np.zeros((H + 1, n), dtype=np.int64), np.zeros((H + 1, n), dtype=np.int64)
    actions, earned, weights = np.zeros((H, n), dtype=np.int64), np.zeros(n, dtype=np.int64), np.ones(n)
    everything = np.full(n, env.rewards.n_budgets - 1)
    where: Any = env if start is None else DrawnStart(env, start)
    for move in walk(SoftmaxTables(logits, budget, env.rewards, rng), where, n, rng):
        h = move.h
        states[h], states[h + 1], actions[h] = move.states, move.after, move.actions
        left[h], left[h + 1] = move.memory, move.then
        earned += everything - env.rewards.charge(h, move.rewards, everything)
    if start is not None:
        weights = (start_law(env) / np.where(start > 0, start, 1.0))[states[1]]
    return GradientBatch(states, left, actions, earned, weights)


@dataclass(frozen=True)
class SoftmaxTables(Charged):
    """The softmax policy of logits [H] of [S, B, A] from this budget (units); its memory is what is left."""

    logits: tuple[np.ndarray, ...]
    budget: int
    rewards: RewardLaw
    rng: np.random.Generator

    def start(self, n: int) -> np.ndarray:
        """The starting budget, [n]."""
        return np.full(n, self.budget, dtype=np.int64)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] at step h, drawn."""
        table = self.logits[h]
        return draw(softmax(table[states, memory if table.shape[1] > 1 else 0]), self.rng)


@dataclass(frozen=True)
class DrawnStart:
    """An environment whose first step only draws the first state: it is drawn from the law `start` [S] instead."""

    env: CountableEnv
    law: np.ndarray

    @property
    def horizon(self) -> int:
        """H."""
        return self.env.horizon

    def reset(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """First states [n]."""
        return self.env.reset(n, rng)

    def step(
        self, h: int, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rewards [n] and next states [n]."""
        rewards, after = self.env.step(h, states, actions, rng)
        return rewards, rng.choice(self.law.size, size=states.size, p=self.law) if h == 0 else after


def start_law(env: CountableEnv) -> np.ndarray:
    """The law of first states, [S], of an environment whose first step only draws them; an error for others."""
    refused = checks.InputError("sampling: needs an environment with a random start, whose first state can be chosen")
    if env.n_states != env.truth.n_states:
        raise refused
    ptr, after, prob, reward = env.truth.rows(0)
    ends = ptr[env.start * env.n_actions :][: env.n_actions + 1]
    laws = {(after[i:j].tobytes(), prob[i:j].tobytes()) for i, j in pairwise(ends)}
    rows = slice(int(ends[0]), int(ends[1]))
    if len(laws) > 1 or rows.stop - rows.start < 2 or np.ptp(reward[ends[0] : ends[-1]]) > 0:
        raise refused
    return np.bincount(after[rows], weights=prob[rows], minlength=env.n_states)
