"""The contract of every learner in the registry."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tailrank import FiniteMDP
from tailrank._system.settings import settings_of, values_of
from tailrank.checks import InputError
from tailrank.envs import from_mdp, make_episodic, make_simulator
from tailrank.episodes.rollout import play, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import COUNTABLE, SIMULATED, learner_class, make_learner, summary
from tailrank.learning.train import train
from tailrank.runs.config import RunConfig
from tailrank.runs.run import resume, run

SMALL = {"horizon": 3, "n_actions": 2, "n_states": 3}
FAST = {"ella": {"iterations": 5, "evaluations": 5}}


def learner_on(name, env):
    return make_learner(name, tau=0.25, **FAST.get(name, {}))


def states_of(learner, env, state, n, streams):
    for _ in range(n):
        state, info = learner.step(state, env, streams)
        yield state, info


@pytest.fixture(scope="module")
def lock():
    return make_episodic("risky-lock", **SMALL)


@pytest.mark.parametrize("name", COUNTABLE)
def test_a_plan_can_always_be_played(name, lock):
    learner, streams = learner_on(name, lock), Streams(1)
    state = learner.init(lock, Streams(0))
    assert (state.k, state.episodes, state.steps) == (0, 0, 0)
    for k, (now, _) in enumerate(states_of(learner, lock, state, 4, streams), 1):
        assert now.k == k
        assert now.episodes > state.episodes
        assert now.steps <= now.episodes * lock.horizon
        for plan in (now.plan, learner.greedy(now, lock, streams)):
            for h in range(lock.horizon):
                groups = np.arange(int(now.group[h].max()) + 1)
                for budget in (0, plan.budget, lock.rewards.n_budgets - 1):
                    actions = plan.act(h, groups, np.full(groups.size, budget))
                    assert actions.min() >= 0
                    assert actions.max() < lock.n_actions
        state = now


@pytest.mark.parametrize("name", COUNTABLE)
def test_a_policy_can_be_played_before_and_after_the_first_iteration(name, lock):
    learner, streams = learner_on(name, lock), Streams(1)
    state = learner.init(lock, streams)
    ((after, _),) = states_of(learner, lock, state, 1, streams)
    for now in (state, after):
        found = play(learner.policy(now, lock, streams), lock, 20, rng=np.random.default_rng(0))
        assert found.actions.shape == (20, lock.horizon)
    assert all(array.flags.c_contiguous for array in after.to_arrays().values())  # as a checkpoint gives them back


RICH = {"policy-gradient": {"batch": 20}, "bins": {"batch": 20}, "ela": {"pilot": 10}, "ella": {"iterations": 5}}


@pytest.mark.parametrize("name", RICH)
def test_on_simulators_the_protocol_is_the_same(name):
    env, streams = make_simulator("rich-lock", horizon=2, n_actions=2), Streams(3)
    learner = make_learner(name, "simulator", tau=0.2, **RICH[name]).prepared(env, streams, 60)
    state = learner.init(env, streams)
    assert state.k == 0
    for k in (1, 2):
        state, info = learner.step(state, env, streams)
        assert (state.k, state.steps <= 2 * state.episodes) == (k, True)
        assert np.isfinite(info.row()["objective"])
        found = play_simulator(learner.policy(state, env, streams), env, np.arange(1, 21, 2))
        assert found.returns.shape == (10,)
    assert learner.kind == "simulator"


@pytest.mark.parametrize(
    ("name", "kind"), [(n, "countable") for n in COUNTABLE] + [(n, "simulator") for n in SIMULATED]
)
def test_every_setting_has_a_help_text_and_a_default_that_passes_its_own_check(name, kind):
    cls = learner_class(name, kind)
    for setting, place in settings_of(cls).items():
        assert place.rule.help.endswith("."), setting
        assert place.rule.checked(place.default, setting) == place.default
    assert values_of(cls()) == values_of(make_learner(name, kind, **values_of(cls())))


def test_a_part_of_a_class_is_not_a_setting_of_it():
    with pytest.raises(
        InputError, match=r"lam_scale: is no setting of cvar-ucbvi, which has batch, growth, .*, alpha_scale"
    ):
        make_learner("cvar-ucbvi", lam_scale=1.0)
    with pytest.raises(InputError, match="collect: is no setting of uniform"):
        make_learner("uniform", collect="plan")


@pytest.mark.parametrize("name", COUNTABLE)
def test_what_is_stored_goes_on_to_the_same_bits(name, lock):
    learner, streams = learner_on(name, lock), Streams(5)
    fresh = learner.init(lock, Streams(0))
    *_, (through, _) = states_of(learner, lock, fresh, 5, streams)
    *_, (half, _) = states_of(learner, lock, fresh, 2, streams)
    stored = {key: np.array(value) for key, value in half.to_arrays().items()}
    *_, (resumed, _) = states_of(learner, lock, learner.init(lock, Streams(0)).from_arrays(stored), 3, streams)
    a, b = through.to_arrays(), resumed.to_arrays()
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


@pytest.mark.parametrize("name", COUNTABLE)
def test_a_step_leaves_the_state_it_was_given(name, lock):
    learner, streams = learner_on(name, lock), Streams(2)
    ((state, _),) = states_of(learner, lock, learner.init(lock, Streams(0)), 1, streams)
    before = {key: np.array(value) for key, value in state.to_arrays().items()}
    learner.step(state, lock, streams)
    for key, value in state.to_arrays().items():
        np.testing.assert_array_equal(before[key], value, err_msg=key)


@pytest.mark.parametrize("name", COUNTABLE)
def test_it_runs_by_name(name, tmp_path):
    config = RunConfig.of(
        "risky-lock",
        iterations=3,
        tau=0.25,
        algorithm=name,
        settings=dict(SMALL),
        output_episodes=20,
        planner=dict(FAST.get(name, {})),
    )
    result = run(config, tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    assert [row["k"] for row in rows] == [1, 2, 3]
    assert all(0.0 <= row["cvar"] <= result["cvar_star"] + 1e-9 for row in rows)
    assert resume(tmp_path / "run") == result


def test_every_summary_is_one_line():
    for name in COUNTABLE:
        assert summary(name, "countable")
    for name in SIMULATED:
        assert summary(name, "simulator")


@pytest.mark.parametrize("name", [name for name in COUNTABLE if name not in ("olive", "witness")])  # need a class
def test_objectives_are_in_the_units_of_rewards(name):
    """A reward more at every step makes every promise larger by H."""
    rows = [(0, 0, 1, 0.5, 1.0), (0, 0, 0, 0.5, 0.0), (0, 1, 1, 1.0, 0.5), (1, 0, 0, 1.0, 0.0), (1, 1, 1, 1.0, 0.5)]
    found = []
    for more in (0.0, -3.0):
        env = from_mdp(FiniteMDP.from_rows(*zip(*[(*row[:4], row[4] + more) for row in rows]), horizon=3))
        found.append([row["objective"] for _, row in train(learner_on(name, env), env, iterations=3, seed=0)])
    np.testing.assert_allclose(np.array(found[1]) - found[0], -9.0, atol=1e-9)
