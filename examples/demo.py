"""`make demo`: the risky lock learned, its report written, risky problems solved, and two pictures."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from figure import draw

ROOT = Path(__file__).resolve().parent.parent
MODELS = "examples/models"
LOCK = "--set horizon=10 --set n_actions=4 --set n_states=300"
COMMANDS = (
    (
        "a lock to be learned: transitions unknown, 100 iterations of ELA",
        f"train risky-lock {LOCK} --tau 0.1 --iterations 100 --seed 0 --out demo/lock",
    ),
    (
        "the same kind of lock seen only through noisy observations, rewards unknown as well",
        "train rich-lock --set horizon=5 --tau 0.1 --episodes 150 --evaluate-every 40 --seed 0 --out demo/rich",
    ),
    ("what was learned, as a page", "report demo/lock -o demo/report.html"),
    ("a lake that cannot be crossed safely", "solve FrozenLake-v1 --horizon 100 --tau 0.1 --tau 0.5"),
    ("a slippery cliff", f"solve {MODELS}/cliff.json --tau 0.05"),
    ("betting with a jackpot", f"solve {MODELS}/betting.json --tau 0.1 --frontier"),
    ("a counter-example: the optimum", f"solve {MODELS}/counter_example.json --tau 0.5 --quiet"),
    (
        "... and what Chow's decomposition makes of it",
        f"solve {MODELS}/counter_example.json --tau 0.5 --criterion chow --quiet",
    ),
    ("a machine that wears out", f"solve {MODELS}/machine.csv --horizon 100 --discount 0.8 --start 1 --tau 0.1"),
)


def main() -> int:
    """Exit code of the first command that fails, else 0."""
    began = time.perf_counter()
    for run in ("lock", "rich"):
        shutil.rmtree(ROOT / "demo" / run, ignore_errors=True)
    (ROOT / "demo").mkdir(exist_ok=True)
    for title, command in COMMANDS:
        print(f"\n== {title}\n$ tailrank {command}", flush=True)
        code = subprocess.run([Path(sys.executable).parent / "tailrank", *command.split()], cwd=ROOT).returncode
        if code:
            return code
    draw(ROOT / "demo" / "risk.png")
    print("\nwrote demo/risk.png")
    print("\n== the same lock, learned for the mean and for the tail\n$ python examples/risky_lock.py demo", flush=True)
    code = subprocess.run([sys.executable, "examples/risky_lock.py", "demo"], cwd=ROOT).returncode
    print(f"\nopen the report in a browser: {(ROOT / 'demo' / 'report.html').as_uri()}")
    print(f"{time.perf_counter() - began:.0f} s in all")
    return code


if __name__ == "__main__":
    sys.exit(main())
