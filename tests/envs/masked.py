"""A simulator that says which actions are allowed, for tests of masks."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 4
ALLOWED = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 1, 0]], dtype=np.int8)
"""By state."""


class Masked(gymnasium.Env):
    """A walk on five states: action a pays a (3 pays 100 where it is not allowed) and moves a states on, or one more.

    key: where `info` has the mask, `form` what it looks like, or what is wrong with it, in episodes with seed 6.
    strict: an action that is not allowed raises.
    """

    def __init__(self, key="action_mask", form="array", strict=False, actions=None):
        self.key, self.form, self.strict = key, form, strict
        self.observation_space = spaces.Discrete(5)
        self.action_space = spaces.Discrete(4) if actions is None else actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.h, self.state = seed, 0, int(self.np_random.integers(5))
        return self.state, self._info()

    def step(self, action):
        action = int(np.ravel_multi_index(action, (2, 2))) if np.ndim(action) else int(action)
        action -= int(getattr(self.action_space, "start", 0)) if np.ndim(self.action_space.sample()) == 0 else 0
        allowed = bool(ALLOWED[self.state, action])
        if self.strict and not allowed:
            raise RuntimeError("not allowed")
        self.state = (self.state + action + int(self.np_random.integers(2))) % 5
        self.h += 1
        return self.state, float(action if allowed else 100), self.h == STEPS, False, self._info()

    def _info(self):
        mask = ALLOWED[self.state]
        listed = [int(a) for a in np.flatnonzero(mask)]
        if self.h == STEPS:
            return {self.key: np.zeros(4, dtype=np.int8)}  # nothing is left to be allowed
        faults = {
            "short": mask[:3],
            "twos": 2 * mask,
            "words": "left",
            "none": np.zeros(4, dtype=np.int8),
            "ragged": [[1, 0], [1]],
            "beyond": [0, 4],
            "no list": 2.5,
            "empty list": [],
        }
        forms = {
            "array": mask,
            "bools": mask.astype(bool),
            "list": listed,
            "set": set(listed),
            "from seven": [a + 7 for a in listed],
            "parts": (np.array([1, 0], dtype=np.int8), np.array([0, 1], dtype=np.int8)),
            "absent": None,
        }
        wrong = self.form in faults and self.seed == 6 and self.h == 2
        return {self.key: faults[self.form] if wrong else forms.get(self.form, listed if "adm" in self.key else mask)}


gymnasium.register("masked/Walk-v0", entry_point=Masked, max_episode_steps=STEPS)
