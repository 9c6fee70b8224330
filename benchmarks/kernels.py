"""Every kernel against plain NumPy, against the machine, and against the growth that its arithmetic predicts.

    python benchmarks/kernels.py [--quick]     prints a table; the last line is a JSON object

The limits, a matrix product and a triad, are measured here too, before and after, in the same process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from kernel_cases import CASES, Case, Run
from measure import dgemm, forget_peak, memory, triad
from newer_cases import NEWER

LEAST, MOST, SECONDS = 3, 7, 1.5
PLAIN_MOST = 20.0
"""Seconds that a plain version may take, by what it took on a smaller problem."""


def clock(run: Run) -> tuple[float, float]:
    """Seconds of the fastest of a few calls, and the cores it kept busy."""
    times, busy = [], []
    began = time.perf_counter()
    while len(times) < LEAST or (len(times) < MOST and time.perf_counter() - began < SECONDS):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        times.append(time.perf_counter() - wall)
        busy.append((time.process_time() - cpu) / times[-1])
    return min(times), busy[int(np.argmin(times))]


def quickest(run: Run) -> float:
    """Seconds of a call that takes next to no time: many calls on one clock, the fastest of some rounds."""
    run()
    calls = max(1, int(0.02 / max(clock_once(run), 1e-7)))
    return min(clock_once(lambda: [run() for _ in range(calls)]) / calls for _ in range(7))


def clock_once(run: Run) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def slope(case: Case, axis: str, values: tuple[int, ...]) -> tuple[float, list[float]]:
    """Exponent of the time in one size, by a line through the logarithms, and the times."""
    times = [clock(case.build(**case.base | {axis: value})[0])[0] for value in values]
    return float(np.polyfit(np.log(values), np.log(times), 1)[0]), times


def measured(case: Case, quick: bool) -> dict[str, Any]:
    """All about one kernel."""
    size = case.small if quick and case.small else case.large
    if case.small:
        case.build(**case.small)[0]()  # what is compiled or loaded then is not counted
    run, (flops, bytes_) = case.build(**size)
    forget_peak()
    run()
    resident = memory("VmHWM")
    seconds, cores = clock(run)
    row: dict[str, Any] = {
        "size": size,
        "seconds": seconds,
        "cores": cores,
        "resident_bytes": resident,
        "gflops": flops / seconds / 1e9,
        "gbytes": bytes_ / seconds / 1e9,
        "plain_name": case.plain_name,
    }
    if case.plain is not None:
        fast, slow = case.build(**case.small)[0], case.plain(**case.small)
        row["small"] = {"size": case.small, "seconds": quickest(fast), "plain_seconds": quickest(slow)}
        row["plain_seconds"] = clock_once(plain_large(case, size))
    row["growth"] = {}
    for axis, (values, predicted) in ({} if quick else case.axes).items():
        found, times = slope(case, axis, values)
        row["growth"][axis] = {"values": values, "seconds": times, "exponent": found, "predicted": predicted}
    return row


def plain_large(case: Case, size: dict[str, int]) -> Run:
    """The plain version on the large problem, called once before unless that takes long."""
    run = case.plain(**size)  # type: ignore[misc]
    if clock_once(run) < PLAIN_MOST / 2:
        run()
    return run


def jobs(quick: bool) -> dict[str, float]:
    """Seconds of whole jobs, compiled code loaded before."""
    from tailrank import ELA, ModelChoice, make_episodic, train

    lock = make_episodic("risky-lock", horizon=5, n_actions=4, n_states=30)
    learner, iterations = ELA(tau=0.1, oracle=ModelChoice("class")), 5 if quick else 200
    run: Callable[[], Any] = lambda: list(train(learner, lock, iterations=iterations, seed=0))  # noqa: E731
    run()
    return {f"ELA, {iterations} iterations of the risky lock (H = 5, A = 4, |S| = 30)": clock(run)[0]}


def main() -> None:
    """Measure everything."""
    quick = "--quick" in sys.argv
    limits = [(dgemm()["gflops"], triad()["gbytes"])]
    rows = {}
    for case in (*CASES, *NEWER):
        if quick and not case.small:
            continue
        rows[case.name] = measured(case, quick)
        row = rows[case.name]
        plain = f", {row['plain_name']} {row['plain_seconds'] / row['seconds']:.1f}x" if "plain_seconds" in row else ""
        print(f"{case.name}: {row['seconds']:.3g} s{plain}", file=sys.stderr, flush=True)
    limits.append((dgemm()["gflops"], triad()["gbytes"]))
    gflops, gbytes = (max(x) for x in zip(*limits, strict=True))
    print(json.dumps({"gflops": gflops, "gbytes": gbytes, "kernels": rows, "jobs": jobs(quick)}))


if __name__ == "__main__":
    main()
