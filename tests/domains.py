"""Benchmark problems as plain rows, with the answers that are known; nothing from the package under test."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from brute_force import Tiny

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in (GOLDEN / "cases").glob("*.json"))


def load_case(name: str) -> dict[str, object]:
    """One of the small MDPs with exact answers in golden/cases.

    Steps are 0-based. `unit` = [numerator, denominator]; `P[h][s][a][t]` for h = 0..H-2;
    `reward_law[h][s][a]` = [[units, probability], ...], independent of the next state. `expected`: `taus`,
    `cvar_star`, `optimal_budgets_units` (every maximiser), `optimal_budget_intervals`, ...
    """
    return json.loads((GOLDEN / "cases" / f"{name}.json").read_text())


def case_rows(case: dict[str, object]) -> Tiny:
    """The rows of a case: the product of reward law and kernel; after the last step nothing matters."""
    H, S, A, (top, bottom) = case["H"], case["S"], case["A"], case["unit"]
    rows = [
        (h, s, a, t, p * q, j * top / bottom)
        for h in range(H)
        for s in range(S)
        for a in range(A)
        for t, p in enumerate(case["P"][h][s][a] if h < H - 1 else [1.0])
        for j, q in case["reward_law"][h][s][a]
        if p > 0
    ]
    start = tuple(float(s == case["s0"]) for s in range(S))
    return Tiny(tuple(rows), H, start, n_actions=A)


def hau_counter_example() -> Tiny:
    """State 0 goes to 1 or 2 evenly; 1 offers three gambles, 2 pays 200 (Hau et al. 2023).

    At tau = 0.5 the optimum is 50 (action 2); Chow's decomposition claims 100 and its policy earns 0.
    """
    rows = (
        (None, 0, 0, 1, 0.5, 0.0),
        (None, 0, 0, 2, 0.5, 0.0),
        (None, 1, 0, 3, 0.25, -600.0),
        (None, 1, 0, 3, 0.75, 600.0),
        (None, 1, 1, 3, 1.0, 0.0),
        (None, 1, 2, 3, 0.5, -100.0),
        (None, 1, 2, 3, 0.5, 400.0),
        (None, 2, 0, 3, 1.0, 200.0),
    )
    return Tiny(rows, 2, (1.0, 0.0, 0.0, 0.0), n_actions=3)


def betting_with_jackpot(money: int = 5, rounds: int = 10, cap: int = 100) -> Tiny:
    """Bets 0..5 of the money held: won with .7, ten times won with .05, else lost (Rigter et al. 2022).

    The reward is the change in money, so the return is the final money less the first.
    """
    rows = []
    for have in range(cap + 1):
        for bet in range(min(5, have) + 1):
            for gain, p in ((bet, 0.7), (10 * bet, 0.05), (-bet, 0.25)):
                after = min(have + gain, cap)
                rows.append((None, have, bet, after, p, float(after - have)))
    return Tiny(tuple(rows), rounds, tuple(float(s == money) for s in range(cap + 1)), n_actions=6)


def betting_in_eighths(money: float = 16.0, rounds: int = 6, cap: float = 256.0, win: float = 0.88) -> Tiny:
    """Bets of k/8 of the money held, k = 0..8, never more than is missing to the cap (Mead et al. 2025).

    Money is any dyadic number, so a state is a (round, money) that can be reached; the last round pays the
    final money.
    """
    number = {(0, money): 0}
    queue, rows = [(0, money)], []
    for h, have in queue:
        for k in range(9):
            bet = min(have * k / 8, cap - have)
            for after, p in ((have + bet, win), (have - bet, 1 - win)):
                key = (h + 1, after) if h < rounds - 1 else (0, money)
                if key not in number:
                    number[key] = len(number)
                    queue.append(key)
                rows.append((None, number[h, have], k, number[key], p, after if h == rounds - 1 else 0.0))
    return Tiny(tuple(rows), rounds, tuple(float(s == 0) for s in range(len(number))), n_actions=9)


DOMAINS = {  # discount, horizon, start (1-based, as in the files)
    "machine": (0.8, 100, 1),
    "ruin": (0.95, 200, 8),
    "inventory": (0.8, 100, 1),
    "inventory_generic": (0.9, 100, 1),
    "riverswim": (0.98, 100, 1),
}


def domain_columns(name: str) -> dict[str, object]:
    """A domain of Hau, Petrik and Ghavamzadeh (2023) as the arguments of a constructor from rows."""
    path = next((GOLDEN / "domains").glob(f"{name}.csv*"))
    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    s, a, t = (table[:, :3].astype(np.int64) - 1).T
    discount, horizon, start = DOMAINS[name]
    return {
        "state": s,
        "action": a,
        "next_state": t,
        "probability": table[:, 3],
        "reward": table[:, 4],
        "discount": discount,
        "horizon": horizon,
        "start": start - 1,
    }
