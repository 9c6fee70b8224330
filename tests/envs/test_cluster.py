"""Simulators on a Dask cluster: the same bits as here, also where a Dask worker is killed on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrank.checks import InputError
from tailrank.envs import open_simulator
from tailrank.runs.build import check_trusted
from tailrank.runs.config import RunConfig

pytest.importorskip("distributed")

# In a process of its own: a scheduler leaves sockets for the garbage collector, which warns.
SCRIPT = """
import json, os, signal
import numpy as np
from distributed import LocalCluster
from faulty import STEPS, Faulty
from tailrank.envs import open_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.policies.tables import UniformPolicy

class Killer(UniformPolicy):
    # Kills one Dask worker in the middle of an episode.
    def act(self, h, states, memory):
        if h == 2 and not killed:
            killed.append(simulator._player._cluster.client.run(os.getpid))
            os.kill(min(killed[0].values()), signal.SIGKILL)
        return super().act(h, states, memory)

def same(one, other):
    names = ("actions", "rewards", "lengths", "seeds", "features")
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)

def main():
    global simulator, killed
    seeds = np.arange(2, 14, 2)
    uniform = lambda kind=UniformPolicy: kind(3, STEPS, np.random.default_rng(0))
    play = lambda policy: play_simulator(policy, simulator, seeds, keep_features=True)
    with open_simulator(Faulty, horizon=STEPS, width=3) as simulator:
        right = play(uniform())
    found = {}
    local = dict(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=None)
    with LocalCluster(**local) as there:
        options = dict(horizon=STEPS, width=3, cluster=there.scheduler_address)
        killed = []
        with open_simulator(Faulty, **options) as simulator:
            found["same"] = same(play(uniform(Killer)), right)
            found["replaced"] = simulator.counts["replaced"]
    print(json.dumps(found))

if __name__ == "__main__":
    main()
"""


def test_episodes_on_a_cluster_are_the_same_and_survive_a_worker(tmp_path):
    script = tmp_path / "play.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env=_with_path(str(Path(__file__).parent)),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"]
    assert found["replaced"] >= 1


def _with_path(folder):
    return os.environ | {"PYTHONPATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_who_plays_is_said_by_the_user_and_not_by_a_file():
    with pytest.raises(InputError, match=r"cluster = 'tcp://127.0.0.1:1': cannot be reached"):
        open_simulator("CartPole-v1", cluster="tcp://127.0.0.1:1")
    values = {"environment": "CartPole-v1", "algorithm": "kernel", "iterations": 4, "cluster": "tcp://a:1"}
    config = RunConfig.from_dict(values)
    assert "cluster" not in config.toml()
    with pytest.raises(InputError, match="said on the command line, not in a file"):
        check_trusted(config, ())
    check_trusted(config, ("tcp://a:1",))
    with pytest.raises(InputError, match="must be the address of a Dask scheduler"):
        RunConfig.from_dict(values | {"cluster": "a"})
