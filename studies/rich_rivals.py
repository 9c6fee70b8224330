"""How far the rivals of `tailrank.learning.rivals.observations` get on the rich lock.

Writes studies/results/rich_rivals.json.

    python studies/rich_rivals.py            # needs tailrank[deep] for QR-DQN and C51, left out otherwise
    python studies/rich_rivals.py --quick    # a few hundred episodes, to try the machinery
    python studies/rich_rivals.py --keep     # only the runs that the results lack

A run is one seed, which fixes lock and learner. It is solved when the CVaR at tau = .1 of the returned policy over 2000
fresh episodes is within 5% of CVaR* = .8. Rewards, latents and the map to observations are unknown to all.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.learn import learn
from tailrank.learning.registry import make_learner
from tailrank.risk.law import cvar

PATH = Path(__file__).resolve().parent / "results" / "rich_rivals.json"
TAU, SOLVED, FRESH = 0.1, 0.95, 2000
LONG, SHORT = {"horizon": 10, "n_actions": 10}, {"horizon": 5, "n_actions": 4}


@dataclass(frozen=True)
class Job:
    """One run."""

    label: str
    rival: str
    lock: dict[str, object]
    episodes: int
    seed: int
    settings: dict[str, object] = field(default_factory=dict)


VARIANTS: list[tuple[str, str, dict[str, object]]] = [
    ("GCVaR, linear", "policy-gradient", {}),
    ("GCVaR, linear, tracked quantile", "policy-gradient", {"track": "lagrangian"}),
    ("soft, linear", "policy-gradient", {"soft": True}),
    ("soft, linear, entropy .01", "policy-gradient", {"soft": True, "entropy": 0.01}),
    ("soft, linear, tracked quantile", "policy-gradient", {"soft": True, "track": "lagrangian"}),
    ("soft, 64 hidden", "policy-gradient", {"soft": True, "hidden": (64,)}),
    ("bins, 8 projections in 2", "bins", {}),
    ("bins, 3 projections in 6", "bins", {"projections": 3, "cells": 6}),
    ("bins, every feature in 3", "bins", {"projections": None, "cells": 3}),
    ("QR-DQN, acts by CVaR", "qr-dqn", {}),
    ("QR-DQN, acts by mean", "qr-dqn", {"act": "mean"}),
    ("C51, acts by CVaR", "c51", {}),
]


def jobs(quick: bool, seeds: int) -> list[Job]:
    """All runs: 5,000 episodes for everybody, 50,000 for the gradients, which are cheap."""
    found = []
    deep = find_spec("sb3_contrib") is not None
    for lock in (LONG, SHORT):
        for label, rival, settings in VARIANTS:
            if rival in ("qr-dqn", "c51") and not deep:
                continue
            lengths = (5_000, 50_000) if rival == "policy-gradient" else (5_000,)
            for episodes in (300,) if quick else lengths:
                found += [Job(label, rival, lock, episodes, seed, settings) for seed in range(seeds)]
    return found


def run(job: Job) -> dict[str, object]:
    """Train and judge."""
    begun = time.process_time()
    lock = rich_lock(**job.lock, seed=job.seed)
    rival = make_learner(job.rival, "simulator", tau=TAU, **job.settings)
    policy = learn(lock, rival, episodes=job.episodes, seed=job.seed).policy
    seconds = time.process_time() - begun
    returns = play_simulator(policy, lock, Streams(job.seed).evaluation_seeds(0, FRESH)).returns
    value = cvar(returns, TAU)
    return asdict(job) | {
        "cvar": value,
        "mean": float(returns.mean()),
        "star": lock.optimum(TAU),
        "solved": bool(value >= SOLVED * lock.optimum(TAU) - 1e-12),
        "processor_seconds": seconds,
    }


def key(run: dict) -> str:
    """What tells a run from others."""
    return json.dumps([run[name] for name in ("label", "rival", "lock", "episodes", "seed", "settings")])


def table(runs: list[dict]) -> list[dict[str, object]]:
    """One row for each variant, lock and length."""
    rows = []
    for lock, label, episodes in dict.fromkeys((json.dumps(r["lock"]), r["label"], r["episodes"]) for r in runs):
        own = [r for r in runs if (json.dumps(r["lock"]), r["label"], r["episodes"]) == (lock, label, episodes)]
        rows.append(
            {
                "lock": own[0]["lock"],
                "label": own[0]["label"],
                "episodes": own[0]["episodes"],
                "seeds": len(own),
                "solved": sum(r["solved"] for r in own),
                "cvar_median": float(np.median([r["cvar"] for r in own])),
                "cvar_best": max(r["cvar"] for r in own),
                "mean_median": float(np.median([r["mean"] for r in own])),
                "processor_seconds_median": float(np.median([r["processor_seconds"] for r in own])),
            }
        )
    return rows


def main() -> None:
    """Run everything, save after each run, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few hundred episodes and two seeds; saves nothing")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="keep the runs there are")
    parser.add_argument("--workers", type=int, default=2)
    choice = parser.parse_args()
    os.environ |= {"TAILRANK_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    wanted = jobs(choice.quick, 2 if choice.quick else choice.seeds)
    runs: list[dict] = json.loads(PATH.read_text())["runs"] if choice.keep else []
    done = {key(r) for r in runs}
    wanted = [job for job in wanted if key(asdict(job)) not in done]
    with ProcessPoolExecutor(choice.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for result in pool.map(run, wanted):
            runs.append(result)
            if not choice.quick:
                content = {"study": "rich_rivals", "tau": TAU, "noise": 0.1, "table": table(runs), "runs": runs}
                PATH.write_text(json.dumps(content, indent=1) + "\n")
    for row in table(runs):
        lock = f"H = {row['lock']['horizon']}, A = {row['lock']['n_actions']}"
        print(
            f"| {lock} | {row['label']} | {row['episodes']} | {row['solved']}/{row['seeds']} | "
            f"{row['cvar_median']:.2f} | {row['cvar_best']:.2f} | {row['mean_median']:.2f} | "
            f"{row['processor_seconds_median']:.0f} |"
        )


if __name__ == "__main__":
    main()
