"""How regret grows where a problem is not solved at once: the slope of log regret in log K, by half-decades.

    python studies/regret_slopes.py [--seeds N] [--seconds S] [--table]

Regret is that of the plans, exact (`learning/judge.py`). A slope of 1 is regret that grows as fast as at the start, 1/2
is the rate of the theorem, 0 is a problem that is solved. Finished runs stand in results/regret_slopes.jsonl and are
skipped; `--table` writes docs/regret_results.md from them. Seeds begin at 700 and were used for nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np

from tailrank import ELA, ModelChoice, make_episodic
from tailrank.learning.judge import ExactJudge
from tailrank.learning.schedule import PRACTICAL, THEORY
from tailrank.learning.train import train

HERE = Path(__file__).resolve().parent
ROWS, PAGE = HERE / "results" / "regret_slopes.jsonl", HERE.parent / "docs" / "regret_results.md"
FIRST = 700
INSTANCES: dict[str, tuple[str, dict[str, Any], float, str]] = {
    "walled lock, H = 8": ("walled-lock", {"horizon": 8, "n_states": 30}, 0.1, "class"),
    "conflict, H = 5": ("lowrank-conflict", {}, 0.1, "class"),
    "conflict, H = 5, counts": ("lowrank-conflict", {}, 0.1, "counts"),
    "risky shortcut, counts": ("risky-shortcut", {}, 0.1, "counts"),
    "risky shortcut, auto": ("risky-shortcut", {}, 0.1, "auto"),
    "decoy": ("decoy", {}, 0.75, "class"),
}
"""Environment, its settings, tau and model."""
CONSTANTS = {"practical": PRACTICAL, "theory": THEORY}
MARKS = (10, 32, 100, 316, 1000)
"""Iterations at which regret is noted: half-decades."""


def run(instance: str, constants: str, seed: int) -> dict[str, Any]:
    """Regret and the share of bonuses at their cap at every mark."""
    name, settings, tau, model = INSTANCES[instance]
    seeded = {} if name in ("risky-shortcut", "decoy") else {"seed": seed}
    env = make_episodic(name, **settings, **seeded)
    learner = ELA(tau, ModelChoice(model), CONSTANTS[constants])
    judge = ExactJudge.of(learner, env)
    regret, noted, capped = 0.0, [], []
    for _, row in train(learner, env, iterations=MARKS[-1], seed=seed, judge=judge):
        regret += judge.star - row["cvar"]
        if row["k"] in MARKS:
            noted.append(regret)
            capped.append(row["saturated"])
    return {
        "instance": instance,
        "constants": constants,
        "seed": seed,
        "star": judge.star,
        "regret": noted,
        "capped": capped,
        "last": judge.star - row["cvar"],
    }


def slopes(regret: list[float]) -> list[float]:
    """log R(b) / R(a) over log b / a for neighbouring marks; nan where there is no regret yet."""
    pairs = zip(regret, regret[1:], MARKS, MARKS[1:], strict=False)
    return [math.log(max(y, x) / x) / math.log(b / a) if x > 1e-9 else math.nan for x, y, a, b in pairs]


def table(rows: list[dict[str, Any]]) -> str:
    """The page."""
    ends = [f"{a} to {b}" for a, b in pairwise(MARKS)]
    lines = [
        "| instance, tau | constants | seeds | " + " | ".join(ends) + " | regret | of K CVaR* | bonuses at the cap |",
        "| --- | --- " + "| ---: " * (len(ends) + 4) + "|",
    ]
    for instance, (_, _, tau, _) in INSTANCES.items():
        for constants in CONSTANTS:
            own = [r for r in rows if (r["instance"], r["constants"]) == (instance, constants)]
            if not own:
                continue
            found = np.array([slopes(r["regret"]) for r in own])
            cells = ["no regret" if np.isnan(c).all() else _cell(c[~np.isnan(c)]) for c in found.T]
            end = np.array([r["regret"][-1] for r in own])
            share = np.median([r["regret"][-1] / (MARKS[-1] * r["star"]) for r in own])
            capped = np.median([r["capped"][-1] for r in own])
            lines.append(
                f"| {instance}, {tau:g} | {constants} | {len(own)} | "
                + " | ".join(cells)
                + f" | {np.median(end):.3g} | {share:.0%} | {capped:.0%} |"
            )
    return "\n".join(lines)


def _cell(values: np.ndarray) -> str:
    """The median, with the least and the most where there are several."""
    if values.size == 1:
        return f"{values[0]:.2f}"
    return f"{np.median(values):.2f} ({values.min():.2f} to {values.max():.2f})"


def main() -> None:
    """Run what is missing, seed after seed, as long as there is time; or write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    if asked.table:
        text = PAGE.read_text(encoding="utf-8")
        head, _, rest = text.partition("<!-- slopes -->\n")
        PAGE.write_text(
            f"{head}<!-- slopes -->\n{table(rows)}\n<!-- end -->{rest.partition('<!-- end -->')[2]}", "utf-8"
        )
        return
    done = {(r["instance"], r["constants"], r["seed"]) for r in rows}
    begun = time.monotonic()
    for seed in range(FIRST, FIRST + asked.seeds):
        for instance in INSTANCES:
            for constants in CONSTANTS:
                if (instance, constants, seed) in done or time.monotonic() - begun > asked.seconds:
                    continue
                row = run(instance, constants, seed)
                with ROWS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(instance, constants, seed, [f"{s:.2f}" for s in slopes(row["regret"])], flush=True)


if __name__ == "__main__":
    main()
