"""Overtaking against oncoming traffic (highway-env, two-way-v0): learned at tau = 0.1 and at tau = 1.

A second of driving pays for speed (0.8 at full speed) and for the left lane (0.2), a crash ends the episode. Three
settings make it a question of risk. Speeds are 10, 20 and 30 m/s instead of 20, 25 and 30: the cars ahead slow down to
16, so that nobody who stays behind them could avoid a crash. A crash costs 30, as much as half a minute at full speed
(two-way-v0 ignores its own `collision_reward`: a crash late in the episode would cost nothing). The simulation runs at
3 Hz instead of 15, and only the own car looks for collisions, as in highway-fast-v0.

What is observed is cut into parts by hand: the lane, the speed, the gap to the car ahead (a car beside counts as none)
and the distance of the next car that comes up.

    python examples/driving.py [PICTURE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from shared import TAU, Task, compare, draw, judge, sized, target

from tailrank import cvar

SECONDS, CRASH = 15, 30.0
GAPS = (9.0, 16.0, 25.0, 40.0)
"""Metres to the car ahead at which one part ends and the next begins; a car up to 9 metres behind is beside."""
ONCOMING = (40.0, 80.0, 130.0, 200.0, 300.0)
LEFT, IDLE, RIGHT, FASTER, SLOWER = range(5)


class Parts(gymnasium.Wrapper):
    """Observations [4]: left lane or not, speed 0..2, gap ahead 0..4, distance of the next oncoming car 0..5."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0.0, 5.0, (4,), np.float64)

    def reset(self, **options: Any) -> tuple[np.ndarray, dict]:
        _, info = self.env.reset(**options)
        road = self.env.unwrapped
        for car in road.road.vehicles:
            car.check_collisions = car is road.vehicle
        return self._seen(), info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        _, reward, terminated, truncated, info = self.env.step(action)
        crashed = self.env.unwrapped.vehicle.crashed
        return self._seen(), round(reward - CRASH * crashed, 6), terminated, truncated, info

    def _seen(self) -> np.ndarray:
        own = self.env.unwrapped.vehicle
        ahead = oncoming = np.inf
        for car in self.env.unwrapped.road.vehicles:
            away = car.position[0] - own.position[0]
            if car is own:
                continue
            if car.lane_index[0] == "b":
                oncoming = min(oncoming, away) if away > 0 else oncoming
            elif away > -GAPS[0]:
                ahead = min(ahead, away)
        left = own.target_lane_index[2] == 0
        return np.array(
            [left, own.speed_index, np.searchsorted(GAPS, ahead), np.searchsorted(ONCOMING, oncoming)], float
        )


def road() -> gymnasium.Env:
    import highway_env  # noqa: F401 (registers)

    settings = {
        "simulation_frequency": 3,
        "action": {"type": "DiscreteMetaAction", "target_speeds": [10, 20, 30]},
        "observation": {"type": "AttributesObservation", "attributes": ["time"]},
    }
    return Parts(gymnasium.make("two-way-v0", disable_env_checker=True, config=settings))


TASK = Task(road, SECONDS, episodes=816)


class Rule:
    """A rule on the four parts, to see what the road allows; it has no memory."""

    def __init__(self, choose: Callable[[int, int, int, int], int]) -> None:
        self.choose = choose

    def start(self, n: int) -> np.ndarray:
        return np.zeros(n)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        return np.array([self.choose(*map(int, row)) for row in states])

    def update(self, h: int, moved: Any, memory: np.ndarray) -> np.ndarray:
        return memory


def follow(left: int, speed: int, gap: int, oncoming: int) -> int:
    """Stay behind: slowly when the car ahead is near."""
    wanted = 0 if gap <= 1 else 1 if gap <= 3 else 2
    return RIGHT if left else SLOWER if speed > wanted else FASTER if speed < wanted else IDLE


def overtake(left: int, speed: int, gap: int, oncoming: int) -> int:
    """Into the left lane unless a car is coming soon, and back when one comes and there is room."""
    if left:
        return RIGHT if oncoming <= 2 and gap >= 1 else FASTER if speed < 2 else IDLE
    return LEFT if oncoming >= 4 else follow(left, speed, gap, oncoming)


if __name__ == "__main__":
    with TASK.open() as simulator:
        for rule in (follow, overtake):
            x = judge(Rule(rule), simulator, 0, sized(TASK).fresh // 5)
            print(f"the rule {rule.__name__}: worst tenth {cvar(x, TAU):.2f}, mean {x.mean():.2f}")
    returns = compare(f"two-way-v0, {TASK.episodes} episodes", sized(TASK), "earned")
    draw(target("driving.png"), returns, "earned in 15 seconds")
