"""Measurements that run in a fresh process each: `python measure.py contender NAME SIZE` and others.

The last line printed is a JSON object. Memory is the peak resident size during the first build and solve,
less the resident size before it (after imports and a warm-up on a tiny problem).
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from statistics import median

COLUMNS = ("state", "action", "next_state", "probability", "reward")
PACKAGES = ("tailrank", "quantecon", "mdpsolver", "pymdptoolbox", "numpy", "scipy", "numba")
LEAST_REPEATS, MOST_REPEATS, SECONDS = 3, 9, 12.0


def memory(field: str) -> int:
    """Bytes of this process: VmRSS (now) or VmHWM (peak)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"{field}: not reported by this system")


def forget_peak() -> None:
    """Let the peak start again from the present resident size."""
    Path("/proc/self/clear_refs").write_text("5")


def contender(name: str, size: str) -> dict[str, object]:
    """Times, memory and curve of one contender."""
    from contenders import CONTENDERS
    from problem import best_cvar, random_problem

    it = CONTENDERS[name]
    began = time.perf_counter()
    for smaller in ("tiny", "quick") if size == "full" else ("tiny",):
        it.solve(it.build(random_problem(smaller)))
    warm_up = time.perf_counter() - began
    problem = random_problem(size)
    before = memory("VmRSS")
    forget_peak()
    builds, solves, cores, peak = [], [], [], 0
    started = time.perf_counter()
    while len(solves) < MOST_REPEATS:
        t0 = time.perf_counter()
        model = it.build(problem)
        t1, cpu = time.perf_counter(), time.process_time()
        curve = it.solve(model)
        t2 = time.perf_counter()
        peak = peak or memory("VmHWM") - before
        builds.append(t1 - t0)
        solves.append(it.own_clock(model) if it.own_clock else t2 - t1)
        cores.append((time.process_time() - cpu) / (t2 - t1))
        del model
        spent = time.perf_counter() - started
        if spent > 3 * SECONDS or (spent > SECONDS and len(solves) >= LEAST_REPEATS):
            break
    return {
        "label": it.label,
        "kind": it.kind,
        "note": it.note,
        "build_seconds": median(builds),
        "solve_seconds": median(solves),
        "solve_fastest": min(solves),
        "solve_slowest": max(solves),
        "repeats": len(solves),
        "warm_up_seconds": warm_up,
        "busy_cores": median(cores),
        "peak_bytes": peak,
        "cvar": best_cvar(curve, problem.tau),
        "curve": [float(x) for x in curve],
    }


def kernel_work(size: str) -> dict[str, float]:
    """Floating-point operations and compulsory memory traffic of one tailrank induction."""
    from contenders import kernel_build
    from problem import random_problem

    mdp, _, plan, _ = kernel_build(random_problem(size))
    values = sum(8 * (a.size + b.size) for a, b in zip(plan.tables, plan.tables[1:], strict=False))
    rows = mdp.horizon * mdp.prob.size * (8 + 8 + 4)
    return {"flops": 2.0 * plan.products, "bytes": float(values + rows + plan.entries)}


def dgemm() -> dict[str, float]:
    """Best GFLOP/s of a matrix product with as many threads as the environment allows."""
    import numpy as np

    n = 1500
    a = np.random.default_rng(0).random((n, n))
    return {"gflops": 2e-9 * n**3 / fastest(lambda: a @ a, 8)}


def triad() -> dict[str, float]:
    """Best GB/s of a[i] = b[i] + s c[i] over 3 x 160 MB (three streams), NUMBA_NUM_THREADS threads."""
    import numba
    import numpy as np

    @numba.njit(parallel=True)
    def kernel(a, b, c):
        for i in numba.prange(a.size):
            a[i] = b[i] + 3.0 * c[i]

    a, b, c = np.zeros(20_000_000), np.ones(20_000_000), np.ones(20_000_000)
    kernel(a, b, c)
    return {"gbytes": 24e-9 * a.size / fastest(lambda: kernel(a, b, c), 8)}


def fastest(work, repeats: int) -> float:
    """Seconds of the fastest of some calls."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def domain(path: str, discount: str, horizon: str, start: str) -> dict[str, object]:
    """Median time and result of tailrank.solve on one published domain (rows of a CSV file, 1-based)."""
    import numpy as np

    import tailrank

    columns = dict(zip(COLUMNS, np.loadtxt(path, delimiter=",", skiprows=1).T, strict=True))
    columns |= {name: columns[name] - 1 for name in COLUMNS[:3]}
    mdp = tailrank.FiniteMDP.from_rows(**columns, horizon=int(horizon), discount=float(discount), start=int(start) - 1)
    tailrank.solve(mdp, 0.1)
    times = []
    for _ in range(LEAST_REPEATS):
        began = time.perf_counter()
        plan = tailrank.solve(mdp, 0.1)
        times.append(time.perf_counter() - began)
    return {
        "states": mdp.n_states,
        "rows": int(mdp.prob.size),
        "horizon": mdp.horizon,
        "discount": mdp.discount,
        "solve_seconds": median(times),
        "status": plan.status,
        "notes": list(plan.notes),
        "cvar": plan.cvar,
        "lower": plan.lower,
        "upper": plan.upper,
    }


def million(near: str) -> dict[str, object]:
    """tailrank.solve on a million states, 4 actions, 5 outcomes a pair, 20 steps, rewards 0..10."""
    from kernel_cases import local_mdp

    import tailrank

    tailrank.solve(local_mdp(50, 2, 3, 5, 3), 0.1)
    mdp = local_mdp(1_000_000, 4, 5, 20, 10, int(near))
    before = memory("VmRSS")
    forget_peak()
    began, cpu = time.perf_counter(), time.process_time()
    plan = tailrank.solve(mdp, 0.1, memory="16GB", seconds=600)
    seconds, busy = time.perf_counter() - began, time.process_time() - cpu
    earned = plan.law.cvar(0.1)
    return {
        "seconds": seconds,
        "law_seconds": time.perf_counter() - began - seconds,
        "cores": busy / seconds,
        "status": plan.status,
        "budgets": int(plan.curve.budget.size),
        "mdp_bytes": before,
        "peak_bytes": memory("VmHWM"),
        "cvar": plan.cvar,
        "mean_policy_cvar": plan.risk_neutral.cvar,
        "difference": abs(plan.cvar - earned),
    }


def setting(size: str) -> dict[str, object]:
    """The problem's numbers, and the versions of Python and of the packages that take part."""
    from importlib.metadata import version

    from problem import SIZES, random_problem

    problem = random_problem(size)
    return {
        "problem": SIZES[size] | {"C": problem.n_budgets, "tau": problem.tau},
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
    }


TASKS = {f.__name__: f for f in (contender, kernel_work, dgemm, triad, domain, million, setting)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
