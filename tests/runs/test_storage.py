"""Policies as files: the same bits back, and no damaged file that does more than end with a line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tailrank
from tailrank import FiniteMDP, InputError, MarkovPolicy, load, save, solve
from tailrank.planning.exact.return_law import return_law

MDP = FiniteMDP.from_rows(
    [0, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0], [1, 0.7, 0.3, 1], [0.1, 1 / 3, -0.5, 0.2], horizon=4
)


@pytest.fixture(scope="module")
def plans():
    return {name: solve(MDP, tau=0.3, criterion=name) for name in ("cvar", "mean", "iterated", "chow")}


@pytest.mark.parametrize("name", ["cvar", "mean", "iterated", "chow"])
def test_the_same_policy_comes_back(name, plans, tmp_path):
    path = tmp_path / "a.policy"
    save(plans[name], path, info={"made for": "a test"})
    stored = load(path)
    assert stored.info["made for"] == "a test"
    assert stored.info["plan"]["cvar"] == plans[name].cvar
    before, after = return_law(plans[name].policy, MDP), return_law(stored.policy, MDP)
    np.testing.assert_array_equal(before.law.values, after.law.values)
    np.testing.assert_array_equal(before.law.probs, after.law.probs)
    assert [p.name for p in tmp_path.iterdir()] == ["a.policy"], "no temporary file is left"


def test_a_policy_of_ones_own_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"policy: a object cannot be saved; known are budget, .*markov, .*level"):
        save(object(), tmp_path / "a.policy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"{}", b"\0" * 100, b"PK\x03\x04"])
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match="x: is not a policy file"):
        load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such file"):
        load(tmp_path / "nowhere")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_ends_with_a_line_or_in_a_policy_that_fits(data, plans, tmp_path):
    """Flip bytes, cut, repeat: what loads must be safe to evaluate, because kernels do not check indices."""
    path = tmp_path / "damaged.policy"
    save(plans[data.draw(st.sampled_from(["cvar", "mean", "chow"]))], path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content)
    message = ""
    try:
        return_law(load(path).policy, MDP)
    except InputError as error:
        message = str(error)
    assert "\n" not in message


def test_a_policy_for_another_mdp_is_refused(plans):
    other = FiniteMDP.from_rows([0], [0], [0], [1], [1], horizon=2)
    for policy in (plans["cvar"].policy, MarkovPolicy(np.zeros((4, 2), dtype=int))):
        with pytest.raises(InputError, match="policy: is for 4 steps and 2 states, the MDP has 2 and 1"):
            tailrank.evaluate(policy, other, 0.1)
