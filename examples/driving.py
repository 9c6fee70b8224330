"""Overtaking on a road with oncoming traffic (highway-env, two-way-v0): learned at tau = 0.1 and at tau = 1.

A second of driving pays for speed and for the left lane, a crash ends the episode: the risk is what is not earned any
more. The simulation runs at 5 Hz instead of 15, which plays the same and three times as fast.

    python examples/driving.py [PICTURE]
"""

from __future__ import annotations

from typing import Any

from compare import Task, compare, draw, target

SECONDS = 15


def road() -> Any:
    import gymnasium
    import highway_env  # noqa: F401 (registers)

    return gymnasium.make("two-way-v0", disable_env_checker=True, config={"simulation_frequency": 5})


TASK = Task(road, SECONDS, (0.0, 1.0), 5, episodes=300, rank=16, alpha=0.0003, batch=10, pilot=60, trial=30, fresh=200)

if __name__ == "__main__":
    returns = compare("two-way-v0, 300 episodes", TASK, "earned")
    draw(target("driving.png"), returns, "earned in 15 seconds")
