"""Policies and plans that version 0.1 wrote still load, and play as they did then (`golden/policies_0_1`)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tailrank
from tailrank import FiniteMDP
from tailrank.policies.moved import Moved

FOLDER = Path(__file__).parent.parent / "golden" / "policies_0_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
MDP = FiniteMDP.from_rows(
    [0, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0], [1, 0.7, 0.3, 1], [0.1, 1 / 3, -0.5, 0.2], horizon=4
)


def test_every_kind_is_there():
    assert {path.stem for path in FOLDER.glob("*.policy")} == set(EXPECTED)
    kinds = {json.loads(tailrank_header(path))["kind"] for path in FOLDER.glob("*.policy")}
    assert kinds == {"budget", "markov", "level", "observation", "softmax", "cells", "distributional"}


def tailrank_header(path):
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["tailrank"]


@pytest.mark.parametrize("name", [name for name, value in EXPECTED.items() if "cvar" in value])
def test_plans(name):
    stored = tailrank.load(FOLDER / f"{name}.policy")
    assert stored.info["plan"]["cvar"] == EXPECTED[name]["cvar"]
    assert tailrank.evaluate(stored.policy, MDP, 0.3).cvar == pytest.approx(EXPECTED[name]["cvar"], abs=1e-12)


@pytest.mark.parametrize("name", [name for name, value in EXPECTED.items() if "actions" in value])
def test_policies_on_observations(name):
    """The same actions for the same random observations and rewards."""
    policy, m = tailrank.load(FOLDER / f"{name}.policy").policy, EXPECTED[name]["features"]
    rng, n = np.random.default_rng(1), 30
    memory = policy.start(n)
    for h, expected in enumerate(EXPECTED[name]["actions"]):
        features = rng.normal(size=(n, m)) * 2
        actions = policy.act(h, features, memory)
        assert actions.tolist() == expected
        if h + 1 < len(EXPECTED[name]["actions"]):
            rewards = rng.uniform(-0.3, 1, size=n)
            memory = policy.update(h, Moved(features, actions, rewards, rng.normal(size=(n, m)) * 2), memory)
