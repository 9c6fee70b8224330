"""Learners for other objectives than CVaR: against `solve`, which is tested against enumeration."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command import cli
from tailrank import (
    CVaR,
    Entropic,
    InputError,
    Mean,
    MeanCVaR,
    MeanVariance,
    Target,
    Utility,
    VaR,
    learn,
    make_episodic,
    solve,
)
from tailrank.episodes.streams import Streams
from tailrank.learning.aim import Aim
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.ella import LsviPlanner
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.rivals.states.cvar_ucbvi import CvarUCBVI, CvarUCBVIBernstein
from tailrank.learning.train import train
from tailrank.models.goal import UnitGoal
from tailrank.models.problem import PlanningProblem
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.latent.optimistic import plan_bernstein, plan_clipped
from tailrank.planning.latent.planner import law_of_plan, plan_latent
from tailrank.runs.job import Job

MEASURES = (
    CVaR(0.2),
    MeanCVaR(0.1, weight=0.4),
    Entropic(0.7),
    Entropic(4.0),
    Utility(((0, 0), (2, 3), (5, 4))),
    Utility(((0, 0), (2, 0), (5, 4))),
    Target(3.0),
    Mean(),
    MeanVariance(0.2),
)


def lowrank(seed):
    return make_episodic("random-lowrank", n_states=8, n_actions=3, horizon=4, d=3, seed=seed)


def goal_of(measure, env):
    grid = env.rewards.grid
    return UnitGoal.of(measure, float(grid.value(0)), float(grid.unit), env.rewards.n_budgets - 1)


def problem_of(env, goal):
    start = int(env.group[0][env.start])
    visits = tuple(np.ones(law.shape) for law in env.reward_of[:-1])
    return PlanningProblem(env.model, env.rewards, env.reward_of, start, 0.1, visits, 1, 3, 0.0, goal)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_with_the_true_model_every_planner_finds_the_optimum(measure):
    """Budgets lie on the grid of returns: mean-variance, whose u bends, may promise c unit^2 / 4 too little."""
    slack = 0.06 if isinstance(measure, MeanVariance) else 1e-9
    for seed in range(3):
        env = lowrank(seed)
        goal = goal_of(measure, env)
        problem, star = problem_of(env, goal), solve(env.truth, objective=measure, tolerance=1e-7).value
        rng, none = np.random.default_rng(0), problem.no_bonus
        plans = [plan_latent(env.model, env.rewards, env.reward_of, none, 0.1, problem.start, goal)]
        plans += [planner(problem, none, rng) for planner in (plan_clipped, plan_bernstein)]
        for plan in plans:
            promised = goal.low + goal.unit * plan.objective
            law = law_of_plan(env.model, env.rewards, env.reward_of, plan, problem.start)
            assert promised == pytest.approx(star, abs=slack)
            assert promised <= measure.of_law(law) + 1e-9
            assert measure.of_law(law) <= star + max(1e-9, 1e-6 * abs(star))
            exact = return_law(plan.policy(env.rewards), env.truth).law
            assert measure.of_law(exact) == pytest.approx(measure.of_law(law), abs=1e-9)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_a_bonus_only_raises_what_is_promised(measure):
    env = lowrank(5)
    goal = goal_of(measure, env)
    problem, rng = problem_of(env, goal), np.random.default_rng(1)
    bonus = [rng.random(law.shape) for law in env.reward_of]
    widths = [rng.random(law.shape) for law in env.reward_of[:-1]] + [np.zeros(env.reward_of[-1].shape)]
    for planner, paid in ((plan_clipped, bonus), (plan_bernstein, widths)):
        low, high = (planner(problem, b, rng).objective for b in (problem.no_bonus, paid))
        best = goal.promises(goal.starts, goal.terminal[goal.starts - goal.below]).max()
        assert low - 1e-9 <= high <= best + 1e-9
    plain, lifted = (
        plan_latent(env.model, env.rewards, env.reward_of, b, 0.1, problem.start, goal).objective
        for b in (problem.no_bonus, bonus)
    )
    assert lifted >= plain - 1e-9


@pytest.mark.parametrize("measure", [MeanCVaR(0.2, weight=0.3), Entropic(1.0), Target(2.0)], ids=str)
@pytest.mark.parametrize("cls", [CvarUCBVI, CvarUCBVIBernstein])
def test_optimism(cls, measure):
    """With the paper's bonus the promise of every iteration is at least the best value; regret is counted in it."""
    env = make_episodic("random-lowrank", n_states=4, n_actions=2, horizon=3, d=2, seed=3)
    learner = cls(tau=0.2, goal=Aim.of(measure))
    star = solve(env.truth, objective=measure).value
    rows = [row for _, row in train(learner, env, iterations=60, seed=1)]
    assert min(row["objective"] for row in rows) >= star - 1e-9
    assert all(row["value"] <= star + 1e-9 for row in rows)
    assert any(row["value"] != row["cvar"] for row in rows)


@pytest.mark.parametrize(
    "measure", [MeanCVaR(0.1, weight=0.5), Entropic(2.0), Target(0.9), Utility(((0, 0), (0.5, 0.4), (1, 0.6)))], ids=str
)
def test_ela_learns_the_optimum_of_the_lock(measure):
    learned = learn("risky-lock", objective=measure, episodes=240, horizon=3, n_actions=3, seed=4)
    star = solve(learned.env.truth, objective=measure).value
    assert measure.of_law(learned.known_law) == pytest.approx(star, abs=1e-9)
    assert learned.promise == pytest.approx(star, abs=0.06)
    assert measure.name in learned.title
    assert "value" in learned.facts


def test_a_known_class_is_learned_to_the_optimum_with_many_episodes():
    env = lowrank(2)
    for measure in (MeanCVaR(0.3, weight=0.5), Entropic(0.5)):
        learner = ELA(tau=0.3, goal=Aim.of(measure), oracle=ModelChoice("class"), collect="uniform", batch=4000)
        *_, (state, _) = train(learner, env, iterations=1, seed=0)
        plan = learner.greedy(state, env, Streams(0))
        law = law_of_plan(env.model, env.rewards, env.reward_of, plan, int(env.group[0][env.start]))
        assert measure.of_law(law) == pytest.approx(solve(env.truth, objective=measure).value, rel=2e-3)


@pytest.mark.parametrize("measure", [MeanCVaR(0.3, weight=0.5), Target(2.0)], ids=str)
def test_algorithm_2_plans_for_it(measure):
    """ELLA's planner regresses on simulated episodes: near the optimum, not at it."""
    env = make_episodic("random-lowrank", n_states=4, n_actions=2, horizon=3, d=2, seed=3)
    goal = goal_of(measure, env)
    problem = problem_of(env, goal)
    plan = LsviPlanner(iterations=150, evaluations=100, beta=0.01)(problem, problem.no_bonus, np.random.default_rng(0))
    law = law_of_plan(env.model, env.rewards, env.reward_of, plan, problem.start)
    star = solve(env.truth, objective=measure).value
    assert star - 0.05 * (1 + abs(star)) <= measure.of_law(law) <= star + 1e-9


def test_observations_with_an_objective():
    measure = MeanCVaR(0.1, weight=0.5)
    learned = learn("rich-lock", objective=measure, episodes=60, horizon=3, seed=2, model="mixture")
    returns = learned.evaluate(episodes=2000).law
    assert measure.of_law(returns) > 0.75
    assert learned.promise == pytest.approx(measure.of_law(returns), abs=0.15)


def test_the_command(tmp_path, monkeypatch):
    """Rows have the value, the result the best one, the run says which guarantee holds; it resumes to the same bits."""
    base = ["train", "risky-lock", "--objective", "mean-cvar", "--tau", "0.1", "--weight", "0.5", "--horizon", "3"]
    out = tmp_path / "run"
    printed = cli(*base, "--iterations", "6", "--checkpoint-every", "2", "--out", out, "--json")
    assert printed.exit_code == 0, printed.output
    result = json.loads(printed.stdout.splitlines()[-1])
    assert result["objective"] == "mean-cvar tau 0.1 weight 0.5"
    assert result["value_star"] == pytest.approx(0.8)
    assert result["value"] <= result["value_star"] + 1e-9
    notes = json.loads((out / "manifest.json").read_text())["notes"]
    assert any("largest slope 5.5" in note for note in notes)
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert sum(0.8 - row["value"] for row in rows) == pytest.approx(rows[-1]["regret"])
    stopped, taken = tmp_path / "stopped", Job.advance
    monkeypatch.setattr(
        Job, "advance", lambda job: taken(job) if job.k < 3 else (_ for _ in ()).throw(KeyboardInterrupt)
    )
    assert cli(*base, "--iterations", "6", "--checkpoint-every", "2", "--out", stopped, "--quiet").exit_code != 0
    monkeypatch.setattr(Job, "advance", taken)
    assert cli("train", "--resume", stopped, "--quiet").exit_code == 0
    for name in ("rows.jsonl", "plan.safetensors"):
        assert (stopped / name).read_bytes() == (out / name).read_bytes()
    page = tmp_path / "page.html"
    assert cli("report", out, "--out", page).exit_code == 0
    assert "mean-cvar" in page.read_text()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Aim(objective="var"), "must be one of"),
        (lambda: Aim(objective="entropic"), "beta: must be given"),
        (lambda: Aim(objective="entropic", risk_beta=-1.0), "beta"),
        (lambda: Aim(weight=0.5), "weight: is not for the objective cvar"),
        (lambda: Aim(objective="utility", points=("0:1", "1:0")), "must not fall"),
        (lambda: Aim(objective="utility", points=("0;1",)), "two numbers with a colon"),
        (lambda: learn("risky-lock", objective=VaR(0.1), episodes=3), "objective = 'var'"),
        (lambda: learn("risky-lock", objective="cvar", episodes=3), "must be a measure"),
        (lambda: learn("risky-lock", tau=0.2, objective=CVaR(0.1), episodes=3), "has another"),
        (lambda: learn("risky-lock", objective=Entropic(1.0), algorithm="rep-ucb", episodes=3), "is no setting of"),
    ],
)
def test_bad_objectives(make, message):
    with pytest.raises(InputError, match=message):
        make()
