"""The exact planner against brute force, linear programs and published answers."""

from __future__ import annotations

import numpy as np
import pytest

import brute_force
import tailrank
from brute_force import Tiny, cvar_by_sorting, follow, random_rows
from domains import CASES, case_rows, load_case
from tailrank.checks import NotConverged
from tailrank.models.grid import exact_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning import solve as solving
from tailrank.planning.exact.return_law import return_law
from tailrank.policies.tables import MarkovPolicy

TAUS = (0.05, 0.1, 0.25, 1 / 3, 0.5, 0.75, 1.0)
TOLERANCE = 1e-3
MEMORY = "50MB"  # a discount can put tiny problems on lattices of 1e8 budgets, which are exact but slow
LATTICE = ("integers", "tenths", "thirds")


def build(m: Tiny) -> FiniteMDP:
    return FiniteMDP.from_rows(**m.columns())


def one_state(*outcomes: list[tuple[float, float]], horizon: int = 1, **options: object) -> Tiny:
    """A single state whose action a has the outcomes [(p, r), ...]."""
    rows = tuple((None, 0, a, 0, p, r) for a, law in enumerate(outcomes) for p, r in law)
    return Tiny(rows, horizon, (1.0,), n_actions=len(outcomes), **options)


def check_policy(m: Tiny, plan: tailrank.Plan) -> None:
    """The plan's numbers about its own policy are those of a walk over all histories."""
    returns, probs = follow(m, plan.policy)
    assert probs.sum() == pytest.approx(1.0, abs=1e-12)
    assert plan.cvar == pytest.approx(cvar_by_sorting(returns, probs, plan.tau), abs=1e-9)
    assert plan.mean == pytest.approx(probs @ returns, abs=1e-9)
    for tau in TAUS:
        assert plan.law.cvar(tau) == pytest.approx(cvar_by_sorting(returns, probs, tau), abs=1e-9)
    order = np.argsort(returns)
    cumulative = np.cumsum(probs[order])
    below, above = (
        returns[order][min(np.searchsorted(cumulative, plan.tau + slack), returns.size - 1)] for slack in (-1e-9, 1e-9)
    )
    assert below - 1e-9 <= plan.var <= above + 1e-9


def check_bracket(plan: tailrank.Plan, best: float, tolerance: float) -> None:
    """`best` lies in the bracket, which is no wider than was asked; an exact plan has no width at all."""
    assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
    assert plan.lower - 1e-12 <= plan.cvar <= plan.upper + 1e-12
    if plan.status == "exact":
        assert plan.cvar == pytest.approx(best, abs=1e-9)
        assert plan.upper - plan.lower <= 1e-9
    else:
        assert plan.status == "bracketed"
        assert plan.upper - plan.lower <= tolerance + 1e-9


# The oracles agree with each other, so that what follows means something


@pytest.mark.parametrize("seed", range(40))
def test_oracles_agree(seed):
    m = random_rows(np.random.default_rng([1, seed]), leaves=400)
    expected = brute_force.best_cvar_by_brute_force(m, TAUS)
    budgets = brute_force.totals(m)
    merged = brute_force.least_shortfall_by_sums(m, budgets)
    assert merged == pytest.approx(brute_force.least_shortfall(m, budgets), abs=1e-10)
    if brute_force.count_policies(m) <= 2000:
        assert brute_force.best_cvar_by_enumeration(m, TAUS) == pytest.approx(expected, abs=1e-10)
    if budgets.size <= 80:
        assert brute_force.best_cvar_by_lp(m, TAUS) == pytest.approx(expected, abs=1e-9)


# Random MDPs


@pytest.mark.parametrize("seed", range(320))
def test_random_mdps(seed):
    rng = np.random.default_rng([2, seed])
    m = random_rows(rng)
    taus = sorted({float(rng.choice(TAUS)), float(rng.uniform(0.02, 1.0))})
    best = brute_force.best_cvar_by_brute_force(m, taus)
    mean, only = brute_force.best_mean(m), brute_force.only_mean_optimal_law(m)
    for tau, value, plan in zip(
        taus, best, tailrank.solve(build(m), tau=taus, tolerance=TOLERANCE, memory=MEMORY), strict=True
    ):
        assert plan.tau == tau
        check_bracket(plan, value, TOLERANCE)
        check_policy(m, plan)
        if m.discount == 1.0 and m.kind in LATTICE:
            assert plan.status == "exact"
        assert plan.risk_neutral.mean == pytest.approx(mean, abs=1e-9)
        assert plan.risk_neutral.cvar <= value + 1e-9
        if only is not None:
            assert plan.risk_neutral.cvar == pytest.approx(cvar_by_sorting(*only, tau), abs=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_random_mdps_against_linear_programs(seed):
    rng = np.random.default_rng([3, seed])
    m = random_rows(rng, kind=str(rng.choice(LATTICE)), leaves=300)
    plans = tailrank.solve(build(m), tau=TAUS, tolerance=TOLERANCE, memory=MEMORY)
    for value, plan in zip(brute_force.best_cvar_by_lp(m, TAUS), plans, strict=True):
        check_bracket(plan, value, TOLERANCE)


def test_optimal_budget_attains_the_optimum():
    for seed in range(30):
        m = random_rows(np.random.default_rng([4, seed]), kind="integers", leaves=500)
        if m.discount < 1:
            continue
        plan = tailrank.solve(build(m), tau=0.3)
        least = brute_force.least_shortfall(m, np.array([plan.budget]))[0]
        assert plan.budget - least / 0.3 == pytest.approx(plan.cvar, abs=1e-9)


# Awkward inputs


def test_one_step_is_a_choice_between_laws():
    m = one_state([(1.0, 0.39)], [(0.5, 0.0), (0.5, 1.0)])
    assert tailrank.solve(build(m), tau=0.5).cvar == pytest.approx(0.39, abs=1e-12)
    assert tailrank.solve(build(m), tau=0.9).cvar == pytest.approx(0.4 / 0.9, abs=1e-12)


@pytest.mark.parametrize("offset", [1e9, -1e9, 1e6])
def test_huge_common_reward_keeps_the_small_differences(offset):
    m = one_state([(0.5, offset), (0.5, offset + 2)], [(1.0, offset + 0.75)], horizon=2)
    plain = one_state([(0.5, 0.0), (0.5, 2.0)], [(1.0, 0.75)], horizon=2)
    expected = brute_force.best_cvar_by_brute_force(plain, [0.6])[0]
    plan = tailrank.solve(build(m), tau=0.6, tolerance=1e-3)
    assert plan.cvar - 2 * offset == pytest.approx(expected, abs=1e-5 if plan.status == "exact" else 1e-3)


@pytest.mark.parametrize("reward", [-1e6, 1e6, 2**0.5, 1e-4])
def test_outcomes_of_probability_zero_never_matter(reward):
    laws = ([(0.5, -1.0), (0.5, 3.0)], [(1.0, 0.5)])
    with_zero = ([*laws[0], (0.0, reward)], laws[1])
    plain, extra = one_state(*laws, horizon=3), one_state(*with_zero, horizon=3)
    plan = tailrank.solve(build(extra), tau=0.4, memory=MEMORY)
    assert plan.status == "exact"
    assert plan.cvar == pytest.approx(brute_force.best_cvar_by_brute_force(plain, [0.4])[0], abs=1e-9)


def test_states_that_are_never_met_never_matter():
    rows = (
        (None, 0, 0, 0, 0.5, 1.0),
        (None, 0, 0, 0, 0.5, -1.0),
        (None, 1, 0, 0, 1.0, 2**0.5),
        (None, 1, 1, 1, 1.0, 1e6),
    )
    m = Tiny(rows, 3, (1.0, 0.0), n_actions=2)
    plan = tailrank.solve(build(m), tau=0.25, memory=MEMORY)
    assert plan.status == "exact"
    assert plan.cvar == pytest.approx(-2.0, abs=1e-9)


def test_all_rewards_equal():
    plan = tailrank.solve(build(one_state([(1.0, -0.3)], [(1.0, -0.3)], horizon=4)), tau=0.2)
    assert (plan.cvar, plan.var, plan.mean) == pytest.approx((-1.2, -1.2, -1.2), abs=1e-12)


def test_level_far_below_every_probability_is_the_best_worst_case():
    m = one_state([(0.001, -5.0), (0.999, 9.0)], [(0.5, 1.0), (0.5, 1.5)], horizon=3)
    plan = tailrank.solve(build(m), tau=1e-9)
    assert plan.cvar == pytest.approx(3.0, abs=1e-9)


def test_level_one_is_the_risk_neutral_optimum():
    for seed in range(20):
        m = random_rows(np.random.default_rng([5, seed]), kind="tenths")
        plan = tailrank.solve(build(m), tau=1.0, tolerance=TOLERANCE, memory=MEMORY)
        assert plan.lower - 1e-9 <= brute_force.best_mean(m) <= plan.upper + 1e-9
        assert plan.risk_neutral.mean == pytest.approx(brute_force.best_mean(m), abs=1e-9)


def test_rewards_of_very_different_size():
    m = one_state([(0.2, -1000.0), (0.8, 0.001)], [(0.5, 0.0), (0.5, -0.002)], horizon=2)
    best = brute_force.best_cvar_by_brute_force(m, [0.15])[0]
    check_bracket(tailrank.solve(build(m), tau=0.15, tolerance=1e-4), best, 1e-4)


def test_start_law_is_part_of_the_tail():
    """The budget is common to all starts: the tail is that of the mixture, not a mean of tails."""
    rows = (
        (None, 0, 0, 0, 1.0, -10.0),
        (None, 1, 0, 1, 1.0, 10.0),
        (None, 1, 1, 1, 0.5, 0.0),
        (None, 1, 1, 1, 0.5, 30.0),
    )
    m = Tiny(rows, 1, (0.1, 0.9), n_actions=2)
    plan = tailrank.solve(build(m), tau=0.2)
    assert plan.cvar == pytest.approx(0.0, abs=1e-12)
    assert plan.cvar == pytest.approx(brute_force.best_cvar_by_enumeration(m, [0.2])[0], abs=1e-12)


def test_reward_and_next_state_stay_together():
    """The same marginals, but the reward tells which state follows: only the joint law knows the answer."""
    joint = ((0, 0, 0, 1, 0.5, 0.0), (0, 0, 0, 2, 0.5, 1.0))
    crossed = ((0, 0, 0, 1, 0.5, 1.0), (0, 0, 0, 2, 0.5, 0.0))
    last = ((1, 0, 0, 0, 1.0, 0.0), (1, 1, 0, 0, 1.0, 1.0), (1, 2, 0, 0, 1.0, 0.0))
    start = (1.0, 0.0, 0.0)
    assert tailrank.solve(build(Tiny(joint + last, 2, start)), tau=0.5).cvar == pytest.approx(1.0, abs=1e-12)
    assert tailrank.solve(build(Tiny(crossed + last, 2, start)), tau=0.5).cvar == pytest.approx(0.0, abs=1e-12)


# Published answers


@pytest.fixture(params=CASES)
def case(request):
    return load_case(request.param)


def test_case_optimum(case):
    expected, (top, bottom) = case["expected"], case["unit"]
    m = case_rows(case)
    plans = tailrank.solve(build(m), tau=expected["taus"])
    assert [p.cvar for p in plans] == pytest.approx(expected["cvar_star"], abs=1e-9)
    for k, plan in enumerate(plans):
        assert plan.status == "exact"
        assert plan.upper - plan.lower <= 1e-9
        units = plan.budget * bottom / top
        assert units == pytest.approx(round(units), abs=1e-9)
        if plan.tau < 1:  # at tau = 1 every budget from the largest return on is a maximiser
            low, high = expected["optimal_budget_intervals"][k][0]
            assert low - 1e-9 <= plan.budget <= high + 1e-9
        else:
            assert plan.budget >= expected["optimal_budgets_units"][k][0] * top / bottom - 1e-9
        assert plan.risk_neutral.mean == pytest.approx(expected["risk_neutral_value"], abs=1e-9)
        assert plan.risk_neutral.cvar == pytest.approx(expected["cvar_of_risk_neutral_policy"][k], abs=1e-9)


def test_case_oracle_agrees(case):
    expected, (top, bottom) = case["expected"], case["unit"]
    budgets = np.arange(case["H"] * bottom // top + 1) * top / bottom
    least = brute_force.least_shortfall_by_sums(case_rows(case), budgets)
    best = [np.max(budgets - least / tau) for tau in expected["taus"]]
    assert best == pytest.approx(expected["cvar_star"], abs=1e-9)


class BudgetRule:
    """action = (s + h + max(b, 0)) mod A, where b is the remaining budget in units."""

    def __init__(self, budget, n_actions, unit):
        self.budget, self.n_actions, self.unit = budget, n_actions, unit[0] / unit[1]

    def start(self, n):
        return np.full(n, self.budget, dtype=np.int64)

    def act(self, h, states, memory):
        return (states + h + np.maximum(memory, 0)) % self.n_actions

    def update(self, h, moved, memory):
        return memory - np.rint(np.asarray(moved.rewards) / self.unit).astype(np.int64)


def test_case_evaluation_of_a_policy_with_memory(case):
    rule = case["expected"]["test_policy"]
    policy = BudgetRule(rule["start_budget_units"], case["A"], case["unit"])
    mdp, (top, bottom) = build(case_rows(case)), case["unit"]
    for tau, cvar in zip(case["expected"]["taus"], rule["cvar"], strict=True):
        assert tailrank.evaluate(policy, mdp, tau).cvar == pytest.approx(cvar, abs=1e-9)
    law = tailrank.evaluate(policy, mdp, 0.5).law
    found = dict(zip(law.values * bottom / top, law.probs, strict=True))
    expected = {float(k): p for k, p in rule["return_law_units"].items()}
    assert sorted(found) == pytest.approx(sorted(expected), abs=1e-9)
    assert [found[k] for k in sorted(found)] == pytest.approx([expected[k] for k in sorted(expected)], abs=1e-9)


def test_case_on_a_coarser_grid(case):
    """A fixed unit brackets the optimum within H units; rounding up never gives more than the case lists.

    The latter only where the most frequent reward, from which rounding starts, is zero as in the paper.
    """
    expected, mdp = case["expected"], build(case_rows(case))
    values, where = np.unique(mdp.reward, return_inverse=True)
    from_zero = values[np.bincount(where, weights=mdp.prob).argmax()] == 0
    assert from_zero == (case["name"][:2] in ("05", "06", "10"))
    for grid in expected["discretised"]:
        unit = grid["nu"][0] / grid["nu"][1]
        plans = tailrank.solve(mdp, tau=expected["taus"], unit=unit)
        for plan, best, rounded in zip(plans, expected["cvar_star"], grid["bcvar_star"], strict=True):
            assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
            assert best - case["H"] * unit <= plan.lower + 1e-7
            assert plan.upper <= (rounded if from_zero else best + case["H"] * unit) + 1e-7


class RemembersFirstReward:
    """Gambles at the last step if and only if the first reward was 0; its memory is `low` or `high`."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def start(self, n):
        return np.full(n, self.low)

    def act(self, h, states, memory):
        return np.where((h == 2) & (memory == self.low), 1, 0)

    def update(self, h, moved, memory):
        return np.where((h == 0) & (np.asarray(moved.rewards) == 1.0), self.high, memory)


@pytest.mark.parametrize("memories", [(0, 1), (0.25, 0.75), (False, True), (-(2**40), 2**40)])
def test_evaluation_keeps_memories_of_the_same_state_and_return_apart(memories):
    """Rewards 0, 1 and 1, 0 lead to the same state and sum, but to different memories."""
    coin = ((h, 0, 0, 0, 0.5, r) for h in (0, 1) for r in (0.0, 1.0))
    last = ((2, 0, 0, 0, 1.0, 0.0), (2, 0, 1, 0, 0.5, -8.0), (2, 0, 1, 0, 0.5, 8.0))
    m = Tiny((*coin, *last), 3, (1.0,), n_actions=2)
    policy = RemembersFirstReward(*memories)
    returns, probs = follow(m, policy)
    for tau in TAUS:
        expected = cvar_by_sorting(returns, probs, tau)
        assert tailrank.evaluate(policy, build(m), tau).cvar == pytest.approx(expected, abs=1e-12)


# Grids that lose something


@pytest.mark.parametrize("seed", range(60))
def test_rounded_law_bounds_the_true_one_from_both_sides(seed):
    """Too many returns to list: the evaluation must bound the policy's CVaR, and keep its mean."""
    rng = np.random.default_rng([6, seed])
    m = random_rows(rng, kind="reals", leaves=500)
    mdp, unit = build(m), float(rng.choice([0.5, 0.1, 0.02]))
    for plan in tailrank.solve(mdp, tau=(0.1, 0.4, 1.0), unit=unit):
        returns, probs = follow(m, plan.policy)
        own = cvar_by_sorting(returns, probs, plan.tau)
        rounded = return_law(plan.policy, mdp, listed_limit=0)
        assert rounded.method == "moments"
        assert rounded.cvar(plan.tau) - 1e-9 <= own <= rounded.cvar_upper(plan.tau) + 1e-9
        assert rounded.mean == pytest.approx(probs @ returns, abs=1e-9)
        best = brute_force.best_cvar_by_brute_force(m, [plan.tau])[0]
        assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_any_unit_gives_a_bracket(unit):
    m = one_state([(0.5, -1.0), (0.5, 0.123)], [(1.0, -0.3)], horizon=2, discount=0.7)
    best = brute_force.best_cvar_by_brute_force(m, [0.3])[0]
    plan = tailrank.solve(build(m), tau=0.3, unit=unit)
    assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
    sure = one_state([(1.0, 0.25)], horizon=3)
    assert tailrank.solve(build(sure), tau=0.3, unit=unit).cvar == pytest.approx(0.75, abs=1e-9)


def test_a_limit_that_is_reached_is_said_and_the_bracket_still_holds():
    rng = np.random.default_rng(8)
    m = one_state(*[[(0.5, x), (0.5, y)] for x, y in rng.normal(size=(3, 2))], horizon=5, discount=0.9)
    best = np.max(brute_force.best_cvar_by_brute_force(m, [0.2]))
    with pytest.warns(NotConverged, match="memory limit") as caught:
        plan = tailrank.solve(build(m), tau=0.2, tolerance=1e-9, memory="100KB")
    assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
    assert plan.upper - plan.lower > 1e-9
    assert plan.notes == (str(caught[0].message),)


@pytest.mark.parametrize("unit", [None, 0.3])
def test_the_law_has_the_same_bits_on_any_number_of_threads(unit, monkeypatch):
    """On the grid, and with the moments of what rounding leaves out; also where several laws share the threads."""
    rng, S, A, K = np.random.default_rng(3), 60, 3, 4
    s, a = np.repeat(np.arange(S), A * K), np.tile(np.repeat(np.arange(A), K), S)
    reward = rng.integers(0, 9, s.size) if unit is None else rng.normal(size=s.size)
    rows = (s, a, rng.integers(0, S, s.size), rng.dirichlet(np.ones(K), S * A).ravel(), reward)
    mdp = FiniteMDP.from_rows(*rows, horizon=6, start=np.full(S, 1 / S))
    monkeypatch.setattr("tailrank._system.parallel.SERIAL_WORK", 0)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("TAILRANK_THREADS", threads)
        plans = tailrank.solve(mdp, tau=(0.1, 0.4, 1.0), unit=unit, tolerance="50%")
        laws = [return_law(plan.policy, mdp, plan.policy.grid, listed_limit=0) for plan in plans]
        found.append([array.tobytes() for law in laws for array in (law.law.values, law.law.probs, law.deviation)])
    assert found[0] == found[1] == found[2]


def test_a_chain_whose_last_states_have_no_rows_has_one_law_on_any_number_of_threads(monkeypatch):
    """States that cannot be met have no rows in a chain of levels. The last row of all is met with many budgets."""
    S, counts = 1024, np.zeros((3, 1024), dtype=np.int64)
    counts[0, 0], counts[1, [0, 3]], counts[2, [1, 1023]] = 11, 1, 1
    chain = FiniteMDP(
        ptr=np.concatenate([[0], np.cumsum(counts)]),
        next_state=np.array([*[3] * 10, 0, 1, 1023, 5, 6], dtype=np.int32),
        prob=np.concatenate([np.full(11, 1 / 11), np.ones(4)]),
        reward=np.array([*range(10), 3, 1, 2, 0, 0], dtype=np.float64),
        start=np.eye(S)[0],
        n_actions=1,
        horizon=3,
        discount=1.0,
        labels=tuple(range(S)),
        action_labels=(0,),
    )
    policy, grid = MarkovPolicy(np.zeros((3, S), dtype=np.int64)), exact_grid([np.arange(10.0)] * 3, 3, 1.0)
    monkeypatch.setattr("tailrank._system.parallel.SERIAL_WORK", 0)
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("TAILRANK_THREADS", threads)
        found = return_law(policy, chain, grid, listed_limit=0)
        assert found.method == "lattice"
        np.testing.assert_array_equal(found.law.values, np.arange(2.0, 12.0))
        np.testing.assert_allclose(found.law.probs, np.where(np.arange(2, 12) == 4, 2, 1) / 11)


def test_the_law_is_found_when_it_is_asked_for(monkeypatch):
    """The value is that of the induction; the law, pushed forward, agrees with it."""
    asked = []
    monkeypatch.setattr(solving, "return_law", lambda *given, **named: asked.append(1) or return_law(*given, **named))
    m = random_rows(np.random.default_rng([6, 0]), kind="integers", leaves=500)
    plan = tailrank.solve(build(m), tau=0.3)
    assert (plan.status, plan.value, plan.cvar, asked) == ("exact", plan.lower, plan.upper, [])
    assert plan.law.cvar(0.3) == pytest.approx(plan.value, abs=1e-12)
    assert plan.mean == pytest.approx(plan.law.mean, abs=1e-12)
    assert asked == [1]


def test_the_value_is_that_of_the_best_budget_where_others_tie_but_for_a_rounding():
    """A rare gain, then a rare loss, and a tail of nearly everything: all budgets tie to 2e-11. By hand."""
    gain, loss = 4.069057355454577e-12, 5.543942977787812e-11
    rows = [(0, 0, 1, gain, 4), (0, 0, 1, 1 - gain, -4), (1, 0, 1, 1 - loss, 2), (1, 0, 1, loss, -1)]
    mdp, tau = FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=2), 0.9999999999999999
    plan = tailrank.solve(mdp, tau)
    assert plan.cvar == plan.upper == pytest.approx(-2 + 8 * gain - 3 * loss, rel=1e-15)
    assert plan.evaluation.cvar(tau) == pytest.approx(plan.cvar, rel=1e-15)
