"""Studies of ELA on its own environments: writes studies/results/*.json and from them docs/results.md.

    python studies/run.py [--quick] [--only NAME ...]

Every run is one seed, which fixes the environment as well as the learner. An iterate is solved when its exact
CVaR is at least 95% of CVaR*; runs that never get there are censored and count as infinitely long.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from tailrank.envs import make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.ela import ELA
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.output import OutputRule
from tailrank.learning.schedule import PRACTICAL, THEORY
from tailrank.learning.train import train

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "results", HERE.parent / "docs" / "results.md"
SOLVED = 0.95
SCHEDULES = {
    "practical": PRACTICAL,
    "constants 1": THEORY,
    "constants 1, printed cap and log": replace(THEORY, cap="printed", log="printed"),
    "no bonus": replace(PRACTICAL, cap=0.0),
    "printed cap": replace(PRACTICAL, cap="printed"),
}
CONSTANTS = ("practical", "constants 1", "constants 1, printed cap and log")


@dataclass(frozen=True)
class Job:
    """One run: where, how, how long."""

    label: str
    env: str
    settings: dict[str, object]
    tau: float
    iterations: int
    seed: int
    model: str = "class"
    rank: int | None = None
    schedule: str = "practical"
    options: dict[str, object] = field(default_factory=dict)


def run(job: Job) -> dict[str, object]:
    """What one run did; episodes are None where it never happened."""
    begun = time.perf_counter()
    seeded = {"seed": job.seed} if job.env in ("risky-lock", "random-lowrank") else {}
    env = make_episodic(job.env, **job.settings, **seeded)
    learner = ELA(job.tau, ModelChoice(job.model, job.rank), SCHEDULES[job.schedule], **job.options)
    judge, streams, rule = ExactJudge.of(learner, env), Streams(job.seed), OutputRule("best")
    wanted, kept, cvars, episodes = set(rule.drawn(job.iterations, streams)), {}, [], []
    for state, row in train(learner, env, iterations=job.iterations, seed=job.seed, judge=judge):
        cvars.append(row["cvar"])
        episodes.append(row["episodes"])
        if state.k in wanted:
            kept[state.k] = state.plan
    found = rule.choose(learner, env, state, kept, streams)
    good = np.array(cvars) >= SOLVED * judge.star - 1e-12
    regret = np.cumsum(judge.star - np.array(cvars))
    last_bad = int(np.flatnonzero(~good)[-1]) if (~good).any() else -1
    greedy = learner.greedy(state, env, streams)
    return asdict(job) | {
        "constants": asdict(learner.schedule),
        "star": judge.star,
        "episodes": episodes[-1],
        "first": int(episodes[int(np.argmax(good))]) if good.any() else None,
        "stays": int(episodes[last_bad + 1]) if last_bad + 1 < len(good) else None,
        "late": float(good[-max(len(good) // 10, 1) :].mean()),
        "returned": judge.cvar(found.policy),
        "returned from": found.returned,
        "greedy": judge.cvar(greedy),
        "regret": float(regret[-1]),
        "slope": slope(regret),
        "seconds": time.perf_counter() - begun,
    }


def slope(regret: np.ndarray) -> float | None:
    """Least-squares slope of log regret against log k over the last decade of iterations."""
    k = np.arange(1, regret.size + 1)
    chosen = (k >= regret.size / 10) & (regret > 0)
    if chosen.sum() < 2:
        return None
    return float(np.polyfit(np.log(k[chosen]), np.log(regret[chosen]), 1)[0])


# The studies


def lock(label: str, seeds: int, iterations: int, **more: object) -> list[Job]:
    """Runs of the risky lock at tau = .1; `settings` are those of the lock."""
    settings = {"horizon": 5, "n_actions": 4} | dict(more.pop("settings", {}))
    return [Job(label, "risky-lock", settings, 0.1, iterations, seed, **more) for seed in range(seeds)]


def states(quick: bool, seeds: int) -> list[Job]:
    """Does the number of observations matter?"""
    K = 20 if quick else 150
    return [j for S in (30, 300, 3000, 30000) for j in lock(f"S = {S}", seeds, K, settings={"n_states": S})]


def long_lock(quick: bool, seeds: int) -> list[Job]:
    """H = 20, A = 10 with default settings."""
    return lock("H = 20, A = 10", seeds, 3 if quick else 150, settings={"horizon": 20, "n_actions": 10})


def regret(quick: bool, seeds: int) -> list[Job]:
    """Growth of the cumulative regret."""
    return lock("H = 5, A = 4", seeds, 40 if quick else 1000)


def defaults(quick: bool, seeds: int) -> list[Job]:
    """Default settings on every registered environment."""
    lengths = {"risky-lock": 200, "random-lowrank": 200, "risky-shortcut": 200, "decoy": 60}
    jobs: list[Job] = []
    for env, K in lengths.items():
        model = "counts" if env == "risky-shortcut" else "class"
        for tau in (0.05, 0.1, 0.25, 1.0):
            label, K = f"{env}, tau = {tau:g}", 5 if quick else K
            jobs += [Job(label, env, {}, tau, K, seed, model) for seed in range(seeds)]
    return jobs


def savers(quick: bool, seeds: int) -> list[Job]:
    """Ways to collect, with the same number of episodes each."""
    jobs: list[Job] = []
    for H, budget in ((5, 600), (10, 1000)):
        budget = 8 * H if quick else budget
        ways: list[tuple[str, dict[str, object], int]] = [
            ("printed", {"collect": "printed"}, budget // H),
            ("rollins (default)", {}, budget // H),
            ("episode", {"collect": "episode"}, budget),
            ("rollins, batch = 4", {"batch": 4}, budget // (4 * H)),
        ]
        for name, options, K in ways:
            jobs += lock(f"lock, H = {H}, {name}", seeds, K, settings={"horizon": H}, options=options)
    for name, options in (("rollins", {}), ("rollins, share", {"share": True})):
        jobs += [
            Job(
                f"risky-shortcut, {name}",
                "risky-shortcut",
                {},
                0.1,
                5 if quick else 200,
                seed,
                "counts",
                None,
                "practical",
                options,
            )
            for seed in range(seeds)
        ]
    return jobs


def constants(quick: bool, seeds: int) -> list[Job]:
    """The constants of the theorems (one) and those that are used."""
    K = 20 if quick else 300
    return [j for name in CONSTANTS for j in lock(name, seeds, K, schedule=name)]


def models(quick: bool, seeds: int) -> list[Job]:
    """What it costs to know less: free models of single states."""
    batch, K, jobs = (5, 2, []) if quick else (4, 150, [])
    for model, rank in (("class", None), ("counts", None), ("em", 3)):
        jobs += lock(model, seeds, K, settings={"n_states": 30}, model=model, rank=rank, options={"batch": batch})
    return jobs


def bonus(quick: bool, seeds: int) -> list[Job]:
    """What the bonus does: runs without it, and with the printed cap."""
    jobs: list[Job] = []
    for name in ("practical", "printed cap", "no bonus"):
        jobs += lock(f"lock, H = 5, {name}", seeds, 5 if quick else 150, schedule=name)
        long = {"horizon": 20, "n_actions": 10}
        jobs += lock(f"lock, H = 20, A = 10, {name}", seeds, 3 if quick else 150, settings=long, schedule=name)
        for env, tau, K in (("random-lowrank", 0.1, 200), ("decoy", 0.75, 60)):
            K = 5 if quick else K
            jobs += [Job(f"{env}, {name}", env, {}, tau, K, seed, schedule=name) for seed in range(seeds)]
    return jobs


STUDIES = {f.__name__: f for f in (states, long_lock, regret, defaults, savers, constants, models, bonus)}

# Tables


def median_with_interval(values: list[float | None], rng: np.random.Generator) -> tuple[float, float, float]:
    """Median and 95% bootstrap interval; None counts as infinite."""
    x = np.array([math.inf if v is None else v for v in values], dtype=float)
    draws = np.quantile(x[rng.integers(x.size, size=(2000, x.size))], 0.5, axis=1, method="inverted_cdf")
    ends = np.quantile(draws, [0.025, 0.975], method="inverted_cdf")
    return float(np.quantile(x, 0.5, method="inverted_cdf")), float(ends[0]), float(ends[1])


def shown(values: list[float | None], most: float | None = None, digits: int = 0) -> str:
    """`median [low, high]`; beyond the length of the runs: `> most`."""
    numbers = median_with_interval(values, np.random.default_rng(0))
    text = [f"{v:.{digits}f}" if math.isfinite(v) else f"> {most:.0f}" for v in numbers]
    return f"{text[0]} [{text[1]}, {text[2]}]"


def table(runs: list[dict]) -> list[str]:
    """One line for each label."""
    lines = [
        "| setting | seeds | episodes a run | to 5% | never | to stay | never stays | late iterates solved | "
        "returned / CVaR* | returned solved | regret slope |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for label in dict.fromkeys(r["label"] for r in runs):
        own = [r for r in runs if r["label"] == label]
        n, most = len(own), own[0]["episodes"]
        ratio = [r["returned"] / r["star"] if r["star"] > 0 else 1.0 for r in own]  # nothing is less than 0 here
        solved = sum(x >= SOLVED - 1e-12 for x in ratio)
        cells = [
            label + trivial(own),
            n,
            most,
            shown([r["first"] for r in own], most),
            f"{sum(r['first'] is None for r in own)}/{n}",
            shown([r["stays"] for r in own], most),
            f"{sum(r['stays'] is None for r in own)}/{n}",
            f"{np.mean([r['late'] for r in own]):.2f}",
            shown(ratio, digits=3),
            f"{solved}/{n}",
            shown([0.0 if r["slope"] is None else r["slope"] for r in own], digits=2),
        ]
        lines.append("| " + " | ".join(str(c) for c in cells) + " |")
    return lines


def trivial(runs: list[dict]) -> str:
    """Says in how many runs nothing can be had in the tail, so that every plan counts as solved."""
    n = sum(r["star"] == 0 for r in runs)
    return f" (CVaR* = 0 in {n})" if n else ""


def verdicts(name: str, runs: list[dict]) -> list[str]:
    """The targets of a study, met or missed."""

    def middle(label: str) -> float:
        own = [r["first"] for r in runs if r["label"] == label]
        return median_with_interval(own, np.random.default_rng(0))[0]

    if name == "states":
        few, many = middle("S = 30"), middle("S = 30000")
        if not math.isfinite(few + many):
            return ["Target: at most 2 times the episodes at 30000 states as at 30. A median is censored: missed."]
        ratio = many / few
        return [
            f"Target: at most 2 times the episodes at 30000 states as at 30. Ratio {ratio:.2f}: {met(ratio <= 2)}.",
            "The decoder is known to the class, and a seed meets the same groups whatever the number of states, so "
            "this says that nothing in the code depends on it, not that a decoder was learned.",
        ]
    if name == "long_lock":
        good = sum(r["first"] is not None and r["first"] <= 3000 for r in runs)
        text = f"Target: solved within 3000 episodes in every seed. {good} of {len(runs)}: {met(good == len(runs))}."
        slowest = max((r["first"] for r in runs if r["first"] is not None), default=None)
        return [f"{text} Slowest solved run: {slowest} episodes."]
    if name == "regret":
        worst = max(r["slope"] for r in runs if r["slope"] is not None)
        middle_slope = median_with_interval([r["slope"] for r in runs], np.random.default_rng(0))[0]
        return [
            f"Target: slope at most .5 over the last decade of K. Median {middle_slope:.2f}: "
            f"{met(middle_slope <= 0.5)}; largest {worst:.2f}: {met(worst <= 0.5)}."
        ]
    if name == "bonus":
        return [
            "On the lock the bonus changes nothing but how long iterates keep exploring: every model of its class "
            "promises a way through, so the most likely model is refuted one action at a time, bonus or not. The "
            "decoy is where the bonus is needed, and where its cap matters."
        ]
    return []


def met(yes: bool) -> str:
    """In words."""
    return "met" if yes else "missed"


HEAD = """# Results

Generated by `studies/run.py` from `studies/results/*.json`; do not edit.

A run is one seed, which fixes the learner and, for the lock and the random MDPs, the environment. An iterate is
solved when its exact CVaR is at least 95% of CVaR*. *To 5%*: episodes played when the first solved iterate was
found; *to stay*: when all later iterates are solved; *late iterates*: the last tenth. *Returned*: the plan that the
output rule `best` returns (it plays 1000 more episodes for each of at most six candidates, not counted here), its
exact CVaR over CVaR*. Numbers are medians with 95% bootstrap intervals. Runs that never get there are censored:
they count as infinitely long and show as `> episodes`. Regret is of the plans, slopes are of log regret against
log k over the last decade. The lock is at tau = .1 with A = 4 and H = 5 unless said otherwise; its class F knows
the decoder.
"""


def write_page() -> None:
    """docs/results.md from all results there are."""
    parts = [HEAD]
    for name, study in STUDIES.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        result = json.loads(path.read_text())
        parts.append(f"## {name}: {(study.__doc__ or '').strip()}\n")
        if result["quick"]:
            parts.append("Shortened runs (`--quick`): these numbers say nothing.\n")
        used = {
            (r["constants"]["alpha_scale"], r["constants"]["lam_scale"], r["constants"]["cap"]) for r in result["runs"]
        }
        scales = "; ".join(f"alpha x {a:g}, lambda x {b:g}, cap {c}" for a, b, c in sorted(used, key=str))
        parts.append(f"Constants: {scales}.\n")
        lines = verdicts(name, result["runs"])
        if lines:
            parts.append("\n".join(lines) + "\n")
        parts.append("\n".join(table(result["runs"])) + "\n")
    PAGE.write_text("\n".join(parts))


def main() -> None:
    """Run studies, in the order of `STUDIES`, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few iterations and three seeds, to try the machinery")
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES), help="these studies")
    parser.add_argument("--seeds", type=int, help="number of seeds (10; with --quick 3)")
    choice = parser.parse_args()
    seeds = choice.seeds or (3 if choice.quick else 10)
    RESULTS.mkdir(exist_ok=True)
    os.environ |= {"TAILRANK_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # two new processes share two cores
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name in choice.only:
            begun = time.perf_counter()
            jobs = STUDIES[name](choice.quick, seeds)
            runs = list(pool.map(run, jobs))
            content = {"study": name, "quick": choice.quick, "runs": runs}
            (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
            print(f"{name}: {len(jobs)} runs in {time.perf_counter() - begun:.0f} s", flush=True)
            write_page()


if __name__ == "__main__":
    main()
