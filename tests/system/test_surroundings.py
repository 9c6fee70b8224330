"""Tests pass whatever the caller's signal dispositions, umask, locale, home and time zone are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
ODD = {"LC_ALL": "tr_TR.ISO-8859-9", "LANG": "de_DE", "TZ": "Pacific/Kiritimati", "HOME": "/nonexistent"}
ODDLY = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.umask(0o077)
os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
def test_an_odd_caller(tmp_path):
    """As under nohup, in a script's background, with another umask, locale, home and time zone."""

    wanted = ["tests/runs/test_stopped.py::test_the_first_signal_asks_the_same_again_does_not_wait"]
    wanted += ["tests/runs/test_stopped.py::test_signals_that_are_ignored_stay_so", "tests/test_checks.py"]
    done = subprocess.run(
        [sys.executable, "-c", ODDLY, "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}", *wanted],
        cwd=HERE.parent,
        env=os.environ | ODD,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


LITTLE = """
import resource
import numpy, scipy.linalg
from tailrank._system.blas import claim_buffers
claim_buffers()  # without a limit it does nothing
claim_buffers.cache_clear()
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**25, size + 2**25))
try:
    claim_buffers()
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads how much is mapped")
def test_a_matrix_library_without_room_is_an_error_and_no_endless_loop():
    """OpenBLAS tries for ever to map its buffer."""
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", LITTLE], env=alone, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("64 MB for a matrix library could not be allocated"), done.stderr
