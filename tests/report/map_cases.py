"""A policy on observations that is known by formulas, what a run would keep of it, and an environment that draws."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
from gymnasium import spaces

from tailrank.policies.tables import ChargedBudget
from tailrank.runs.beside import Beside


@dataclass(frozen=True)
class Formula(ChargedBudget):
    """Acts and falls short by two coordinates `by` of m, by the step and by the budget."""

    n_features: int = 5
    by: tuple[int, int] = (3, 1)
    horizon: int = 8

    def start(self, n):
        return np.full(n, 2.0)

    def act(self, h, states, memory):
        return (states[:, self.by[0]] > memory).astype(np.int64) + 2 * (states[:, self.by[1]] > 0.1 * h)

    def shortfall(self, h, states, memory):
        return np.maximum(memory - states[:, self.by[0]], 0.0) + states[:, self.by[1]] ** 2 + h


def beside_of(n_features=5, seed=0, horizon=8):
    """Two hundred observations, and four episodes that earn -4, -2, 0 and 4."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, horizon, size=200)
    rewards = np.zeros((4, horizon))
    rewards[:, 0] = [-4.0, -2.0, 0.0, 4.0]
    actions = np.zeros((4, horizon), dtype=np.int64)
    actions[0, 5:] = -1
    seen = rng.normal(size=(200, n_features))
    kept = rng.normal(size=(4, horizon + 1, n_features))
    played = Formula(n_features, (n_features - 1, 0)).act(0, seen, np.zeros(200))
    others = {"uniform": rng.normal(size=30)}
    return Beside(others, seen, played, at, 0.5 * at, rewards, actions, kept, np.arange(4))


class Drawn(gymnasium.Env):
    """Draws its step and what was paid last as the colour of a small picture."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode
        self.observation_space, self.action_space = spaces.Box(-50.0, 50.0, (2,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.h = self.paid = 0
        return np.zeros(2, dtype=np.float32), {}

    def step(self, action):
        self.h, self.paid = self.h + 1, int(self.np_random.integers(1, 50)) + int(action)
        return np.array([self.h, self.paid], dtype=np.float32), float(self.paid), False, False, {}

    def render(self):
        return None if self.render_mode is None else np.full((4, 6, 3), [self.h, self.paid, 7], dtype=np.uint8)
