"""Choices of the low-rank learner side by side: what is played, what phi and psi are, who plans.

    python studies/lowrank_kinds.py [--one] [GROUP ...]      all groups, or some; runs that are finished are skipped

Groups: `collect` (whole episodes, roll-ins, as printed), `kinds` (phi and psi), `ella` (CVaR-LSVI against the exact
planner). Every run is a line of studies/results/lowrank_kinds.jsonl with its commit: the share of CVaR* in 5,000 fresh
episodes of the plan without bonus, after so many episodes. `--table` prints the tables of docs/lowrank_findings.md,
`--one` ends after one run.
Seeds 300 to 302: none was used before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from _made_on import commit

from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.lowrank.ela import LowRankELA
from tailrank.learning.lowrank.ella import LowRankELLA
from tailrank.risk.law import cvar

ROOT = Path(__file__).resolve().parent
RUNS = ROOT / "results" / "lowrank_kinds.jsonl"
SEEDS, TAU, FRESH = range(300, 303), 0.1, 5000
FAMILY = {"env": "continuous-lowrank", "set": {"horizon": 5, "n_features": 3}, "marks": [60, 150]}
LOCK = {"env": "lowrank-lock", "set": {"horizon": 4, "n_actions": 3}, "marks": [80, 200]}
GROUPS = {
    "collect": [one | {"collect": c} for one in (FAMILY, LOCK) for c in ("plan", "rollins", "printed")],
    "kinds": [FAMILY | {"marks": [150], "phi": phi} for phi in ("network", "features", "kernel", "forest")]
    + [FAMILY | {"marks": [150], "psi": "discriminative"}],
    "ella": [one | {"algorithm": "ella"} for one in (FAMILY, LOCK)],
}


def run(setting: dict, seed: int) -> dict:
    """One run: [episodes, share of CVaR*] at the marks."""
    env = make_simulator(setting["env"], **setting["set"], instance=seed)
    more = {name: setting[name] for name in ("collect", "phi", "psi") if name in setting}
    kind = LowRankELLA if setting.get("algorithm") == "ella" else LowRankELA
    streams, began, found = Streams(seed), time.process_time(), []
    learner = kind(TAU, Discriminative(model="lowrank", rank="auto"), **more).prepared(env, streams, None)
    state, star = learner.init(env, streams), env.optimum(TAU)
    for mark in setting["marks"]:
        while state.episodes < mark:
            state, _ = learner.step(state, env, streams)
        plan = learner.output(state, env, streams, 0).policy
        fresh = play_simulator(plan, env, streams.evaluation_seeds(state.k, FRESH)).returns
        found.append([state.episodes, round(cvar(fresh, TAU) / star, 4)])
    return {"curve": found, "held_out": state.fit.held_out, "seconds": round(time.process_time() - began, 1)}


def which(row: dict) -> str:
    """What tells runs apart."""
    return json.dumps([row["group"], row["setting"], row["seed"]], sort_keys=True)


def read() -> list[dict]:
    """All finished runs."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def table() -> None:
    """Print a row for each setting: the least, median and largest share at every mark, and processor seconds."""
    for name, settings in GROUPS.items():
        for setting in settings:
            runs = [r for r in read() if r["group"] == name and r["setting"] == setting]
            if not runs:
                continue
            said = ", ".join(str(setting[x]) for x in ("env", "algorithm", "collect", "phi", "psi") if x in setting)
            marks = []
            for i, mark in enumerate(setting["marks"]):
                shares = sorted(r["curve"][i][1] for r in runs)
                marks.append(f"{mark}: {shares[0]:.3f} / {shares[len(shares) // 2]:.3f} / {shares[-1]:.3f}")
            seconds = sorted(r["seconds"] for r in runs)
            print(f"| {said} | {'; '.join(marks)} | {len(runs)} | {seconds[len(runs) // 2]:.0f} |")


def main(names: list[str], one: bool) -> None:
    """Run what is missing, seed by seed; or one of it."""
    done = {which(r) for r in read()}
    for seed in SEEDS:
        for name in names or GROUPS:
            for setting in GROUPS[name]:
                row = {"group": name, "setting": setting, "seed": seed}
                if which(row) in done:
                    continue
                row |= run(setting, seed) | {"commit": commit()}
                RUNS.parent.mkdir(exist_ok=True)
                with RUNS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, row["setting"], seed, row["curve"], row["seconds"], flush=True)
                if one:
                    return


if __name__ == "__main__":
    given = [x for x in sys.argv[1:] if not x.startswith("--")]
    table() if "--table" in sys.argv else main(given, "--one" in sys.argv)
