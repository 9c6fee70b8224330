"""What changes against Rep-UCB on the augmented MDP: studies/results/augmented.json, docs/rivals_augmented.md.

    python studies/augmented.py [--quick] [--page]

ELA against (a) Rep-UCB with counts on (state, budget) and (b) Rep-UCB with ELA's class lifted to (group, budget), on
the risky lock with H = 5, A = 4 at tau = .1. Bonus scales are chosen for each from one grid on three other seeds. Runs
that are finished are skipped.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from run import SOLVED, shown

from tailrank._system.atomic import write_bytes
from tailrank.envs import make_episodic
from tailrank.learning.ela.ela import ELA
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.rivals.states.rep_ucb_augmented import AugmentedOracles, RepUCBAugmented
from tailrank.learning.schedule import PRACTICAL, Schedule
from tailrank.learning.train import train
from tailrank.models.counts import number_of

HERE = Path(__file__).resolve().parent
PATH, PAGE = HERE / "results" / "augmented.json", HERE.parent / "docs" / "rivals_augmented.md"
TAU, H, A = 0.1, 5, 4
REGRET = 200
"""Iterations over which regret is summed."""
SYSTEMS = {
    "ELA, class": lambda s: ELA(TAU, ModelChoice("class"), s),
    "(b) lifted class": lambda s: RepUCBAugmented(TAU, AugmentedOracles("class"), s),
    "ELA, counts": lambda s: ELA(TAU, ModelChoice("counts"), s),
    "(a) augmented counts": lambda s: RepUCBAugmented(TAU, AugmentedOracles("counts"), s),
}
LONGEST = {"ELA, class": 200, "(b) lifted class": 200, "ELA, counts": 800, "(a) augmented counts": 800}
ALPHAS, LAMBDAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8), (1e-5, 1e-10)
TUNING = (100, 101, 102)


@dataclass(frozen=True)
class Job:
    """One run."""

    system: str
    n_states: int
    alpha: float
    lam: float
    iterations: int
    seed: int


def run(job: Job) -> dict[str, object]:
    """What one run did. `first` is None where no iterate was solved; it ends when one is, but not before `REGRET`."""
    env = make_episodic("risky-lock", horizon=H, n_actions=A, n_states=job.n_states, seed=job.seed)
    learner = SYSTEMS[job.system](Schedule(job.alpha, job.lam))
    judge, first, regret, spent, begun = ExactJudge.of(learner, env), None, 0.0, [], time.process_time()
    for state, row in train(learner, env, iterations=job.iterations, seed=job.seed, judge=judge):
        spent.append(time.process_time() - begun)
        if state.k <= REGRET:
            regret += judge.star - row["cvar"]
        if first is None and row["cvar"] >= SOLVED * judge.star - 1e-12:
            first = row["episodes"]
        if state.k >= REGRET and first is not None:
            break
        begun = time.process_time()
    return (
        asdict(job)
        | {
            "first": first,
            "episodes": row["episodes"],
            "regret": regret,
            "milliseconds": 1e3 * float(np.median(spent)),
        }
        | size(learner, state, env)
    )


def size(learner: ELA, state, env) -> dict[str, float]:
    """Rank, log |F| and the pairs that are counted, of the largest step, and the last alpha."""
    oracles, counts = learner.finite.make(env), state.seen.counts
    d, log_class = max(
        (oracle.dimension(c.shape), oracle.log_class_size(number_of(c), c.shape))
        for oracle, c in zip(oracles, counts, strict=True)
    )
    return {
        "d": d,
        "log_class": log_class,
        "pairs": max(math.prod(c.shape[:2]) for c in counts),
        "alpha_k": learner.schedule.alpha(state.rounds, H, A, d, log_class),
    }


def key(r: dict) -> str:
    """What tells a run from others."""
    return json.dumps([r[name] for name in ("system", "n_states", "alpha", "lam", "iterations", "seed")])


def tuning(quick: bool) -> list[Job]:
    """The grid, on other seeds than those that are reported, on three states."""
    K = 10 if quick else REGRET
    return [
        Job(name, 3, alpha, lam, K if name != "(a) augmented counts" else 3 * K, seed)
        for name, alpha, lam, seed in product(SYSTEMS, ALPHAS, LAMBDAS, TUNING)
    ]


def chosen(runs: list[dict]) -> dict[str, tuple[float, float]]:
    """The scales with the fewest episodes to 5% (median; unsolved runs are infinitely long), then the least regret."""
    best = {}
    for name in SYSTEMS:
        cells = {}
        for alpha, lam in product(ALPHAS, LAMBDAS):
            own = [
                r
                for r in runs
                if (r["system"], r["n_states"], r["alpha"], r["lam"]) == (name, 3, alpha, lam) and r["seed"] in TUNING
            ]
            waits = sorted(math.inf if r["first"] is None else r["first"] for r in own)
            cells[alpha, lam] = (waits[1], sum(r["regret"] for r in own))
        best[name] = min(cells, key=cells.__getitem__)
    return best


def reported(best: dict[str, tuple[float, float]], quick: bool) -> list[Job]:
    """Ten seeds, default and chosen scales."""
    default = (PRACTICAL.alpha_scale, PRACTICAL.lam_scale)
    return [
        Job(name, states, *scales, 10 if quick else LONGEST[name], seed)
        for name, states in product(SYSTEMS, (3, 30))
        for scales, seed in product(dict.fromkeys((default, best[name])), range(10))
    ]


HEAD = """# Rep-UCB on the augmented MDP

Generated by `studies/augmented.py` from `studies/results/augmented.json`; do not edit.

A static CVaR is a risk-neutral problem whose state is (state, remaining budget). So why not run Rep-UCB on that?
Because the moves of the budget are known, and Rep-UCB does not know that. Two ways to run it (`tailrank train ...
--algorithm rep-ucb-augmented --model counts` or `class`, `learning/rivals/states/rep_ucb_augmented.py`), next to ELA:

- **(a)** counts on (state, budget): every budget is learned for itself;
- **(b)** ELA's class lifted to (group, budget), rank d C: the fit is ELA's (the lifted likelihood differs by factors
  that all candidates share), but the bonus is paid for every budget anew and needs a matrix of d C rows.

Risky lock, H = 5, A = 4, C = 51 budgets, tau = .1, CVaR* = 0.8; seeds 0 to 9, medians with 95% bootstrap intervals.
*To 5%*: episodes until an iterate has 95% of CVaR*; runs that never get there count as infinitely long. *Regret*: of
the plans over the first 200 iterations (at most 160). Scales of alpha and lambda: the defaults, and the best of the
grid alpha {alphas} x lambda {lambdas}
by episodes to 5%, then regret, on seeds 100 to 102 with three states; with thirty states the same scales are used,
untuned. log F is the logarithm of the size of the class, or (free parameters) x log n; it enters the bonus, as does the
rank. Time is processor time on a machine with other work. Values of (a) and (b) are not clipped, as in ELA.
"""


def page(runs: list[dict], best: dict[str, tuple[float, float]]) -> str:
    """The text of the page."""
    lines = [
        HEAD.format(alphas=", ".join(f"{a:g}" for a in ALPHAS), lambdas=", ".join(f"{x:g}" for x in LAMBDAS)),
        "| S | system | scales of alpha, lambda | rank | log F | pairs | to 5% | never | regret | ms an iteration |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    default = (PRACTICAL.alpha_scale, PRACTICAL.lam_scale)
    for states, name in product((3, 30), SYSTEMS):
        for scales in dict.fromkeys((default, best[name])):
            own = [
                r
                for r in runs
                if (r["system"], r["n_states"], r["alpha"], r["lam"]) == (name, states, *scales) and r["seed"] < 10
            ]
            if not own:
                continue
            most = max(r["episodes"] for r in own)
            what = "default" if scales == default else "best of the grid"
            cells = [
                states,
                name,
                f"{scales[0]:g}, {scales[1]:g} ({what})",
                own[0]["d"],
                f"{np.median([r['log_class'] for r in own]):.3g}",
                own[0]["pairs"],
                shown([r["first"] for r in own], most),
                f"{sum(r['first'] is None for r in own)}/{len(own)}",
                shown([r["regret"] for r in own], digits=1),
                f"{np.median([r['milliseconds'] for r in own]):.1f}",
            ]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines + reading(runs, best)) + "\n"


def reading(runs: list[dict], best: dict[str, tuple[float, float]]) -> list[str]:
    """What the table says, with three states."""

    def middle(name: str, what: str, scales: tuple[float, float]) -> float:
        own = [r for r in runs if (r["system"], r["n_states"], r["alpha"], r["lam"]) == (name, 3, *scales)]
        return float(np.median([math.inf if r[what] is None else r[what] for r in own if r["seed"] < 10]))

    default, ela, lift = (PRACTICAL.alpha_scale, PRACTICAL.lam_scale), "ELA, class", "(b) lifted class"
    counts, naive = "ELA, counts", "(a) augmented counts"
    slower = middle(naive, "first", best[naive]) / middle(counts, "first", best[counts])
    dearer = middle(lift, "milliseconds", default) / middle(ela, "milliseconds", default)
    worse = middle(lift, "regret", default) / middle(ela, "regret", default)
    same = middle(lift, "first", best[lift]) / middle(ela, "first", best[ela])
    text = f"""
        With three states and the best scales of each, (a) needs {slower:.0f} times the episodes of ELA with counts:
        what is learned about one starting budget says nothing about the next. (b) needs {same:.1f} times the
        episodes of ELA, as it fits the same model, but an iteration takes {dearer:.0f} times as long, and with the
        default scales its regret is {worse:.0f} times ELA's: the rank enters alpha, and the bonus is paid for every
        budget. The grid prefers (b) with next to no bonus, which the lock allows ([results](results.md), study
        `bonus`); that says nothing about problems that need one.
    """
    return ["", textwrap.fill(" ".join(text.split()), 120)]


def main() -> None:
    """Tune, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few iterations; saves nothing")
    parser.add_argument("--page", action="store_true", help="write the page from the runs there are")
    parser.add_argument("--workers", type=int, default=2)
    choice = parser.parse_args()
    os.environ |= {"TAILRANK_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    runs: list[dict] = json.loads(PATH.read_text())["runs"] if PATH.exists() and not choice.quick else []
    with ProcessPoolExecutor(choice.workers, mp_context=multiprocessing.get_context("spawn")) as pool:

        def all_of(jobs: list[Job]) -> None:
            done = {key(r) for r in runs}
            wanted = [] if choice.page else [job for job in jobs if key(asdict(job)) not in done]
            for i, result in enumerate(pool.map(run, wanted)):
                runs.append(result)
                if not choice.quick and (i % 10 == 9 or i == len(wanted) - 1):
                    content = {"study": "augmented", "tau": TAU, "runs": runs}
                    write_bytes(PATH, (json.dumps(content, indent=1) + "\n").encode())

        all_of(tuning(choice.quick))
        best = chosen(runs)
        all_of(reported(best, choice.quick))
    text = page(runs, best)
    print(text) if choice.quick else PAGE.write_text(text)


if __name__ == "__main__":
    main()
