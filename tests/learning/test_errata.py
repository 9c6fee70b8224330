"""Every erratum that changes results (docs/paper_notes.md): the printed version fails, the corrected one holds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from plain_dp import evaluate, shortfall

from brute_force import Tiny, best_cvar_by_brute_force, cvar_by_sorting, follow
from tailrank import InputError
from tailrank.envs import from_mdp, make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.ela import ELA
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.output import OutputRule
from tailrank.learning.schedule import Schedule
from tailrank.learning.train import train
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import RewardLaw
from tailrank.planning.latent.planner import plan_latent
from tailrank.policies.moved import Moved

# 1. Terminal value and negative budgets

TAU = 0.2
ARMS = ({4: 1.0}, {0: 0.4, 10: 0.6})  # tenths: .4 surely (CVaR* = .8 in two steps), or 1 with probability .6


def objective(H, tau, read, arms=ARMS):
    """max over budgets 0..10 H of c - V(c) / tau, in tenths, one state, V_{h+1} read as `read(V, c - x)`."""
    C = 10 * H + 1
    V = np.arange(C, dtype=float)
    for _ in range(H):
        V = np.array([min(sum(p * read(V, c - x) for x, p in law.items()) for law in arms) for c in range(C)])
    return max(np.arange(C) - V / tau) / 10


def test_1_budgets_below_zero_count_as_zero():
    rows = tuple((None, 0, a, 0, p, x / 10) for a, law in enumerate(ARMS) for x, p in law.items())
    m = Tiny(rows, 2, (1.0,), n_actions=2)
    star = best_cvar_by_brute_force(m, [TAU])[0]
    assert star == pytest.approx(0.8, abs=1e-12)
    assert objective(2, TAU, lambda V, i: V[max(i, 0)]) == pytest.approx(star, abs=1e-12)
    env = from_mdp(FiniteMDP.from_rows(**m.columns()))
    plan = plan_latent(env.model, env.rewards, env.reward_of, [np.zeros((1, 2))] * 2, TAU, 0)
    assert plan.objective * float(env.rewards.grid.unit) == pytest.approx(star, abs=1e-12)


def test_1_as_printed_the_problem_becomes_risk_neutral():
    """V_{H+1}(i) = i at negative i: E R / tau = 1.2 / .2 at c = 0, attained by the risky arm, whose CVaR is 0."""
    H, C = 2, 21
    low = -10 * H  # a table over all budgets that can be met
    V = np.arange(low, C, dtype=float)
    for h in reversed(range(H)):
        budgets = range(-10 * h, C)
        V = np.array([min(sum(p * V[c - x + 10 * (h + 1)] for x, p in law.items()) for law in ARMS) for c in budgets])
    values = np.arange(C) - V / TAU
    assert int(np.argmax(values)) == 0
    assert max(values) / 10 == pytest.approx(1.2 / TAU)
    risky = [(0.0, 0.16), (1.0, 0.48), (2.0, 0.36)]
    assert cvar_by_sorting(*zip(*risky), TAU) == pytest.approx(0.2)


def test_1_a_negative_index_wraps_around_silently():
    """One arm, .2 or 1 evenly, twice: the worst half of .4, 1.2, 1.2, 2 has mean .8, at c = 1.2, overshot by (1, 1)."""
    arms = ({2: 0.5, 10: 0.5},)
    assert objective(2, 0.5, lambda V, i: V[max(i, 0)], arms) == pytest.approx(0.8)
    assert objective(2, 0.5, lambda V, i: V[i], arms) < 0.7


# 2. Clip


def test_2_clip_at_minus_h_takes_a_wrong_action():
    """H = 10, cap 2. Exact: action 0 is worth (-14 + 4) / 2 = -5, action 1 is worth -4; the clip makes -14 a -10."""
    H, C = 10, 11
    start, x, y, z = range(4)
    kernel = np.zeros((4, 2, 4))
    kernel[start, 0, [x, z]] = 0.5
    kernel[start, 1, y] = 1.0
    for s in (x, y, z):
        kernel[s, :, s] = 1.0
    law = np.zeros((4, 2, 2))
    law[[start, z], :, 0] = 1.0
    law[[x, y], :, 1] = 1.0  # x and y earn the budget of 4, z does not
    bonus = [np.zeros((4, 2)) for _ in range(H)]
    for h in range(1, H - 2):
        bonus[h][x], bonus[h][y] = 2.0, 4 / 7

    def clipped(lowest):
        V = np.tile(np.arange(C, dtype=float), (4, 1))
        for h in reversed(range(H)):
            after = np.einsum("gat,tc->gac", kernel, V) if h < H - 1 else np.repeat(V[:, None], 2, axis=1)
            spent = np.concatenate([after[..., :1], after[..., :-1]], axis=2)
            Q = -bonus[h][..., None] + law[..., :1] * after + law[..., 1:] * spent
            Q = np.clip(Q, lowest(h), np.maximum(np.arange(C), 0) if lowest(h) != -H else H)
            V = Q.min(axis=1)
        return Q[start, :, 4]

    _, Q = shortfall([kernel] * (H - 1), [law] * H, bonus, C)
    np.testing.assert_allclose(Q[0][start, 4], [-5.0, -4.0])
    np.testing.assert_allclose(clipped(lambda h: -2.0 * max(H - 2 - h, 0)), [-5.0, -4.0])
    np.testing.assert_allclose(clipped(lambda h: -H), [-3.0, -4.0])


# 3. Bonus cap


def test_3_cap_2_never_explores_and_cap_h_does():
    env, found = make_episodic("decoy"), {}
    for cap in ("printed", "corrected"):
        schedule = Schedule(alpha_scale=0.12, lam_scale=0.05, cap=cap)
        learner = ELA(0.75, ModelChoice("class"), schedule, collect="printed")
        judge = ExactJudge.of(learner, env)
        rows = list(train(learner, env, iterations=60, seed=0, judge=judge))
        greedy = judge.cvar(learner.greedy(rows[-1][0], env, Streams(0)))
        found[cap] = np.array([row["cvar"] for _, row in rows]), greedy
    assert judge.star == pytest.approx(17.0)
    np.testing.assert_allclose(found["printed"][0], 19 / 3, atol=1e-9)
    assert found["printed"][1] == pytest.approx(19 / 3)
    assert found["corrected"][0].max() == pytest.approx(17.0)
    assert (found["corrected"][0][-10:] > 16.9).sum() >= 5
    assert found["corrected"][1] == pytest.approx(17.0)


# 4. Discretisation bound


def random_product(rng, H=3, S=3, A=2):
    """A random MDP with real rewards in [0, 1], independent of the next state."""
    rows = []
    for h, s, a in itertools.product(range(H), range(S), range(A)):
        after = rng.dirichlet(np.ones(2))
        pay, chance = rng.random(2), rng.dirichlet(np.ones(2))
        for t, p in zip(rng.choice(S, 2, replace=False), after):
            rows += [(h, s, a, int(t), float(p * q), float(r)) for r, q in zip(pay, chance)]
    return Tiny(tuple(rows), H, (1.0,) + (0.0,) * (S - 1), n_actions=A)


@pytest.mark.parametrize("seed", range(8))
def test_4_rounding_costs_h_upsilon_at_every_tau(seed):
    m = random_product(np.random.default_rng(seed))
    mdp, H, taus = FiniteMDP.from_rows(**m.columns()), 3, (0.05, 0.1, 0.3, 0.7, 1.0)
    stars = best_cvar_by_brute_force(m, taus)
    for parts in (4, 7):
        env = from_mdp(mdp, 1 / parts)
        grid = env.rewards.grid
        assert grid.unit == Fraction(1, parts)
        for tau, star in zip(taus, stars):
            none = [np.zeros((env.n_groups, env.n_actions))] * H
            plan = plan_latent(env.model, env.rewards, env.reward_of, none, tau, 0)
            claimed = plan.objective * float(grid.unit) + float(grid.offset)
            earned = cvar_by_sorting(*follow(m, plan.policy(env.rewards)), tau)
            assert star - 1e-9 <= claimed
            assert claimed - H / parts - 1e-9 <= earned <= star + 1e-9


def test_4_the_printed_bound_is_vacuous_at_small_tau():
    H, upsilon, tau = 3, 1 / 4, 0.05
    assert H * upsilon < H < H * upsilon / tau


# 5. Output


def test_5_a_mixture_is_worse_than_its_parts():
    sure, gamble = ([0.5], [1.0]), ([0.0, 1.0], [0.25, 0.75])
    assert cvar_by_sorting(*sure, 0.5) == cvar_by_sorting(*gamble, 0.5) == 0.5
    assert cvar_by_sorting([0.5, 0.0, 1.0], [0.5, 0.125, 0.375], 0.5) == pytest.approx(0.375)
    for seed in range(20):
        assert len(OutputRule("uniform").drawn(50, Streams(seed))) == 1


# 6. Grid top


def test_6_upsilon_must_divide_one():
    H, nu = 3, 0.3
    rounded = H * math.ceil(1 / nu) * nu
    kernel, law = np.ones((1, 1, 1)), np.eye(math.ceil(1 / nu) + 1)[-1].reshape(1, 1, -1)
    top = math.ceil(H / nu)
    V, _ = shortfall([kernel] * 2, [law] * H, [np.zeros((1, 1))] * H, top + 1)
    on_grid = max(np.arange(top + 1) - V[0][0] / 0.5) * nu
    assert rounded == pytest.approx(3.6)
    assert on_grid == pytest.approx(3.0)

    def always_one(x):
        return (np.asarray(x) >= 1.0).astype(float)

    which = np.zeros((H, 1, 1), dtype=np.int64)
    with pytest.raises(InputError, match="1 over a whole number"):
        RewardLaw.from_cdfs([always_one], which, Fraction(3, 10))
    for m in (1, 3, 4, 10):
        rewards = RewardLaw.from_cdfs([always_one], which, Fraction(1, m))
        assert rewards.top == m
        assert rewards.n_budgets == H * m + 1
        V, _ = shortfall([kernel] * 2, [rewards.laws[which[0]]] * H, [np.zeros((1, 1))] * H, rewards.n_budgets)
        assert max(np.arange(H * m + 1) - V[0][0] / 0.5) / m == pytest.approx(3.0)


def test_6_a_grid_from_an_mdp_reaches_the_largest_rounded_return():
    mdp = FiniteMDP.from_rows([0, 0], [0, 1], [0, 0], [1.0, 1.0], [1.0, 0.0], horizon=3)
    env = from_mdp(mdp, 0.3)
    plan = plan_latent(env.model, env.rewards, env.reward_of, [np.zeros((1, 2))] * 3, 0.5, 0)
    assert plan.objective * float(env.rewards.grid.unit) == pytest.approx(3.6)


# 7. The induced policy, and rounding in floats


def test_7_the_grid_budget_is_no_function_of_the_sum():
    grid = BudgetGrid(Fraction(1, 4), (Fraction(0),) * 2, "up")
    left = [
        4 - sum(int(grid.units(h, np.array([r]))[0]) for h, r in enumerate(path)) for path in ((0.3, 0.3), (0.6, 0))
    ]
    assert left == [0, 1]  # both leave c - .6, with 1.0 and .75 spent on the grid
    rows = [(h, 0, 0, 0, p, r) for h in range(2) for r, p in ((0.3, 0.4), (0.6, 0.3), (0.0, 0.3))]
    mdp = FiniteMDP.from_rows(*zip(*(row[1:] for row in rows)), step=[row[0] for row in rows])
    env = from_mdp(mdp, 0.25)
    plan = plan_latent(env.model, env.rewards, env.reward_of, [np.zeros((1, 1))] * 2, 0.5, 0)
    policy = plan.policy(env.rewards).with_budget(4)
    memory = policy.start(2)
    zero = np.zeros(2, dtype=np.int64)
    for h, pay in enumerate(([0.3, 0.6], [0.3, 0.0])):
        memory = policy.update(h, Moved(zero, zero, np.array(pay), zero), memory)
    assert memory[0] != memory[1]


def test_7_multiples_of_the_unit_stay_what_they_are():
    pairs = [(k, n) for n in range(2, 60) for k in range(n + 1)]
    naive = sum(math.ceil((k / n) / (1 / n)) != k for k, n in pairs)
    assert (naive, len(pairs)) == (196, 1827)
    assert math.ceil((5 / 6) / (1 / 6)) == 6
    for k, n in pairs:
        grid = BudgetGrid(Fraction(1, n), (Fraction(0),), "up")
        assert grid.units(0, np.array([k / n]))[0] == k
        if k:
            assert grid.units(0, np.array([k / n - 0.5 / n]))[0] == k


def test_7_a_plan_earns_less_than_it_claims_on_the_grid():
    """Rewards of .3 rounded up to .5: claimed 1.0, earned .6."""
    mdp = FiniteMDP.from_rows([0, 0], [0, 1], [0, 0], [1.0, 1.0], [0.3, 0.0], horizon=2)
    env = from_mdp(mdp, 0.25)
    plan = plan_latent(env.model, env.rewards, env.reward_of, [np.zeros((1, 2))] * 2, 0.5, 0)
    assert plan.objective * float(env.rewards.grid.unit) == pytest.approx(1.0)
    learner = ELA(0.5, ModelChoice("counts"))
    assert ExactJudge.of(learner, env).cvar(plan) == pytest.approx(0.6)
    law, _ = evaluate([np.ones((1, 2, 1))], [np.eye(2)[None, :, ::-1]] * 2, [np.zeros((1, 2))] * 2, 0, lambda *_: 0)
    assert law == {2: 1.0}
