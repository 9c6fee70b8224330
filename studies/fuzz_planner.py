"""Random problems against exact answers, for as long as there is time: writes studies/results/fuzz_planner.json.

    python studies/fuzz_planner.py [SECONDS] [SEED]

The problems and the answers, in rational arithmetic, are those of tests/fuzz.py, the comparisons those of
tests/fuzz_checks.py. What is written: how many problems of each kind were checked, and the largest deviation of each
thing that was compared, in units of what is allowed (rounding; above 1 is a failure), with the seed that gives it
again. Ends with exit code 1 if there was a failure.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import numpy as np

import fuzz_checks

PATH = HERE / "results" / "fuzz_planner.json"
SECONDS = 3600.0


def main() -> int:
    """Check until the time is up."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began, problems, compared = time.monotonic(), Counter[str](), Counter[str]()
    worst: dict[str, tuple[float, str]] = {}
    failures: list[str] = []
    while time.monotonic() - began < seconds:
        seed += 1
        for check in fuzz_checks.CHECKS:
            for i, kind in enumerate(fuzz_checks.KINDS):
                place = f"{check.__name__}, {kind}, [{seed}, {i}]"
                problems[f"{check.__name__}, {kind}"] += 1
                try:
                    found = check(np.random.default_rng([seed, i]), kind)
                except (ArithmeticError, LookupError, MemoryError, RuntimeWarning, ValueError) as error:
                    found = fuzz_checks.Report({f"{type(error).__name__}: {error}": np.inf})
                for name, share in found.items():
                    compared[name] += 1
                    if share > worst.get(name, (-1.0, ""))[0]:
                        worst[name] = share, place
                    if share > 1.0:
                        failures.append(f"{name}: {share:.3g} at {place}")
                        print(failures[-1], flush=True)
    result = {
        "seconds": round(time.monotonic() - began),
        "problems": sum(problems.values()),
        "failures": failures,
        "by kind": dict(problems),
        "largest deviation, of what is allowed": {
            name: {"problems": compared[name], "deviation": float(f"{share:.3g}"), "at": place}
            for name, (share, place) in sorted(worst.items())
        },
    }
    PATH.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{result['problems']} problems, {len(failures)} failures, {result['seconds']} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
