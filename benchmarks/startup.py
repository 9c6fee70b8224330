"""How long commands take from nothing: `python benchmarks/startup.py [--repeats N]`; the last line is a JSON object.

Each is a new process with warm caches, the last one but for compiled code: it has a copy of the package and no home.
Commands take turns, so that whatever else the machine does strikes all alike; a repeat counts processor time (user and
system), because wall-clock time of a busy machine says little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "examples" / "models"
COMMANDS = {
    "python -c pass": "-c pass",
    "import numpy": "-c 'import numpy'",
    "import numba": "-c 'import numba'",
    "import tailrank": "-c 'import tailrank'",
    "--help": "-m tailrank --help",
    "--version": "-m tailrank --version",
    "list": "-m tailrank list",
    "theory": "-m tailrank theory --H 5 --A 4 --d 3 --class-size 16 --tau 0.1 --epsilon 0.1",
    "solve betting.json": f"-m tailrank solve {MODELS}/betting.json --tau 0.1",
    "evaluate cliff.policy": f"-m tailrank evaluate ../cliff.policy {MODELS}/cliff.json --tau 0.05 --episodes 100",
    "train, 2 iterations": "-m tailrank train risky-lock --iterations 2 --seed 0 --out run",
}
COLD = "solve betting.json, compiling"
BEFORE = f"-m tailrank solve {MODELS}/cliff.json --tau 0.05 --save ../cliff.policy"


def seconds(command: str, folder: str, **settings: str) -> float:
    """Processor seconds of a process in a new folder within `folder`."""
    place, surroundings = tempfile.mkdtemp(dir=folder), os.environ | settings
    process = subprocess.Popen(
        [sys.executable, *shlex.split(command)], cwd=place, env=surroundings, stdout=-3, stderr=-3
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def cold_seconds(folder: str) -> float:
    """Processor seconds of a solve that finds no compiled code."""
    home = tempfile.mkdtemp(dir=folder)
    shutil.copytree(ROOT / "src", f"{home}/src", ignore=shutil.ignore_patterns("__pycache__"))
    surroundings = {"PYTHONPATH": f"{home}/src", "HOME": home, "XDG_CACHE_HOME": home, "NUMBA_CACHE_DIR": ""}
    return seconds(COMMANDS["solve betting.json"], folder, **surroundings)


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    taken: dict[str, list[float]] = {name: [] for name in (*COMMANDS, COLD)}
    with tempfile.TemporaryDirectory() as folder:
        seconds(BEFORE, folder)
        for command in COMMANDS.values():
            seconds(command, folder)
        for _ in range(options.repeats):
            for name, command in COMMANDS.items():
                taken[name].append(seconds(command, folder))
        taken[COLD] = [cold_seconds(folder) for _ in range(min(options.repeats, 3))]
    numpy = statistics.median(taken["import numpy"])
    table = {}
    for name, times in taken.items():
        middle = statistics.median(times)
        row = {"median": middle, "least": min(times), "over_numpy": middle / numpy}
        table[name] = {key: round(value, 3) for key, value in row.items()}
        print(f"{name:<32}{middle:>8.3f} s, at least {min(times):.3f} s{middle / numpy:>8.2f} x import numpy")
    result = {"python": platform.python_version(), "repeats": options.repeats, "processor_seconds": table}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
