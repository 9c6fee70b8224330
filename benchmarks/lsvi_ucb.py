"""LSVI-UCB by the episode: `.venv/bin/python benchmarks/lsvi_ucb.py [--quick]`.

A chain of 5 states with 2 actions, one-hot features of the pairs (d = 10), 5 steps: a size at which the LSVI-UCB of
rlberry-scool was measured, on another machine, at 15.6 / 29.1 / 77.5 milliseconds an episode in runs of 50 / 100 / 200
episodes: it slows down with every episode. Milliseconds are processor time of playing, updating and
planning, without judging the plans; each is the mean over all episodes so far and, next to it, over the last fifth.
Prints a table, writes benchmarks/lsvi_ucb.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tailrank.envs.built_in.episodic import Episodic
from tailrank.envs.built_in.from_mdp import from_mdp
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.states.icvar import ICVaRLinear
from tailrank.learning.rivals.states.lsvi_ucb import LSVIUCB, CvarLSVIUCB, KnownFeatures
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP

EPISODES = (50, 100, 200, 1000, 5000)
PEER = {50: 15.6, 100: 29.1, 200: 77.5}
LEARNERS: dict[str, Callable[[float], KnownFeatures]] = {
    "lsvi-ucb": LSVIUCB,
    "cvar-lsvi-ucb": CvarLSVIUCB,
    "icvar-linear": ICVaRLinear,
}


def chain(n: int = 5, horizon: int = 5, slip: float = 0.1) -> Episodic:
    """Left or right along n states, which slips to the other side; the ends pay 0.1 and 1 (with one half)."""
    rows = []
    for s in range(n):
        ends = {0: [(0.1, 1.0)], n - 1: [(1.0, 0.5), (0.0, 0.5)]}.get(s, [(0.0, 1.0)])
        for a, towards in enumerate((-1, 1)):
            for move, p in ((towards, 1.0 - slip), (-towards, slip)):
                rows += [(s, a, min(max(s + move, 0), n - 1), p * q, r) for r, q in ends]
    env = from_mdp(FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=horizon, start=n // 2), name="chain")
    pairs = np.eye(2 * n).reshape(n, 2, 2 * n)
    steps = tuple(StepModel(pairs, step.kernel.reshape(2 * n, n)) for step in env.model.steps)
    return Episodic(env.name, env.truth, env.rewards, LowRankModel(steps, env.group), start=env.start)


def seconds(learner: KnownFeatures, env: Episodic, episodes: int) -> tuple[np.ndarray, int]:
    """Processor seconds of each episode, [n], and the number of plans."""
    state, streams, clock = learner.init(env, Streams(0)), Streams(0), np.empty(episodes + 1)
    clock[0] = time.process_time()
    for k in range(episodes):
        state, _ = learner.step(state, env, streams)
        clock[k + 1] = time.process_time()
    return np.diff(clock), state.plans


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 200 episodes, nothing is written")
    quick = parser.parse_args().quick
    env, sizes = chain(), [n for n in EPISODES if n <= 200 or not quick]
    rows = []
    print(f"{'learner':<15}{'episodes':>9}{'ms':>9}{'ms, last':>10}{'plans':>7}{'peer ms':>9}")
    for name, make in LEARNERS.items():
        seconds(make(0.1), env, 20)  # compilation, first imports
        for n in sizes:
            each, plans = seconds(make(0.1), env, n)
            row = {"learner": name, "episodes": n, "ms": 1e3 * each.mean(), "ms_last": 1e3 * each[-n // 5 :].mean()}
            rows.append(row | {"plans": plans})
            peer = f"{PEER[n]:>9.1f}" if n in PEER and name == "lsvi-ucb" else ""
            print(f"{name:<15}{n:>9}{row['ms']:>9.3f}{row['ms_last']:>10.3f}{plans:>7}{peer}")
    if not quick:
        result = {"peer_ms": PEER, "rows": rows, "python": platform.python_version(), "machine": platform.machine()}
        Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
