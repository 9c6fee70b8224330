"""Sweeps on every backend give the same bytes, whoever is killed on the way: workers, the scheduler, the sweep."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tailrank.runs import folder as files
from tailrank.runs.sweeps.file import read_sweep
from tailrank.runs.sweeps.sweep import RECORD, run_sweep

TAILRANK = [sys.executable, "-c", "from tailrank.cli import main; main()"]
FILE = """
tau = [0.1, 1]
seeds = 2
iterations = 100
checkpoint_every = 4
output_episodes = 20
environment = "risky-lock"
settings = {horizon = 4, n_actions = 3, n_states = 12}
"""
LIMIT = 180.0
"""Seconds after which a test is stuck."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "s.toml"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def expected(path):
    """What every way of running the sweep must give."""
    sweep = read_sweep(path, path.parent / "serial")
    run_sweep(sweep, backend="serial")
    return outcome(sweep.out)


def outcome(out):
    """All bytes of a sweep, but for times and places."""
    found = {RECORD: (out / RECORD).read_bytes()}
    for folder in sorted(path for path in out.iterdir() if path.is_dir()):
        for name in (files.CONFIG, files.ROWS, files.PLAN, files.BEST, files.CHECKPOINT):
            # A checkpoint says how many seconds the run took.
            found[f"{folder.name}/{name}"] = name == files.CHECKPOINT or (folder / name).read_bytes()
        manifest = files.read_manifest(folder)
        manifest["result"] = {k: v for k, v in manifest["result"].items() if k not in ("seconds", "out")}
        found[f"{folder.name}/{files.MANIFEST}"] = manifest
    assert len(found) == 1 + 4 * 6
    return found


def until(condition, *processes):
    """Wait for what the condition gives, while the processes live."""
    limit = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < limit, "nothing happened"
        assert all(process.poll() is None for process in processes), "a process ended before"
        time.sleep(0.005)
    return found


@pytest.fixture
def kept():
    """Gives a process back, and ends it with the test, whatever happens: its pipes are closed, too."""
    with ExitStack() as all_of_them:

        def keep(process):
            all_of_them.callback(process.communicate)
            all_of_them.callback(process.kill)
            return process

        yield keep


def start(path, out, *arguments):
    command = [*TAILRANK, "sweep", str(path), "--out", str(out), *arguments]
    # A group of its own, as in a terminal, to which Ctrl-C goes.
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)


def ended(process):
    """Exit code, stdout, and the lines on stderr that are ours: what Dask says on a busy machine is its business."""
    stdout, stderr = process.communicate(timeout=LIMIT)
    lines, dask = stderr.splitlines(), "distributed" in stderr
    return process.returncode, stdout, [line for line in lines if not dask or line.startswith("tailrank: ")]


def finished(process):
    code, stdout, errors = ended(process)
    assert (code, errors) == (0, [])
    assert "0 failed" in stdout


def resumed(path, out):
    """What the same sweep gives afterwards, in this process."""
    run_sweep(read_sweep(path, out), backend="serial")
    return outcome(out)


def holder(folder):
    """The process that has the lock of a run, if one has."""
    try:
        lock = (folder / files.LOCK).stat()
    except FileNotFoundError:
        return None
    for line in Path("/proc/locks").read_text().splitlines():
        kind, pid, place = (line.split()[i] for i in (1, 4, 5))
        if kind == "FLOCK" and int(place.split(":")[2]) == lock.st_ino and has_open(int(pid), lock):
            return int(pid)
    return None


def has_open(pid, about):
    """Whether a process has this file open: another disk may have a file of the same number."""
    own = Path(f"/proc/{pid}/fd")
    with suppress(OSError):  # it may end, or close a file, while this looks
        return any(os.path.samestat((own / number).stat(), about) for number in os.listdir(own))
    return False


@contextmanager
def paused(out, *processes):
    """(process, folder) of a run past a checkpoint and far from its end, which stands still until this is left."""

    def one():
        for folder in out.glob("*_seed*"):
            pid = holder(folder)
            if pid is None or not (folder / files.CHECKPOINT).exists():
                continue
            send(pid, signal.SIGSTOP)
            stopped.append(pid)
            if holder(folder) == pid and (folder / files.ROWS).read_bytes().count(b"\n") < 90:
                return pid, folder
            send(stopped.pop(), signal.SIGCONT)
        return None

    stopped = []
    try:
        yield until(one, *processes)
    finally:
        for pid in stopped:
            send(pid, signal.SIGCONT)


def send(pid, number):
    """A signal, if the process is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_a_worker(out, *processes):
    """SIGKILL the worker of a run that is past a checkpoint and not finished; the folder of the run."""
    with paused(out, *processes) as (pid, folder):
        os.kill(pid, signal.SIGKILL)
    return folder


def statuses(out):
    """The statuses of the runs that have one: a run has a folder before it has a manifest."""
    found = [files.read_manifest(folder).get("status") for folder in out.glob("*_seed*")]
    return {status for status in found if status}


def test_the_same_bytes_from_several_workers(kept, path, expected, tmp_path):
    finished(kept(start(path, tmp_path, "--backend", "processes", "--workers", "2")))
    assert outcome(tmp_path) == expected


@pytest.mark.parametrize("backend", ["processes", "dask"])
def test_killed_workers_lose_nothing(kept, path, expected, tmp_path, backend):
    sweep = kept(start(path, tmp_path, "--backend", backend, "--workers", "2"))
    folder = kill_a_worker(tmp_path, sweep)
    rows = (folder / files.ROWS).read_bytes()
    if backend == "processes":
        kill_a_worker(tmp_path, sweep)
    finished(sweep)
    assert outcome(tmp_path) == expected
    assert expected[f"{folder.name}/{files.ROWS}"].startswith(rows[: rows.rfind(b"\n") + 1])


def test_a_run_whose_workers_keep_dying_is_given_up(kept, tmp_path):
    path, doomed = tmp_path / "s.toml", tmp_path / "out" / "doomed_ela_tau0.1_seed0"
    tables = (
        f'[[environment]]\nenvironment = "risky-shortcut"\n{more}\n'
        for more in (
            'name = "doomed"\niterations = 100_000\ncheckpoint_every = 100_000',
            'name = "lucky"\niterations = 5',
        )
    )
    path.write_text("".join(tables))
    sweep = kept(start(path, tmp_path / "out", "--workers", "1"))
    killed = []
    while len(killed) < 3:
        pid = until(lambda: holder(doomed), sweep)
        if pid not in killed:
            send(pid, signal.SIGKILL)
            killed.append(pid)
    code, stdout, errors = ended(sweep)
    assert code == 1
    assert "2 runs, 1 finished now, 1 failed" in stdout
    why = "given up after its worker was lost 3 times (its process was killed by SIGKILL)"
    assert errors[0] == f"tailrank: failed: {doomed.name}: {why}"


@pytest.mark.parametrize(("backend", "number"), [("serial", 2), ("processes", 1), ("dask", 2)])
def test_ctrl_c_and_again(kept, path, expected, tmp_path, backend, number):
    """Ctrl-C, or the end of the terminal."""
    sweep = kept(start(path, tmp_path, "--backend", backend))
    with paused(tmp_path, sweep):
        os.killpg(sweep.pid, number)
    code, stdout, errors = ended(sweep)
    assert (code, stdout, len(errors)) == (128 + number, "", 1)
    assert "the same command goes on" in errors[0]
    assert not any(holder(folder) for folder in tmp_path.glob("*_seed*"))
    record = json.loads((tmp_path / RECORD).read_text())["runs"]
    assert {about["status"] for about in record} & {"begun", "new"}
    assert statuses(tmp_path) <= {"interrupted", "finished"}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [".lock", RECORD]
    assert resumed(path, tmp_path) == expected


def test_workers_do_not_outlive_a_killed_sweep(kept, path, expected, tmp_path):
    sweep = kept(start(path, tmp_path, "--workers", "2"))
    with paused(tmp_path, sweep):
        sweep.kill()
        sweep.wait()
    until(lambda: not any(holder(folder) for folder in tmp_path.glob("*_seed*")))
    assert "interrupted" in statuses(tmp_path)
    assert resumed(path, tmp_path) == expected


def dask(what, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def listens(port):
    """Whether a connection can be made."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_restarted_scheduler_loses_nothing(kept, path, expected, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", str(port))
    worker = ("worker", address, "--nthreads", "1", "--no-nanny")
    first = kept(dask(*scheduler))
    until(lambda: listens(port), first)
    workers = [kept(dask(*worker)) for _ in range(2)]
    sweep = kept(start(path, tmp_path, "--scheduler", address))
    with paused(tmp_path, sweep) as (_, folder):
        first.kill()
        first.wait()
        assert files.read_manifest(folder)["status"] == "running"
    kept(dask(*scheduler))

    def over():
        # Workers end with their scheduler; whoever started them starts them again.
        for process in [process for process in workers if process.poll() is not None]:
            workers.remove(process)
            workers.append(kept(dask(*worker)))
        return sweep.poll() is not None

    until(over)
    finished(sweep)
    assert outcome(tmp_path) == expected


ODD_CLUSTERS = """
import sys
from pathlib import Path
import pytest
from distributed import LocalCluster
from tailrank.checks import InputError
from tailrank.runs.sweeps import _cluster as cluster
from tailrank.runs.sweeps._backends import SweepTask
from tailrank.runs.sweeps.sweep import run_sweep
from tailrank.runs.sweeps.file import read_sweep

sweep = read_sweep(sys.argv[1], sys.argv[2])
with LocalCluster(n_workers=0, processes=False, dashboard_address=':0') as there:
    with cluster.Cluster(sweep.out, 1, there.scheduler_address) as waiting:
        waiting.submit(SweepTask("a", {}, "a"))
        assert waiting.answer() is None
        assert waiting.trouble() == "waiting for workers"
    assert not list(sweep.out.iterdir())
with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=':0') as there:
    outcome = run_sweep(sweep, backend="dask", scheduler=there.scheduler_address)
assert len(outcome.failed) == 4
assert set(outcome.failed.values()) == {"its worker has 2 threads; start Dask workers with --nthreads 1"}
cluster.CONNECT = 0.2
for address in ("tcp://127.0.0.1:1", "tpc://127.0.0.1:1"):
    with pytest.raises(InputError, match="scheduler = .*cannot be reached"):
        run_sweep(sweep, backend="dask", scheduler=address)
"""


def test_clusters_without_workers_with_busy_ones_and_none(path, tmp_path):
    # In a process of its own: a scheduler leaves sockets for the garbage collector, which warns.
    command = [sys.executable, "-c", ODD_CLUSTERS, str(path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
