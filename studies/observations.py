"""Learning from observations: episodes until the policy without bonus is within 5% of the best CVaR.

    python studies/observations.py [GROUP ...]      all groups, or some; runs that are finished are skipped

Every run is a line of studies/results/observations.jsonl. The tables in docs/observations_results.md are made from it.
Seeds 10 to 14: none of them was used while the method was built.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _made_on import commit

from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.observed.ela import ObservedELA
from tailrank.risk.law import cvar

ROOT = Path(__file__).resolve().parent
RUNS = ROOT / "results" / "observations.jsonl"
PAGE = ROOT.parent / "docs" / "observations_results.md"
SEEDS = range(10, 15)


def lock(H: int, A: int, **more):
    """A lock, the limit on its episodes and what of the optimum counts as solved."""
    return {"env": {"horizon": H, "n_actions": A} | more.pop("env", {}), "limit": 4000, "share": 0.95} | more


GROUPS = {
    "lock": [
        lock(5, 4, limit=300),
        lock(10, 10, limit=700),
        lock(20, 10, limit=1600),
        lock(50, 10, limit=4000, batch=2),
        lock(100, 10, limit=8000, batch=2),
    ],
    "noise": [lock(50, 10, env={"noise": 0.2}, batch=2, share=0.95 * 0.73 / 0.8)],
    "nonlinear": [lock(50, 10, env={"view": "nonlinear"}, rank=5, batch=2)],
    "undecodable": [lock(10, 10, env={"noise": 0.3}, batch=2, limit=3000, share=2.0)],
    "briee": [lock(3, 10, env={"briee": True}, tau=1.0, limit=450)],
    "dimension": [lock(10, 10, env={"dimension": m}, limit=2000) for m in (16, 64, 128, 256, 512)],
    "distinct": [lock(10, 10, env={"distinct": n}, limit=2000) for n in (10, 100, 1000)],
    "rank": [lock(10, 10, rank=r, limit=2000) for r in (2, 5, 8)],
    "neural": [lock(10, 10, model="neural", limit=2000), lock(20, 10, model="neural", limit=3000, batch=4)],
}


def run(setting: dict, seed: int) -> dict:
    """One run: the curve of (episodes, CVaR of the greedy policy in 1,000 fresh episodes) and when it was solved."""
    env = rich_lock(**setting["env"], seed=seed)
    tau = setting.get("tau", 0.1)
    oracle = Discriminative(rank=setting.get("rank", 3), model=setting.get("model", "mixture"))
    learner = ObservedELA(tau, oracle, batch=setting.get("batch", 1))
    streams, began, curve, solved = Streams(seed), time.process_time(), [], None
    state = learner.init(env, streams)
    while state.episodes < setting["limit"] and solved is None:
        state, info = learner.step(state, env, streams)
        if info.refitted or state.episodes >= setting["limit"]:
            policy = learner.greedy(state, env)
            found = cvar(play_simulator(policy, env, streams.evaluation_seeds(state.k, 1000)).returns, tau)
            curve.append([state.episodes, round(found, 6)])
            if found >= setting["share"] * env.optimum(tau):
                solved = state.episodes
    return {
        "seed": seed,
        "solved": solved,
        "seconds": round(time.process_time() - began, 2),
        "curve": curve,
        "held_out": info.held_out,
        "latents": info.latents,
        "chosen": state.fitted.chosen,
    }


def main(names: list[str]) -> None:
    """Run what is missing of the groups and write the page."""
    done = {which(r) for r in read() if not r.get("earlier")}
    for name in names or GROUPS:
        for setting in GROUPS[name]:
            for seed in SEEDS:
                key = json.dumps([name, setting, seed], sort_keys=True)
                if key in done:
                    continue
                row = {"group": name, "setting": setting} | run(setting, seed) | {"commit": commit()}
                RUNS.parent.mkdir(exist_ok=True)
                with RUNS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, setting["env"], seed, row["solved"], row["seconds"], flush=True)
    page()


def which(run: dict) -> str:
    """What tells runs apart."""
    return json.dumps([run["group"], run["setting"], run["seed"]], sort_keys=True)


def read() -> list[dict]:
    """All finished runs; one that was made before the lock drew its numbers by episode only until it is made again."""
    runs = [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []
    again = {which(r) for r in runs if not r.get("earlier")}
    return [r for r in runs if not r.get("earlier") or which(r) not in again]


def interval(values: list[float], rng: np.random.Generator) -> str:
    """Median with a 95% bootstrap interval."""
    medians = np.median(rng.choice(values, size=(2000, len(values))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return f"{np.median(values):,.0f} ({low:,.0f} to {high:,.0f})"


def page() -> None:
    """Write docs/observations_results.md."""
    rng = np.random.default_rng(0)
    rows = read()
    lines = [
        "# Results: learning from observations",
        "",
        "Made by `python studies/observations.py` (part of `make study`). Episodes until the policy without bonus has",
        "a CVaR within 5% of the best (tau = 0.1 unless said), judged by 1,000 fresh episodes at every fit of the",
        "decoder; medians over seeds with 95% bootstrap intervals. A run that was not solved counts as its limit.",
        "Seconds are processor time where a commit is given; rows without one are of older code and have seconds by",
        "the clock of a loaded two-core machine.",
    ]
    for name, settings in GROUPS.items():
        found = [r for r in rows if r["group"] == name]
        if not found:
            continue
        lines += [
            "",
            f"## {name}",
            "",
            "| setting | solved | episodes | limit | seconds | best CVaR seen | commit |",
            "| --- | --- | --- | ---: | --- | --- | --- |",
        ]
        for setting in settings:
            runs = [r for r in found if r["setting"] == json.loads(json.dumps(setting))]
            if not runs:
                continue
            episodes = [float(r["solved"] or setting["limit"]) for r in runs]
            solved = sum(r["solved"] is not None for r in runs)
            best = [max(c for _, c in r["curve"]) for r in runs]
            about = ", ".join(
                f"{k}={v}"
                for k, v in (
                    setting["env"] | {k: v for k, v in setting.items() if k in ("rank", "model", "tau")}
                ).items()
            )
            made = sorted({"earlier" if r.get("earlier") else r.get("commit", "not noted") for r in runs})
            lines.append(
                f"| {about} | {solved}/{len(runs)} | {interval(episodes, rng)} | {setting['limit']:,} | "
                f"{interval([r['seconds'] for r in runs], rng)} | {min(best):.3f} to {max(best):.3f} | "
                f"{', '.join(made)} |"
            )
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
