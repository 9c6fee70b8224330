"""Runs that are stopped, shut out or watched: signals, terminals, full and read-only disks, clocks, other processes."""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import pytest
import rich.progress

import crashes
import faults
from tailrank._system.atomic import write_bytes
from tailrank.checks import InputError
from tailrank.runs import folder as files
from tailrank.runs._signals import Stop
from tailrank.runs.config import RunConfig
from tailrank.runs.job import Job
from tailrank.runs.read import Run
from tailrank.runs.run import Interrupted, resume, run

assert rich.progress  # children that may not read the library use what is imported here


pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, which no child uses


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    # Threads do not survive a fork.
    monkeypatch.setenv("TAILRANK_THREADS", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("stopped")


@pytest.fixture(scope="module")
def expected(place):
    """A configuration as a file, and what it gives if nothing disturbs it."""
    config = crashes.write(place, "ela")
    run(RunConfig.read(config), place / "whole")
    return config, crashes.outcome(place / "whole")


def train(config, out):
    return lambda: crashes.call(crashes.arguments(out, config))


def goes_on(config, out, outcome):
    again = faults.run(train(config, out), out)
    assert (again.code, again.stderr) == (0, ""), again.stderr
    assert crashes.outcome(out) == outcome


# Signals


@pytest.mark.parametrize("name", crashes.CASES)
def test_stopped_before_the_first_iteration(name, tmp_path, monkeypatch):
    config = RunConfig.from_dict(crashes.CASES[name])
    run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Job, "begin", begun_and_stopped(Job.begin))
        with pytest.raises(Interrupted, match="after 0 iterations") as error:
            run(config, tmp_path / "parts")
    assert error.value.exit_code == 128 + signal.SIGTERM
    resume(tmp_path / "parts")
    assert crashes.outcome(tmp_path / "parts") == crashes.outcome(tmp_path / "whole")


def begun_and_stopped(begin):
    def both(self, *arguments):
        begin(self, *arguments)
        os.kill(os.getpid(), signal.SIGTERM)

    return both


@pytest.mark.parametrize(
    ("numbers", "first", "at_once"),
    [
        ([signal.SIGINT], signal.SIGINT, False),
        ([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM], signal.SIGHUP, False),
        ([signal.SIGTERM, signal.SIGINT], signal.SIGTERM, False),
        ([signal.SIGINT, signal.SIGINT], signal.SIGINT, True),
        ([signal.SIGHUP, signal.SIGTERM, signal.SIGTERM], signal.SIGHUP, True),
    ],
)
def test_the_first_signal_asks_the_same_again_does_not_wait(numbers, first, at_once):
    stop, came = Stop(), False
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with stop.heed_signals():
        try:
            for number in numbers:
                os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            came = True
    assert (stop.number, came) == (first, at_once)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize(("number", "heard"), [(signal.SIGHUP, False), (signal.SIGINT, False), (signal.SIGTERM, True)])
def test_signals_that_are_ignored_stay_so(number, heard):
    stop, before = Stop(), signal.signal(number, signal.SIG_IGN)  # as nohup does, and a shell in the background
    try:
        with stop.heed_signals():
            os.kill(os.getpid(), number)
        assert stop.number == (number if heard else 0)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_a_terminal_that_is_closed(kind, place, tmp_path, monkeypatch):
    """The end of the line on a dumb one was an error."""
    monkeypatch.setenv("TERM", kind)
    config = tmp_path / "c.toml"
    config.write_text(RunConfig.from_dict(crashes.LOCK | {"iterations": 400, "checkpoint_every": 400}).toml())
    run(RunConfig.read(config), tmp_path / "whole")
    slowed = slowly(lambda: crashes.call(["train", "--config", config, "--out", tmp_path / "out"]), 0.02)
    child, terminal = pty.fork()
    if child == 0:
        faults.call(slowed, 1, 2)
    while rows_in(tmp_path / "out") < 4:
        if select.select([terminal], [], [], 0.05)[0]:  # a dumb terminal is shown next to nothing
            os.read(terminal, 1000)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGHUP
    assert files.read_manifest(tmp_path / "out")["status"] == "interrupted"
    assert (tmp_path / "out" / files.CHECKPOINT).exists()
    goes_on(config, tmp_path / "out", crashes.outcome(tmp_path / "whole"))


def slowly(command, seconds):
    """The command, for a child, with a pause after every row: whoever watches it is in time."""

    def append(self, row):
        at_once(self, row)
        time.sleep(seconds)

    def slowed():
        files.Rows.append = append
        command()

    at_once = files.Rows.append
    return slowed


def rows_in(folder):
    try:
        return (folder / files.ROWS).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


# Disks


def test_no_file_is_written_past_the_faults(tmp_path):
    """The faults of these tests are all there are: Python itself tells of every file that is opened or renamed."""
    config = crashes.write(tmp_path, "simulator")
    seen = []

    def hook(event, arguments):
        if event in ("open", "os.rename", "os.mkdir", "os.truncate", "os.remove"):
            writes = event != "open" or arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and str(arguments[0]).startswith(str(tmp_path / "out")):
                seen.append({"os.rename": "replace", "os.remove": "unlink"}.get(event, event.removeprefix("os.")))

    def watched():
        sys.addaudithook(hook)
        try:
            train(config, tmp_path / "out")()
        finally:
            print(json.dumps(seen))

    ended = faults.run(watched, tmp_path)
    assert ended.code == 0, ended.stderr
    calls = [call for call in ended.calls if call not in ("write", "fsync", "ftruncate")]
    assert json.loads(ended.stdout.splitlines()[-1]) == calls


def test_a_file_that_may_not_grow(expected, tmp_path):
    """What a quota does: the kernel cuts a file off at some byte."""
    config, outcome = expected
    sizes = {path.stat().st_size for path in (config.parent / "whole").iterdir()}
    # Rows hold seconds, which have more digits in one run than in the next.
    limits = sorted(int(0.9 * size) for size in sizes if size)

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[0], resource.RLIM_INFINITY))
        train(config, tmp_path / "out")()

    while limits:
        ended = faults.run(limited, tmp_path)
        assert ended.code == 2
        assert ended.stderr.startswith(f"tailrank: error: {tmp_path / 'out'}")
        assert "File too large" in ended.stderr
        assert ended.stderr.count("\n") == 1
        limits.pop(0)
    goes_on(config, tmp_path / "out", outcome)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 pages, and a function that gives it another size or makes it read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
        return done.returncode == 0

    if shutil.which("mount") is None or not mount("-t", "tmpfs", "-o", "size=8k", "tailrank-test"):
        pytest.skip("a file system cannot be mounted here; test_a_file_that_may_not_grow and faults stand for it")
    try:
        yield folder, lambda options: mount("-o", f"remount,{options}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_full_and_one_that_is_read_only(small_disk, expected):
    (folder, remount), (config, outcome) = small_disk, expected
    out = folder / "out"
    for pages in range(2, 40):
        assert remount(f"size={4 * pages}k")
        ended = faults.run(train(config, out), folder)
        if not ended.code:
            break
        assert ended.code == 2
        assert ended.stderr.count("\n") == 1
        assert ended.stderr.startswith(f"tailrank: error: {out}")
        assert "No space left on device" in ended.stderr
        crashes.whole_so_far(out, outcome[files.ROWS])
    assert 4 < pages < 39
    assert crashes.outcome(out) == outcome
    shutil.rmtree(out)
    assert remount("size=1m,ro")
    ended = faults.run(train(config, out), folder)
    assert (ended.code, ended.stderr) == (2, f"tailrank: error: {out}: Read-only file system\n")
    assert remount("rw")
    goes_on(config, out, outcome)


def test_a_folder_of_somebody_else(expected):
    config, outcome = expected
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        out = Path(top) / "out"
        out.mkdir(mode=0o555)

        def as_nobody():
            if os.geteuid() == 0:
                os.setuid(65534)  # for root there are no modes
            crashes.call(["train", "--config", config_there, "--out", out, "--quiet"])

        config_there = Path(top) / "c.toml"
        config_there.write_bytes(config.read_bytes())
        config_there.chmod(0o644)
        ended = faults.run(as_nobody, Path(top))
        assert (ended.code, ended.stderr) == (2, f"tailrank: error: {out / files.LOCK}: Permission denied\n")
        out.chmod(0o755)
        goes_on(config, out, outcome)


def test_a_clock_that_is_wrong(expected, tmp_path):
    config, outcome = expected
    times = iter([2e9, 1e9, 0.0, -1.0] * 1000)

    def confused():
        time.time, time.time_ns = (lambda: next(times)), (lambda: int(next(times)))
        try:
            train(config, tmp_path / "out")()
        finally:
            os.utime(tmp_path / "out" / files.CHECKPOINT, (0, 0))

    ended = faults.run(confused, tmp_path, 40, "once")
    assert ended.code == 2
    goes_on(config, tmp_path / "out", outcome)


# Other processes


def test_two_resume_at_once(tmp_path):
    config = RunConfig.from_dict(crashes.LOCK | {"iterations": 300, "checkpoint_every": 5})
    run(config, tmp_path / "whole")
    (tmp_path / "c.toml").write_text(config.toml())
    out = tmp_path / "out"
    assert faults.run(train(tmp_path / "c.toml", out), out, 60, "kill").code == -signal.SIGKILL
    over = tmp_path / "over"

    def held(self, row):
        while not over.exists():
            time.sleep(0.01)
        append(self, row)

    def one():
        files.Rows.append = held
        train(tmp_path / "c.toml", out)()

    append = files.Rows.append
    with ThreadPoolExecutor(2) as pool:
        pair = [pool.submit(faults.run, one, out) for _ in range(2)]
        wait(pair, return_when=FIRST_COMPLETED)  # the one that came too late; the other one waits for the file
        over.touch()
    both = [each.result() for each in pair]
    refused = f"tailrank: error: {out}: is in use by another process; wait for it, or choose another --out\n"
    assert sorted((ended.code, ended.stderr) for ended in both) == [(0, ""), (2, refused)]
    assert crashes.outcome(out) == crashes.outcome(tmp_path / "whole")


def test_readers_of_a_run_that_is_killed_and_goes_on(tmp_path):
    config = RunConfig.from_dict(crashes.LOCK | {"iterations": 30, "checkpoint_every": 1})
    run(config, tmp_path / "whole")
    whole = crashes.outcome(tmp_path / "whole")
    (tmp_path / "c.toml").write_text(config.toml())
    out, looks = tmp_path / "out", 0
    for at in (20, 60, 100, None):
        writer = os.fork()
        if writer == 0:
            slowed = slowly(train(tmp_path / "c.toml", out), 0.005)
            os._exit(faults.run(slowed, out, at).code != (0 if at is None else -9))
        while (done := os.waitpid(writer, os.WNOHANG)) == (0, 0):
            if (out / files.CONFIG).exists():
                found, looks = Run.read(out), looks + 1
                assert found.rows == [json.loads(line) for line in whole[files.ROWS].splitlines()][: len(found.rows)]
                assert "damaged" not in found.policy[1]
        assert done == (writer, 0)  # nobody who only reads keeps it from the folder
        assert Run.read(out).status == ("finished" if at is None else "stopped")
    assert looks > 4
    assert crashes.outcome(out) == whole


def test_a_lock_does_not_outlive_its_process(tmp_path):
    """A child that an environment forked lives on when the run was killed."""
    (reading, writing), (lives, born) = os.pipe(), os.pipe()
    holder = os.fork()
    if holder == 0:
        with files.lock_folder(tmp_path):
            if os.fork() == 0:
                os.close(writing)
                os.write(born, b".")
                os.read(reading, 1)
                os._exit(0)
            os.read(lives, 1)
            os.kill(os.getpid(), signal.SIGKILL)
    for number in (reading, lives, born):
        os.close(number)
    try:
        os.waitpid(holder, 0)
        assert not files.in_use(tmp_path)
        with files.lock_folder(tmp_path):
            assert files.in_use(tmp_path)
            with pytest.raises(InputError, match="in use"), files.lock_folder(tmp_path):
                pass
    finally:
        os.close(writing)


def test_writers_of_one_file_do_not_mix(tmp_path):
    path, texts = tmp_path / "file", [letter * 300_000 for letter in (b"a", b"b", b"c")]
    writers = []
    for text in texts:
        writers.append(os.fork())
        if writers[-1] == 0:
            code = 1
            try:
                for _ in range(40):
                    write_bytes(path, text)
                code = 0
            finally:
                os._exit(code)
    while writers:
        done, status = os.waitpid(writers[0], os.WNOHANG)
        if done:
            writers.remove(done)
            assert status == 0
        if path.exists():
            assert path.read_bytes() in texts
    assert os.listdir(tmp_path) == ["file"]
