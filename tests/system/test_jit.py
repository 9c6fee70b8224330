"""Machine code is kept between runs, and whatever happens to the folder it is kept in only costs time."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tailrank._system.jit import compiled, nested

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tailrank"
HELPER = """
from tailrank._system.jit import compiled
STEP = 1
@compiled
def step(x):
    return x + 1
"""
KERNEL = """
from helper import STEP, step
from tailrank._system.jit import compiled, inlined
@inlined
def twice(x):
    return 2 * step(x)
@compiled
def kernel(x):
    return twice(x) + STEP
"""
MAIN = """
import json, sys, numpy as np
import kernels
for x in eval(sys.argv[1]):
    value = kernels.kernel(x)
hits = sum(kernels.kernel.stats.cache_hits.values())
print(json.dumps([float(value), hits]))
"""
OTHER_CPU = "from numba.core.codegen import CPUCodegen; CPUCodegen.magic_tuple = lambda self: ('other',)"
FORKS = """
import json, os, sys, traceback
import numba
from numba.core.registry import cpu_target
cpu_target.target_context.refresh()
for line in sys.stdin:
    folder, arguments, before, env = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for i, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), i)
        os.environ.clear()
        os.environ.update(env)
        numba.config.reload_config()
        sys.path.insert(0, folder)
        sys.argv[1:] = [arguments]
        sys.dont_write_bytecode = True
        try:
            exec(before)
            exec(open("main.py").read())
        except BaseException:
            traceback.print_exc()
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print(flush=True)
"""


@pytest.fixture(scope="module")
def numba_loaded():
    """A process that has loaded Numba (most of a second) and forks for every run."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=-1, stdout=-1, text=True) as process:
        yield process
        process.stdin.close()


@dataclass
class Program:
    """A program with kernels in two modules beside a copy of the package, whose folders may be damaged."""

    folder: Path
    process: subprocess.Popen

    def environment(self, **changes):
        return {"PYTHONPATH": str(self.folder), "HOME": str(self.folder / "home"), "PATH": os.defpath} | changes

    def run(self, arguments="[2.0]", before="", **changes):
        """(value, hits, stderr) of the program, in a process of its own; `before` is run first."""
        print(json.dumps([str(self.folder), arguments, before, self.environment(**changes)]), file=self.process.stdin)
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "\n"
        printed, said = ((self.folder / name).read_text() for name in ("stdout", "stderr"))
        assert printed, said
        results = [json.loads(line) for line in printed.splitlines()]
        # Several lines if it forks: a process that is late may find what another one has saved.
        assert len({value for value, _ in results}) == 1
        return (*results[-1], said)

    def entries(self):
        return sorted(self.folder.glob("**/*.nbc"))

    @property
    def pycache(self):
        return self.folder / "tailrank" / "__pycache__"

    def leave_no_folder(self):
        """Not even root can write where a file stands."""
        shutil.rmtree(self.pycache, ignore_errors=True)
        self.pycache.write_text("")
        return {"HOME": "/dev/null", "NUMBA_CACHE_DIR": "/dev/null/folder"}


@pytest.fixture
def program(tmp_path, numba_loaded):
    (tmp_path / "tailrank" / "_system").mkdir(parents=True)
    for path in (*(SOURCE / "_system").glob("*.py"), SOURCE / "checks.py"):
        shutil.copy(path, tmp_path / "tailrank" / path.relative_to(SOURCE))
    for name, text in (("tailrank/__init__.py", ""), ("helper.py", HELPER), ("kernels.py", KERNEL), ("main.py", MAIN)):
        (tmp_path / name).write_text(text)
    return Program(tmp_path, numba_loaded)


def test_the_second_run_loads_what_the_first_compiled(program):
    assert program.run() == (7.0, 0, "")
    assert {path.parent for path in program.entries()} == {program.pycache}
    assert program.run() == (7.0, 1, "")
    assert program.run("[2]") == (7.0, 0, "")  # another type, another entry
    assert program.run("[2.0]", before=OTHER_CPU) == (7.0, 0, "")
    assert program.run("[2.0]", NUMBA_BOUNDSCHECK="1") == (7.0, 0, "")
    assert program.run("[2.0]", before="import numba; numba.__version__ = '0.0'") == (7.0, 0, "")
    assert program.run("[2.0, 2]") == (7.0, 2, "")  # and none of these took the place of another


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped"])
def test_damaged_entries_are_compiled_again(program, damage):
    program.run()
    for path in program.entries():
        data = path.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"empty": b"", "cut": data[:-50], "flipped": flipped}[damage])
    assert program.run() == (7.0, 0, "")
    assert program.run() == (7.0, 1, "")


def test_an_entry_that_cannot_be_replaced_is_kept_elsewhere(program):
    program.run()
    for path in program.entries():
        path.unlink()
        path.mkdir()
    assert program.run() == (7.0, 0, "")
    assert program.run() == (7.0, 1, "")


def test_it_runs_without_compiling(program):
    command = [sys.executable, "-c", "import kernels; print(kernels.kernel(2))"]
    env = program.environment(NUMBA_DISABLE_JIT="1")
    done = subprocess.run(command, cwd=program.folder, env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr, program.entries()) == ("7\n", "", [])


def test_without_a_folder_it_compiles_in_memory_and_says_so_once(program):
    value, hits, said = program.run("[2, 2.0]", **program.leave_no_folder())
    assert (value, hits, said.count("\n")) == (7.0, 0, 1)
    assert "compiled code is not kept" in said
    assert "NUMBA_CACHE_DIR" in said
    assert program.run(HOME="", XDG_CACHE_HOME="relative")[1] == 0
    assert not (program.folder / "relative").exists()


def test_folders_are_tried_in_order(program):
    assert program.run(NUMBA_CACHE_DIR="/dev/null/folder") == (7.0, 0, "")
    assert program.run() == (7.0, 1, "")  # the package's own
    program.leave_no_folder()
    assert program.run() == (7.0, 0, "")
    assert program.run() == (7.0, 1, "")  # the user's
    assert {path.parent for path in program.entries()} == {program.folder / "home" / ".cache" / "tailrank"}
    assert program.run(NUMBA_CACHE_DIR=str(program.folder / "named")) == (7.0, 1, "")  # read from where it is
    assert program.run("[2]", NUMBA_CACHE_DIR=str(program.folder / "named")) == (7.0, 0, "")
    assert list((program.folder / "named").glob("*.nbc"))


def test_a_full_disk_costs_only_the_entry(program):
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    value, hits, said = program.run(before=full)
    assert (value, hits) == (7.0, 0)
    assert re.search(r"compiled code is not kept.*File too large", said)
    assert not list(program.folder.glob("**/*.tmp*"))
    assert program.run()[1:] == (0, "")
    assert program.run()[1:] == (1, "")


def test_folders_that_others_can_write_to_are_left_alone(program):
    program.run()
    kept, me, show = (
        program.entries(),
        os.geteuid(),
        "from tailrank._system._machine_code import folders; print(folders(), file=sys.stderr)",
    )
    for mode, owner in ((0o777, me), (0o775, me), *([(0o755, 65534)] if me == 0 else [])):
        os.chown(program.pycache, owner, -1)
        program.pycache.chmod(mode)
        value, _, used = program.run(before=show)
        assert (value, str(program.pycache) in used) == (7.0, False)
    assert sorted(program.pycache.glob("*.nbc")) == kept
    assert (program.folder / "home" / ".cache" / "tailrank").stat().st_mode & 0o777 == 0o700
    os.chown(program.pycache, me, -1)
    assert str(program.pycache) in program.run(before=show)[2]


def test_machine_code_of_an_image_is_read_where_nothing_can_be_written(program):
    program.run()
    program.pycache.chmod(0o555)
    for folder in (program.folder, *program.folder.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    other = "import os, kernels\nif os.geteuid() == 0: os.setresuid(65534, 65534, 65534)"
    assert program.run(HOME="/dev/null", before=other) == (7.0, 1, "")
    assert "not kept" in program.run("[2]", HOME="/dev/null", before=other)[2]


@pytest.mark.parametrize(("old", "new", "value"), [("x + 1", "x + 2", 9.0), ("STEP = 1", "STEP = 3", 9.0)])
def test_a_change_in_another_module_is_seen(program, old, new, value):
    program.run()
    helper = program.folder / "helper.py"
    times = helper.stat()
    helper.write_text(HELPER.replace(old, new))
    os.utime(helper, ns=(times.st_atime_ns, times.st_mtime_ns))  # within the resolution of the clock
    assert program.run()[:2] == (value, 0)
    helper.write_text("# a comment\n" + HELPER)  # back again, on other lines
    assert program.run()[:2] == (7.0, 1)


def test_processes_that_save_at_once_do_not_mix_up_their_code(program):
    others = """
import os
for kind in ("[2]", "[2.0]", "[np.float32(2)]"):
    if os.fork() == 0:
        sys.argv[1] = kind
        break
"""
    program.run(before=others)
    assert program.run("[2, 2.0, np.float32(2)]") == (7.0, 3, "")


def test_entries_that_nobody_reads_go(program):
    program.run()
    for path in program.entries():
        os.utime(path, (0, 0))
    old = program.entries()
    program.run()  # reading keeps them
    assert all(path.stat().st_mtime > 0 for path in old if path.name.startswith("kernels.kernel"))
    for path in old:
        os.utime(path, (0, 0))
    program.run("[2]")
    assert not [path for path in old if path.exists() and path.name.startswith("kernels.kernel")]


def test_an_attribute_error_of_numba_is_one_line(tmp_path):
    """Python asks `__getattr__` where a property raises an AttributeError: that must not ask the property again."""
    (tmp_path / "numba.py").write_text("import math\nmath.no_such_name")
    code = "from tailrank._system.jit import compiled\n@compiled\ndef f(x):\n    return x\nf(1)"
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE.parent}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "numba: needed for all but the smallest things, cannot be imported" in done.stderr
    assert "RecursionError" not in done.stderr


def test_an_attribute_error_in_compiling_is_no_recursion(monkeypatch):
    from tailrank._system import _machine_code

    def broken(*_):
        raise AttributeError("no such thing in this version of Numba")

    monkeypatch.setattr(_machine_code, "dispatcher", broken)
    with pytest.raises(RuntimeError, match=r"_one: cannot be compiled .no such thing in this version of Numba"):
        compiled(_one)(1)


def _one(x):
    return x


@nested
def _thrice(x):
    return 3 * x


@compiled
def _six_times(x):
    return _thrice(x) + _thrice(x)


def test_what_only_kernels_call_has_no_machine_code_until_somebody_asks_for_it(monkeypatch):
    from tailrank._system import _machine_code

    monkeypatch.setattr(_machine_code, "folders", lambda: ())  # what an earlier run kept would not be compiled
    assert _six_times(2) == 12
    (inner,) = _thrice.overloads.values()
    library, name = inner.library, inner.fndesc.llvm_func_name
    assert library.get_pointer_to_function("no such function") == 0
    assert library._compiled_object is None
    assert library.get_pointer_to_function(name) > 0
    assert library._compiled_object is not None
    assert _six_times(2.5) == 15.0  # for other types it is compiled again


def test_a_numba_that_cannot_be_imported_is_one_line(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 1.2 or less.\\nGot NumPy 9.')")
    model = SOURCE.parent.parent / "examples" / "models" / "betting.json"
    command = [sys.executable, "-m", "tailrank", "solve", str(model), "--tau", "0.1"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE.parent)])}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "(Numba needs NumPy 1.2 or less. Got NumPy 9.)" in done.stderr


def test_compiling_is_said_once_and_only_on_a_terminal(program, monkeypatch, capsys):
    from tailrank._system import _machine_code

    assert program.run() == (7.0, 0, "")
    for terminal, line in ((False, ""), (True, "compiling for this machine; takes some seconds, once\n")):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        _machine_code._announce.cache_clear()
        _machine_code._announce()
        _machine_code._announce()
        assert capsys.readouterr().err == line
