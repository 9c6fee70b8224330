"""How often a model that is right is called misspecified: small rich locks at tau = 1, rank 3 as it should be.

    python studies/false_alarms.py [LOCKS]

Writes studies/results/false_alarms.json. The interval of fresh episodes misses in a twentieth of all runs by itself;
the promise has an error of its own, which the program allows for (`learners/doubts.py`).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np

from tailrank import Discriminative, cvar_interval, make_simulator, play_simulator
from tailrank.learners.doubts import doubts, ranks
from tailrank.learners.observed import ObservedELA
from tailrank.streams import Streams

PATH = Path(__file__).resolve().parent / "results" / "false_alarms.json"
EPISODES, TRIAL, FRESH = 80, 50, 500


def run(seed: int) -> dict[str, object]:
    """One lock, learned and judged."""
    lock, streams = make_simulator("rich-lock", horizon=3, n_actions=2, seed=seed), Streams(seed)
    learner = ObservedELA(1.0, Discriminative(rank=3))
    state = learner.init(lock, streams)
    while state.episodes < EPISODES:
        state, _ = learner.step(state, lock, streams)
    policy = learner.output(state, lock, streams, TRIAL).policy
    returns = play_simulator(policy, lock, streams.evaluation_seeds(0, FRESH)).returns
    tail = cvar_interval(returns, 1.0, method="bca", rng=streams.evaluation(0, 1))
    said = doubts(learner, state, lock, (tail.lower, tail.upper), streams.planner(state.k, 1))
    needed, rank = ranks(learner, state, lock.n_actions, streams.planner(state.k, 1))
    return {"seed": seed, "needed": needed, "rank": rank, "doubts": said}


def main() -> None:
    """All locks."""
    locks = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    runs = [run(seed) for seed in range(100, 100 + locks)]
    alarms = sum(bool(r["doubts"]) for r in runs)
    needed = np.bincount([int(str(r["needed"])) for r in runs]).tolist()
    PATH.write_text(json.dumps({"locks": locks, "alarms": alarms, "needed": needed, "runs": runs}, indent=1) + "\n")
    print(f"{alarms} of {locks} locks called misspecified; ranks found (0, 1, 2, ..): {needed}")


if __name__ == "__main__":
    main()
