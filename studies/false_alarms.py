"""How often a model that is right does not keep its promise, and one that is wrong: small rich locks of rank 3, and the
continuous family of low rank (`misspecified.py`), of which a block decoder is a wrong model.

    python studies/false_alarms.py [RUNS]

Writes studies/results/false_alarms.json and the table of docs/observations.md. The interval of fresh episodes misses in
a twentieth of all runs by itself; the promise has an error of its own, which the program allows for
(`learning/observed/doubts.py`). The ends of a share are those of Clopper and Pearson at 95%.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from _made_on import commit
from misspecified import TRUTHS
from scipy import stats

from tailrank import Discriminative, cvar_interval, make_simulator, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.observed.doubts import doubts
from tailrank.learning.observed.ela import ObservedELA
from tailrank.learning.registry import make_learner

HERE = Path(__file__).resolve().parent
PATH, PAGE = HERE / "results" / "false_alarms.json", HERE.parent / "docs" / "observations.md"
EPISODES = {"locks": 80, "continuous low rank": 400}
TRIAL, FRESH, FIRST = 50, 500, 10_000
RIGHT, WRONG = 3, (2, 1)


def lock(seed: int, tau: float, rank: int) -> tuple[Any, Any]:
    """A small lock, and a learner with a decoder of this rank."""
    simulator = make_simulator("rich-lock", horizon=3, n_actions=2, seed=seed)
    return simulator, ObservedELA(tau, Discriminative(rank=rank))


def continuous(seed: int, tau: float, model: str) -> tuple[Any, Any]:
    """An MDP of low rank on R^4, and a learner with this model."""
    return TRUTHS["continuous low rank"](seed), make_learner("ela", "simulator", tau=tau, model=model, batch=100)


def run(simulator: Any, learner: Any, seed: int, episodes: int) -> list[str]:
    """The doubts about one problem, learned from so many episodes and judged."""
    streams = Streams(seed)
    state = learner.init(simulator, streams)
    while state.episodes < episodes:
        state, _ = learner.step(state, simulator, streams)
    policy = learner.output(state, simulator, streams, TRIAL).policy
    returns = play_simulator(policy, simulator, streams.evaluation_seeds(0, FRESH)).returns
    tail = cvar_interval(returns, learner.tau, method="bca", rng=streams.evaluation(0, 1))
    return doubts(learner, state, simulator, (tail.lower, tail.upper), streams.planner(state.k, 1))


def setting(truth: str, model: str, tau: float, made: Callable[[int], tuple[Any, Any]], runs: int) -> dict[str, Any]:
    """Counts over all runs."""
    said = {seed: run(*made(seed), seed, EPISODES[truth]) for seed in range(FIRST, FIRST + runs)}
    starts = ("overpromised", "too little data")
    counts = {word: sum(any(line.startswith(word) for line in lines) for lines in said.values()) for word in starts}
    low, high = stats.binomtest(counts["overpromised"], runs).proportion_ci(0.95, method="exact")
    alarms = {seed: lines for seed, lines in said.items() if lines}
    about = {"truth": truth, "model": model, "tau": tau, "runs": runs, "low": low, "high": high}
    return about | counts | {"commit": commit(), "said": alarms}


def settings(runs: int) -> Iterator[dict[str, Any]]:
    """All of them: the right model, then wrong ones."""
    for tau in (1.0, 0.25):
        for rank in (RIGHT, *WRONG):
            model, many = (
                f"rank {rank} ({'right' if rank == RIGHT else 'too small'})",
                runs if rank == RIGHT else runs // 4,
            )
            yield setting("locks", model, tau, partial(lock, tau=tau, rank=rank), many)
        for model, name in (("lowrank", "low rank (right)"), ("mixture", "block decoder (wrong)")):
            yield setting("continuous low rank", name, tau, partial(continuous, tau=tau, model=model), runs // 4)


def main() -> None:
    """Run all, write the file and the page."""
    found = []
    head = ("truth", "model", "tau", "runs", "*overpromised*", "95% interval", "*too little data*", "commit")
    lines = ["| " + " | ".join(head) + " |", "| --- | --- " + "| ---: " * 6 + "|"]
    for row in settings(int(sys.argv[1]) if len(sys.argv) > 1 else 400):
        found.append(row)
        share = f"{row['overpromised']} ({row['overpromised'] / row['runs']:.1%})"
        ends = f"{row['low']:.1%} to {row['high']:.1%}"
        cells = (row["truth"], row["model"], f"{row['tau']:g}", row["runs"], share, ends, row["too little data"])
        lines.append("| " + " | ".join(map(str, (*cells, row["commit"]))) + " |")
        print(lines[-1], flush=True)
    PATH.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    made = "\n".join(lines)
    mark = re.compile(r"(<!-- alarms -->\n).*?(<!-- end -->)", re.S)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(mark.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
