"""Does a Bernstein-type bonus that never stops exploring change how ELA's regret depends on tau and H?

    python studies/bernstein.py [SEEDS] [--first SEED] [--floors F...] [--episodes N] [--table]

Counts as the model, one whole episode of the last plan at a time, the risky shortcut; regret is summed over episodes:
CVaR* less the exact CVaR of the plan that was played. Floor -1 stands for ELA's own bonus, 0 for the Bernstein-type
bonus as it was, f > 0 for one whose part by visits has a scale of its own (`learning/ela/bernstein.py`). Finished runs
are kept in studies/results/bernstein_floor.json, so the command goes on where it was stopped; --table prints them.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np

from tailrank.envs import make_episodic
from tailrank.learning.judge import ExactJudge
from tailrank.learning.registry import make_learner
from tailrank.learning.train import train

KEPT = Path(__file__).parent / "results" / "bernstein_floor.json"
TAUS, SCALES = (0.05, 0.25, 1.0), (0.001, 0.0001)
CLOSE = 0.02
"""A run has settled if its last plan is within this share of CVaR*."""


def regret(horizon: int, tau: float, scale: float, floor: float, episodes: int, seed: int) -> tuple[float, bool]:
    """The sum over episodes of what the plans that were played fell short of, and whether the last one is good."""
    env = make_episodic("risky-shortcut", horizon=horizon)
    common = {"tau": tau, "model": "counts", "collect": "plan", "growth": 0.1, "alpha_scale": scale}
    more = {} if floor < 0 else {"floor": floor}
    learner = make_learner("ela" if floor < 0 else "ela-bernstein", **common, **more)
    judge = ExactJudge.of(learner, env)
    total, behind, before = 0.0, 0.0, 0
    for state, row in train(learner, env, iterations=10**9, seed=seed, judge=judge):
        total += behind * (min(state.episodes, episodes) - before)
        behind, before = max(judge.star - row["cvar"], 0.0), state.episodes
        if state.episodes >= episodes:
            break
    return total, behind <= CLOSE * abs(judge.star)


def cell(horizon: int, tau: float, scale: float, floor: float, episodes: int) -> str:
    """The name of a cell in the file."""
    return f"H={horizon} tau={tau:g} c={scale:g} floor={floor:g} episodes={episodes}"


def table(kept: dict[str, dict[str, list[float]]]) -> str:
    """Mean regret over the seeds, how many runs settled, and of how many."""
    lines = ["| cell | mean regret | largest | settled | seeds |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, runs in sorted(kept.items()):
        found = np.array(list(runs.values()))
        lines.append(
            f"| {name} | {found[:, 0].mean():,.1f} | {found[:, 0].max():,.1f} "
            f"| {int(found[:, 1].sum())} | {len(found)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, seed by seed, so that all cells have as many seeds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=int, nargs="?", default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--floors", type=float, nargs="+", default=[-1.0, 0.0, 0.1])
    parser.add_argument("--horizons", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    kept = json.loads(given.kept.read_text()) if given.kept.exists() else {}
    if not given.table:
        for seed in range(given.first, given.first + given.seeds):
            for horizon, tau, scale, floor in product(given.horizons, TAUS, SCALES, given.floors):
                runs = kept.setdefault(cell(horizon, tau, scale, floor, given.episodes), {})
                if str(seed) not in runs:
                    total, settled = regret(horizon, tau, scale, floor, given.episodes, seed)
                    runs[str(seed)] = [round(total, 3), int(settled)]
                    given.kept.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(table(kept))


if __name__ == "__main__":
    main()
