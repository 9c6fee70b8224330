"""What the low-rank candidate of `auto` brings where episodes are short: with it, without it, and ELA alone.

    python studies/lowrank_candidate.py [CASE...]        all if none is given

Appends to studies/results/lowrank_candidate.jsonl, skips runs that are there, and writes
docs/lowrank_candidate_results.md. All simulators are our own; ELA is told that there are hidden states.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np
from _made_on import commit

import tailrank

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results" / "lowrank_candidate.jsonl", HERE.parent / "docs" / "lowrank_candidate_results.md"
FRESH = 4000
CASES: dict[str, tuple[str, dict[str, int], float, int, int]] = {
    "lowrank-lock, 4 steps": ("lowrank-lock", {"horizon": 4, "n_actions": 3}, 0.2, 1000, 5),
    "the same, 400 episodes": ("lowrank-lock", {"horizon": 4, "n_actions": 3}, 0.2, 400, 2),
    "rich-lock, 8 steps": ("rich-lock", {"horizon": 8, "n_actions": 4}, 0.1, 1000, 3),
    "continuous-lowrank, 8 steps": (
        "continuous-lowrank",
        {"horizon": 8, "n_features": 10, "d": 4, "n_actions": 4},
        0.1,
        1000,
        3,
    ),
}
"""Simulator, settings, tau, episodes, seeds (from 1 on)."""
METHODS: dict[str, dict[str, Any]] = {
    "without": {"algorithm": "auto", "lowrank_horizon": 0},
    "with": {"algorithm": "auto"},
    "ELA": {"algorithm": "ela"},
}


def run(case: str, method: str, seed: int) -> dict[str, Any]:
    """Learn, and judge on fresh episodes."""
    name, settings, tau, episodes, _ = CASES[case]
    env, began = tailrank.make_simulator(name, **settings), time.process_time()
    learned = tailrank.learn(env, tau=tau, episodes=episodes, seed=seed, **METHODS[method])
    seconds = round(time.process_time() - began, 1)
    found = {"cvar": learned.evaluate(episodes=FRESH).cvar, "best": float(env.optimum(tau)), "seconds": seconds}
    return {"case": case, "method": method, "seed": seed} | found | {"commit": commit()}


def page(rows: list[dict[str, Any]]) -> str:
    """CVaR of every seed, and the mean of processor seconds."""
    lines = [
        "| simulator | tau | episodes | best | without | with | ELA |",
        "| --- | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for case, (_, _, tau, episodes, _) in CASES.items():
        mine = [row for row in rows if row["case"] == case]
        cells = [f"| {case} | {tau:g} | {episodes:,} | {mine[0]['best']:.3g} " if mine else f"| {case} | | | "]
        for method in METHODS:
            own = sorted((row for row in mine if row["method"] == method), key=lambda row: row["seed"])
            values = ", ".join(f"{row['cvar']:.2f}" for row in own)
            cells.append(f"| {values} ({np.mean([row['seconds'] for row in own]):.0f} s) " if own else "| ")
        lines.append("".join(cells) + "|")
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    return (
        "\n".join([*lines, "", f"CVaR in {FRESH:,} fresh episodes, one for each seed; processor seconds. {commits}."])
        + "\n"
    )


def main() -> None:
    """Run what is missing, write the page."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.is_file() else []
    done = {(row["case"], row["method"], row["seed"]) for row in rows}
    for case in sys.argv[1:] or CASES:
        keys = [(case, method, seed) for method in METHODS for seed in range(1, CASES[case][-1] + 1)]
        for key in (key for key in keys if key not in done):
            rows.append(run(*key))
            with RESULTS.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(json.dumps(rows[-1]), flush=True)
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
