"""ELA for other objectives: entropic, mean-CVaR and CVaR side by side, on the risky lock and on random low-rank MDPs.

    .venv/bin/python studies/objectives_learned.py [ENVIRONMENT ...]

prints a table and writes results/objectives_learned.json; rows of environments that are not named stay as they are.

Every run is ELA with its default settings and a class that holds the true model. Plans are judged exactly, by the
objective that they are made for; regret is counted in it. Seeds 100..109 were used for nothing else.
"""

import json
import sys
from pathlib import Path

import numpy as np
from _made_on import commit

from tailrank import CVaR, Entropic, MeanCVaR, ModelChoice, make_episodic, solve
from tailrank.learning.aim import Aim
from tailrank.learning.ela.ela import ELA
from tailrank.learning.train import train

SEEDS = range(100, 110)
ITERATIONS = 150
NEAR = 0.02
OBJECTIVES = (CVaR(0.1), MeanCVaR(0.1, weight=0.5), Entropic(0.5), Entropic(2.0))
OUT = Path(__file__).parent / "results" / "objectives_learned.json"


def environment(name, seed):
    """The lock is always the same, random low-rank MDPs are drawn by the seed."""
    if name == "risky-lock":
        return make_episodic("risky-lock", horizon=8, n_actions=5)
    return make_episodic("random-lowrank", horizon=5, n_states=20, n_actions=3, d=3, seed=seed)


def run(name, measure, seed):
    """Episodes until a plan is within 2% of the best value, the regret, and the value of the plan without bonus."""
    env = environment(name, seed)
    star = solve(env.truth, objective=measure).value
    learner = ELA(tau=getattr(measure, "tau", 0.1), goal=Aim.of(measure), oracle=ModelChoice("class"))
    near, regret, optimistic = None, 0.0, 0
    for _, row in train(learner, env, iterations=ITERATIONS, seed=seed):
        value = row.get("value", row["cvar"])
        regret += star - value
        optimistic += row["objective"] >= star - 1e-9
        if near is None and value >= star - NEAR * abs(star):
            near = row["episodes"]
    return {
        "environment": name,
        "objective": str(measure),
        "seed": seed,
        "star": star,
        "episodes_to_near": near,
        "regret": regret,
        "last": value,
        "optimistic": optimistic / ITERATIONS,
        "episodes": row["episodes"],
    }


def main():
    OUT.parent.mkdir(exist_ok=True)
    known = json.loads(OUT.read_text())["rows"] if OUT.exists() else []
    names = sys.argv[1:] or ["risky-lock", "random-lowrank"]
    rows = [row for row in known if row["environment"] not in names]
    for name in names:
        for measure in OBJECTIVES:
            rows += [run(name, measure, seed) | {"commit": commit()} for seed in SEEDS]
            print(table(rows[-len(SEEDS) :]), flush=True)
            OUT.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def table(rows):
    """One line of the table in docs/objectives.md."""
    near = [row["episodes_to_near"] for row in rows]
    reached = [n for n in near if n is not None]
    middle = f"{np.median(reached):.0f}" if len(reached) > len(rows) / 2 else "not reached"
    last = np.median([row["last"] / row["star"] for row in rows])
    regret, sure = np.median([row["regret"] for row in rows]), min(row["optimistic"] for row in rows)
    first = rows[0]
    return (
        f"| {first['environment']} | {first['objective']} | {np.median([r['star'] for r in rows]):.3f} | {middle} | "
        f"{len(reached)} of {len(rows)} | {last:.1%} | {regret:.3g} | {sure:.0%} |"
    )


if __name__ == "__main__":
    main()
