"""What `check` finds in environments that are broken in one way each, and in those that are not."""

from __future__ import annotations

import json
import sys

import gymnasium
import numpy as np
import pytest
import toys
from click.testing import CliRunner
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from toys import Clean, Walk, copies

from tailrank import FiniteMDP, InputError, save, solve
from tailrank.cli import main
from tailrank.envs import check_environment, write_mdp
from tailrank.envs.gymnasium.checking import examine

TOPICS = ("reset", "step", "observation", "reward", "flags", "bounds", "dtype", "shared", "info")


def findings(source, **options):
    return check_environment(source, **({"horizon": 10, "episodes": 3} | options))


def having(found, level, words):
    return [x for x in found if x.level == level and words in x.what]


def troubles(found):
    return [x.what for x in found if x.what.split(":")[0] in TOPICS and x.level != "ok"]


def test_a_clean_environment_has_nothing_but_good():
    found = findings(Clean)
    assert {x.level for x in found} == {"ok"}
    assert troubles(found) == []
    for words in (
        "observations: Box(-1.0, 1.0, (2,), float64), encoded as 2 numbers",
        "actions: Discrete(2), 2 of them",
        "observations lie in their space and are finite",
        "rewards are finite numbers",
        "a step after the end of an episode raises",
        "horizon 10; 3 random episodes of 10..10 steps",
        "seed: the same seed and 10 actions gave the same episode",
        "Gymnasium's check_env finds nothing",
        "steps per second",
    ):
        assert having(found, "ok", words), words


@pytest.mark.parametrize(
    ("env", "level", "words"),
    [
        (toys.NanSeen, "error", "observation: seed 0, step 3: observation[1] = nan: must be finite (3 times)"),
        (toys.InfiniteSeen, "error", "observation: seed 0, step 3: observation[0] = -inf"),
        (toys.WrongShape, "error", "observation: seed 0, step 1: observation: has shape (3,)"),
        (toys.OutOfBounds, "warning", "bounds: seed 0, step 2: observation[0] = "),
        (toys.OtherType, "note", "dtype: seed 0, reset: observation is float32, the space says float64"),
        (toys.NanPaid, "error", "reward: seed 0, step 4: reward = nan, must be finite"),
        (toys.TextPaid, "error", "reward: seed 0, step 0: reward = 'much'"),
        (toys.TwoPaid, "error", "reward: seed 0, step 0: reward = array([1., 2.])"),
        (toys.NumberFlag, "warning", "flags: seed 0, step 0: terminated or truncated is a int"),
        (toys.ArrayFlag, "error", "flags: seed 0, step 0: terminated or truncated is a ndarray"),
        (toys.Shared, "warning", "shared: seed 0, step 0: the observation before it was changed by the step"),
        (toys.SharedInfo, "note", "info: seed 0, step 0: info is the same object as before"),
        (toys.Raises, "error", "step: seed 0, step 6: raised ZeroDivisionError: no more fuel"),
        (toys.Exits, "error", "step: seed 0, step 6: raised SystemExit: 0"),
        (toys.NoReset, "error", "reset: seed 0, reset: raised OSError: cannot start"),
        (toys.OldReset, "error", "reset: seed 0, reset: returned a ndarray"),
        (toys.OldStep, "error", "step: seed 0, step 0: step returned 4 values, must be 5 values"),
    ],
)
def test_each_fault_is_found_and_no_other(env, level, words):
    found = findings(env)
    assert having(found, level, words), found
    assert len(troubles(found)) == 1, troubles(found)
    assert any(x.level == "error" for x in found) == (level == "error")
    advice = having(found, level, words)[0].advice
    assert ("--skip-bad" in advice) if ": raised " in words else advice


@pytest.mark.parametrize("env", [toys.OnePaid, toys.NoisyBounds, toys.Talks])
def test_what_is_no_fault(env, capsys):
    found = findings(env)
    assert troubles(found) == []
    assert not [x for x in found if x.level in ("error", "warning")]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (toys.OwnDice, "seed: the same seed and actions gave different episodes (step 0: "),
        (toys.Keeps, "seed: the same seed and actions gave different episodes (step 0: "),
        (
            toys.Counted,
            "seed: the same seed and actions gave different episodes in a fresh copy (step 0: rewards 1 and 2)",
        ),
    ],
)
def test_episodes_that_are_not_fixed_by_their_seed(env, words):
    toys.Counted.made = 0
    found = findings(env)
    assert having(found, "error", words), found
    assert not having(found, "ok", "seed:")


class Clocked(toys.Clean):
    """Shows the seconds since 1970, next to a number of its own."""

    def __init__(self, since=1.7e9):
        super().__init__()
        self.since, self.observation_space = since, spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def observed(self):
        return np.array([self.since + self.h, self.state[1]])


def test_changes_that_no_learner_sees():
    said = [one for one in findings(Clocked) if "last digits" in one.what]
    assert [(one.level, one.what.split(" and ")[0]) for one in said] == [("warning", "observation[0] is 1.7e+09")]
    assert not [one for one in findings(lambda: Clocked(1e3)) if "last digits" in one.what]


def test_deterministic_environments_are_noted():
    assert having(findings(toys.Fixed), "note", "other seeds with the same actions gave the same episode")
    assert not having(findings(Clean), "note", "seed")
    assert having(findings("CliffWalking-v1"), "note", "other seeds with the same actions")


def test_steps_after_the_end():
    assert having(findings(toys.GoesOn), "note", "a step after the end of an episode is accepted")
    assert not having(findings(toys.GoesOn), "ok", "after the end")
    # An episode that is cut by the horizon has not ended.
    assert not [x for x in findings(toys.GoesOn, horizon=5) if "after the end" in x.what]


@pytest.mark.parametrize(
    ("source", "horizon", "level", "words"),
    [
        (Clean, None, "warning", "no limit is stated; 3 random episodes of 10..10 steps, ended by the environment"),
        (toys.Endless, None, "warning", "3 random episodes of 1000..1000 steps, not all ended by the environment"),
        (Clean, 4, "ok", "horizon 4; 3 random episodes of 4..4 steps, 3 of them cut there"),
        ("CartPole-v1", 600, "warning", "horizon 600 is beyond the environment's own limit of 500 steps"),
        ("CartPole-v1", None, "ok", "horizon 500; 3 random episodes of "),
    ],
)
def test_lengths_against_the_horizon(source, horizon, level, words):
    found = findings(source, horizon=horizon)
    assert having(found, level, words), found
    assert len([x for x in found if "horizon" in x.what]) == 1


def test_facts_are_those_of_the_episodes():
    facts = examine(toys.Fixed, horizon=10, episodes=4).facts
    # Ten moves of 0.05 from 0; a reward is the first coordinate after the move.
    assert -0.5 <= facts["rewards"][0] <= facts["rewards"][1] <= 0.5
    assert facts["features"] == 2
    assert facts["actions"] == 2
    assert facts["steps"] == [10, 10]
    assert facts["steps_per_second"] > 0
    assert facts["deterministic"]
    assert facts["reproducible"]
    frozen = examine("FrozenLake-v1", episodes=2).facts
    assert frozen["table"]
    assert frozen["values"] == 16


def test_tables_are_noted_where_they_are_tables():
    assert having(findings("FrozenLake-v1"), "note", "the transition table is known (16 states, ")
    assert not having(findings("CartPole-v1"), "note", "transition table")

    class Profits(Clean):
        """An attribute called P proves nothing."""

        P = np.zeros((3, 3))

    gymnasium.register("test/Profits-v0", entry_point=lambda **options: Profits(**options))
    try:
        assert not having(findings("test/Profits-v0"), "note", "transition table")
    finally:
        del gymnasium.registry["test/Profits-v0"]


def test_actions_and_images():
    assert having(findings("Pendulum-v1", horizon=5, levels=3), "note", "divided into 3 (-2, 0, 2, ...)")
    assert having(findings(toys.Text), "error", "a Text space")

    class Wide(Clean):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Box(-1, 1, (9,))

    assert having(findings(Wide), "error", "lower levels (to 2: 512 actions)")
    assert having(findings(Wide, levels=2), "note", "divided into 512")


def test_gymnasiums_checker_is_judged():
    found = findings("CartPole-v1")
    assert having(found, "note", "Gymnasium's check_env says: A Box observation space minimum value is -infinity")
    assert not [x for x in found if x.level in ("error", "warning")]

    class Picky(Clean):
        """Gymnasium's checker meets something that no rule here explains away."""

        def reset(self, *, seed=None, options=None):
            if seed is None:
                raise RuntimeError("no luck")
            return super().reset(seed=seed)

    assert having(findings(Picky), "warning", "Gymnasium's check_env stops with: no luck")


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=str)
def test_vector_environments(mode):
    found = findings(copies(Walk, 3, mode))
    assert having(found, "ok", "seed: each of 3 parts plays by its own seed")
    assert not [x for x in found if x.level == "error"]
    assert having(findings(copies(toys.OwnDice, 2, mode)), "error", "seed: the same seeds and actions gave different")
    assert having(findings(copies(toys.NanSeen, 2, mode)), "error", "NanSeen, seed 0, step 3: observation[1] = nan")


def test_vector_environments_with_one_generator():
    found = findings(toys.Pooled())
    assert having(found, "error", "seed: what a part plays depends on the seeds of the others")
    assert having(findings(toys.Pooled(), horizon=None), "warning", "no limit is stated")


def test_instances_stay_open_and_slow_ones_play_less():
    env = Clean()
    assert not [x for x in findings(env) if x.level != "ok"]
    env.reset(seed=0)
    few = examine(Clean, horizon=10, episodes=50, seconds=0.0)
    assert having(few.findings, "ok", "1 random episodes")
    with pytest.raises(InputError, match="episodes = 0"):
        check_environment(Clean, episodes=0)


# The command


def run(*arguments):
    return CliRunner().invoke(main, ["check", *arguments], standalone_mode=False)


def test_command_on_environments(monkeypatch, tmp_path):
    done = run("CartPole-v1", "--episodes", "2")
    assert (done.return_value, done.exception) == (0, None)
    assert done.stdout.splitlines()[0] == "CartPole-v1"
    assert done.stdout.splitlines()[-2:] == [
        "0 errors, 0 warnings",
        "next: tailrank train CartPole-v1 --tau 0.1 --episodes 300",
    ]
    (tmp_path / "mine_for_check.py").write_text(
        "import gymnasium, toys\n"
        "gymnasium.register('test/Nan-v0', entry_point=toys.NanSeen, max_episode_steps=10)\n"
        "gymnasium.register('test/Walk-v0', entry_point=toys.Walk, max_episode_steps=10)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = run("test/Nan-v0", "--import", "mine_for_check", "--json")
    assert done.return_value == 1
    result = json.loads(done.stdout)
    assert (result["errors"], result["kind"]) == (1, "environment")
    assert {"level", "what", "advice"} == set(result["findings"][0])
    done = run("test/Walk-v0", "--import", "mine_for_check", "--set", "kind=dict", "--set", "longest=4", "--json")
    assert done.return_value == 0
    assert json.loads(done.stdout)["facts"]["features"] == 42
    del gymnasium.registry["test/Nan-v0"], gymnasium.registry["test/Walk-v0"]
    sys.modules.pop("mine_for_check")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["CartPol-v1"], "did you mean 'CartPole-v1'"),
        (["CartPole-v1", "--horizon", "0"], "horizon = 0"),
        (["CartPole-v1", "--episodes", "0"], "episodes = 0"),
        (["CartPole-v1", "--set", "wheels"], "--set wheels: must be KEY=VALUE"),
        (["CartPole-v1", "--set", "wheels=4"], "CartPole-v1: failed with TypeError"),
        (["Pendulum-v1", "--levels", "x"], "--levels x: must be a whole number"),
        (["nowhere.csv"], "nowhere.csv: no such file"),
        (["nowhere.policy"], "nowhere.policy: no such file"),
    ],
)
def test_command_with_bad_input(arguments, words):
    done = CliRunner().invoke(main, ["check", *arguments])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_command_on_files(tmp_path):
    mdp = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.9, 0.1], [1, 2, -5], horizon=3)
    for name in ("m.json", "m.csv"):
        write_mdp(mdp, tmp_path / name)
        done = run(str(tmp_path / name))
        assert done.return_value == 0
        assert "an MDP of 1 states, 2 actions and 3 rows, rewards -5..2" in done.stdout
        assert ("horizon: the file does not say" in done.stdout) == (name == "m.csv")
    np.savez(tmp_path / "m.npz", P=np.ones((1, 2, 1)), R=np.ones((1, 2)))
    assert "an MDP of 1 states, 2 actions" in run(str(tmp_path / "m.npz"), "--horizon", "4").stdout
    save(solve(mdp, tau=0.2), tmp_path / "p.policy")
    done = run(str(tmp_path / "p.policy"))
    assert done.return_value == 0
    assert "a policy file: BudgetPolicy" in done.stdout
    for name, text in (("bad.csv", "state,action\n0,0\n"), ("bad.policy", "nothing"), ("plain", "nothing")):
        (tmp_path / name).write_text(text)
        done = run(str(tmp_path / name))
        assert done.return_value == 1
        assert done.stdout.splitlines()[-1] == "1 error, 0 warnings"
        assert CliRunner().invoke(main, ["check", str(tmp_path / name)]).exit_code == 1
