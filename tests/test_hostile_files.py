"""Files made to harm: bombs, pipes, devices, links, names of modules. Each ends with a line and leaves no trace."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save as pack

from made_runs import final, learning, write_run
from tailrank import InputError, load, read_mdp
from tailrank._system.reading import MOST_ENTRIES, parse_json
from tailrank.cli import main
from tailrank.report.sources import of_runs
from tailrank.runs.config import RunConfig
from tailrank.runs.run import resume, run
from tailrank.runs.sweeps.file import read_sweep

MEMORY = 4 * 2**30
LOCK = {"horizon": 3, "n_actions": 2, "n_states": 6}


def command(*arguments):
    """Exit code, output and errors of the command line."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def npy(shape, kind="<f8", data=b"", length=None):
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text) if length is None else length) + text + data


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return out.getvalue()


HEAD = b"step,state,action,next_state,probability,reward\n"
ROW = b"0,0,0,0,1,1\n"


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


BOMBS = {
    "gzip.csv.gz": lambda: gzip.compress(HEAD + b"0" * (2**28 + 1), 1),
    "entries.csv.gz": lambda: gzip.compress(HEAD + b"," * (MOST_ENTRIES + 1), 1),
    "lists.json.gz": lambda: gzip.compress(b"[" + b"[]," * MOST_ENTRIES + b"[]]", 1),
    "deep.json": lambda: b"[" * 10**6,
    "digits.json": lambda: b'{"horizon": ' + b"9" * 10**6 + b', "rows": [[0,0,0,0,1,1]]}',
    "digits.csv": lambda: HEAD + b"0,0,0,0,1," + b"9" * 10**6 + b"\n",
    "state.csv": lambda: HEAD + b"0,1000000000000,0,0,1,1\n",
    "step.csv": lambda: HEAD + b"1000000000000,0,0,0,1,1\n",
    "float.csv": lambda: HEAD + b"0,0,0,0,1,1e999999\n",
    "state.json": lambda: b'{"horizon": 2, "rows": [[0, 0, 1e15, 1, 1]]}',
    "header.npz": lambda: zipped(P=npy("(2,1,2)", length=2**31, data=b" " * 2**27), R=npy("(2,1)")),
    "shape.npz": lambda: zipped(P=npy("(100000, 10, 100000)"), R=npy("(100000,)")),
    "short.npz": lambda: zipped(P=npy("(10000, 1, 10000)"), R=npy("(10000,)")),
    "overflow.npz": lambda: zipped(P=npy(f"({2**62}, 4, {2**62})"), R=npy("(2,1)")),
    "object.npz": lambda: zipped(P=npy("(1,)", "|O", b"cos\nsystem\n(S'true'\ntR."), R=npy("(1,)")),
    "dense.npz": lambda: zipped(
        P=npy("(300, 200, 300)", data=np.full(18_000_000, 1 / 300).tobytes()), R=npy("(300,)", data=bytes(2400))
    ),
    "long.policy": lambda: safetensors({"x": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}),
    "overflow.policy": lambda: safetensors({"x": {"dtype": "F64", "shape": [2**62, 8], "data_offsets": [0, 0]}}),
    "length.policy": lambda: struct.pack("<Q", 2**63 - 1) + b"{}",
    "deep.policy": lambda: safetensors(b'{"__metadata__":' + b'{"a":' * 10**5),
    "notes.policy": lambda: pack({}, metadata={"tailrank": "[" * 10**6}),
    "many.policy": lambda: pack({}, metadata={"tailrank": "[" + "[]," * (2**24) + "[]]"}),
}


READ = """
import json, resource, sys
from pathlib import Path
from tailrank import InputError, load, read_mdp
from tailrank.cli import main
resource.setrlimit(resource.RLIMIT_AS, (%d, %d))
for path in map(Path, sys.argv[1:]):
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    try:
        found = (load if path.suffix == ".policy" else read_mdp)(path)
        said = f"was read: {found}"
    except InputError as error:
        said = str(error)
    peak = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    print(json.dumps([path.name, said, int(peak.split()[1]) * 1024 - before]))
"""


def test_bombs_end_with_a_line_and_little_memory(tmp_path):
    for name, make in BOMBS.items():
        (tmp_path / name).write_bytes(make())
    code = READ % (MEMORY, MEMORY)
    names = [str(tmp_path / name) for name in BOMBS]
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, timeout=300)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in found] == list(BOMBS), done.stderr
    for name, said, memory in found:
        assert name in said
        assert not said.startswith("was read")
        assert "MemoryError" not in said
        assert memory < 1.3 * 2**30, name
    code, out, err = command("import", tmp_path / "deep.json")
    said = next(said for name, said, _ in found if name == "deep.json")
    assert (code, out, err) == (2, "", f"tailrank: error: {said}\n")


@pytest.mark.parametrize("name", ["m.csv", "m.json", "m.npz", "m.csv.gz", "p.policy"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket"])
def test_what_is_no_file_is_refused(name, kind, tmp_path):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as held:
            held.bind(str(path))
    with pytest.raises(InputError, match=r"no such file|must be a file"):
        load(path) if name.endswith(".policy") else read_mdp(path)


def test_a_name_with_a_nul_byte():
    for read in (load, read_mdp, RunConfig.read, resume):
        with pytest.raises(InputError) as error:
            read("a\0b.json")
        assert str(error.value).isprintable()


@pytest.fixture
def finished(tmp_path):
    run(RunConfig.of("risky-lock", iterations=2, settings=LOCK, output_episodes=20), tmp_path / "r")
    return tmp_path / "r"


NAMES = ("manifest.json", "config.toml", "rows.jsonl", "plan.safetensors", "checkpoint.safetensors", ".lock")


@pytest.mark.parametrize("name", NAMES)
def test_pipes_and_devices_in_the_folder_of_a_run(finished, name):
    """They are refused or passed over; nothing waits for them."""
    for put in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (finished / name).unlink(missing_ok=True)
        put(finished / name)
        for use in (lambda: of_runs([finished]), lambda: resume(finished)):
            with contextlib.suppress(InputError, OSError):
                use()
        with pytest.raises(InputError):
            run(RunConfig.of("decoy", iterations=1), finished)


@pytest.fixture
def half(tmp_path):
    """A run that was stopped after its first iteration."""

    def progress(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            RunConfig.of("risky-lock", iterations=3, settings=LOCK, checkpoint_every=1),
            tmp_path / "half",
            progress=progress,
        )
    return tmp_path / "half"


WRITTEN = ("manifest.json", "rows.jsonl", "plan.safetensors", "best.safetensors", "checkpoint.safetensors")


@pytest.mark.parametrize("name", [*WRITTEN, ".lock", *(f".{name}.tmp" for name in WRITTEN)])
def test_going_on_with_a_run_writes_in_its_folder_only(half, tmp_path, name):
    victim = tmp_path / "precious"
    kept = (half / name).read_bytes() if (half / name).exists() else b"precious"
    victim.write_bytes(kept)
    (half / name).unlink(missing_ok=True)
    (half / name).symlink_to(victim)
    if name in (".lock", "rows.jsonl"):
        with pytest.raises(InputError, match="is a link; a run writes in its own folder only"):
            resume(half)
    else:
        assert resume(half)["status"] == "finished"
    assert victim.read_bytes() == kept


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_with_another_name_is_not_written_through(half, tmp_path, name):
    """A copy of the folder made of hard links (cp -al) can go on while the other stays as it is."""
    (half / name).touch()
    other = tmp_path / "other"
    os.link(half / name, other)
    kept = other.read_bytes()
    assert resume(half)["status"] == "finished"
    assert other.read_bytes() == kept


def test_a_new_run_does_not_write_through_another_name(tmp_path):
    victim = tmp_path / "precious"
    victim.write_bytes(b"precious")
    (tmp_path / "r").mkdir()
    os.link(victim, tmp_path / "r" / ".config.toml.tmp")
    os.link(victim, tmp_path / "r" / ".lock")
    run(RunConfig.of("risky-lock", iterations=1, settings=LOCK), tmp_path / "r")
    assert victim.read_bytes() == b"precious"


def test_a_link_that_leads_nowhere_makes_no_file(half, tmp_path):
    for name in (".lock", "rows.jsonl"):
        (half / name).unlink()
        (half / name).symlink_to(tmp_path / "new")
        with pytest.raises(InputError, match="is a link"):
            resume(half)
        (half / name).unlink()
        (half / name).touch()
    assert not (tmp_path / "new").exists()


def test_what_lies_at_the_name_of_a_temporary_file_is_not_written_to(tmp_path):
    from tailrank._system.atomic import write_bytes

    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / ".out.tmp").symlink_to(tmp_path / "precious")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    write_bytes(tmp_path / "out", b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
    write_bytes(tmp_path / "link", b"inside", inside=True)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()


EVIL = "from pathlib import Path\nPath('harm').write_text('done')\n"
FOREIGN = {
    "imports": 'environment = "FrozenLake-v1"\niterations = 2\nhorizon = 3\nimports = ["evil"]\n',
    "module": 'environment = "evil:FrozenLake-v1"\niterations = 2\nhorizon = 3\n',
    "learner": 'environment = "risky-lock"\niterations = 2\nalgorithm = "evil:Learner"\n',
    "simulated": 'environment = "evil:CartPole-v1"\niterations = 2\nmodel = "mixture"\nhorizon = 3\n',
}


def foreign(folder, kind):
    """A run of somebody else whose configuration names a module that lies beside it."""
    write_run(folder / "r", learning([0.1, 0.2]), final(0.2), status="running")
    (folder / "r" / "config.toml").write_text(FOREIGN[kind])
    (folder / "r" / "plan.safetensors").write_bytes(b"")
    (folder / "evil.py").write_text(EVIL)
    return folder / "r"


@pytest.mark.parametrize("kind", FOREIGN)
def test_no_file_has_a_module_imported(kind, tmp_path, monkeypatch):
    out = foreign(tmp_path, kind)
    (tmp_path / "sweep.toml").write_text(FOREIGN[kind].replace("iterations", "seeds = 1\niterations"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"would import the package 'evil', .* --import evil"):
        resume(out)
    with pytest.raises(InputError, match="would import the package 'evil'"):
        read_sweep(tmp_path / "sweep.toml")
    subject = of_runs([out])
    if kind != "simulated":
        assert any("would import the package 'evil'" in line for line in subject.warnings)
    assert not (tmp_path / "harm").exists()
    assert "evil" not in sys.modules


def test_the_command_line_asks_for_the_name(tmp_path, monkeypatch):
    out = foreign(tmp_path, "imports")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    refused = [
        ("evaluate", out, "--episodes", "5"),
        ("train", "--resume", out),
        ("train", "--config", out / "config.toml", "--out", "new"),
        ("sweep", out / "config.toml", "--out", "s", "--dry-run"),
    ]
    for arguments in refused:
        code, _, err = command(*arguments)
        assert code == 2
        assert "--import evil" in err or "seeds" in err
    for arguments in (("report", out, "-o", "r.html"), ("compare", out)):
        assert command(*arguments)[0] == 0
    assert not (tmp_path / "harm").exists()
    code, _, err = command("train", "--resume", out, "--import", "evil", "--quiet")
    assert (code, err) == (0, "")
    assert (tmp_path / "harm").read_text() == "done"
    del sys.modules["evil"]


def test_a_run_of_ones_own_needs_no_word(tmp_path, monkeypatch):
    """What the user typed is trusted, and a sweep hands it on to its workers."""
    (tmp_path / "mine.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    config = RunConfig.of("mine:FrozenLake-v1", iterations=1, horizon=3, output_episodes=5)
    assert run(config, tmp_path / "r")["status"] == "finished"

    from tailrank.runs.sweeps._worker import work

    assert work(config.tables(), str(tmp_path / "r"))["status"] == "finished"


@pytest.mark.parametrize("entry", ["[],", "{},", "0.5,", '"ab",', '{"a":1},'])
def test_memory_of_an_entry_is_bounded(entry):
    """docs/security.md says how much memory a text can take: entries that are counted, times this."""
    text = f"[{entry * 2**16}0]"
    marks = sum(map(text.count, ",[{"))
    tracemalloc.start()
    parse_json(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * marks
