"""Policies on features as files: what is read plays as what was written; what does not fit is refused."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import load as read_bytes
from safetensors.numpy import save as to_bytes

from tailrank import load
from tailrank.checks import InputError
from tailrank.envs import make_simulator
from tailrank.learning.learn import learn
from tailrank.learning.rivals.observations.bins import Bins
from tailrank.policies.distributional import DistributionalPolicy
from tailrank.policies.moved import Moved
from tailrank.policies.shapes import horizon_of
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.runs.policy_files.storage import save

RNG = np.random.default_rng(0)


def softmax(hidden=(3,)):
    network = Network.fresh(4, 2, 3, hidden, RNG)
    for w in network.weights:
        w += RNG.normal(size=w.shape)
    return SoftmaxPolicy(network)


def distributional(support=5):
    sizes = (4 + 2, 8, 5 * 3)
    layers = tuple(
        (RNG.normal(size=(k, j)).astype(np.float32), RNG.normal(size=j).astype(np.float32)) for k, j in pairwise(sizes)
    )
    return DistributionalPolicy(layers, np.linspace(0, 1, support) if support else np.zeros(0), 0.2, 3, 2)


def cells():
    lock = make_simulator("rich-lock", horizon=2, n_actions=3)
    return learn(lock, Bins(0.1, projections=2, batch=20), episodes=40).policy


MAKE = {
    "softmax": softmax,
    "linear": lambda: softmax(()),
    "categories": distributional,
    "quantiles": lambda: distributional(0),
    "cells": cells,
}


@pytest.mark.parametrize("name", MAKE)
def test_round_trip(name, tmp_path):
    policy = MAKE[name]()
    save(policy, tmp_path / "p", info={"tau": 0.1})
    again = load(tmp_path / "p").policy
    m = 8 if name == "cells" else 4
    x = RNG.normal(size=(200, m))
    assert horizon_of(again) == 2
    memory = policy.start(200)
    np.testing.assert_array_equal(again.start(200), memory)
    for h in range(2):
        actions = policy.act(h, x, memory)
        np.testing.assert_array_equal(again.act(h, x, memory), actions)
        assert len(set(actions.tolist())) > 1 or name == "cells"
    np.testing.assert_array_equal(
        again.update(0, Moved(x, actions, np.full(200, 0.1), x), memory),
        policy.update(0, Moved(x, actions, np.full(200, 0.1), x), memory),
    )


def test_quantiles_act_for_the_tail():
    """Action 0 is sure, action 1 is better on average: which is played depends on tau. Quantiles may cross."""
    head = np.array([[0.5, 2.0], [0.5, 0.4], [0.5, 0.0]], dtype=np.float32).ravel()
    layers = ((np.zeros((3, 6), dtype=np.float32), head),)
    for tau, want in ((0.3, 0), (1.0, 1)):
        policy = DistributionalPolicy(layers, np.zeros(0), tau, 2, 2)
        assert policy.act(0, np.zeros((1, 1)), policy.start(1)) == [want]


def damaged(path, change):
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])["__metadata__"]
    arrays = dict(read_bytes(content))
    about = json.loads(header["tailrank"])
    change(arrays, about)
    path.write_bytes(to_bytes(arrays, metadata={"tailrank": json.dumps(about)}))


def put(name, of):
    def change(arrays, about):
        arrays[name] = np.ascontiguousarray(of(arrays[name]))

    return change


def say(name, value):
    def change(arrays, about):
        about["scalars"][name] = value

    return change


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("softmax", put("head", lambda x: x * np.nan), "head: must be finite"),
        ("softmax", put("head", lambda x: x[0]), "head: must be"),
        ("softmax", put("head", lambda x: x[:, :2]), r"head: must be float \[H, m1, A\] with m1 = 3"),
        ("softmax", put("shift", lambda x: x[:1]), "shift: must be"),
        ("softmax", put("layer.0.bias", lambda x: x[:1]), r"layer.0.bias: must be float \[m1\]"),
        ("softmax", lambda arrays, about: arrays.pop("head"), "must hold .'head'"),
        ("categories", put("support", lambda x: x[::-1].copy()), "support: must be increasing"),
        ("categories", put("support", lambda x: x[:2]), "must have 2 numbers for each of 3 actions"),
        ("categories", say("n_actions", 4), "numbers for each of 4 actions"),
        ("categories", say("tau", 2.0), "tau"),
        ("categories", say("horizon", 50), "must see features and 50 steps"),
        ("cells", put("inner.actions", lambda x: x + 3), "actions: must be < 3, holds 5"),
        ("cells", put("inner.offset", lambda x: x + 10**6), "offset: must be <= 45, holds 1000045"),
        ("cells", put("offsets", lambda x: x[::-1].copy()), "offsets: must lead from 0 to"),
        ("cells", put("known", lambda x: x.astype(np.int64)), r"known: must be uint64 \[n\*\]"),
        ("cells", put("cells.low", lambda x: x[:1]), r"cells.low: must be float \[k\] with k = 2"),
        ("cells", say("count", 1), "count = 1"),
    ],
)
def test_what_does_not_fit_is_refused(kind, change, message, tmp_path):
    save(MAKE[kind](), tmp_path / "p")
    damaged(tmp_path / "p", change)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "p")
