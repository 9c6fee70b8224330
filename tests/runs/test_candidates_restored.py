"""Checkpoints of runs with candidates: around the trial and in the choice; what does not fit is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import crashes
from fuzz_targets import signed
from tailrank.checks import InputError
from tailrank.runs import folder as files
from tailrank.runs import run as runs
from tailrank.runs.config import RunConfig

CONFIG = RunConfig.from_dict(crashes.CASES["auto"] | {"checkpoint_every": 1, "evaluate_every": 0})


class Stop(Exception):
    pass


def stopped(out, at):
    """A run that ends after so many iterations."""

    def progress(row, *_):
        if row["k"] == at:
            raise Stop

    with pytest.raises(Stop):
        runs.run(CONFIG, out, progress=progress)
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The outcome of the run, and the iterations of its trial and of its choice."""
    out = tmp_path_factory.mktemp("whole") / "a"
    runs.run(CONFIG, out)
    said = [json.loads(line)["model"] for line in (out / files.ROWS).read_text().splitlines()]
    trial = [k for k, text in enumerate(said, 1) if text.startswith("trial")]
    return crashes.outcome(out), trial, [k for k, text in enumerate(said, 1) if text.startswith("choice")]


@pytest.fixture(scope="module")
def chosen(whole, tmp_path_factory):
    """A run that was stopped in its choice."""
    return stopped(tmp_path_factory.mktemp("chosen") / "b", whole[2][0])


def test_goes_on_to_the_same_bytes_around_the_trial_and_the_choice(whole, tmp_path):
    outcome, trial, choice = whole
    assert len(trial) == 1
    assert len(choice) > 1
    for at in (trial[0] - 1, trial[0], trial[0] + 1, choice[0] - 1, choice[0]):
        runs.resume(stopped(tmp_path / str(at), at))
        assert crashes.outcome(tmp_path / str(at)) == outcome, at


DAMAGES = {
    "finalists": lambda x: x + 10**9,
    "returns": lambda x: np.concatenate([x, x]),
    "imagined": lambda x: x[:-1],
    "counters": lambda x: x - 10**6,
    "going": lambda x: x + 9,
    "earlier": lambda x: x[:, :1],
    "played.actions": lambda x: x + 10**6,
    "played.rewards": lambda x: x * np.nan,
    "played.lengths": lambda x: -x,
    "played.observations": lambda x: x * np.nan,
}
BY_NAME = {
    "slow": lambda x: x * np.nan,
    "spread": lambda x: 0.0 * x,
    "mean": lambda x: x * np.nan,
    "numbers": lambda x: x * np.nan,
    "actor.weights": lambda x: np.concatenate([x, x], axis=1),
    "critic.weights": lambda x: x * np.nan,
}
"""Of the candidates: of one that has such an array."""


def test_a_checkpoint_of_another_version_is_refused(chosen, tmp_path):
    out = shutil.copytree(chosen, tmp_path / "old")
    with safe_open(out / files.CHECKPOINT, "np") as file:
        notes = file.metadata()
    arrays = {name: x for name, x in load_file(out / files.CHECKPOINT).items() if name != "going"}
    save_file(arrays, out / files.CHECKPOINT, metadata=notes)
    (out / files.CHECKPOINT).write_bytes(signed((out / files.CHECKPOINT).read_bytes()))
    with pytest.raises(InputError, match="it lacks 'going', as if another version of tailrank had written it"):
        runs.resume(out)


def test_arrays_that_do_not_fit_are_refused(chosen, tmp_path):
    """Also where somebody made the checksum anew; three of these were tracebacks."""
    whole = load_file(chosen / files.CHECKPOINT)
    with safe_open(chosen / files.CHECKPOINT, "np") as file:
        notes = file.metadata()
    damages = [(name, change) for name, change in DAMAGES.items() if whole[name].size]
    for ending, change in BY_NAME.items():
        found = [name for name in sorted(whole) if name.startswith("candidate.") and name.endswith(f".{ending}")]
        damages += [(found[0], change)] if found else []
    assert len(damages) >= 12
    for i, (name, change) in enumerate(damages):
        out = shutil.copytree(chosen, tmp_path / str(i))
        save_file(whole | {name: np.ascontiguousarray(change(whole[name]))}, out / files.CHECKPOINT, metadata=notes)
        (out / files.CHECKPOINT).write_bytes(signed((out / files.CHECKPOINT).read_bytes()))
        with pytest.raises(InputError, match="checkpoint: does not fit this run"):
            runs.resume(out)
