"""Compulsory goals, horizons that are found, costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tailrank
from brute_force import random_rows
from command import cli
from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.objectives.horizon import cut, widened
from tailrank.planning.objectives.must_reach import must_reach
from tailrank.risk.measures import Entropic, Expectile, Mean, MeanCVaR, Target

LOOP = "state,action,next_state,probability,reward\n0,0,0,1,0\n0,1,1,1,4\n"


def test_a_compulsory_goal_costs_what_it_costs():
    """A cycle that never pays: the least cost to reach the goal is 4, and 0 for those who need not."""
    mdp = FiniteMDP.from_rows([0, 0], [0, 1], [0, 1], [1, 1], [0, -4], horizon=6)
    assert tailrank.solve(mdp, 0.5).value == 0.0
    assert tailrank.solve(must_reach(mdp, 1), 0.5).value == -4.0


@pytest.mark.parametrize("seed", range(40))
def test_every_policy_that_is_left_reaches_the_goal(seed):
    rng = np.random.default_rng([41, seed])
    m = random_rows(rng, "integers", leaves=300)
    mdp, goal = FiniteMDP.from_rows(**m.columns()), int(rng.integers(len(m.start)))
    can = {(m.horizon, goal)}
    for h in reversed(range(m.horizon)):
        can.add((h, goal))
        for s in range(len(m.start)):
            for out in m.outcomes(h, s).values():
                if all((h + 1, t) in can for t, p, _ in out if p > 0):
                    can.add((h, s))
    if not all((0, s) in can for s, q in enumerate(m.start) if q > 0):
        with pytest.raises(InputError, match="cannot be reached surely"):
            must_reach(mdp, goal)
        return
    left = must_reach(mdp, goal)
    states = set(np.flatnonzero(left.start > 0).tolist())
    for h in range(left.horizon):  # whatever is done
        ptr, after, prob, _ = left.rows(h)
        rows = [k for s in states for k in range(ptr[s * left.n_actions], ptr[(s + 1) * left.n_actions])]
        states = {int(after[k]) for k in rows if prob[k] > 0}
    assert states == {goal}
    tailrank.solve(left, 0.3)


def test_a_discounted_problem_is_cut_where_little_is_left():
    """Reward 1 for ever, discounted by 0.9, is worth 10; a coin each step has the same mean."""
    mdp = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.5, 0.5], [1, 0, 2], horizon=1, discount=0.9)
    short, after = cut(mdp, (0.0, 0.01))
    plan = widened(tailrank.solve(short, 0.1), after)
    assert plan.lower <= 10.0 <= plan.upper
    assert plan.upper - plan.lower <= 0.1
    assert plan.status == "bracketed"
    with pytest.raises(InputError, match="horizon auto: the objective target"):
        widened(tailrank.solve(short, objective=Target(9.0)), after)
    with pytest.raises(InputError, match="from state 0 some policy never ends"):
        cut(FiniteMDP.from_rows([0], [0], [0], [1], [1], horizon=1), (0.0, 0.01))


def test_what_ends_surely_is_cut_where_little_is_left():
    """1 a step, stopping with probability 1/2: the return is geometric, its CVaR at .8 is 23/16."""
    mdp = FiniteMDP.from_rows([0, 0, 1], [0, 0, 0], [0, 1, 1], [0.5, 0.5, 1], [1, 1, 0], horizon=1)
    short, after = cut(mdp, (1e-4, 0.0), 1 / 0.8)
    assert not after.sure
    plan = widened(tailrank.solve(short, 0.8), after)
    assert plan.lower <= 23 / 16 <= plan.upper
    assert 0 < plan.upper - plan.lower <= 1e-4
    chance = widened(tailrank.solve(short, objective=Target(3.0)), after)
    assert chance.lower <= 0.25 <= chance.upper < 0.251
    with pytest.raises(InputError, match="give a horizon, or a discount"):
        widened(tailrank.solve(short, objective=Entropic(0.5)), after)


@pytest.mark.parametrize("seed", range(8))
def test_random_problems_that_end(seed):
    """Each step ends with probability .3 at least: the bracket holds what many more steps give."""
    rng = np.random.default_rng(seed)
    rows = [(3, a, 3, 1.0, 0.0) for a in range(2)]
    for s in range(3):
        for a in range(2):
            p = 0.7 * rng.dirichlet(np.ones(3))
            rows += [(s, a, t, p[t], float(rng.integers(-2, 3))) for t in range(3)] + [(s, a, 3, 0.3, 1.0)]
    mdp = FiniteMDP.from_rows(*zip(*rows), horizon=1)
    long = replace(mdp, horizon=80)
    for measure in (None, Mean(), MeanCVaR(0.2, weight=0.5), Expectile(0.3), Target(1.0)):
        short, after = cut(mdp, (0.0, 0.5), 5.0)
        plan = widened(tailrank.solve(short, 0.2, objective=measure), after)
        best = tailrank.solve(long, 0.2, objective=measure)
        assert plan.lower - 1e-6 <= best.value <= plan.upper + 1e-6
        assert short.horizon < 60


def test_the_command_line_poses_problems(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop.csv").write_text(LOOP)
    row = json.loads(cli("solve", "loop.csv", "--horizon", "5", "--costs", "--must-reach", "1", "--json").stdout)
    assert (row["costs"], row["results"][0]["value"], row["results"][0]["mean"]) == (True, 4.0, 4.0)
    row = json.loads(cli("solve", "loop.csv", "--horizon", "auto", "--discount", "0.9", "--json").stdout)
    assert row["status"] == "bracketed"
    assert row["results"][0]["lower"] == pytest.approx(4.0)
    for extra, message in (
        (("--must-reach", "7"), "must reach 7: is no state"),
        (("--objective", "entropic"), "beta: must be given"),
        (("--beta", "1"), "--beta: is for an --objective"),
        (("--subject-to", "cvar:0.1"), "must be cvar:TAU>=K or below:C<=P"),
        (("--objective", "utility", "--point", "0:0", "--point", "1:-1"), "a utility must not fall"),
        (("--objective", "spectral", "--level", "x"), "--level x: must be two numbers"),
    ):
        result = cli("solve", "loop.csv", "--horizon", "5", *extra)
        assert result.exit_code == 2
        assert message in result.output


def test_the_command_line_saves_and_judges_objectives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop.csv").write_text(LOOP)
    for objective in (("target", "--at", "3"), ("entropic", "--beta", "0.5"), ("mean-cvar", "--weight", "0.2")):
        options = ("--horizon", "3", "--objective", *objective, "--json")
        solved = json.loads(cli("solve", "loop.csv", *options, "--save", "p.policy").stdout)["results"][0]
        judged = json.loads(cli("evaluate", "p.policy", "loop.csv", *options).stdout)["results"][0]
        assert judged["value"] == pytest.approx(solved["value"])
        assert solved["lower"] <= solved["value"] <= solved["upper"]


def test_a_file_that_says_its_horizon_needs_no_other(tmp_path):
    path = tmp_path / "two.json"
    path.write_text(json.dumps({"horizon": 2, "rows": [[0, 0, 0, 1, 1]]}))
    done = cli("solve", path, "--horizon", "auto")
    assert done.exit_code == 2
    assert "horizon = auto: the file says 2" in done.stderr
