"""Seconds and true gap of the variants of CVaR-LSVI: `python benchmarks/lsvi.py [--iterations T1] [--quick]`.

One thread, kernels compiled beforehand, seconds of processor time. The gap is exact: the value of the returned
policy in the model less the least value of any policy, by induction over (state, budget). Writes
benchmarks/lsvi.json unless --quick.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.planning.lsvi.algorithm2 import CvarLsvi, GroupModel, LsviPolicy

SIZE = {"states": 1000, "rank": 5, "levels": 11, "horizon": 10, "actions": 4}
BETA, LAWS, SEED = 1.0, 50, 0
HALF, ALL = 50, 100
CASES = (
    ("doubling", HALF, 20, 3),
    ("doubling", ALL, 20, 3),
    ("factored", HALF, 20, 7),
    ("factored", ALL, 20, 7),
    ("factored", HALF, 1000, 3),
    ("factored", ALL, 1000, 3),
    ("literal", HALF, 20, 1),  # the printed loop computes all budgets whatever the first one is
)
"""Variant, first budget, evaluation episodes for each policy (T2), runs with different seeds."""


def problem(states: int, rank: int, levels: int, horizon: int, actions: int) -> tuple[GroupModel, list[np.ndarray]]:
    """A random low-rank model with bonuses of up to one unit, and its psi [H - 1]."""
    rng = np.random.default_rng(SEED)
    steps = tuple(
        StepModel(rng.dirichlet(np.full(rank, 0.3), (states, actions)), rng.dirichlet(np.full(states, 0.3), rank))
        for _ in range(horizon - 1)
    )
    laws = rng.dirichlet(np.full(levels, 0.3), LAWS)
    reward_of = [rng.integers(LAWS, size=(states, actions)) for _ in range(horizon)]
    bonus = [rng.random((states, actions)) * (h < horizon - 2) for h in range(horizon)]
    model = LowRankModel(steps, (np.arange(states),) * horizon)
    return GroupModel(model, reward_of, laws, bonus, 0), [s.psi for s in steps]


def value(model: GroupModel, psi: list[np.ndarray], budget: int, policy: LsviPolicy | None = None) -> float:
    """Exact value at (start, budget) of a policy, or the least of any policy."""
    states, C = np.arange(psi[0].shape[1]), budget + 1
    V = np.tile(np.arange(C, dtype=float), (states.size, 1))
    for h in reversed(range(model.horizon)):
        law = model.reward_laws(h, states)
        ahead = model.features(h, states) @ (psi[h] @ V) if h < model.horizon - 1 else V[:, None].repeat(4, axis=1)
        Q = np.repeat(-model.bonus(h, states)[..., None], C, axis=2)
        for x in range(law.shape[2]):
            Q += law[..., x, None] * ahead[..., np.maximum(np.arange(C) - x, 0)]
        if policy is None:
            V = Q.min(axis=1)
        else:
            actions = policy.act(h, states.repeat(C), np.tile(np.arange(C), states.size)).reshape(-1, C)
            V = np.take_along_axis(Q, actions[:, None], axis=1)[:, 0]
    return float(V[model.start()[0], budget])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="50 iterations, nothing is written")
    asked = parser.parse_args()
    iterations = 50 if asked.quick else asked.iterations
    model, psi = problem(**SIZE)
    top = SIZE["horizon"] * (SIZE["levels"] - 1)
    best = {budget: value(model, psi, budget) for budget in (HALF, ALL)}
    rows = []
    for variant, budget, evaluations, runs in CASES:
        CvarLsvi(5, 5, BETA, cap=1.0, variant=variant).run(model, 3, np.random.default_rng(0))
        settings = CvarLsvi(iterations, evaluations, BETA, cap=1.0, variant=variant)
        seconds, gaps, policies = [], [], []
        for seed in range(runs):
            began = time.process_time()
            run = settings.run(model, budget, np.random.default_rng(seed))
            seconds.append(time.process_time() - began)
            gaps.append(value(model, psi, budget, run.policy) - best[budget])
            policies.append(len(run.values))
            print(f"{variant} {budget} {evaluations}: {seconds[-1]:.3f} s", file=sys.stderr, flush=True)
        rows.append(
            {
                "variant": variant,
                "budget": budget,
                "evaluations": evaluations,
                "runs": runs,
                "seconds": median(seconds),
                "policies": median(policies),
                "best": best[budget],
                "gap": median(gaps),
            }
        )
    literal = next(r["seconds"] for r in rows if r["variant"] == "literal")
    print(f"T1 = {iterations}, beta = {BETA}, {SIZE}, {top + 1} budgets; medians; values in units (a reward: 0..10)")
    print(
        f"{'variant':<10}{'i1':>5}{'T2':>6}{'runs':>6}{'seconds':>10}{'faster':>9}{'policies':>10}{'best':>9}{'gap':>9}"
    )
    for r in rows:
        r["faster"] = literal / r["seconds"]
        print(
            f"{r['variant']:<10}{r['budget']:>5}{r['evaluations']:>6}{r['runs']:>6}{r['seconds']:>10.3f}"
            f"{r['faster']:>8.1f}x{r['policies']:>10.0f}{r['best']:>9.3f}{r['gap']:>9.4f}"
        )
    if not asked.quick:
        record = {"size": SIZE, "iterations": iterations, "beta": BETA, "rows": rows}
        record |= {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
        Path(__file__).with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
