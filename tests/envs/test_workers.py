"""Worker processes and bad episodes: the same bits whatever happens to a process, and every loss is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from faulty import STEPS, Faulty

from command import cli
from tailrank.checks import InputError
from tailrank.envs import open_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.gradient.candidate import GradientCandidate
from tailrank.learning.learn import learn
from tailrank.learning.simulators.learners import GradientLearner
from tailrank.policies.tables import UniformPolicy

SEEDS = np.arange(2, 24, 2)  # 10 and 20 are divisible by 10


def played(source=Faulty, seeds=SEEDS, width=6, **options):
    """The episodes of random actions, and what the simulator counted."""
    with open_simulator(source, horizon=STEPS, width=width, **options) as simulator:
        policy = UniformPolicy(3, STEPS, np.random.default_rng(0))
        found = play_simulator(policy, simulator, seeds, keep_features=True)
        return found, simulator.counts, simulator.first_bad


def equal(mine, other, rows=slice(None)):
    for name in ("actions", "rewards", "lengths", "seeds", "features"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name)[rows], err_msg=name)


@pytest.fixture(scope="module")
def right():
    """Without faults, in this process."""
    return played()[0]


def test_any_number_of_workers_gives_the_same_bits(right):
    for workers in (1, 4):
        found, counts, _ = played(workers=workers)
        equal(found, right)
        assert counts == {"skipped": 0, "replaced": 0}
    by_id = played("faulty/Walk-v0", workers=2, imports=["faulty"])[0]
    equal(by_id, right)


def test_a_process_that_ends_or_hangs_is_replaced_and_its_episode_played_again(right, tmp_path):
    for fault, more in (("exits", {}), ("hangs", {"step_timeout": 1.0})):
        once = tmp_path / fault
        once.mkdir()
        found, counts, _ = played(fault=fault, once=str(once), workers=2, **more)
        equal(found, right)
        assert counts["skipped"] == 0
        # On a busy machine a process that does nothing wrong may be late as well.
        assert counts["replaced"] == 2 or (fault == "hangs" and counts["replaced"] > 2)


def test_what_ends_its_process_every_time_is_named_or_left_out(right):
    with pytest.raises(InputError, match=r"Faulty, seed 10, step 2: ended its process \(exit code 3\), and so it did"):
        played(fault="exits", workers=2)
    found, counts, first = played(fault="exits", workers=1, skip_bad=True)
    kept = SEEDS % 10 != 0
    equal(found, right, kept)
    assert counts["skipped"] == 2
    assert "seed 10, step 2" in first


def test_an_episode_that_is_another_one_when_played_again_is_an_error(tmp_path):
    with pytest.raises(InputError, match="gave another episode when it was played again"):
        played(fault="forgets", once=str(tmp_path), workers=1)


@pytest.mark.parametrize("fault", ["nan", "huge", "reset raises"])
def test_bad_episodes_are_left_out_in_this_process(right, fault):
    found, counts, first = played(fault=fault, skip_bad=True)
    equal(found, right, SEEDS % 10 != 0)
    assert counts == {"skipped": 2, "replaced": 0}
    assert "Faulty, seed 10, " in first
    with pytest.raises(InputError, match=r"Faulty, seed 10, |Faulty, seeds 2"):
        played(fault=fault)


def test_too_many_bad_episodes_are_no_run():
    with pytest.raises(InputError, match=r"12 of 12 episodes went wrong, too many to skip; first Faulty, seed 2"):
        played(fault="nan", every=2, skip_bad=True, width=12, seeds=np.arange(2, 50, 2))
    with pytest.raises(InputError, match="no episode of 2 went well"):
        played(fault="nan", every=2, skip_bad=True, seeds=np.array([2, 4]))


def test_a_process_in_a_step_that_hangs_ends_with_the_one_that_asked(tmp_path):
    """The asker is killed while its worker sleeps in a step."""
    script = """
import os, signal, threading, numpy as np
from faulty import Faulty
from tailrank.envs import open_simulator
env = open_simulator(Faulty, horizon=4, width=1, workers=1, fault="hangs", every=1)
env.reset(np.array([1]))
for _ in range(2):
    env.step(np.array([1]))
print(env._player._workers[0]._child.pid, flush=True)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
env.step(np.array([1]))
"""
    around = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    with (tmp_path / "said").open("w+") as said:  # a pipe would wait for the worker, which has it too
        done = subprocess.run(
            [sys.executable, "-c", script], env=around, stdout=-1, stderr=said, text=True, check=False
        )
        said.seek(0)
        assert done.returncode == -signal.SIGKILL, said.read()
    child = int(done.stdout)
    for _ in range(600):
        if not _alive(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the worker outlived the process that asked it")


def _alive(process):
    """Whether it runs; one that ended and that nobody waits for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_was_handed_in_cannot_be_sent_to_workers():
    with pytest.raises(InputError, match="workers = 2: Faulty was given as it is"):
        open_simulator(Faulty(), horizon=4, workers=2)
    with pytest.raises(InputError, match="skip_bad = True: Faulty was given as it is"):
        open_simulator(Faulty(), horizon=4, skip_bad=True)
    with pytest.raises(InputError, match="step_timeout = -1"):
        open_simulator(Faulty, horizon=4, step_timeout=-1)


def test_learn_says_how_many_episodes_it_left_out():
    learned = learn(lambda: Faulty(fault="nan", every=40), algorithm="search", episodes=120, horizon=4, skip_bad=True)
    skipped = learned.env.counts["skipped"]
    assert skipped > 0
    assert f"note: {skipped} episodes went wrong and were left out" in str(learned)


def test_a_run_goes_on_with_bad_episodes_and_says_how_many(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ("train", "faulty/Walk-v0", "--import", "faulty", "--episodes", 120, "--algorithm", "kernel")
    more = ("--evaluation-episodes", 100, "--set", "fault=huge", "--set", "every=100", "--json")
    done = cli(*common, *more, "--skip-bad", "--width", 4, "--out", "runs/bad")
    assert done.exit_code == 0, done.stderr
    assert "episodes went wrong and were left out, those that judge too; one of them: " in done.stderr
    again = cli(*common, *more, "--skip-bad", "--width", 4, "--workers", 3, "--out", "runs/workers")
    assert again.exit_code == 0, again.stderr
    result = json.loads((tmp_path / "runs" / "bad" / "manifest.json").read_text())["result"]
    assert result["promise_kept"] == (result["promise"] <= result["cvar_high"])
    assert ("the model promised a CVaR of" in done.stderr) != result["promise_kept"]
    one, other = (json.loads(x.stdout.splitlines()[-1]) for x in (done, again))
    assert one["cvar"] == other["cvar"]
    rows = [(tmp_path / "runs" / name / "rows.jsonl").read_text() for name in ("bad", "workers")]
    kept = [
        [{k: v for k, v in json.loads(line).items() if "seconds" not in k} for line in x.splitlines()] for x in rows
    ]
    assert kept[0] == kept[1]


def test_an_update_of_one_episode_that_went_wrong_is_left_out():
    """The gradient is told of an episode at a time, and one in 25 goes wrong."""
    one = GradientLearner(0.3, gradient=GradientCandidate(hidden=(8,), steps=4), total=150, pilot=30)
    streams = Streams(1)
    with open_simulator(lambda: Faulty(fault="nan", every=25), horizon=STEPS, skip_bad=True) as env:
        state = one.init(env, streams)
        while not one.over(state, env.horizon):
            state, _ = one.step(state, env, streams)
        assert env.counts["skipped"] > 2
        assert state.episodes == 150


def test_a_batch_of_which_nothing_went_well_is_an_error():
    env = open_simulator(lambda: Faulty(fault="nan", every=1), horizon=STEPS, skip_bad=True)
    one, streams = GradientLearner(0.3, total=100, pilot=4), Streams(1)
    with env, pytest.raises(InputError, match="no episode went well; first Faulty, seed"):
        one.step(one.init(env, streams), env, streams)
