"""Low-rank models of observations: how close to CVaR*, how many episodes, with and without the bonus.

    python studies/lowrank.py [GROUP ...]      all groups, or some; runs that are finished are skipped

Groups: `continuous` (the random family, sizes drawn by the seed), `lock` and `no-bonus` (the low-rank lock), `block`
(the rich lock, where a block decoder must stay in charge), `doubts` (how often "misspecified" is said, and of what).
Every run is a line of studies/results/lowrank.jsonl; docs/lowrank_results.md is made from it. The learner is the
default one, told nothing but the simulator. Seeds 100 to 104: none was used while the method was built.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.lowrank.ela import LowRankELA
from tailrank.risk.law import cvar

ROOT = Path(__file__).resolve().parent
RUNS = ROOT / "results" / "lowrank.jsonl"
PAGE = ROOT.parent / "docs" / "lowrank_results.md"
SEEDS = range(100, 105)
TAUS = (0.1, 1.0, 0.25, 0.05)
FRESH = 20_000


def sizes(seed: int) -> dict:
    """The sizes of the continuous family that belong to a seed."""
    rng = np.random.default_rng([7, seed])
    return {
        "d": int(rng.integers(3, 9)),
        "n_actions": int(rng.integers(3, 7)),
        "horizon": int(rng.integers(5, 21)),
        "n_features": int(rng.integers(2, 33)),
        "instance": seed,
    }


GROUPS = {
    "continuous": [{"env": "continuous-lowrank", "tau": tau, "marks": [500, 1000, 2000]} for tau in TAUS],
    "lock": [{"env": "lowrank-lock", "tau": 0.1, "limit": 3000, "share": 0.9}],
    "no-bonus": [{"env": "lowrank-lock", "tau": 0.1, "limit": 3000, "share": 0.9, "bonus": "none"}],
    "block": [
        {
            "env": "rich-lock",
            "tau": 0.1,
            "set": {"horizon": H, "n_actions": A},
            "limit": limit,
            "share": 0.95,
            "batch": b,
        }
        for H, A, limit, b in (
            (5, 4, 300, 1),
            (10, 10, 700, 1),
            (20, 10, 1600, 1),
            (50, 10, 4000, 2),
            (100, 10, 8000, 2),
        )
    ],
}


def run(setting: dict, seed: int) -> dict:
    """One run of the default learner: the share of CVaR* at the marks, or when it first reached a share of it."""
    more = sizes(seed) if setting["env"] == "continuous-lowrank" else setting.get("set", {})
    more = more | ({"instance": seed} if setting["env"] == "lowrank-lock" else {})
    more = more | ({"seed": seed} if setting["env"] == "rich-lock" else {})
    env, tau = make_simulator(setting["env"], **more), setting["tau"]
    star = env.optimum(tau)
    learner = LowRankELA(tau=tau, bonus=setting.get("bonus", "elliptical"), batch=setting.get("batch", 1))
    streams, began = Streams(seed), time.process_time()
    state, curve, solved = learner.init(env, streams), [], None
    marks, limit = list(setting.get("marks", [])), setting.get("limit", 0)
    spent = time.process_time() - began
    while marks or (limit and solved is None and state.episodes < limit):
        began = time.process_time()
        state, info = learner.step(state, env, streams)
        spent += time.process_time() - began
        at_mark = bool(marks) and state.episodes >= marks[0]
        if at_mark or (limit and (info.refitted or state.fit is not None or state.episodes >= limit)):
            policy = learner.output(state, env, streams, 0).policy if at_mark else learner.greedy(state, env)
            n = FRESH if at_mark else 2000
            found = cvar(play_simulator(policy, env, streams.evaluation_seeds(state.k, n)).returns, tau)
            promise = learner.promise(state, env)
            curve.append([state.episodes, round(found / star, 5), round(promise / star, 5), round(spent, 1)])
            if at_mark:
                marks.pop(0)
            elif found >= setting["share"] * star:
                solved = state.episodes
    return {"seed": seed, "sizes": more, "star": star, "solved": solved, "curve": curve, "model": state.chosen}


def main(names: list[str]) -> None:
    """Run what is missing of the groups, seed by seed, and write the page."""
    for name in names or GROUPS:
        for seed in SEEDS if name != "continuous" else [s for _ in GROUPS[name] for s in SEEDS]:
            for setting in GROUPS[name]:
                done = {which(r) for r in read()}
                if which({"group": name, "setting": setting, "seed": seed}) in done:
                    continue
                row = {"group": name, "setting": setting} | run(setting, seed)
                RUNS.parent.mkdir(exist_ok=True)
                with RUNS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, setting, seed, row["solved"], row["curve"][-1:], flush=True)
                if name == "continuous":
                    break  # every seed once before the next tau
    page()


def which(run: dict) -> str:
    """What tells runs apart."""
    return json.dumps([run["group"], run["setting"], run["seed"]], sort_keys=True)


def read() -> list[dict]:
    """All finished runs."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def page() -> None:
    """Write docs/lowrank_results.md."""
    rows = read()
    lines = [
        "# Results: low-rank models of observations",
        "",
        "Made by `python studies/lowrank.py` (part of `make study`) with the default learner, which chooses its model",
        "by likelihood. Seeds 100 to 104 were not used while it was built; what is missing has not been run yet.",
        "",
        "## The continuous family",
        "",
        "Share of CVaR* of the policy that is returned, in 20,000 fresh episodes; the sizes are drawn by the seed.",
        "Target: 97% after 500 episodes, 99% after 2,000. Seconds are of one processor, learning alone.",
        "",
        "| tau | seed | d, A, H, features | after 500 | 1,000 | 2,000 | promise at the end | seconds | model |",
        "| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for r in sorted((r for r in rows if r["group"] == "continuous"), key=lambda r: (r["setting"]["tau"], r["seed"])):
        s = r["sizes"]
        shares = " | ".join(f"{point[1]:.1%}" for point in r["curve"])
        size = f"{s['d']}, {s['n_actions']}, {s['horizon']}, {s['n_features']}"
        end = r["curve"][-1]
        lines.append(
            f"| {r['setting']['tau']} | {r['seed']} | {size} | {shares} | {end[2]:.1%} | {end[3]:.0f} | {r['model']} |"
        )
    lines += ["", *_medians([r for r in rows if r["group"] == "continuous"])]
    for name, title, share in (
        ("lock", "The low-rank lock, H = 10, A = 5", "90%"),
        ("no-bonus", "The same without bonus", "90%"),
        ("block", "The block lock", "95%"),
    ):
        found = [r for r in rows if r["group"] == name]
        lines += ["", f"## {title}", "", f"Episodes until the greedy plan has {share} of CVaR* (2,000 fresh episodes)."]
        lines += ["", "| setting | seed | solved | best share seen | model |", "| --- | ---: | ---: | ---: | --- |"]
        for r in sorted(found, key=lambda r: (json.dumps(r["setting"]), r["seed"])):
            best = max((point[1] for point in r["curve"]), default=0.0)
            size = f"H = {r['sizes'].get('horizon', 10)}, A = {r['sizes'].get('n_actions', 5)}"
            solved = f"{r['solved']:,}" if r["solved"] else f"not in {r['setting']['limit']:,}"
            lines.append(f"| {size} | {r['seed']} | {solved} | {best:.1%} | {r['model']} |")
    PAGE.write_text("\n".join(lines) + "\n")


def _medians(rows: list[dict]) -> list[str]:
    """Medians over the seeds at the marks, for each tau."""
    lines = []
    for tau in sorted({r["setting"]["tau"] for r in rows}):
        table = np.array([[point[1] for point in r["curve"]] for r in rows if r["setting"]["tau"] == tau])
        medians = ", ".join(f"{x:.1%}" for x in np.median(table, axis=0))
        lines.append(
            f"- tau = {tau}: medians over {len(table)} seeds {medians}; least {table[:, -1].min():.1%} at the end"
        )
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
