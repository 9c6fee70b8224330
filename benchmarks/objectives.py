"""What objectives cost on the benchmark problem, as ratios to one CVaR solve, measured in turns.

.venv/bin/python benchmarks/objectives.py [tiny|quick|full]     prints a table and writes benchmarks/objectives.json
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from problem import random_problem

from tailrank import FiniteMDP, solve
from tailrank.planning.objectives.efficient import efficient_frontier
from tailrank.risk.measures import CVaR, Entropic, EVaR, Expectile, MeanCVaR, Target, WorstCase

ROUNDS = 5


def main(size):
    problem = random_problem(size)
    mdp = FiniteMDP.from_rows(**problem.rows(), horizon=problem.horizon)
    frontiers = []
    contenders = {
        "CVaR": lambda: solve(mdp, objective=CVaR(0.1)),
        "CVaR, ties to the lowest action": lambda: solve(mdp, objective=CVaR(0.1), undominated=False),
        "entropic": lambda: solve(mdp, objective=Entropic(0.05)),
        "worst case": lambda: solve(mdp, objective=WorstCase()),
        "EVaR": lambda: solve(mdp, objective=EVaR(0.1)),
        "mean-CVaR": lambda: solve(mdp, objective=MeanCVaR(0.1, weight=0.3)),
        "target": lambda: solve(mdp, objective=Target(4.0 * problem.horizon)),
        "expectile": lambda: solve(mdp, objective=Expectile(0.1)),
        "efficient frontier": lambda: frontiers.append(efficient_frontier(mdp, 0.1)),
    }
    seconds = {name: [] for name in contenders}
    for i in range(ROUNDS + 1):
        for name, run in contenders.items():
            began = time.process_time()
            run()
            if i:
                seconds[name].append(time.process_time() - began)
    base = np.median(seconds["CVaR"])
    print("| objective | processor seconds | times one CVaR solve |\n|---|---:|---:|")
    summary = {}
    for name, found in seconds.items():
        middle = float(np.median(found))
        summary[name] = {"seconds": middle, "ratio": middle / base}
        print(f"| {name} | {middle:.3g} | {middle / base:.3g} |")
    last = frontiers[-1]
    print(f"frontier: {last.cvar.size} points, {last.inductions} inductions, gap at most {last.gap:.3g}")
    summary["frontier"] = {"points": last.cvar.size, "inductions": last.inductions, "gap": last.gap}
    Path(__file__).with_name("objectives.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "full")
