"""Kernel models and shortfall networks on simulators beside deep rivals, at equal numbers of environment steps.

    python studies/simulators_kernel.py [--tasks NAME ...] [--methods NAME ...] [--steps N ...] [--seeds N] [--tau T]
                                        [--table]

A run is a task, a method, a number of steps, a seed and a tau; its line is appended to
studies/results/simulators_kernel.jsonl when it is done, and runs that are there already are skipped, so that the study
can be stopped and taken up again. --table writes docs/simulators_kernel_results.md from the file. Steps of the choice
among outputs count as steps.

Tasks: `trading`, `pole`, `maze` and `hover` were used, with seeds 0 to 5, to choose defaults, and `stock` with seed 0
(the crossed plan; how outcomes are made); so were `lava` (seeds 5 to 7, and 100 with 15,000 steps), `driving` (seed 31)
and `sepsis` (episodes drawn from its table) for observations that can be numbered, and CartPole-v1, Taxi-v4,
MountainCar-v0 and CliffWalking-v1 for the exploration. The others only judge, and seeds that are reported begin at 100.
qr-dqn and ppo need the extra `deep`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gymnasium
from _made_on import commit
from _simulators_page import FIXED, METHODS, STEPS, TORCH, page
from simulator_tasks import TASKS, rule_of_thumb

from tailrank import cvar, cvar_interval
from tailrank.envs import open_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import make_learner
from tailrank.learning.rivals.observations.equal_steps import trained_rival
from tailrank.policies.tables import UniformPolicy

RESULTS, PAGE = HERE / "results" / "simulators_kernel.jsonl", HERE.parent / "docs" / "simulators_kernel_results.md"
TAU, FIRST, FRESH, WIDTH = 0.1, 100, 2000, 8
NAMES = {"qr-dqn-mean": "qr-dqn by mean", "qr-dqn-cvar": "qr-dqn by cvar", "cvar-gradient": "cvar gradient"}
FEWER = {"lander": 500}
"""Fresh episodes where 2,000 would take longer than the training."""


def run(task: str, method: str, steps: int, seed: int, tau: float) -> dict[str, object]:
    """Train with so many steps for the tail tau, judge on fresh episodes."""
    make, horizon = TASKS[task]
    with open_simulator(make, horizon=horizon, width=WIDTH) as env:
        streams, begun = Streams(seed), time.process_time()
        policy, about = trained(task, method, env, steps, tau, streams)
        seconds = time.process_time() - begun
        returns = play_simulator(policy, env, streams.evaluation_seeds(0, FEWER.get(task, FRESH))).returns
    found = cvar_interval(returns, tau, 0.95, rng=streams.evaluation(0, 1))
    row = {"task": task, "method": method, "steps": steps, "seed": seed, "tau": tau, "cvar": cvar(returns, tau)}
    row |= {"low": found.lower, "high": found.upper, "mean": float(returns.mean()), "seconds": round(seconds, 1)}
    return row | about | {"commit": commit()}


def trained(task, method, env, steps, tau, streams):
    """The policy of a method after about so many steps, and what it says about itself."""
    if method == "uniform":
        return UniformPolicy(env.n_actions, env.horizon, streams.planner(0)), {}
    if method == "rule":
        return rule_of_thumb(task), {}
    if method in ("kernel", "search", "shortfall-dqn", "budget-ppo", "auto"):
        learner = replace(make_learner(method, "simulator", tau=tau), total_steps=steps)
        state = learner.init(env, streams)
        while not learner.over(state, env.horizon):
            state, _ = learner.step(state, env, streams)
        returned = learner.choose(state, env, streams)
        about = {"played": state.steps, "returned": returned.returned, "promise": returned.about["promise"]}
        return returned.policy, about
    policy, played = trained_rival(NAMES.get(method, method), env, steps, tau, streams)
    return policy, {"played": played}


def rows() -> list[dict]:
    """What was run; lines without a tau are older than that setting."""
    lines = RESULTS.read_text().splitlines() if RESULTS.is_file() else []
    return [{"tau": TAU} | json.loads(line) for line in lines]


def possible(task: str, method: str) -> bool:
    """Whether the rule, or the package that a method or task needs, is there; says so where it is not."""
    if method == "rule":
        return rule_of_thumb(task) is not None
    needs = {"sb3_contrib": method in TORCH, "highway_env": task in ("driving", "merge")}
    needs |= {"Box2D": task == "lander", "icu_sepsis": task == "sepsis", "minigrid": task == "lava"}
    needs |= {"or_gym_inventory": task == "shop"}
    missing = [name for name, needed in needs.items() if needed and find_spec(name) is None]
    if missing:
        print(f"{task}, {method}: left out, {', '.join(missing)} is not installed", flush=True)
    return not missing


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--tasks", nargs="*", default=list(TASKS))
    options.add_argument("--methods", nargs="*", default=list(METHODS))
    options.add_argument("--steps", nargs="*", type=int, default=list(STEPS))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--tau", type=float, default=TAU)
    options.add_argument("--table", action="store_true")
    given = options.parse_args()
    if given.table:
        PAGE.write_text(page(rows()))
        return
    done = {(r["task"], r["method"], r["steps"], r["seed"], r["tau"]) for r in rows()}
    for seed in range(FIRST, FIRST + given.seeds):
        for steps in given.steps:
            for task in given.tasks:
                for method in given.methods:
                    key = (task, method, 0 if method in FIXED else steps, seed, given.tau)
                    if key in done or not possible(task, method):
                        continue
                    row = run(*key)
                    done.add(key)
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    main()
