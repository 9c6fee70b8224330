"""Policies inside others as files: what recalls, and what plays some of the actions; damaged ones are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tailrank import load, save
from tailrank.checks import InputError
from tailrank.policies.moved import Moved
from tailrank.policies.recall import Recall, RecallPolicy
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.policies.subset import SubsetPolicy


def nested():
    """Recalls one observation of two numbers and the last of three actions, and plays three of nine."""
    rng = np.random.default_rng(0)
    network = SoftmaxPolicy(Network((), rng.normal(size=(4, 7, 3)), rng.normal(size=(4, 3))))
    return SubsetPolicy(RecallPolicy(network, Recall(1, True), 2, 3), np.array([0, 4, 8]))


def changed(path, arrays=None, **scalars):
    """The file with other arrays and values; keys of values may lead into the inner ones."""
    with safe_open(path, "numpy") as file:
        header = json.loads(file.metadata()["tailrank"])
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, value in scalars.items():
        place = header["scalars"]
        *inner, last = name.split("__")
        for key in inner:
            place = place[key]
        place[last] = value
    save_file(found | (arrays or {}), path, metadata={"tailrank": json.dumps(header)})


def test_both_come_back_the_same(tmp_path):
    policy = nested()
    save(policy, tmp_path / "p")
    again = load(tmp_path / "p").policy
    rng, memory, other = np.random.default_rng(1), policy.start(5), again.start(5)
    seen = rng.normal(size=(5, 2))
    for h in range(4):
        actions = policy.act(h, seen, memory)
        np.testing.assert_array_equal(again.act(h, seen, other), actions)
        assert set(actions.tolist()) <= {0, 4, 8}
        after = rng.normal(size=(5, 2))
        memory = policy.update(h, Moved(seen, actions, np.zeros(5), after), memory)
        other = again.update(h, Moved(seen, actions, np.zeros(5), after), other)
        seen = after
    assert (again.n_features, again.horizon) == (2, 4)


@pytest.mark.parametrize(
    ("arrays", "scalars", "said"),
    [
        ({"actions": np.array([4, 0, 8])}, {}, "actions: must be increasing"),
        ({"actions": np.array([0, 4])}, {}, "actions: are 2, the inner policy plays 3"),
        ({}, {"kind": "subset"}, "kind = 'subset'"),
        ({}, {"inner__kind": "recall"}, "kind = 'recall'"),
        ({}, {"inner__observations": 2}, "inner: sees 7 numbers, must see 9"),
        ({}, {"inner__action": 1}, "action"),
        ({}, {"inner__n_actions": -3}, "n_actions"),
        ({}, {"more": 1}, "scalars: must hold"),
    ],
)
def test_damaged_ones_are_refused(tmp_path, arrays, scalars, said):
    save(nested(), tmp_path / "p")
    changed(tmp_path / "p", arrays, **scalars)
    with pytest.raises(InputError, match=said):
        load(tmp_path / "p")
