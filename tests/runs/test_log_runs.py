"""learn-logs that is stopped after any stage goes on to the same bits; what is kept is not trusted blindly."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command import cli
from logged import frame_of, small_mdp
from tailrank import learn_logs
from tailrank.runs.log_runs import STAGES, KeptStages


class Stopped(Exception):
    pass


class Stopping(KeptStages):
    """Stops the call after so many stages."""

    left = 0

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        self.left -= 1
        if self.left == 0:
            raise Stopped


def shown(learned):
    found = learned.as_dict()
    del found["seconds"]
    return found, learned.bounds, learned.diagnostics, learned.policy.actions.tolist()


@pytest.mark.parametrize(("n", "tau"), [(60, 0.3), (3000, 0.3)])
def test_stopped_after_every_stage(n, tau, tmp_path):
    frame = frame_of(small_mdp(3, H=4), n, 0)
    whole = shown(learn_logs(frame, tau, keeper=lambda mark: KeptStages(tmp_path / "whole", mark)))
    stages = json.loads((tmp_path / "whole" / STAGES).read_text())["stages"]
    assert {"cross-fitted", "caution", "upper"} <= set(stages)

    def keeper(mark):
        kept = Stopping(tmp_path / "parts", mark)
        kept.left = 1 if len(kept) < len(stages) else 0
        return kept

    for _ in range(len(stages)):
        with pytest.raises(Stopped):
            learn_logs(frame, tau, keeper=keeper)
    assert shown(learn_logs(frame, tau, keeper=keeper)) == whole
    other = learn_logs(frame, 0.5, keeper=lambda mark: KeptStages(tmp_path / "parts", mark))
    assert shown(other) == shown(learn_logs(frame, 0.5))


@pytest.mark.parametrize("upper", ["Infinity", '"much"', "[1]"])
def test_damaged_stages_are_not_used(upper, tmp_path):
    kept = KeptStages(tmp_path, "mark")
    kept["upper"] = 1.5
    assert KeptStages(tmp_path, "mark") == {"upper": 1.5}
    assert KeptStages(tmp_path, "another") == {}
    (tmp_path / STAGES).write_text((tmp_path / STAGES).read_text().replace("1.5", upper))
    assert KeptStages(tmp_path, "mark") == {}


def test_command_clears_what_it_kept(tmp_path):
    frame = frame_of(small_mdp(), 30, 0)
    rows = zip(*(np.asarray(column).tolist() for column in frame.values()))
    (tmp_path / "log.csv").write_text("\n".join([",".join(frame), *(",".join(map(str, row)) for row in rows)]) + "\n")
    out = tmp_path / "run"
    out.mkdir()
    (out / STAGES).write_text("{")
    assert cli("learn-logs", tmp_path / "log.csv", "--out", out).exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == ["logs.json", "plan.safetensors"]
