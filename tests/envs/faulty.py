"""A simulator that goes wrong in some of its episodes, for tests of workers and of `skip_bad`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 4


class Faulty(gymnasium.Env):
    """A walk of four steps. In episodes whose seed is divisible by `every` it does `fault` at step 2.

    once: a folder; the fault happens only where it has no file with the seed's name.
    """

    def __init__(self, fault="", every=10, once=None):
        self.fault, self.every, self.once = fault, every, once
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.h, self.x = seed, 0, float(self.np_random.normal())
        if self.fault == "reset raises" and self._now():
            raise RuntimeError("no start")
        return self._seen(), {}

    def step(self, action):
        self.x += int(action) - 1 + 0.1 * self.np_random.normal()
        self.h += 1
        reward = self.x
        if self.h == 3 and self._now():
            if self.fault == "exits":
                os._exit(3)
            if self.fault == "hangs":
                time.sleep(60)
            if self.fault == "forgets":
                Path(self.once, "forgets").touch()
                os._exit(3)
            reward = {"nan": np.nan, "huge": 1e300}.get(self.fault, reward)
        forgot = self.fault == "forgets" and Path(self.once, "forgets").exists()
        return self._seen() + forgot, reward, self.h == STEPS, False, {}

    def _seen(self):
        return np.array([self.x, self.h])

    def _now(self):
        if self.seed % self.every or not self.fault:
            return False
        mark = None if self.once is None else Path(self.once, str(self.seed))
        if mark is not None and mark.exists():
            return False
        if mark is not None:
            mark.touch()
        return True


gymnasium.register("faulty/Walk-v0", entry_point=Faulty, max_episode_steps=STEPS)
