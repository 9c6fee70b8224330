"""Whatever a file holds, using it gives a result or an InputError of one printable line, and nothing else."""

from __future__ import annotations

import pytest

from fuzz_targets import targets

EACH = 12
"""Damages of each file here; `studies/fuzz_files.py` does as many as one likes."""


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    return {target.name: target for target in targets(folder)}, folder


def test_whole_files_are_used(known):
    found, folder = known
    assert {name: said for name, target in found.items() if (said := target.tried(target.data, folder))} == {}


def test_damaged_files_end_with_a_line(known):
    found, folder = known
    for target in found.values():
        for seed in range(EACH):
            message = target.attempt(seed, folder)
            assert message.isprintable(), (target.name, seed)
            assert len(message) < 2100, (target.name, seed)
