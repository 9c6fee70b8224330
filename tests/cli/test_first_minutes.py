"""What a newcomer types works as typed, and what goes wrong ends with the next command to type."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command import cli
from command import fails as check_failure
from tailrank.cli.errors import flags
from tailrank.cli.run_summary import returned

ROWS = "s,a,s_next,p,r\non,keep,on,.9,1\non,keep,off,.1,-2\non,mend,on,1,.5\noff,mend,on,1,-1\n"
SHOP = """
import gymnasium
from gymnasium import spaces

class Shop(gymnasium.Env):
    observation_space, action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(2, dtype="float32"), {}
    def step(self, action):
        reward = 1.0 if action == 0 else (-5.0 if self.np_random.random() < 0.1 else 2.0)
        return self.np_random.random(2, dtype="float32"), reward, False, False, {}

gymnasium.register("NewcomersShop-v0", Shop, max_episode_steps=2)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("m.csv").write_text(ROWS)


def fails(*arguments):
    """The one line that a command fails with."""
    result = cli(*arguments)
    check_failure(result)
    return result.stderr.strip()


def test_a_module_in_the_current_folder_is_trained_as_typed_and_evaluated():
    Path("newcomers_shop.py").write_text(SHOP)
    settings = ("--episodes", "20", "--pilot", "20", "--output-episodes", "20", "--evaluation-episodes", "40")
    done = cli("train", "newcomers_shop:NewcomersShop-v0", *settings, "--out", "r", "--json", "--quiet")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cvar"] <= 4.0
    told = cli("evaluate", "r/plan.safetensors", "newcomers_shop:NewcomersShop-v0", "--episodes", "30")
    assert told.exit_code == 0, told.output
    assert cli("show", "r").stdout == cli("show", "r/plan.safetensors").stdout


def test_no_table_ends_with_the_command_to_type():
    assert "tailrank train CartPole-v1 --episodes 300" in fails("solve", "CartPole-v1")


def test_check_ends_with_the_command_to_type():
    assert cli("check", "m.csv").stdout.splitlines()[-1] == "next: tailrank solve m.csv --tau 0.1 --horizon H"
    assert cli("check", "m.csv", "--horizon", "4").stdout.splitlines()[-1].endswith("--tau 0.1 --horizon 4")
    last = cli("check", "FrozenLake-v1", "--episodes", "1").stdout.splitlines()[-1]
    assert last == "next: tailrank solve FrozenLake-v1 --tau 0.1"
    assert cli(*last.split()[2:]).exit_code == 0


@pytest.mark.parametrize("command", ["solve", "train"])
def test_help_has_the_common_options_first_and_every_option_once(command):
    text = cli(command, "--help").stdout
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[0] == "Options:"
    assert len(headings) > 3
    from tailrank.cli import main

    for parameter in main.commands[command].params:
        if parameter.param_type_name == "option":
            shown = [line for line in text.splitlines() if line.startswith(f"  {parameter.opts[0]}")]
            assert sum(line.split()[0].rstrip(",").split("/")[0] == parameter.opts[0] for line in shown) == 1


def test_default_folders_do_not_collide_and_overwrite_replaces_a_run():
    line = ("train", "m.csv", "--horizon", "2", "--iterations", "2", "--json", "--quiet")
    folders = {json.loads(cli(*line).stdout)["out"] for _ in range(2)}
    assert len(folders) == 2
    assert cli(*line, "--out", "r").exit_code == 0
    assert "--overwrite" in fails(*line, "--out", "r")
    assert cli(*line, "--out", "r", "--overwrite").exit_code == 0
    Path("mine").mkdir()
    Path("mine/diary.txt").write_text("dear diary")
    assert "is no folder of a run" in fails(*line, "--out", "mine", "--overwrite")
    assert Path("mine/diary.txt").exists()


def test_show_takes_names_and_folders():
    cli("solve", "m.csv", "--horizon", "3", "--save", "m.policy")
    by_name, by_number = (cli("show", "m.policy", "--state", state).stdout for state in ("off", "1"))
    assert by_name == by_number
    assert "off" in by_name
    assert "did you mean 'off'" in fails("show", "m.policy", "--state", "of")


def test_a_discount_overrides_that_of_a_file():
    rows = [dict(zip(("state", "action", "next_state", "probability", "reward"), (0, 0, 0, 1, 1)))]
    Path("m.json").write_text(json.dumps({"rows": rows, "horizon": 2, "discount": 0.5}))
    told = json.loads(cli("solve", "m.json", "--discount", "1", "--json").stdout)
    assert told["discount"] == 1.0
    assert told["results"][0]["cvar"] == pytest.approx(2.0)
    assert "discount 1 instead of the source's 0.5" in told["notes"]


def test_import_is_called_inspect_now():
    new, old = (cli(name, "m.csv", "--horizon", "3") for name in ("inspect", "import"))
    assert new.exit_code == 0
    assert new.stdout == old.stdout
    text = cli("--help").stdout
    assert "  inspect" in text
    assert "  import" not in text


def test_an_mdp_is_no_damaged_policy():
    assert fails("evaluate", "m.csv") == (
        "tailrank: error: m.csv: holds an MDP, not a policy; make one with: tailrank solve m.csv --save x.policy"
    )


def test_near_names_of_options():
    assert "--horizon" in fails("solve", "m.csv", "--horizn", "3")


def test_arguments_become_options():
    assert flags("give horizon=..., or index_base=0; see imports=...") == (
        "give --horizon, or --index-base 0; see --import"
    )
    assert flags("tau = 0.1, weight=3") == "tau = 0.1, weight=3"


def test_what_is_returned_is_said_in_words():
    assert returned("greedy, prior 0, caution 0") == "the plan of the last model"
    assert returned("kernel, share 0") == "the plan of the kernel model"
    assert "less than 0.1" in returned("kernel, share 0.1")
    assert returned("kernel, share 0, after 90 episodes") == "the plan of the kernel model, after 90 episodes"
    assert returned("search, after 90 episodes") == "the policy found by searching in a model, after 90 episodes"
    assert returned("kernel, crossed, after 90 episodes") == (
        "the plan of the kernel model, each choice valued by episodes that did not make it, after 90 episodes"
    )
    assert returned("low-rank model") == "the plan of the low-rank model"
    assert "careful" in returned("greedy, prior 0, caution 0.3")
    assert returned("iterate 12, at least 3") == "the plan of iteration 12, at least 3"
