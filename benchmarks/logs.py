"""A log of a million transitions (700 states, 25 actions, 20 steps, 200 budgets): read, learned, and how much memory.

    python benchmarks/logs.py [--episodes N]        writes benchmarks/logs.json

Wall-clock and processor time are both kept: on a busy machine only the second says something. Kernels are compiled
before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from tailrank import learn_logs
from tailrank.envs.logs.read import read_log

RESULTS = Path(__file__).with_suffix(".json")
S, A, H, K = 700, 25, 20, 10


def made(episodes: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A log of a random process with K outcomes a pair and rewards 0..10, by a behaviour that prefers some actions."""
    after, reward = rng.integers(0, S, (S, A, K)), rng.integers(0, 11, (S, A, K)).astype(float)
    chance = rng.dirichlet(0.5 * np.ones(K), (S, A)).cumsum(axis=-1)
    taste = rng.dirichlet(0.3 * np.ones(A), S).cumsum(axis=1)
    state, columns = rng.integers(0, S, episodes), []
    for h in range(H):
        action = np.minimum((rng.random(episodes)[:, None] >= taste[state]).sum(axis=1), A - 1)
        outcome = np.minimum((rng.random(episodes)[:, None] >= chance[state, action]).sum(axis=1), K - 1)
        following = after[state, action, outcome]
        columns.append(
            (np.arange(episodes), np.full(episodes, h), state, action, reward[state, action, outcome], following)
        )
        state = following
    names = ("episode", "step", "state", "action", "reward", "next_state")
    return {
        name: np.stack(parts, axis=1).ravel() for name, parts in zip(names, zip(*columns, strict=True), strict=True)
    }


def timed(task):  # type: ignore[no-untyped-def]
    """What the task gives, and its wall-clock and processor seconds."""
    wall, work = time.perf_counter(), time.process_time()
    found = task()
    return found, {"wall": time.perf_counter() - wall, "processor": time.process_time() - work}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=50_000)
    episodes = parser.parse_args().episodes
    rng = np.random.default_rng(0)
    learn_logs(made(50, rng), 0.1)  # compiles
    frame, result = made(episodes, rng), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        with path.open("w") as file:
            file.write(",".join(frame) + "\n")
            np.savetxt(file, np.stack(list(frame.values()), axis=1), fmt="%g", delimiter=",")
        log, result["read csv"] = timed(lambda: read_log(path))
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            pass
        else:
            parquet.write_table(pyarrow.table(frame), Path(folder) / "log.parquet")
            log, result["read parquet"] = timed(lambda: read_log(Path(folder) / "log.parquet"))
    learned, result["learned"] = timed(lambda: learn_logs(log, 0.1))
    _, result["best bound only"] = timed(lambda: learn_logs(log, 0.1, caution=1.0, dynamics="same", diagnose=False))
    about = {
        "transitions": log.transitions,
        "budgets": int(learned.policy.offset[0, 1]),
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
    }
    RESULTS.write_text(json.dumps({"seconds": result} | about, indent=1) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
