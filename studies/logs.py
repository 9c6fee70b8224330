"""Do the bounds of learn-logs hold, and what do its plans earn? Writes docs/logs_results.md (resumable).

    python studies/logs.py [--bounds | --apart] [--seconds X] [--total X] [--logs N]
                           [--only NAME] [--episodes N ..] [--page]

A cell is a process, a behaviour and a number of episodes. In each, N logs (1,000) are made with their own seeds; every
log is learned from, and the plan is judged exactly in the process. A call adds to every cell that is not finished as
many logs as fit into X seconds of processor time. Results: studies/results/logs.jsonl, one line for each such part of
a cell, with the commit that it was measured on. --page only writes the page.

--bounds looks at the bounds alone, of plans with the usual doubt: most of the time is spent on choosing it, and no
bound depends on that (studies/results/logs_bounds.jsonl). --apart looks at the bounds by held-out episodes, each with
its own policy: that of the model, that of importance weights, and that of a step from the behaviour
(studies/results/logs_apart.jsonl).
"""

from __future__ import annotations

import argparse
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _logs_page import PAGE, page
from _logs_processes import BEHAVIOURS, ROOT, Expert, Mixed, Process, available, made_log, process
from _made_on import commit

from tailrank import MarkovPolicy, evaluate, solve
from tailrank.envs.logs.log import EpisodeLog
from tailrank.episodes.streams import Streams
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.behaviour import behaviour_of
from tailrank.learning.offline.budgets import budgets_for
from tailrank.learning.offline.candidates import USUAL, Planner
from tailrank.learning.offline.coverage import usual_actions
from tailrank.learning.offline.learn import learn_logs
from tailrank.learning.offline.limits import reward_limits
from tailrank.learning.offline.split import SplitTask, split_plan
from tailrank.models.averaged import averaged
from tailrank.planning.pessimistic.goals import TailGoal
from tailrank.planning.pessimistic.induction import best_budget, plan_pessimistic, policy_of, shortfall_of
from tailrank.policies.relabel import places, relabelled
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, Policy
from tailrank.risk.measures.cvar import CVaR

RESULTS, BOUNDS, APART = (ROOT / "studies" / "results" / f"logs{end}.jsonl" for end in ("", "_bounds", "_apart"))
DELTA = 0.05
SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
TOLERANCE = 1e-9
OTHERS = 1_000_000
"""Where the seeds of logs begin of which only the bounds are looked at."""


def true_cvar(policy: Policy, log: EpisodeLog, one: Process) -> float:
    """Exactly, with the states of the log at their places; elsewhere the first action that there is."""
    mdp = one.mdp
    if isinstance(policy, ClonedPolicy):  # the study's logs name all states and actions in order
        return evaluate(policy, mdp, one.tau).cvar
    available = np.diff(mdp.ptr).reshape(mdp.n_blocks, mdp.n_states, mdp.n_actions) > 0
    lowest = np.broadcast_to(available.argmax(axis=2), (mdp.horizon, mdp.n_states)).copy()
    states, actions = (
        places(log.states, range(mdp.n_states), "state"),
        places(log.actions, range(mdp.n_actions), "action"),
    )
    if isinstance(policy, MarkovPolicy):
        lowest[:, states] = actions[policy.actions]
        return evaluate(MarkovPolicy(lowest), mdp, one.tau).cvar
    return evaluate(relabelled(policy, states, actions, lowest), mdp, one.tau).cvar


def others(log: EpisodeLog, one: Process) -> dict[str, BudgetPolicy | MarkovPolicy]:
    """Plain counts, behaviour cloning, and the pessimistic plan for the mean."""
    budgets = budgets_for(log, reward_limits(log, one.rewards)[0], 1.0)[0]
    counts = counting.count(log, budgets, counting.Counting(one.dynamics == "by-step"))
    allowed, usual = (available(one.mdp).ravel(),) * log.horizon, usual_actions(log)
    plain = counting.doubted(counts)
    tables = plan_pessimistic(plain, allowed, usual)
    budget = best_budget(plain, shortfall_of(tables), one.tau)[0]
    cautious = plan_pessimistic(counting.every_law(counts, 0.5 * DELTA), allowed, usual)
    return {
        "plain": policy_of(plain, tables.actions, usual, budget),
        "cloned": MarkovPolicy(usual),
        "mean": MarkovPolicy(np.stack([table[:, -1] for table in cautious.actions])),
    }


def measure_bounds(*cell: Any) -> dict[str, object]:
    """Other logs of a cell, with the usual doubt and without other plans to compare."""
    return measure(*cell, quick=True)


def measure(
    name: str, behaviour: str, n: int, first: int, most: int, seconds: float, quick: bool = False
) -> dict[str, object]:
    """The logs `first`, `first` + 1, .. of a cell, as many as there is time for."""
    asked = {"caution": USUAL if quick else None, "diagnose": False}
    one, began = process(name), time.process_time()
    best = best_cvar(name)
    own = _own(name, behaviour)
    rows: list[dict[str, float]] = []
    for seed in range(first, most):
        if time.process_time() - began > seconds and rows:
            break
        log = made_log(name, behaviour, n, seed + OTHERS * quick)
        ranges = {"reward_range": one.rewards, "return_range": one.returns}
        learned = learn_logs(log, one.tau, DELTA, dynamics=one.dynamics, seed=seed, **ranges, **asked)
        true = true_cvar(learned.policy, log, one)
        row = {"true": true, "lower": learned.lower, "upper": learned.upper, "promise": learned.promise}
        row["missed_lower"] = learned.lower > true + TOLERANCE
        row["missed_upper"] = learned.upper < best - TOLERANCE
        b = learned.behaviour
        row["missed_behaviour"] = not b.low - TOLERANCE <= own <= b.high + TOLERANCE if own is not None else 0
        row["improved"] = learned.status == "improved"
        row["false_improved"] = row["improved"] and own is not None and true < own - TOLERANCE
        if quick:
            rows.append(row)
            continue
        row |= {key: true_cvar(policy, log, one) for key, policy in others(log, one).items()}
        gain = true - row["plain"]
        rows.append(row | {"gain": gain, "gain_squared": gain**2})
    return _part(name, behaviour, n, first, rows, own, began)


def measure_apart(name: str, behaviour: str, n: int, first: int, most: int, seconds: float) -> dict[str, object]:
    """The same for the bounds by held-out episodes: how often each is above the truth, and what it says on average."""
    one, began = process(name), time.process_time()
    goal, rows = TailGoal(one.tau), list[dict[str, float]]()
    ends = one.returns or tuple(end * one.mdp.horizon for end in one.rewards)
    for seed in range(first, most):
        if time.process_time() - began > seconds and rows:
            break
        log, streams = made_log(name, behaviour, n, seed, weighted=True), Streams(seed)
        planner = Planner(goal, (available(one.mdp).ravel(),) * log.horizon, usual_actions(log))
        more = (counting.Counting(one.dynamics == "by-step"), 0.5 * DELTA, DELTA, None, True, None)
        task = SplitTask(planner, one.rewards, ends, 1.0, *more)
        found = split_plan(log, streams.planner(1).permutation(n), task, streams.planner(2))
        plan = goal.policy(found.model, found.plan.actions, planner.usual, found.plan.budget)
        truth = {key: true_cvar(plan, log, one) for key in ("held-out episodes", "held-out episodes, by weights")}
        truth["a step from the behaviour"] = true_cvar(found.tilted, log, one)  # type: ignore[arg-type]
        high = behaviour_of(log, CVaR(one.tau), DELTA, ends, 1.0).high
        row = {}
        for key, bound in found.bounds.items():
            row |= {f"{key}: bound": max(bound, ends[0]), f"{key}: true": truth[key]}
            row |= {f"{key}: missed": bound > truth[key] + TOLERANCE, f"{key}: sure": bound > high}
        rows.append(row)
    return _part(name, behaviour, n, first, rows, _own(name, behaviour), began)


def _part(
    name: str, behaviour: str, n: int, first: int, rows: list[dict[str, float]], own: float | None, began: float
) -> dict[str, object]:
    """A line of results: the means over some logs of a cell."""
    one = process(name)
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    return {
        "process": name, "behaviour": behaviour, "episodes": n, "logs": len(rows), "tau": one.tau, "own": own,
        "best": best_cvar(name), "mean": mean, "seconds": time.process_time() - began, "commit": commit(),
        "first": first,
    }  # fmt: skip


@cache
def best_cvar(name: str) -> float:
    """Of all policies."""
    one = process(name)
    return solve(one.mdp, one.tau).cvar


@cache
def _own(name: str, behaviour: str) -> float | None:
    """Exact CVaR of the behaviour: that of the one action of a process in which it is played for good."""
    one = process(name)
    if behaviour in ("half", "near"):
        return None  # a mixture with a budget policy: no exact law at hand
    rng = np.random.default_rng(0)
    player = (
        Expert(one.mdp, one.expert, rng)
        if behaviour == "expert"
        else Mixed(one.mdp, None, 1.0, rng, behaviour == "hole")
    )  # type: ignore[arg-type]
    law = player.law(0, np.arange(one.mdp.n_states), np.zeros(one.mdp.n_states))
    mixed = averaged(one.mdp, law)
    return evaluate(MarkovPolicy(np.zeros((one.mdp.horizon, one.mdp.n_states), dtype=np.int64)), mixed, one.tau).cvar


def cells() -> list[tuple[str, str, int]]:
    """All cells, cheap ones first."""
    small = [
        (name, b, n) for n in SIZES for name in ("lock", "random low-rank", "river swim", "machine") for b in BEHAVIOURS
    ]
    sepsis = [("ICU-Sepsis", b, n) for n in (100, 1000, 10_000, 30_000) for b in ("expert", "uniform")]
    return sorted(small + sepsis, key=lambda cell: cell[2])


def done(results: Path) -> dict[tuple[str, str, int], dict]:
    """The cells that were measured, each with the means over all its logs."""
    found: dict[tuple[str, str, int], dict] = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        part = json.loads(line)
        key = part["process"], part["behaviour"], part["episodes"]
        cell = found.setdefault(key, part | {"logs": 0, "mean": dict.fromkeys(part["mean"], 0.0), "commits": []})
        total = cell["logs"] + part["logs"]
        for name, value in part["mean"].items():
            cell["mean"][name] = (cell["mean"][name] * cell["logs"] + value * part["logs"]) / total
        cell["logs"] = total
        cell["commits"] = sorted({*cell["commits"], part["commit"]})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=25.0, help="for each cell")
    parser.add_argument("--total", type=float, default=np.inf, help="for all cells")
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--only", help="one process or behaviour")
    parser.add_argument("--episodes", type=int, nargs="*", help="cells of so many episodes only")
    parser.add_argument("--bounds", action="store_true", help="all bounds, with the usual doubt")
    parser.add_argument("--apart", action="store_true", help="bounds by held-out episodes alone")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    results, one = (APART, measure_apart) if options.apart else (RESULTS, measure)
    if options.bounds:
        results, one = BOUNDS, measure_bounds
    measured, end = done(results), time.process_time() + options.total
    for cell in () if options.page else cells():
        begun = measured[cell]["logs"] if cell in measured else 0
        wanted = options.only in (None, *cell[:2]) and (options.episodes is None or cell[2] in options.episodes)
        seconds = min(options.seconds, end - time.process_time())
        if begun < options.logs and wanted and seconds > 0.0:
            row = one(*cell, begun, options.logs, seconds)
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(*cell, row["logs"], f"{row['seconds']:.0f} s", row["mean"], flush=True)
    PAGE.write_text(page(*(done(path) for path in (RESULTS, BOUNDS, APART)), SIZES, DELTA), encoding="utf-8")


if __name__ == "__main__":
    main()
