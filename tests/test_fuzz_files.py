"""Whatever a file holds, using it gives a result or an InputError of one printable line, and nothing else."""

from __future__ import annotations

import pytest

from fuzz_targets import MAKERS, targets

CHECKPOINTS = ("ela", "cvar-lsvi-ucb", "observed mixture", "rival bins")
"""Those of the kernel and low-rank learners, slower, are in the study."""
NAMES = [name for name in MAKERS if not name.startswith("checkpoint ")] + [f"checkpoint {x}" for x in CHECKPOINTS]
EACH = {"run": 4, "checkpoint": 4}
"""Damages of each file here, else 12; `studies/fuzz_files.py` does all files, as often as one likes."""


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    return targets(folder, NAMES), folder


def test_whole_files_are_used(known):
    found, folder = known
    assert [target.name for target in found] == NAMES
    assert {target.name: said for target in found if (said := target.tried(target.data, folder))} == {}


def test_damaged_files_end_with_a_line(known):
    found, folder = known
    refused = 0
    for target in found:
        for seed in range(EACH.get(target.name.split()[0], 12)):
            message = target.attempt(seed, folder)
            assert message.isprintable(), (target.name, seed)
            assert len(message) < 2100, (target.name, seed)
            refused += bool(message)
    assert refused > 100
