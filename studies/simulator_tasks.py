"""Simulators of the study of kernel models and shortfall networks, after public tasks; all are plain Gymnasium.

trading   five numbers, five positions; returns with Student's t of 3 degrees of freedom and changing volatility
maze      a guarded maze as in CeSoR (Greenberg et al. 2022): the short way pays a toll that is seldom and large
pole      CartPole with gusts, 100 steps, and a fall that costs 50
stock     perishable stock of three ages with random demand, eight order sizes
hover     a craft in turbulent wind that must not leave its band
lava      MiniGrid's DistShift1 with slips
lander    LunarLander-v3 with wind
shop      or-gym's lost-sales supply chain of three stages, orders of 0, 20 or 40 each
driving   highway-env's two-way-v0 with a costly crash (see examples/driving.py)
merge     highway-env's merge-v1, at 5 Hz
sepsis    ICU-Sepsis, paid in quality-adjusted time (see examples/sepsis.py); the simulator's own 0 or 1 has no tail
"""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))


class Trading(gymnasium.Env):
    """Hold -2..2 of an asset that reverts to a mean; costs for trading; H = 50."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.price, self.volatility, self.position, self.last, self.h = 0.0, 1.0, 0, 0.0, 0
        return self._seen(), {}

    def _seen(self):
        return np.array([self.price, self.volatility, self.position, self.last, self.h / 50], dtype=np.float32)

    def step(self, action):
        position = int(action) - 2
        cost = 0.1 * abs(position - self.position)
        shock = self.volatility * self.np_random.standard_t(3) / np.sqrt(3)
        move = -0.2 * self.price + 0.5 * shock
        self.volatility = 0.85 * self.volatility + 0.15 * (0.4 + abs(shock))
        self.price, self.last, self.position, self.h = self.price + move, move, position, self.h + 1
        return self._seen(), position * move - cost, False, False, {}


class Maze(gymnasium.Env):
    """From the left to the goal on the right in [0, 8]^2 with walls; a guard on the short way costs 30 with p = .15."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 8.0, (2,), np.float32)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.array([1.0, 1.0]) + self.np_random.uniform(-0.5, 0.5, 2)
        self.guarded = False
        return self.place.astype(np.float32), {}

    def step(self, action):
        move = np.array([(0.8, 0.0), (-0.8, 0.0), (0.0, 0.8), (0.0, -0.8)][int(action)])
        there = np.clip(self.place + move + self.np_random.normal(0.0, 0.1, 2), 0.0, 8.0)
        wall = 3.0 < there[0] < 5.0 and 2.0 < there[1] < 6.5
        reward = -1.0
        if not wall:
            entered = 3.0 < there[0] < 5.0 and there[1] <= 2.0 and not 3.0 < self.place[0] < 5.0
            self.place = there
            if entered and self.np_random.random() < 0.15:
                reward -= 30.0
        done = bool(self.place[0] > 7.0 and self.place[1] < 2.0)
        return self.place.astype(np.float32), reward, done, False, {}


class Pole(gymnasium.Env):
    """CartPole whose pole is pushed by gusts now and then; a step pays 0.1, a fall costs 50."""

    def __init__(self) -> None:
        self.inner = gymnasium.make("CartPole-v1").unwrapped
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        seen, _ = self.inner.reset(seed=int(self.np_random.integers(2**31)))
        return seen, {}

    def step(self, action):
        seen, _, fell, _, _ = self.inner.step(int(action))
        if self.np_random.random() < 0.05:
            x, v, theta, w = self.inner.state
            self.inner.state = (x, v, theta, w + self.np_random.normal(0.0, 0.6))
            seen = np.array(self.inner.state, dtype=np.float32)
        return seen, -50.0 if fell else 0.1, bool(fell), False, {}


class Stock(gymnasium.Env):
    """Goods that last three days; orders arrive the next day; demand is Poisson with a season; H = 25."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = spaces.Discrete(8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.coming, self.demand, self.h = np.array([0.0, 0.0, 10.0]), 0.0, 8.0, 0
        return self._seen(), {}

    def _seen(self):
        return np.array([*self.stock, self.coming, self.demand, np.sin(self.h / 4)], dtype=np.float32)

    def step(self, action):
        order = 3.0 * int(action)
        rate = 8.0 + 5.0 * np.sin(self.h / 4)
        shock = 3.0 if self.np_random.random() < 0.08 else 1.0
        self.demand = float(self.np_random.poisson(rate / shock))
        left, sold = self.demand, 0.0
        for age in range(3):
            taken = min(left, self.stock[age])
            self.stock[age] -= taken
            left, sold = left - taken, sold + taken
        spoiled = self.stock[0]
        self.stock = np.array([self.stock[1], self.stock[2], self.coming])
        self.coming, self.h = order, self.h + 1
        return self._seen(), 5.0 * sold - 2.0 * order - 1.0 * spoiled - 1.5 * left, False, False, {}


class Hover(gymnasium.Env):
    """A craft held at a height in turbulent wind; leaving the band ends the episode and costs 30; H = 120."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height, self.speed, self.wind = self.np_random.uniform(-0.3, 0.3), 0.0, 0.0
        return self._seen(), {}

    def _seen(self):
        return np.array([self.height, self.speed, self.wind], dtype=np.float32)

    def step(self, action):
        gust = 1.5 * self.np_random.standard_normal() if self.np_random.random() < 0.03 else 0.0
        self.wind = 0.9 * self.wind + 0.25 * self.np_random.standard_normal() + gust
        self.speed += 0.1 * (2.5 * (int(action) - 1) + 1.2 * self.wind + self.height)
        self.height += 0.1 * self.speed
        out = bool(abs(self.height) > 1.0)
        return self._seen(), -30.0 if out else 1.0 - abs(self.height) - 0.1 * (int(action) != 1), out, False, {}


class Lava(gymnasium.Wrapper):
    """MiniGrid-DistShift1-v0 with slips: a tenth of the actions is random, lava costs 1, a step 0.01; needs minigrid.

    Seen are the place and the direction, one-hot; actions are left, right and forward.
    """

    def __init__(self) -> None:
        import minigrid  # noqa: F401

        super().__init__(gymnasium.make("MiniGrid-DistShift1-v0").unwrapped)
        self.observation_space = spaces.MultiDiscrete([self.env.width, self.env.height, 4])
        self.action_space = spaces.Discrete(3)

    def _seen(self):
        return np.array([*self.env.agent_pos, self.env.agent_dir])

    def reset(self, *, seed=None, options=None):
        self.env.reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        if self.env.np_random.random() < 0.1:
            action = int(self.env.np_random.integers(3))
        _, reward, over, _, _ = self.env.step(int(action))
        return self._seen(), (1.0 if reward > 0 else -1.0 if over else 0.0) - 0.01, bool(over), False, {}


class Shop(gymnasium.ActionWrapper):
    """or_gym_inventory/InvManagementLostSales-v0 with 27 orders in place of a Box of thousands; H = 30."""

    def __init__(self) -> None:
        import or_gym_inventory  # noqa: F401

        super().__init__(gymnasium.make("or_gym_inventory/InvManagementLostSales-v0", disable_env_checker=True))
        self.action_space = spaces.Discrete(27)

    def action(self, action):
        return np.array([20 * (int(action) // 3**i % 3) for i in range(3)])


class Ward(gymnasium.Env):
    """ICU-Sepsis for ten blocks of four hours: one at home counts 1, one in intensive care 1/2, after death nothing.

    An action is one of the admissible treatments of the state (counted round). Needs icu_sepsis.
    """

    DEATH, HOME = 713, 714
    shared = None

    def __init__(self) -> None:
        from pathlib import Path

        import icu_sepsis
        from icu_sepsis.envs.sepsis import ICUSepsisEnv
        from icu_sepsis.utils.io import MDPParameters

        if Ward.shared is None:
            Ward.shared = MDPParameters(Path(icu_sepsis.__file__).parent / "envs" / "assets")
        self.inner = ICUSepsisEnv(params=Ward.shared)
        self.admissible = Ward.shared.admissible_actions
        most = max(len(doses) for doses in self.admissible[: self.DEATH])
        self.observation_space, self.action_space = spaces.Discrete(716), spaces.Discrete(most)

    def reset(self, *, seed=None, options=None):
        self.state, _ = self.inner.reset(seed=seed)
        return int(self.state), {}

    def step(self, action):
        if self.state == self.HOME:
            return self.HOME, 1.0, False, False, {}
        doses = self.admissible[self.state]
        self.state = self.inner.step(divmod(int(doses[int(action) % len(doses)]), 5))[0]
        reward = {self.DEATH: 0.0, self.HOME: 1.0}.get(int(self.state), 0.5)
        return int(self.state), reward, bool(self.state == self.DEATH), False, {}


def windy_lander():
    """LunarLander with wind; needs Box2D."""
    return gymnasium.make("LunarLander-v3", enable_wind=True, wind_power=15.0)


def two_way():
    """Overtaking against oncoming traffic; needs highway_env."""
    from driving import road

    return road()


def merging():
    """A car that comes in from a ramp; needs highway_env."""
    import highway_env  # noqa: F401

    settings = {"simulation_frequency": 5, "policy_frequency": 1}
    return gymnasium.make("merge-v1", disable_env_checker=True, config=settings)


TASKS = {
    "trading": (Trading, 50),
    "pole": (Pole, 100),
    "maze": (Maze, 60),
    "stock": (Stock, 25),
    "hover": (Hover, 120),
    "lava": (Lava, 60),
    "lander": (windy_lander, 400),
    "shop": (Shop, 30),
    "driving": (two_way, 15),
    "merge": (merging, 20),
    "sepsis": (Ward, 10),
}
"""What makes the environment, and its horizon."""
FOR_DEFAULTS = ("trading", "pole", "maze", "stock", "hover", "lava", "driving", "sepsis")
"""Tasks that were looked at when defaults were chosen; the others only judge."""


class Rule:
    """A rule of thumb on features: action = function(features [n, m])."""

    def __init__(self, function):
        self.function = function

    def start(self, n):
        return np.zeros(n)

    def act(self, h, states, memory):
        return self.function(np.asarray(states, dtype=float)).astype(np.int64)

    def update(self, h, moved, memory):
        return memory


def _follow(x):
    from driving import follow

    return np.array([follow(*map(int, row)) for row in x])


RULES = {
    # Against the price where it is far from its mean, less where it moves much.
    "trading": lambda x: 2 - np.sign(x[:, 0]) * (np.abs(x[:, 0]) > 1.0 * x[:, 1]),
    "pole": lambda x: x[:, 2] + 0.5 * x[:, 3] + 0.05 * x[:, 0] + 0.1 * x[:, 1] > 0,
    # Up on the left, to the right above the wall, down on the right.
    "maze": lambda x: np.where((x[:, 0] < 5.3) & (x[:, 1] < 7.0), 2, np.where(x[:, 0] < 7.3, 0, 3)),
    # Order up to two days of demand at its usual rate.
    "driving": _follow,
    "stock": lambda x: np.clip(np.round((18.0 - x[:, 1] - x[:, 2] - x[:, 3]) / 3.0), 0, 7),
}


def rule_of_thumb(task):
    """The rule for a task; None where there is none."""
    return Rule(RULES[task]) if task in RULES else None
