"""ELA: what is collected, the bonus, the latent planner, reproducibility, sample savers, output rules."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plain_dp import dense, mean_values, shortfall

import tailrank
from brute_force import cvar_by_sorting
from domains import case_rows, load_case
from tailrank import InputError
from tailrank.envs import from_mdp, make_episodic
from tailrank.envs.built_in.episodic import product_mdp
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.bonus import elliptical_bonus
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.parts import exact_planner
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.output import OutputRule, play_plan
from tailrank.learning.schedule import PRACTICAL, Schedule
from tailrank.learning.train import train
from tailrank.models.grid import exact_grid
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import RewardLaw
from tailrank.planning.exact.induction import induct, layout, reachable
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.latent.planner import plan_latent

CLASS = ModelChoice("class")


class Spy:
    """An environment that writes down every call of `step`."""

    def __init__(self, env):
        self._env, self.log = env, []

    def __getattr__(self, name):
        return getattr(self._env, name)

    def step(self, h, states, actions, rng):
        reward, after = self._env.step(h, states, actions, rng)
        self.log.append((h, states.copy(), actions.copy(), reward.copy(), after.copy()))
        return reward, after


def trajectories(log, H):
    """The paper's trajectories 0..H-1 of one iteration: lists of (s, a, r, s'), from the calls in `log`.

    Trajectory 0 has one step, t = 1..H-2 has t + 1, the last has H - 1, so at step h those from h on are live.
    """
    assert [h for h, *_ in log] == list(range(H - 1))
    found = [[] for _ in range(H)]
    for h, s, a, r, after in log:
        assert s.size == H - h
        for i, t in enumerate(range(h, H)):
            if h:
                assert found[t][-1][3] == s[i]
            found[t].append((int(s[i]), int(a[i]), float(r[i]), int(after[i])))
    return found


def same(a, b):
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def run(learner, env, k, seed=0):
    """Every state of the run as arrays, and the last state."""
    state, streams, history = learner.init(env, Streams(0)), Streams(seed), []
    for _ in range(k):
        state, _ = learner.step(state, env, streams)
        history.append({key: value.copy() for key, value in state.to_arrays().items()})
    return history, state


# Data


LOCK = ("risky-lock", {"n_states": 3000})  # so many states that no two trajectories are taken for one
LEVELS, BETA = (("random-lowrank", {"reward": kind, "n_states": 6}) for kind in ("levels", "beta"))


@pytest.mark.parametrize(
    ("H", "kind"), [(2, LOCK), (3, LOCK), (4, LOCK), (7, LOCK), (5, LEVELS), (6, LEVELS), (5, BETA)], ids=str
)
def test_printed_collection_is_algorithm_1(H, kind):
    """D_h holds step h of trajectory h, D~_h step h of trajectory h - 1; the rest follows the last plan."""
    name, settings = kind
    env = Spy(make_episodic(name, horizon=H, n_actions=3, seed=H, **settings))
    moved = 0  # how often a plan would have acted otherwise with its first budget
    learner, streams = ELA(0.25, CLASS, collect="printed"), Streams(3)
    state = learner.init(env, Streams(0))
    visits, both = ([np.zeros(x.shape) for x in part] for part in (state.seen.visits, state.seen.counts))
    for k in range(1, 9):
        env.log.clear()
        plan = state.plan
        state, _ = learner.step(state, env, streams)
        played = trajectories(env.log, H)
        assert state.k == k
        assert state.episodes == k * H
        assert state.steps == k * (1 + H * (H - 1) // 2 + (H - 2))
        for t, path in enumerate(played):
            assert path[0][0] == env.start
            budget = None if plan is None else plan.budget
            for h, (s, a, r, after) in enumerate(path):
                g, g_after = env.group[h][s], env.group[h + 1][after]
                in_d, in_tilde = h == t - 1, h == t
                assert in_d or in_tilde or h < t - 1
                both[h][g, a, g_after] += in_d or in_tilde
                visits[h][g, a] += in_d
                if plan is not None:
                    if h < t - 1:
                        act = [int(plan.act(h, np.array([g]), np.array([c]))[0]) for c in (budget, plan.budget)]
                        assert a == act[0]
                        moved += a != act[1]
                    budget = max(budget - math.ceil(r / float(env.rewards.grid.unit) - 1e-9), 0)
        for h in range(H - 1):
            np.testing.assert_array_equal(state.seen.visits[h], visits[h])
            np.testing.assert_array_equal(state.seen.counts[h], both[h])
            assert visits[h].sum() == k
            assert both[h].sum() == 2 * k
    assert moved > 0 or name == "risky-lock"


def test_actions_that_are_learned_from_are_uniform():
    env, H, A, n = Spy(make_episodic("risky-lock", horizon=4, n_actions=3)), 4, 3, 200
    _, state = run(ELA(0.25, CLASS, collect="printed"), env, n)
    for h in range(H - 1):
        by_action = state.seen.counts[h].sum(axis=(0, 2))
        assert by_action.sum() == 2 * n
        assert (np.abs(by_action - 2 * n / A) < 5 * np.sqrt(2 * n / A)).all()


@pytest.mark.parametrize("seed", range(5))
def test_one_step_needs_no_data(seed):
    env = make_episodic("random-lowrank", horizon=1, n_actions=6, n_states=7, reward="levels", seed=seed)
    for tau in (0.1, 0.5, 1.0):
        _, state = run(ELA(tau, CLASS), env, 2)
        assert state.steps == 0
        assert state.seen.visits == state.seen.counts == []
        assert state.plan.objective * float(env.rewards.grid.unit) == pytest.approx(
            tailrank.solve(env.truth, tau).cvar, abs=1e-9
        )


def test_one_step_has_a_bonus_for_every_action():
    env, seen = make_episodic("random-lowrank", horizon=1, n_actions=6, n_states=7), []
    run(ELA(0.1, CLASS, planner=spy_planner(seen)), env, 1)
    assert seen[0][1][0].shape == (7, 6)


def test_two_steps_have_no_bonus():
    env, seen = make_episodic("random-lowrank", horizon=2, n_states=6), []
    _, state = run(ELA(0.3, CLASS, planner=spy_planner(seen), collect="printed"), env, 4)
    assert (state.episodes, state.steps) == (8, 8)
    assert all((b == 0).all() for _, bonus in seen for b in bonus)


# The bonus


def spy_planner(seen):
    def planner(problem, bonus, rng):
        seen.append((problem.model, [b.copy() for b in bonus]))
        return exact_planner(problem, bonus, rng)

    return planner


def plain_bonus(phi, pairs, alpha, lam, cap):
    """From the pairs of D_h one by one."""
    sigma = lam * np.eye(phi.shape[2])
    for g, a in pairs:
        sigma += np.outer(phi[g, a], phi[g, a])
    inverse = np.linalg.inv(sigma)
    G, A, _ = phi.shape
    return np.array(
        [[min(alpha * math.sqrt(phi[g, a] @ inverse @ phi[g, a]), cap) for a in range(A)] for g in range(G)]
    )


@pytest.mark.parametrize("seed", range(5))
def test_bonus_is_the_formula(seed):
    rng = np.random.default_rng(seed)
    H, G, A, d = 5, 6, 3, 4
    steps = tuple(
        StepModel(rng.dirichlet(np.ones(d), size=(G, A)), rng.dirichlet(np.ones(G), size=d)) for _ in range(H - 1)
    )
    model = LowRankModel(steps, (np.arange(G),) * H)
    visits = tuple(rng.integers(0, 9, size=(G, A)).astype(float) for _ in range(H - 1))
    alpha, lam, cap = rng.uniform(0.5, 4), rng.uniform(0.2, 2), 1.5
    found = elliptical_bonus(model, visits, A, alpha, lam, cap)
    assert len(found) == H
    for h in range(H):
        if h >= H - 2:
            assert (found[h] == 0).all()
            continue
        pairs = [(g, a) for g in range(G) for a in range(A) for _ in range(int(visits[h][g, a]))]
        np.testing.assert_allclose(found[h], plain_bonus(steps[h].phi, pairs, alpha, lam, cap), atol=1e-12)


@pytest.mark.parametrize("log", ["corrected", "printed"])
def test_bonus_of_a_run_uses_d_alone(log):
    """The covariance of every iteration is rebuilt from the D part of the trajectories, not from D~."""
    H, A, d, F = 5, 3, 3, 9
    env, seen, pairs = Spy(make_episodic("risky-lock", horizon=H, n_actions=A)), [], [[] for _ in range(H - 1)]
    schedule = Schedule(alpha_scale=0.2, lam_scale=0.1, delta=0.05, log=log)
    learner = ELA(0.25, CLASS, schedule, planner=spy_planner(seen), collect="printed")
    state = learner.init(env, Streams(0))
    for k in range(1, 6):
        env.log.clear()
        state, _ = learner.step(state, env, Streams(0))
        for t, path in enumerate(trajectories(env.log, H)):
            if t:
                pairs[t - 1].append((env.group[t - 1][path[t - 1][0]], path[t - 1][1]))
        confidence = math.log(F * H * k / 0.05)
        alpha = 0.2 * H * math.sqrt((A + d**2) * (confidence if log == "corrected" else confidence**2))
        model, bonus = seen[-1]
        for h in range(H - 2):
            expected = plain_bonus(model.steps[h].phi, pairs[h], alpha, 0.1 * d * confidence, H)
            np.testing.assert_allclose(bonus[h], expected, atol=1e-10)
        assert all((b == 0).all() for b in bonus[H - 2 :])


# The latent planner


@pytest.mark.parametrize("reward", ["bernoulli", "levels"])
@pytest.mark.parametrize("seed", range(6))
def test_latent_planner_is_the_exact_planner(reward, seed):
    env = make_episodic(
        "random-lowrank", horizon=2 + seed, n_actions=3, n_states=5 + seed, d=2 + seed % 3, reward=reward, seed=seed
    )
    none = [np.zeros((env.n_groups, env.n_actions))] * env.horizon
    for tau in (0.01, 0.05, 0.1, 0.25, 0.5, 0.9, 1.0):
        plan = plan_latent(env.model, env.rewards, env.reward_of, none, tau, 0)
        best = tailrank.solve(env.truth, tau).cvar
        assert plan.objective * float(env.rewards.grid.unit) == pytest.approx(best, abs=1e-9)
        assert return_law(plan.policy(env.rewards), env.truth).cvar(tau) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_latent_planner_with_bonus_is_the_plain_program(seed):
    rng = np.random.default_rng(seed)
    env = make_episodic("random-lowrank", horizon=4, n_actions=3, n_states=4, reward="levels", seed=seed)
    kernels, laws = dense(env)
    H, C, top = 4, 21, 5
    bonus = [rng.uniform(0, 2, size=(4, 3)) if h < H - 2 else np.zeros((4, 3)) for h in range(H)]
    V, Q = shortfall(kernels, laws, [b * top for b in bonus], C)
    for tau in (0.05, 0.3, 1.0):
        plan = plan_latent(env.model, env.rewards, env.reward_of, bonus, tau, 0)
        np.testing.assert_allclose(plan.curve, V[0][0], atol=1e-9)
        assert plan.objective == pytest.approx(np.max(np.arange(C) - V[0][0] / tau), abs=1e-8)
        for h in range(H):
            acts = np.stack([plan.act(h, np.arange(4), np.full(4, c)) for c in range(C)], axis=1)
            chosen = np.take_along_axis(Q[h], acts[:, :, None], axis=2)[:, :, 0]
            np.testing.assert_allclose(chosen, V[h], atol=1e-9)


GOLDEN = ["02_lowrank_d3_bernoulli", "05_lowrank_d3_long", "06_risky_shortcut"]


def golden_bonus(case, rule):
    h, s, a = np.ogrid[: case["H"], : case["S"], : case["A"]]
    table = 2.0 * ((3 * s + 5 * a + 7 * h) % 11) / 11 if rule == "min_value" else np.full((case["H"], 1, 1), 2.0)
    return np.where(h <= case["H"] - 3, table, 0.0) + np.zeros((case["H"], case["S"], case["A"]))


@pytest.mark.parametrize("rule", ["min_value", "flat2_min_value"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_with_bonus_by_induction(name, rule):
    case = load_case(name)
    facts, unit = case["expected"]["with_bonus"], case["unit"][0] / case["unit"][1]
    mdp = FiniteMDP.from_rows(**case_rows(case).columns())
    grid = exact_grid([mdp.rows(h)[3] for h in range(mdp.n_blocks)], mdp.horizon, 1.0)
    bonus = golden_bonus(case, rule) / float(grid.unit)
    found = induct(mdp, grid, layout(mdp, grid, reachable(mdp)), keep_actions=False, bonus=bonus)
    index, values = found.curve(mdp.start)
    budgets, values = grid.value(index), values * float(grid.unit)
    for c, expected in zip(facts["budgets_units"], facts[rule]):
        here = np.interp(c * unit, budgets, values) + max(c * unit - budgets[-1], 0.0)
        assert here == pytest.approx(expected, abs=1e-9)
    if rule == "min_value":
        assert np.max(budgets - values / 0.25) == pytest.approx(facts["tau025_objective_max"], abs=1e-9)


@pytest.mark.parametrize("rule", ["min_value", "flat2_min_value"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_with_bonus_by_the_latent_planner(name, rule):
    case = load_case(name)
    H, S = case["H"], case["S"]
    facts, unit = case["expected"]["with_bonus"], case["unit"][0] / case["unit"][1]
    phi = case.get("phi", case["P"])  # any kernel is its own phi, with the next state as its latent
    psi = case.get("psi", [np.eye(S)] * (H - 1))
    model = LowRankModel(tuple(StepModel(np.array(p), np.array(q)) for p, q in zip(phi, psi)), (np.arange(S),) * H)
    rewards = RewardLaw.from_mdp(FiniteMDP.from_rows(**case_rows(case).columns()))
    scale = rewards.top * float(rewards.grid.unit)  # bonuses are on the scale where the largest reward is 1
    plan = plan_latent(model, rewards, tuple(rewards.which), list(golden_bonus(case, rule) / scale), 0.25, case["s0"])
    for c, expected in zip(facts["budgets_units"], facts[rule]):
        index = round(c * unit / float(rewards.grid.unit))
        assert plan.curve[index] * float(rewards.grid.unit) == pytest.approx(expected, abs=1e-9)
    if rule == "min_value":
        assert plan.objective * float(rewards.grid.unit) == pytest.approx(facts["tau025_objective_max"], abs=1e-9)
        assert round(plan.budget * float(rewards.grid.unit) / unit) in facts["tau025_argmax_budget_units"]


@pytest.mark.parametrize("name", ["risky-lock", "random-lowrank"])
def test_at_tau_1_plans_are_those_of_rep_ucb(name):
    env, seen = make_episodic(name, n_actions=3), []
    _, laws = dense(env)
    streams, learner = Streams(1), ELA(1.0, CLASS, planner=spy_planner(seen))
    state = learner.init(env, Streams(0))
    for _ in range(6):
        state, _ = learner.step(state, env, streams)
        model, bonus = seen[-1]
        kernels = [s.kernel for s in model.steps]
        W, U = mean_values(kernels, laws, [b * env.rewards.top for b in bonus])
        start = int(env.group[0][env.start])
        assert state.plan.objective == pytest.approx(W[0][start], abs=1e-8)
        live = {(start, state.plan.budget)}
        for h in range(env.horizon):
            after = set()
            for g, c in live:
                a = int(state.plan.act(h, np.array([g]), np.array([c]))[0])
                assert U[h][g, a] == pytest.approx(W[h][g], abs=1e-7)
                if h < env.horizon - 1:
                    left = {max(c - int(x), 0) for x in np.flatnonzero(laws[h][g, a])}
                    after |= {(int(t), y) for t in np.flatnonzero(kernels[h][g, a] > 1e-12) for y in left}
            live = after


# Reproducibility


SETTINGS = [
    ("class", None, {}),
    ("class", None, {"collect": "printed"}),
    ("class", None, {"collect": "episode"}),
    ("class", None, {"batch": 3}),
    ("counts", None, {}),
    ("em", 3, {}),
    ("block", 3, {}),
]


@pytest.mark.parametrize(("model", "rank", "options"), SETTINGS)
def test_resumed_and_repeated_runs_agree_to_the_bit(model, rank, options):
    env = make_episodic("risky-lock", horizon=4, n_actions=3, n_states=9)
    learner = ELA(0.2, ModelChoice(model, rank), **options)
    whole, _ = run(learner, env, 5, seed=11)
    again, _ = run(learner, env, 2, seed=11)
    same(whole[1], again[1])
    state = learner.init(env, Streams(0)).from_arrays(again[1])
    for expected in whole[2:]:
        state, _ = learner.step(state, env, Streams(11))
        same(state.to_arrays(), expected)
    same(again[1], whole[1])
    other, _ = run(learner, env, 5, seed=12)
    assert any(not np.array_equal(other[-1][key], whole[-1][key]) for key in whole[-1])


def test_evaluations_change_nothing():
    env, learner = make_episodic("risky-lock"), ELA(0.2, CLASS)
    plain, _ = run(learner, env, 6, seed=2)
    streams, judge, kept = Streams(2), ExactJudge.of(learner, env), {}
    for state, row in train(learner, env, iterations=6, seed=2, judge=judge):
        kept[state.k] = state.plan
        learner.greedy(state, env, streams)
        OutputRule("best", episodes=50).choose(learner, env, state, kept, streams)
        assert judge.cvar(state.plan) == row["cvar"]
        same(state.to_arrays(), plain[state.k - 1])


# Sample savers


@pytest.mark.parametrize("H", [2, 3, 6])
def test_rollins_learn_from_every_step(H):
    env, k = make_episodic("risky-lock", horizon=H, n_actions=3), 7
    _, state = run(ELA(0.2, CLASS, collect="rollins"), env, k)
    assert state.episodes == k * H
    assert state.steps == k * (1 + H * (H - 1) // 2 + (H - 2)) == sum(c.sum() for c in state.seen.counts)
    for h in range(H - 1):
        assert state.seen.visits[h].sum() == k * (H - 1 - h)
        assert state.seen.counts[h].sum() == k * (H - h)


def test_episode_plays_one_of_the_h_episodes():
    H, k = 5, 200
    env = Spy(make_episodic("risky-lock", horizon=H, n_actions=3))
    _, state = run(ELA(0.2, CLASS, collect="episode"), env, k)
    assert all(s.size <= 1 for _, s, *_ in env.log)
    assert state.episodes == k
    assert state.steps == sum(s.size for _, s, *_ in env.log) == sum(c.sum() for c in state.seen.counts)
    lengths = [int(c.sum()) for c in state.seen.counts]  # episodes that have step h: all but h of the H kinds
    kinds = [1.0, *((H - h) / H for h in range(1, H - 1))]
    assert lengths[0] == k
    assert all(abs(n - k * p) < 5 * math.sqrt(k * p * (1 - p) + 1e-9) + 1e-9 for n, p in zip(lengths, kinds))
    visits = [int(v.sum()) for v in state.seen.visits]
    assert all(v <= n for v, n in zip(visits, lengths))


class Counting:
    """Oracles that count their fits and keep what they were given."""

    sparse = False

    def __init__(self, inner):
        self.inner, self.given = inner, []

    def sees_groups(self, env):
        return True

    def make(self, env):
        return [CountingOracle(o, self.given) for o in self.inner.make(env)]


class CountingOracle:
    def __init__(self, inner, given):
        self._inner, self._given = inner, given

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def fit(self, counts, **more):
        self._given.append(np.array(counts))
        return self._inner.fit(counts, **more)


def test_batch_fits_once_for_several_collections():
    H, oracles = 4, Counting(CLASS)
    env, seen = make_episodic("risky-lock", horizon=H, n_actions=3), []
    learner = ELA(0.2, oracles, batch=5, collect="printed", planner=spy_planner(seen))
    _, state = run(learner, env, 3)
    assert state.k == len(seen) == 3
    assert state.episodes == 3 * 5 * H
    assert len(oracles.given) == 3 * (H - 1)
    assert all(v.sum() == 15 for v in state.seen.visits)


def test_share_pools_the_steps():
    """The true steps are made alike, so one model serves all of them."""
    lock = make_episodic("risky-lock", horizon=5, n_actions=3)
    step = lock.model.steps[0]
    steps = (step,) * 4
    env = replace(lock, model=LowRankModel(steps, lock.group), truth=product_mdp(steps, lock.rewards, 0), optimum=None)
    oracles = Counting(CLASS)
    _, state = run(ELA(0.2, oracles, share=True), env, 4)
    assert len(oracles.given) == 4
    np.testing.assert_array_equal(oracles.given[-1], np.sum(state.seen.counts, axis=0))
    assert all(s is state.model.steps[0] for s in state.model.steps)
    assert len(state.model.steps) == 4


def test_bad_settings_are_refused():
    for bad in ({"collect": "all"}, {"batch": 0}):
        with pytest.raises(InputError):
            ELA(0.1, CLASS, **bad)
    with pytest.raises(InputError):
        ELA(0.0, CLASS)
    with pytest.raises(InputError, match="no finite class"):
        run(ELA(0.1, CLASS), make_episodic("risky-shortcut"), 1)
    env, learner = make_episodic("risky-lock"), ELA(0.1, CLASS)
    state = learner.init(env, Streams(0))
    with pytest.raises(InputError, match="no iteration"):
        learner.greedy(state, env, Streams(0))


# Output


def outputs(rule, iterations=12, seed=0):
    env, learner, streams = make_episodic("risky-lock", horizon=4, n_actions=3), ELA(0.2, CLASS), Streams(seed)
    wanted, kept, every = rule.drawn(iterations, streams), {}, {}
    for state, _ in train(learner, env, iterations=iterations, seed=seed):
        every[state.k] = state.plan
        if state.k in wanted:
            kept[state.k] = state.plan
    found = rule.choose(learner, env, state, kept, streams)
    plan, source = found.policy, found.returned
    return plan, source, wanted, every, learner.greedy(state, env, streams), ExactJudge.of(learner, env)


def test_uniform_returns_the_iterate_that_was_drawn():
    plan, source, wanted, every, _, _ = outputs(OutputRule("uniform"))
    assert len(wanted) == 1
    assert source == f"iterate {wanted[0]}"
    assert plan is every[wanted[0]]
    draws = [OutputRule("uniform").drawn(4, Streams(seed))[0] for seed in range(400)]
    assert (np.abs(np.bincount(draws, minlength=5)[1:] - 100) < 5 * math.sqrt(75)).all()


def test_greedy_returns_the_plan_without_bonus():
    rule = OutputRule("greedy")
    plan, source, wanted, _, greedy, judge = outputs(rule)
    assert (wanted, source) == ([], "greedy")
    assert plan.budget == greedy.budget
    np.testing.assert_array_equal(plan.curve, greedy.curve)
    assert judge.cvar(plan) == pytest.approx(plan.objective * float(judge.env.rewards.grid.unit)) == pytest.approx(0.8)


@pytest.mark.parametrize("seed", range(3))
def test_best_is_as_good_as_its_candidates(seed):
    rule = OutputRule("best", episodes=4000)
    plan, source, wanted, every, greedy, judge = outputs(rule, seed=seed)
    assert 1 <= len(wanted) <= math.ceil(math.log2(2 / rule.delta))
    name, bound = source.split(", ")
    assert name == "greedy" or int(name.split()[1]) in wanted
    assert float(bound.split()[2]) <= judge.cvar(plan) + 1e-9, "a lower bound on what it earns"
    values = [judge.cvar(p) for p in [greedy, *(every[k] for k in wanted)]]
    assert judge.cvar(plan) == pytest.approx(max(values), abs=0.1)


def test_played_returns_follow_the_law_of_the_plan():
    plan, _, _, _, _, judge = outputs(OutputRule("greedy"))
    returns = play_plan(judge.env, plan, judge.env.group, 5000, np.random.default_rng(0))
    assert returns.mean() == pytest.approx(judge.law(plan).mean, abs=0.05)
    assert cvar_by_sorting(returns, np.full(5000, 1 / 5000), 0.2) == pytest.approx(judge.cvar(plan), abs=0.05)


def test_defaults():
    learner = ELA(0.1, CLASS)
    assert (learner.schedule, learner.collect, learner.share, learner.batch) == (PRACTICAL, "rollins", None, 1)
    assert learner.schedule.cap_for(7) == 7.0
    assert OutputRule().name == "best"


def test_a_state_is_not_changed_by_the_steps_that_follow_it():
    env = make_episodic("risky-lock", horizon=4, n_actions=3, n_states=6)
    learner, streams = ELA(0.2, CLASS), Streams(3)
    first, _ = learner.step(learner.init(env, Streams(0)), env, streams)
    arrays = {name: value.copy() for name, value in first.to_arrays().items()}
    once, _ = learner.step(first, env, streams)
    again, _ = learner.step(first, env, streams)
    for name, value in first.to_arrays().items():
        np.testing.assert_array_equal(value, arrays[name])
    for name, value in once.to_arrays().items():
        np.testing.assert_array_equal(value, again.to_arrays()[name])


def test_shared_steps_share_their_visits():
    env, seen = make_episodic("risky-shortcut"), []
    learner = ELA(0.2, ModelChoice("counts"), planner=spy_planner(seen), share=True)
    state, _ = learner.step(learner.init(env, Streams(0)), env, Streams(0))
    bonus = seen[-1][1]
    np.testing.assert_array_equal(bonus[0], bonus[1])
    assert sum(v.sum() for v in state.seen.visits) > state.seen.visits[0].sum()


@pytest.mark.parametrize("reward", [1.2, -0.1])
def test_rewards_outside_the_declared_range_are_refused(reward):
    rewards = make_episodic("risky-lock").rewards
    with pytest.raises(InputError, match=rf"reward = {reward} at step 1: lies outside the declared range 0 to 1"):
        rewards.charge(1, np.array([0.8, reward]), np.array([5, 5]))


@pytest.mark.parametrize("name", ["risky-lock", "random-lowrank", "risky-shortcut", "decoy"])
def test_the_law_through_latents_is_the_law_through_rows(name):
    env = make_episodic(name)
    learner = ELA(0.2, ModelChoice("class" if env.candidates else "counts"))
    judge = ExactJudge.of(learner, env)
    assert judge.quick
    for state, row in train(learner, env, iterations=4, seed=1, judge=judge):
        assert row["cvar"] == pytest.approx(judge.law(state.plan).cvar(0.2), abs=1e-10)


def test_rewards_that_depend_on_the_next_state_are_evaluated_by_rows(monkeypatch):
    monkeypatch.setattr("tailrank.envs.built_in.equivalent.MOST_ROWS", 0)  # they are left as they are
    mdp = tailrank.FiniteMDP.from_rows([0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1], [0.5] * 4, [0, 1, 0, 1], horizon=3)
    judge = ExactJudge.of(ELA(0.5, ModelChoice("counts")), from_mdp(mdp))
    assert not judge.quick
