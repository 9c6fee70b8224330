"""Learning from images: the maze of `simulator_tasks` by its coordinates, by a picture of it, and by the plain pixels.

    python studies/images.py --steps 8000 --seeds 100 101 102

One line of JSON a run: CVaR at tau = 0.1 and mean of fresh episodes, what was returned, and processor seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

import numpy as np
from gymnasium import spaces
from simulator_tasks import Maze

from tailrank.envs import open_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import make_learner
from tailrank.risk.law import cvar

SIZE, TAU, HORIZON = 32, 0.1, 60
KINDS = ("coordinates", "images", "pixels")


class Room(Maze):
    """The maze from above: a blue spot, a dark wall, a red gate with the toll, a green goal; 32 x 32 x 3."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.down, self.across = (np.mgrid[0:SIZE, 0:SIZE] + 0.5) * 8.0 / SIZE
        inside = (self.across > 3) & (self.across < 5)
        self.empty = np.full((SIZE, SIZE, 3), 200.0)
        self.empty[inside & (self.down > 2) & (self.down < 6.5)] = 60.0
        self.empty[inside & (self.down <= 2)] = (200.0, 120.0, 120.0)
        self.empty[(self.across > 7) & (self.down < 2)] = (120.0, 220.0, 120.0)

    def picture(self) -> np.ndarray:
        """What is seen."""
        far = np.hypot(self.across - self.place[0], self.down - self.place[1])
        share = np.clip(1.5 - far / 0.35, 0.0, 1.0)[..., None]
        return (self.empty * (1.0 - share) + np.array([20.0, 40.0, 220.0]) * share).astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        """A fresh episode."""
        super().reset(seed=seed)
        return self.picture(), {}

    def step(self, action):
        """A step of the maze."""
        _, *rest = super().step(action)
        return self.picture(), *rest


def learned(kind: str, steps: int, seed: int, judged: int) -> dict[str, object]:
    """A run of the default learner, judged on fresh episodes."""
    env = open_simulator(Maze if kind == "coordinates" else Room, horizon=HORIZON, width=8)
    streams, begin = Streams(seed), time.process_time()
    learner = make_learner("auto", "simulator", tau=TAU, **({"images": "none"} if kind == "pixels" else {}))
    learner = replace(learner.prepared(env, streams, None), total_steps=steps)
    state = learner.init(env, streams)
    while not learner.over(state, env.horizon):
        state = learner.step(state, env, streams)[0]
    chosen = learner.choose(state, env, streams)
    seconds = time.process_time() - begin
    returns = play_simulator(chosen.policy, env, np.arange(1, 2 * judged, 2)).returns
    said = {"cvar": round(cvar(returns, TAU), 2), "mean": round(float(returns.mean()), 2), "returned": chosen.returned}
    return {"kind": kind, "steps": steps, "seed": seed} | said | {"seconds": round(seconds)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--judged", type=int, default=500)
    given = parser.parse_args()
    for seed in given.seeds:
        for kind in given.kinds:
            print(json.dumps(learned(kind, given.steps, seed, given.judged)), flush=True)
