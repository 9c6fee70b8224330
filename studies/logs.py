"""Do the bounds of learn-logs hold, and what do its plans earn? Writes docs/logs_results.md (resumable).

    python studies/logs.py [--seconds X] [--total X] [--logs N] [--only NAME] [--episodes N] [--page]

A cell is a process, a behaviour and a number of episodes. In each, N logs (1,000) are made with their own seeds; every
log is learned from, and the plan is judged exactly in the process. A call adds to every cell that is not finished as
many logs as fit into X seconds. Results: studies/results/logs.jsonl, one line for each such part of a cell, with the
commit that it was measured on. --page only writes the page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from tailrank import FiniteMDP, MarkovPolicy, evaluate, make_episodic, play, read_mdp, solve
from tailrank.envs.logs.log import EpisodeLog
from tailrank.envs.logs.read import read_log
from tailrank.learning.offline import counts as counting
from tailrank.learning.offline.budgets import budgets_for
from tailrank.learning.offline.coverage import usual_actions
from tailrank.learning.offline.learn import learn_logs
from tailrank.learning.offline.limits import reward_limits
from tailrank.models.averaged import averaged
from tailrank.planning.pessimistic.induction import best_budget, plan_pessimistic, policy_of, shortfall_of
from tailrank.policies.moved import Moved
from tailrank.policies.relabel import places, relabelled
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, Policy

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "studies" / "results" / "logs.jsonl", ROOT / "docs" / "logs_results.md"
DELTA, SEED = 0.05, 20_260_000
SIZES = (100, 1000, 10_000, 30_000)
BEHAVIOURS = ("uniform", "half", "near", "hole")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Process:
    """An MDP with the tau that is learned for, and whether the log has the probabilities of its actions.

    returns: what they lie in, where that is known to be less than what rewards allow.
    """

    mdp: FiniteMDP
    tau: float
    weighted: bool = False
    expert: np.ndarray | None = None
    returns: tuple[float, float] | None = None

    @property
    def dynamics(self) -> str:
        """Whether outcomes depend on the step."""
        return "same" if self.mdp.n_blocks == 1 else "by-step"

    @property
    def rewards(self) -> tuple[float, float]:
        """What they lie in."""
        return float(self.mdp.reward.min()), float(self.mdp.reward.max())


def river_swim(horizon: int = 12, states: int = 4) -> FiniteMDP:
    """States in a row: swimming right is uncertain and pays 10 at its end, drifting left is sure and pays 1."""
    rows = []
    for s in range(states):
        rows.append((s, 0, max(s - 1, 0), 1.0, 1 if s == 0 else 0))
        right, stay = min(s + 1, states - 1), s
        if s == states - 1:
            rows += [(s, 1, s, 0.7, 10), (s, 1, s - 1, 0.3, 0)]
        else:
            rows += [(s, 1, right, 0.6, 0), (s, 1, stay, 0.35, 0), (s, 1, max(s - 1, 0), 0.05, 0)]
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=horizon)


@cache
def process(name: str) -> Process:
    """By name."""
    if name == "machine":
        return Process(read_mdp(ROOT / "examples" / "models" / "machine.csv", horizon=10).mdp, 0.1)
    if name == "river swim":
        return Process(river_swim(), 0.25)
    if name == "lock":
        return Process(make_episodic("risky-lock").truth, 0.25, weighted=True)
    if name == "random low-rank":
        return Process(make_episodic("random-lowrank").truth, 0.25, weighted=True)
    import icu_sepsis
    from icu_sepsis.utils.io import MDPParameters

    from tailrank.envs.mdp_files.read_write import read_mdp as read

    assets = MDPParameters(Path(icu_sepsis.__file__).parent / "envs" / "assets")
    sepsis = read("Sepsis/ICU-Sepsis-v2", horizon=20, imports=("icu_sepsis",)).mdp
    return Process(sepsis, 0.5, weighted=True, expert=assets._expert_policy, returns=(0.0, 1.0))


class Mixed:
    """Plays `policy`, but with the chance `share` (1 without a policy) uniformly among what is left by a hole."""

    def __init__(
        self, mdp: FiniteMDP, policy: Policy | None, share: float, rng: np.random.Generator, hole: bool
    ) -> None:
        self.policy, self.share, self.rng, self.A = policy, share, rng, mdp.n_actions
        counts = np.diff(mdp.ptr[: mdp.n_states * mdp.n_actions + 1]).reshape(mdp.n_states, mdp.n_actions)
        self.free = counts > 0
        if hole:
            # In half of the states the last action is never taken.
            places_ = np.arange(0, mdp.n_states, 2)
            some = places_[self.free[places_].sum(axis=1) > 1]
            self.free[some, self.free.shape[1] - 1 - self.free[some, ::-1].argmax(axis=1)] = False

    def start(self, n: int) -> np.ndarray:
        return np.zeros(n, dtype=np.int64) if self.policy is None else self.policy.start(n)

    def law(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Probabilities of the actions, [n, A]."""
        p = self.free[states] / self.free[states].sum(axis=1, keepdims=True) * (self.share if self.policy else 1.0)
        if self.policy is not None:
            p[np.arange(states.size), self.policy.act(h, states, memory)] += 1.0 - self.share
        return p

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        total = np.cumsum(self.law(h, states, memory), axis=1)
        return np.minimum((self.rng.random(states.size)[:, None] * total[:, -1:] >= total).sum(axis=1), self.A - 1)

    def update(self, h, moved, memory):  # type: ignore[no-untyped-def]
        return memory if self.policy is None else self.policy.update(h, moved, memory)


class Expert(Mixed):
    """Plays the law [S, A] of an expert."""

    def __init__(self, mdp: FiniteMDP, table: np.ndarray, rng: np.random.Generator) -> None:
        super().__init__(mdp, None, 1.0, rng, False)
        table = table * self.free[:, : table.shape[1]]
        total = table.sum(axis=1, keepdims=True)
        self.table = np.where(total > 0, table / np.maximum(total, 1e-12), self.free / self.free.sum(1, keepdims=True))

    def law(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        return self.table[states]


@cache
def optimum(name: str) -> BudgetPolicy:
    """The plan with the best CVaR."""
    one = process(name)
    return solve(one.mdp, one.tau).policy  # type: ignore[return-value]


def available(mdp: FiniteMDP) -> np.ndarray:
    """Which actions there are at all, [S, A]: the same at every step in these processes."""
    return (np.diff(mdp.ptr).reshape(mdp.n_blocks, mdp.n_states, mdp.n_actions) > 0).all(axis=0)


def made_log(name: str, behaviour: str, n: int, seed: int) -> EpisodeLog:
    """A log of n episodes."""
    one, rng = (
        process(name),
        np.random.default_rng([SEED, seed, n, BEHAVIOURS.index(behaviour) if behaviour in BEHAVIOURS else 9]),
    )
    if behaviour == "expert":
        player: Mixed = Expert(one.mdp, one.expert, rng)  # type: ignore[arg-type]
    else:
        share = {"uniform": 1.0, "hole": 1.0, "half": 0.5, "near": 0.1}[behaviour]
        policy = None if share == 1.0 else optimum(name)
        player = Mixed(one.mdp, policy, share, rng, behaviour == "hole")
    H = one.mdp.horizon
    played = play(player, one.mdp, n, rng=rng)
    frame = {
        "episode": np.repeat(np.arange(n), H),
        "step": np.tile(np.arange(H), n),
        "state": played.states[:, :H].ravel(),
        "action": played.actions.ravel(),
        "reward": played.rewards.ravel(),
    }
    if one.weighted:
        memory, columns = player.start(n), []
        for h in range(H):
            law = player.law(h, played.states[:, h], memory)
            columns.append(law[np.arange(n), played.actions[:, h]])
            moved = Moved(played.states[:, h], played.actions[:, h], played.rewards[:, h], None)
            memory = player.update(h, moved, memory)
        frame["probability"] = np.stack(columns, axis=1).ravel()
    log = read_log(frame, horizon=H, states=range(one.mdp.n_states), actions=range(one.mdp.n_actions))
    return replace(log, admissible=available(one.mdp))


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


def measure(name: str, behaviour: str, n: int, first: int, most: int, seconds: float) -> dict[str, object]:
    """The logs `first`, `first` + 1, .. of a cell, as many as there is time for."""
    one, began = process(name), time.perf_counter()
    best = solve(one.mdp, one.tau).cvar
    own = _own(name, behaviour)
    rows: list[dict[str, float]] = []
    for seed in range(first, most):
        if time.perf_counter() - began > seconds and rows:
            break
        log = made_log(name, behaviour, n, seed)
        ranges = {"reward_range": one.rewards, "return_range": one.returns}
        learned = learn_logs(log, one.tau, DELTA, dynamics=one.dynamics, diagnose=False, seed=seed, **ranges)
        true = true_cvar(learned.policy, log, one)
        row = {"true": true, "lower": learned.lower, "upper": learned.upper, "promise": learned.promise}
        row["missed_lower"] = learned.lower > true + TOLERANCE
        row["missed_upper"] = learned.upper < best - TOLERANCE
        b = learned.behaviour
        row["missed_behaviour"] = not b.low - TOLERANCE <= own <= b.high + TOLERANCE if own is not None else 0
        row["improved"] = learned.status == "improved"
        row["false_improved"] = row["improved"] and own is not None and true < own - TOLERANCE
        row |= {key: true_cvar(policy, log, one) for key, policy in others(log, one).items()}
        gain = true - row["plain"]
        rows.append(row | {"gain": gain, "gain_squared": gain**2})
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    return {
        "process": name, "behaviour": behaviour, "episodes": n, "logs": len(rows), "tau": one.tau, "best": best,
        "own": own, "mean": mean, "seconds": time.perf_counter() - began, "commit": commit(), "first": first,
    }  # fmt: skip


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
    sepsis = [("ICU-Sepsis", b, n) for n in SIZES for b in ("expert", "uniform")]
    return sorted(small + sepsis, key=lambda cell: cell[2])


@cache
def commit() -> str:
    """The commit that is measured."""
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()


def done() -> dict[tuple[str, str, int], dict]:
    """The cells that were measured, each with the means over all its logs."""
    cells_: dict[tuple[str, str, int], dict] = {}
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else ():
        part = json.loads(line)
        cell = cells_.setdefault(
            _order(part), part | {"logs": 0, "mean": dict.fromkeys(part["mean"], 0.0), "commits": []}
        )
        total = cell["logs"] + part["logs"]
        for key, value in part["mean"].items():
            cell["mean"][key] = (cell["mean"][key] * cell["logs"] + value * part["logs"]) / total
        cell["logs"] = total
        cell["commits"] = sorted({*cell["commits"], part["commit"]})
    return cells_


HEAD = """\
# Plans from records: what was measured

Written by `python studies/logs.py` from `studies/results/logs.jsonl`; [logs](logs.md) explains the command. {cells}
cells, {logs} logs in all, delta = {delta}; a cell has as many logs as fitted into its time, at most 1,000, which {full}
cells have. Measured on commits {commits}.
Behaviours: *uniform*; *half* and *near* play the best plan, but uniformly in 50% and 10% of the steps; *hole* is
uniform but never takes one action in every other state; *expert* is the one of ICU-Sepsis. The command is told all
states and actions, the range of the rewards, and whether the dynamics are the same at every step.

## How often bounds failed

Allowed is {delta}. *lower*: the bound on the returned plan was above its exact CVaR. *upper*: the bound on every
policy was below the best. *own*: the interval for the behaviour missed its exact CVaR (`-`: no exact value at hand).
*improved*: how often the plan was called improved; *wrongly*: and was worse than the behaviour.

| process | behaviour | episodes | logs | lower | upper | own | improved | wrongly |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
EARNED = """
## What the plans earn

Means over the logs of exact CVaRs at the process's tau: of the best plan, of the behaviour, of the returned plan, of
the plan that takes the counts for the truth, of the action taken most often, and of the pessimistic plan for the mean;
then the mean bounds. *gain*: returned less plain counts on the same logs, with one standard error.

| process (tau) | behaviour | episodes | best | own | returned | counts | gain | cloned | mean plan | lower | upper |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


GAPS = """
## How fast the gap closes

Best CVaR less that of the returned plan, where every action is tried alike, and the slope of its logarithm against that
of the number of episodes (-0.5: like n^-1/2; `-`: fewer than two gaps above zero).

| process | {sizes} | slope |
| --- | {lines} | ---: |
"""


def gaps(rows: list[dict]) -> str:
    """The table of gaps of the covered cells."""
    text = GAPS.format(sizes=" | ".join(f"n = {n}" for n in SIZES), lines=" | ".join("---:" for _ in SIZES))
    for name in dict.fromkeys(row["process"] for row in rows):
        found = {
            row["episodes"]: row["best"] - row["mean"]["true"]
            for row in rows
            if row["process"] == name and row["behaviour"] == "uniform"
        }
        some = [(np.log(n), np.log(gap)) for n, gap in found.items() if gap > 1e-6]
        slope = f"{np.polyfit(*np.array(some).T, 1)[0]:.2f}" if len(some) > 1 else "-"
        text += _line(name, *(f"{found[n]:.3f}" if n in found else "-" for n in SIZES), slope)
    return text


def page(rows: list[dict]) -> str:
    """docs/logs_results.md."""
    rows = sorted(rows, key=_order)
    full = sum(row["logs"] >= 1000 for row in rows)
    logs = sum(row["logs"] for row in rows)
    text = HEAD.format(cells=len(rows), logs=logs, delta=DELTA, full=full, commits=_commits(rows))
    for row in rows:
        m, known = row["mean"], row["own"] is not None
        own, wrong = (f"{m[key]:.3f}" if known else "-" for key in ("missed_behaviour", "false_improved"))
        found = [f"{m['missed_lower']:.3f}", f"{m['missed_upper']:.3f}", own, f"{m['improved']:.2f}", wrong]
        text += _line(row["process"], row["behaviour"], row["episodes"], row["logs"], *found)
    text += EARNED
    for row in rows:
        m = row["mean"]
        numbers = [row["best"], row["own"], *(m[key] for key in ("true", "plain", "cloned", "mean", "lower", "upper"))]
        cells_ = ["-" if x is None else f"{x:.3f}" for x in numbers]
        error = np.sqrt(max(m["gain_squared"] - m["gain"] ** 2, 0.0) / max(row["logs"] - 1, 1))
        cells_.insert(4, f"{m['gain']:+.3f} ({error:.3f})" if row["logs"] > 1 else f"{m['gain']:+.3f}")
        text += _line(f"{row['process']} ({row['tau']:g})", row["behaviour"], row["episodes"], *cells_)
    return text + gaps(rows)


def _commits(rows: list[dict]) -> str:
    return ", ".join(sorted({one for row in rows for one in row["commits"]}))


def _line(*cells_: object) -> str:
    return f"| {' | '.join(map(str, cells_))} |\n"


def _order(row: dict) -> tuple[str, str, int]:
    return row["process"], row["behaviour"], row["episodes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=25.0, help="for each cell")
    parser.add_argument("--total", type=float, default=np.inf, help="for all cells")
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--only", help="one process or behaviour")
    parser.add_argument("--episodes", type=int, help="cells of so many episodes only")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if not options.page:
        measured, end = done(), time.perf_counter() + options.total
        for cell in cells():
            begun = measured[cell]["logs"] if cell in measured else 0
            wanted = options.only in (None, *cell[:2]) and options.episodes in (None, cell[2])
            seconds = min(options.seconds, end - time.perf_counter())
            if begun < options.logs and wanted and seconds > 0.0:
                row = measure(*cell, begun, options.logs, seconds)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(*cell, row["logs"], f"{row['seconds']:.0f} s", row["mean"], flush=True)
    PAGE.write_text(page(list(done().values())), encoding="utf-8")


if __name__ == "__main__":
    main()
