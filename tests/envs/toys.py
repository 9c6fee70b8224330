"""Small environments: one that behaves, and one for each way of not behaving."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

SPACES = {
    "box": spaces.Box(-50.0, 50.0, (3,), np.float32),
    "discrete": spaces.Discrete(40, start=-5),
    "multi": spaces.MultiDiscrete([40, 3], start=[0, 1]),
    "dict": spaces.Dict({"z": spaces.Discrete(40), "a": spaces.Box(-50.0, 50.0, (2,), np.float32)}),
    "tuple": spaces.Tuple((spaces.Discrete(40), spaces.MultiBinary(2))),
}


class Walk(gymnasium.Env):
    """A walk whose length, start and steps are drawn from the seed: it ends after 1 to 6 steps.

    The observation shows the step, the place and a draw, in the space of this `kind`.
    """

    def __init__(self, kind: str = "box", longest: int = 6):
        self.kind, self.longest = kind, longest
        self.observation_space = SPACES[kind]
        self.action_space = spaces.Discrete(3, start=1)

    def seen(self):
        place, draw = int(self.place), int(self.draw)
        return {
            "box": lambda: np.array([self.h, place, draw], dtype=np.float32),
            "discrete": lambda: place % 40 - 5,
            "multi": lambda: np.array([place % 40, draw % 3 + 1]),
            "dict": lambda: {"z": place % 40, "a": np.array([self.h, draw], dtype=np.float32)},
            "tuple": lambda: (place % 40, np.array([draw % 2, self.h % 2], dtype=np.int8)),
        }[self.kind]()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.h, self.place, self.draw = 0, self.np_random.integers(10, 20), 0
        self.length = self.np_random.integers(1, self.longest + 1)
        return self.seen(), {}

    def step(self, action):
        if self.h >= self.length:
            raise RuntimeError("this episode is over")
        if action not in self.action_space:
            raise ValueError(f"no action {action!r}")
        self.h += 1
        self.draw = self.np_random.integers(0, 5)
        self.place += int(action) - 2 + self.draw - 2
        over = self.h == self.length
        return self.seen(), float(self.place) + 0.25 * self.draw, bool(over and self.length % 2), bool(over), {}


class Clean(gymnasium.Env):
    """Nothing is wrong with it. Episodes of ten steps; subclasses break one thing each."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.h = 99

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.h = 0
        self.state = self.np_random.uniform(-1, 1, 2)
        return self.observed(), self.info()

    def step(self, action):
        if self.h >= 10:
            raise RuntimeError("over")
        self.h += 1
        self.move(action)
        return self.observed(), self.reward(), self.flag(self.h >= 10), False, self.info()

    def move(self, action):
        self.state = self.np_random.uniform(-1, 1, 2)

    def observed(self):
        return self.state.copy()

    def reward(self):
        return float(self.state[0])

    def flag(self, over):
        return bool(over)

    def info(self):
        return {}


class NanSeen(Clean):
    def observed(self):
        return np.array([0.0, np.nan]) if self.h == 4 else self.state.copy()


class InfiniteSeen(Clean):
    def observed(self):
        return np.array([-np.inf, 0.0]) if self.h == 4 else self.state.copy()


class WrongShape(Clean):
    def observed(self):
        return np.zeros(3) if self.h == 2 else self.state.copy()


class OutOfBounds(Clean):
    def observed(self):
        return self.state + 3.0 * (self.h == 3)


class NoisyBounds(Clean):
    """Beyond its bounds by rounding only."""

    def observed(self):
        return np.array([1.0 + 1e-9, self.state[1]])


class OtherType(Clean):
    def observed(self):
        return self.state.astype(np.float32)


class NanPaid(Clean):
    def reward(self):
        return float("nan") if self.h == 5 else 1.0


class TextPaid(Clean):
    def reward(self):
        return "much"


class TwoPaid(Clean):
    def reward(self):
        return np.array([1.0, 2.0])


class OnePaid(Clean):
    """An array of size one is a number."""

    def reward(self):
        return np.array([self.state[0]])


class NumberFlag(Clean):
    def flag(self, over):
        return int(over)


class ArrayFlag(Clean):
    def flag(self, over):
        return np.array([over, over])


class TextFlag(Clean):
    def flag(self, over):
        return "yes" if over else "no"


class NoFlag(Clean):
    def flag(self, over):
        return None


class GoesOn(Clean):
    """Takes steps after the end."""

    def step(self, action):
        self.h += 1
        self.move(action)
        return self.observed(), self.reward(), self.h >= 10, False, self.info()


class OwnDice(Clean):
    """Ignores its seed."""

    def move(self, action):
        self.state = np.random.default_rng().uniform(-1, 1, 2)


class Keeps(Clean):
    """Keeps something between episodes."""

    total = 0.0

    def move(self, action):
        super().move(action)
        self.total += 1e-3
        self.state = np.clip(self.state + self.total, -1, 1)


class Counted(Clean):
    """Every copy is a little different."""

    made = 0

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        type(self).made += 1
        self.mine = type(self).made

    def reward(self):
        return float(self.mine)


class Fixed(Clean):
    """Nothing is random."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.zeros(2)
        return self.observed(), {}

    def move(self, action):
        self.state = self.state + (0.05 if action else -0.05)


class Shared(Clean):
    """Returns its own array."""

    def move(self, action):
        self.state[:] = self.np_random.uniform(-1, 1, 2)

    def observed(self):
        return self.state


class SharedInfo(Clean):
    notes: dict = {}  # noqa: RUF012

    def info(self):
        return self.notes


class Raises(Clean):
    def move(self, action):
        super().move(action)
        if self.h == 7:
            raise ZeroDivisionError("no more fuel\nnor patience")


class Exits(Clean):
    def move(self, action):
        super().move(action)
        if self.h == 7:
            raise SystemExit(0)


class NoReset(Clean):
    def reset(self, *, seed=None, options=None):
        raise OSError("cannot start")


class OldReset(Clean):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OldStep(Clean):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class Endless(Clean):
    def step(self, action):
        self.h = 0
        return super().step(action)


class Talks(Clean):
    """Prints and warns."""

    def reset(self, *, seed=None, options=None):
        print("hello from reset")
        return super().reset(seed=seed)


class Text(Clean):
    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.observation_space = spaces.Text(8)


def copies(env_class, n, mode, **options):
    """A SyncVectorEnv of n parts in this reset mode."""
    return gymnasium.vector.SyncVectorEnv([lambda: env_class(**options)] * n, autoreset_mode=mode)


class Pooled(gymnasium.vector.VectorEnv):
    """Two parts that draw from one generator: takes a list of seeds, and mixes them up."""

    def __init__(self):
        self.num_envs = 2
        self.single_observation_space, self.single_action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)
        self.observation_space, self.action_space = spaces.Box(0, 1, (2, 1)), spaces.MultiDiscrete([2, 2])
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        return self.rng.random((2, 1)).astype(np.float32), {}

    def step(self, actions):
        none = np.zeros(2, dtype=bool)
        return self.rng.random((2, 1)).astype(np.float32), np.ones(2), none, none, {}
