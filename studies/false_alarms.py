"""How often a model that is right does not keep its promise, and one that is wrong: small rich locks, of rank 3.

    python studies/false_alarms.py [LOCKS]

Writes studies/results/false_alarms.json and the table of docs/observations.md. The interval of fresh episodes misses in
a twentieth of all runs by itself; the promise has an error of its own, which the program allows for
(`learning/observed/doubts.py`). The ends of a share are those of Clopper and Pearson at 95%.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from scipy import stats

from tailrank import Discriminative, cvar_interval, make_simulator, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.observed.doubts import doubts
from tailrank.learning.observed.ela import ObservedELA

HERE = Path(__file__).resolve().parent
PATH, PAGE = HERE / "results" / "false_alarms.json", HERE.parent / "docs" / "observations.md"
EPISODES, TRIAL, FRESH, FIRST = 80, 50, 500, 10_000
RIGHT, WRONG = 3, (2, 1)


def run(seed: int, tau: float, rank: int) -> list[str]:
    """The doubts about one lock, learned and judged."""
    lock, streams = make_simulator("rich-lock", horizon=3, n_actions=2, seed=seed), Streams(seed)
    learner = ObservedELA(tau, Discriminative(rank=rank))
    state = learner.init(lock, streams)
    while state.episodes < EPISODES:
        state, _ = learner.step(state, lock, streams)
    policy = learner.output(state, lock, streams, TRIAL).policy
    returns = play_simulator(policy, lock, streams.evaluation_seeds(0, FRESH)).returns
    tail = cvar_interval(returns, tau, method="bca", rng=streams.evaluation(0, 1))
    return doubts(learner, state, lock, (tail.lower, tail.upper), streams.planner(state.k, 1))


def setting(tau: float, rank: int, locks: int) -> dict[str, Any]:
    """Counts over all locks."""
    said = {seed: run(seed, tau, rank) for seed in range(FIRST, FIRST + locks)}
    starts = ("overpromised", "too little data")
    counts = {word: sum(any(line.startswith(word) for line in lines) for lines in said.values()) for word in starts}
    low, high = stats.binomtest(counts["overpromised"], locks).proportion_ci(0.95, method="exact")
    alarms = {seed: lines for seed, lines in said.items() if lines}
    return {"tau": tau, "rank": rank, "locks": locks, "low": low, "high": high, "said": alarms} | counts


def main() -> None:
    """All settings: the right rank, then smaller ones."""
    locks = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    found = [setting(tau, RIGHT, locks) for tau in (1.0, 0.25)]
    found += [setting(tau, rank, locks // 4) for tau in (1.0, 0.25) for rank in WRONG]
    PATH.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    lines = [
        "| tau | rank of the model | locks | *overpromised* | 95% interval | *too little data* |",
        "| --- " + "| ---: " * 5 + "|",
    ]
    for row in found:
        rank = f"{row['rank']} ({'right' if row['rank'] == RIGHT else 'too small'})"
        share = f"{row['overpromised']} ({row['overpromised'] / row['locks']:.1%})"
        ends = f"{row['low']:.1%} to {row['high']:.1%}"
        lines.append(f"| {row['tau']:g} | {rank} | {row['locks']} | {share} | {ends} | {row['too little data']} |")
        print(lines[-1])
    made = "\n".join(lines)
    mark = re.compile(r"(<!-- alarms -->\n).*?(<!-- end -->)", re.S)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(mark.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
