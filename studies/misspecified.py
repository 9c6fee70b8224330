"""How often *misspecified* is said of a model that is right, and of one that is not: blocks, low rank, and neither.

    python studies/misspecified.py [--seeds N] [--table]

Each of three kinds of simulator, drawn anew for every seed, is learned by a block decoder and by a low-rank model, from
so many episodes. A block decoder is right on locks alone, a low-rank model on locks and on the continuous family;
on the drift (x' = .8 x + a push by the action + noise) neither is. Rows stand in results/misspecified.jsonl and are
skipped when they are there; `--table` writes the table of docs/observations.md from them. The threshold was chosen on
seeds 0 and 1; the study begins at 900.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np
from scipy import stats

from tailrank import make_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.observed.doubts import missed_by
from tailrank.learning.registry import make_learner

HERE = Path(__file__).resolve().parent
ROWS, PAGE = HERE / "results" / "misspecified.jsonl", HERE.parent / "docs" / "observations.md"
FIRST, EPISODES, TAU = 900, (400,), 0.25
MODELS = {"mixture": "block decoder", "lowrank": "low rank"}
RIGHT = {("locks", "mixture"), ("locks", "lowrank"), ("continuous low rank", "lowrank")}


class Drift:
    """A walk in the plane that every action pushes in a direction of its own; 1 is paid near the middle."""

    name, n_actions, n_features, width, horizon, return_range = "drift", 4, 2, 1000, 6, (0.0, 6.0)

    def __init__(self, seed: int) -> None:
        self.turn = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi)

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """First observations [n, 2]."""
        self.rngs = [np.random.default_rng(int(seed)) for seed in seeds]
        self.x, self.h = np.array([rng.normal(size=2) for rng in self.rngs]), 0
        return self.x.copy()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards [n], observations [n, 2], whether it is over [n]."""
        angle, paid = self.turn + np.pi / 2 * np.asarray(actions), np.linalg.norm(self.x, axis=1) < 1.0
        push = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        self.x = 0.8 * self.x + 0.7 * push + 0.3 * np.array([rng.normal(size=2) for rng in self.rngs])
        self.h += 1
        return paid.astype(float), self.x.copy(), np.full(len(actions), self.h >= self.horizon)


TRUTHS = {
    "locks": lambda seed: make_simulator("rich-lock", horizon=3, n_actions=2, seed=seed),
    "continuous low rank": lambda seed: make_simulator(
        "continuous-lowrank", horizon=5, n_features=4, d=3, n_actions=3, instance=seed
    ),
    "drift": Drift,
}


def run(truth: str, model: str, episodes: int, seed: int) -> dict[str, Any]:
    """What the residuals of one model say."""
    simulator, streams = TRUTHS[truth](seed), Streams(seed)
    learner = make_learner("ela", "simulator", tau=TAU, model=model, batch=100)
    state = learner.init(simulator, streams)
    while state.episodes < episodes:
        state, _ = learner.step(state, simulator, streams)
    if isinstance(state, LowRankState) and state.fit is None:
        learner, state = learner.block, state.block
    found = missed_by(learner, state, simulator.n_actions, streams.planner(state.k, 1))
    about = {"truth": truth, "model": model, "episodes": episodes, "seed": seed}
    return about | {"share": found.share, "error": found.error, "said": bool(found.clear)}


def table(rows: list[dict[str, Any]]) -> str:
    """How often it was said, with the interval of Clopper and Pearson."""
    head = "| truth | model | episodes | runs | *misspecified* | 95% interval | share, median |"
    lines = [head, "| --- | --- " + "| ---: " * 5 + "|"]
    for truth in TRUTHS:
        for model, name in MODELS.items():
            for episodes in EPISODES:
                own = [r for r in rows if (r["truth"], r["model"], r["episodes"]) == (truth, model, episodes)]
                if own:
                    said, n = sum(r["said"] for r in own), len(own)
                    low, high = stats.binomtest(said, n).proportion_ci(0.95, method="exact")
                    right = "right" if (truth, model) in RIGHT else "wrong"
                    share = np.median([r["share"] for r in own])
                    ends = f"{low:.0%} to {high:.0%}"
                    lines.append(f"| {truth} | {name} ({right}) | {episodes} | {n} | {said} | {ends} | {share:.1%} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, or write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    if asked.table:
        mark = re.compile(r"(<!-- misspecified -->\n).*?(<!-- end misspecified -->)", re.S)
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(mark.sub(lambda found: f"{found[1]}{table(rows)}\n{found[2]}", text), encoding="utf-8")
        return
    done = {(r["truth"], r["model"], r["episodes"], r["seed"]) for r in rows}
    for seed in range(FIRST, FIRST + asked.seeds):
        for truth in TRUTHS:
            for model in MODELS:
                for episodes in EPISODES:
                    if (truth, model, episodes, seed) not in done:
                        row = run(truth, model, episodes, seed)
                        with ROWS.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
