"""Runs that are killed, starved of disk, or given an environment that misbehaves: how many go on to the same bytes.

    python studies/crash.py [PART...]        such as files, or signals/ela; all if none is given

Writes studies/results/crash.json and the table of docs/reliability.md (`page`: only that). The checks are those of the
tests (tests/runs/: test_crashes, test_chaos, test_sweep_backends), at all places instead of some:

    files         every change of a file by runs, a sweep and learn-logs, with the kinds of faults of tests/faults.py
    signals       real processes, sent a signal at a random moment, resumed until they finish
    workers       sweeps whose workers are killed, in processes and on Dask
    environments  every way of misbehaving (tests/envs/chaos.py), at random calls
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "TAILRANK_THREADS": "1"}
ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "runs"), str(ROOT / "tests" / "envs")]

import chaos
import test_chaos
import test_crashes
import test_sweep_backends
from _made_on import commit

import crashes
import faults
from tailrank.runs import folder as files
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run

PATH = Path(__file__).resolve().parent / "results" / "crash.json"
EVERY_KIND = ("ela", "simulator", "bins")
"""Cases that meet every kind of fault; the others write in the same way and are killed only."""
LONGER = {
    "ela": {"iterations": 600},
    "simulator": {"iterations": 150},
    "bins": {"iterations": 60},
    "lowrank": {"iterations": 20},
    "shortfall-dqn": {"iterations": 400},
    "auto": {},
}
"""Cases that get signals, with enough iterations for many of them."""
SIGNALS = {"SIGKILL": 10, "SIGTERM": 4, "SIGINT": 3, "SIGHUP": 3}
FEWER_SIGNALS, SLOW = {"SIGKILL": 5, "SIGTERM": 2, "SIGINT": 2, "SIGHUP": 1}, ("lowrank", "shortfall-dqn", "auto")
SWEEPS, POINTS = 3, 2


class Tally:
    """How often something was tried, by name, and what went wrong."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.wrong: list[str] = []

    def attempt(self, name: str, check, *arguments) -> None:
        """Count a check; what it asserts in vain is kept."""
        self.tried[name] += 1
        try:
            check(*arguments)
        except AssertionError as error:
            self.wrong.append(f"{name} {arguments[1:4]}: {error}"[:500])

    def about(self) -> dict[str, object]:
        """As plain data."""
        return {"tried": dict(self.tried), "in_all": self.tried.total(), "wrong": self.wrong}


def at_files(place: Path, name: str) -> Tally:
    """Every change of a file by a run; every fourth where a run is slow."""
    tally = Tally()
    config, expected, calls = test_crashes.whole(place, name)
    for at in range(0, calls, 4 if name in SLOW else 1):
        for kind in faults.KINDS if name in EVERY_KIND else ("kill",):
            tally.attempt(kind, test_crashes.disturbed, place, name, at, kind, config, expected)
    return tally


def at_files_of_a_sweep(place: Path) -> Tally:
    """Every change of a file by a sweep."""
    tally = Tally()
    expected, calls = test_crashes.whole_sweep(place)
    for at in range(calls):
        for kind in ("kill", "full"):
            tally.attempt(kind, test_crashes.disturbed_sweep, place, at, kind, expected)
    return tally


def at_files_of_logs(place: Path) -> Tally:
    """Every change of a file by `learn-logs`."""
    tally = Tally()
    expected, calls = test_crashes.whole_logs(place)
    for at in range(calls):
        for kind in faults.KINDS:
            tally.attempt(kind, test_crashes.disturbed_logs, place, at, kind, expected)
    return tally


def at_signals(place: Path, name: str) -> Tally:
    """Signals to real processes; a run that finished is begun again."""
    tally, moments = Tally(), random.Random(0)
    signals = FEWER_SIGNALS if name in SLOW else SIGNALS
    left = [which for which, count in signals.items() for _ in range(count)]
    moments.shuffle(left)
    config = place / "c.toml"
    config.write_text(RunConfig.from_dict(crashes.CASES[name] | LONGER[name] | {"checkpoint_every": 5}).toml())
    run(RunConfig.read(config), place / "whole")
    expected = crashes.outcome(place / "whole")
    while left:
        tally.attempt("finished runs", _through, place, config, expected, left, moments, tally)
    return tally


def _through(place, config, expected, left, moments, tally) -> None:
    """One run, from its start to its end through as many signals as it takes."""
    out = place / "signalled"
    shutil.rmtree(out, ignore_errors=True)
    for _ in range(40):
        command = [sys.executable, "-m", "tailrank", *crashes.arguments(out, config)]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        which = left.pop() if left else None
        if which:
            _wait_for_a_row(out, child)
            time.sleep(moments.uniform(0, 0.3) if moments.random() < 0.8 else 0)
            child.send_signal(getattr(signal, which))
        said = child.communicate()[1]
        if child.returncode == 0:
            break
        tally.tried[which] += 1
        number = getattr(signal, which)
        assert child.returncode in (-number, 128 + number), (which, child.returncode, said)
        told = "continue with: tailrank train --resume" in said
        assert child.returncode < 0 or told or files.read_manifest(out)["status"] == "finished", said
        crashes.whole_so_far(out, expected[files.ROWS])
    assert crashes.outcome(out) == expected


def _wait_for_a_row(out: Path, child: subprocess.Popen) -> None:
    size = (out / files.ROWS).stat().st_size if (out / files.ROWS).exists() else 0
    while child.poll() is None:
        if (out / files.ROWS).exists() and (out / files.ROWS).stat().st_size != size:
            return
        time.sleep(0.002)


def at_workers(place: Path, backend: str) -> Tally:
    """Sweeps one of whose workers is killed."""
    tally, path = Tally(), place / "s.toml"
    path.write_text(test_sweep_backends.FILE)
    sweep = test_sweep_backends.read_sweep(path, place / "serial")
    test_sweep_backends.run_sweep(sweep, backend="serial")
    expected = test_sweep_backends.outcome(sweep.out)

    def one(out):
        going = test_sweep_backends.start(path, out, "--backend", backend, "--workers", "2")
        test_sweep_backends.kill_a_worker(out, going)
        test_sweep_backends.finished(going)
        assert test_sweep_backends.outcome(out) == expected

    for number in range(SWEEPS):
        tally.attempt("worker killed", one, place / f"{number}")
    return tally


def at_environments(place: Path, name: str) -> Tally:
    """Every way of misbehaving, at random calls."""
    tally, moments = Tally(), random.Random(1)
    config, expected, calls = test_chaos.undisturbed(place, name)
    for kind in chaos.FAULTS:
        if kind == "reward outside its range" and name != "ela":
            continue  # others have no range
        for _ in range(POINTS):
            plan = chaos.Plan(kind, moments.randrange(test_chaos.points(kind, calls)), place / "log")
            shutil.rmtree(place / "out", ignore_errors=True)
            tally.attempt(kind, test_chaos.misbehaved, config, expected, place / "out", plan)
    return tally


PARTS = {
    **{f"files/{name}": partial(at_files, name=name) for name in crashes.CASES},
    "files/sweep": at_files_of_a_sweep,
    "files/logs": at_files_of_logs,
    **{f"workers/{backend}": partial(at_workers, backend=backend) for backend in ("processes", "dask")},
    **{f"environments/{name}": partial(at_environments, name=name) for name in test_chaos.CASES},
    **{f"signals/{name}": partial(at_signals, name=name) for name in LONGER},
}
GROUPS = {
    "runs of {n} algorithms, at changes of files": ("files", lambda name: name not in ("sweep", "logs")),
    "a sweep of two runs, at every change of a file": ("files", lambda name: name == "sweep"),
    "a plan from records (`learn-logs`), at every change of a file": ("files", lambda name: name == "logs"),
    "processes of {n} algorithms, by signals at random moments ({kills} of them SIGKILL)": ("signals", bool),
    "sweeps in processes and on Dask, by killing a worker": ("workers", bool),
    "environments of {n} algorithms, in {ways} ways at random calls": ("environments", bool),
}
"""Rows of the page: what is said, and which parts they add up."""


def page() -> None:
    """Write the table of docs/reliability.md from the results."""
    found = json.loads(PATH.read_text())
    lines = ["| what was disturbed | how often | went wrong | commit |", "| --- | ---: | ---: | --- |"]
    for said, (group, belongs) in GROUPS.items():
        mine = [v for k, v in found.items() if k.split("/")[0] == group and belongs(k.split("/")[1])]
        tried = sum((Counter(part["tried"]) for part in mine), Counter())
        often = tried.total() - tried["finished runs"]
        commits = sorted({part.get("commit", "earlier") for part in mine})
        said = said.format(n=len(mine), kills=tried["SIGKILL"], ways=len(tried))
        wrong = sum(len(part["wrong"]) for part in mine)
        lines.append(f"| {said} | {often:,} | {wrong} | {', '.join(commits)} |")
    path = ROOT / "docs" / "reliability.md"
    mark = re.compile(r"(<!-- crash -->\n).*?(\n<!-- end -->)", re.S)
    path.write_text(
        mark.sub(lambda m: m[1] + "\n".join(lines) + m[2], path.read_text(encoding="utf-8")), encoding="utf-8"
    )


def main() -> None:
    """The parts that are named, all if none is."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where this runs in the background it is ignored
    for ended_by in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ended_by, signal.SIG_DFL)
    wanted = [part for part in PARTS if len(sys.argv) == 1 or {part, part.split("/")[0]} & set(sys.argv[1:])]
    if "page" in sys.argv[1:]:
        page()
    for part in wanted:
        began = time.process_time() + sum(os.times()[2:4])
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where nobody waits for a disk
        with tempfile.TemporaryDirectory(dir=memory) as place, redirect_stdout(io.StringIO()):
            tally = PARTS[part](Path(place))
        seconds = time.process_time() + sum(os.times()[2:4]) - began
        found = json.loads(PATH.read_text()) if PATH.exists() else {}
        found[part] = tally.about() | {"cpu_seconds": round(seconds), "commit": commit()}
        PATH.write_text(json.dumps({name: found[name] for name in PARTS if name in found}, indent=1) + "\n")
        page()
        print(f"{part}: {tally.tried.total()} tried, {len(tally.wrong)} wrong, {seconds:.0f} s", flush=True)
        for line in tally.wrong[:5]:
            print(f"  {line}")
        if tally.wrong:
            sys.exit(1)


if __name__ == "__main__":
    main()
