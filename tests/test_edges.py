"""Numbers at the edge: each line of docs/edges.md. Right, against rational arithmetic, or refused in one line."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import fuzz
import tailrank
from brute_force import Tiny, cvar_by_integral
from tailrank import FiniteMDP, InputError, cvar, evaluate, solve
from tailrank.cli.theory import Theory
from tailrank.envs.built_in.from_mdp import from_mdp
from tailrank.episodes.streams import Streams
from tailrank.learning.ela import bonus
from tailrank.learning.registry import COUNTABLE, make_learner
from tailrank.models.grid import as_fraction, exact_grid
from tailrank.models.mdp import FiniteMDP as MDP
from tailrank.planning.criteria.mean import risk_neutral
from tailrank.policies.tables import MarkovPolicy
from tailrank.risk import _bands, intervals
from tailrank.risk.law import ReturnLaw, best_budget

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def choice(*laws, horizon=1, discount=1.0):
    """One state, an action for each law [(p, r), ..]."""
    rows = tuple((None, 0, a, 0, p, r) for a, law in enumerate(laws) for p, r in law)
    return Tiny(rows, horizon, (1.0,), discount, len(laws))


def check(m: Tiny, taus: tuple[float, ...], *, exact: bool = True) -> None:
    """The plan is optimal to rounding, and its claim is what its policy earns."""
    for plan, (value, budget, least) in zip(solve(MDP.from_rows(**m.columns()), tau=taus), fuzz.best_cvars(m, taus)):
        small = fuzz.allowed(m, value, budget, least)
        assert (plan.status == "exact") == exact
        assert plan.lower - Fraction(small) <= value <= plan.upper + Fraction(small)
        own = cvar_by_integral(*zip(*fuzz.law_of(m, plan.policy)), plan.tau)
        assert abs(Fraction(plan.cvar) - own) <= Fraction(small)
        assert plan.frontier().cvar(plan.tau) >= float(value) - small
        if exact:
            assert abs(Fraction(plan.cvar) - value) <= Fraction(small)


# tau


def test_a_tail_as_thin_as_the_rarest_outcome():
    """Two actions that differ by 8e-14 in a probability: with an absolute tie the loss was 0.32 at tau = 1e-12."""
    m = choice([(1e-13, -1.0), (1 - 1e-13, 1.0)], [(2e-14, -1.0), (1 - 2e-14, 1.0)], horizon=2)
    check(m, (1e-300, 1e-12, 1e-6, 0.1, 1 - 1e-16, 1.0))


def test_cvar_of_a_law_at_levels_between_its_probabilities():
    values, probs = [0.0, 1.0, 1e12], [0.6e-12, 0.1 - 0.6e-12 - 1e-17, 0.9]
    law = ReturnLaw.of(values, probs)
    for tau in (1e-300, 0.7e-12, 1e-12, 1e-6, 0.1 * (1 - 1e-13), 0.1, 0.5, 1.0):
        exact = float(cvar_by_integral(law.values, law.probs, tau))
        assert law.cvar(tau) == pytest.approx(exact, rel=1e-13, abs=1e-3 if tau >= 0.1 * (1 - 1e-12) else 0.0)
    assert law.var(1e-12) == 1.0


@pytest.mark.parametrize("tau", [0.0, 1e-301, 5e-324, -1.0, 1.0000001, np.nan, "x"])
def test_a_tau_that_is_none_is_refused(tau):
    for call in (lambda: cvar([1.0], tau), lambda: solve(MDP.from_rows(**choice([(1.0, 1.0)]).columns()), tau=tau)):
        with pytest.raises(InputError, match=r"^tau = ") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_the_smallest_of_budgets_that_tie_whatever_the_rest_of_the_curve_is():
    """A tie relative to the width of the curve chose the first budget here, which is worth 5 less."""
    budgets = np.array([-1.0, 5.0, 6.0, 1e12])
    assert best_budget(budgets, np.array([0.0, 0.1, 1.1, 9e11]), 0.5) == 1
    assert best_budget(budgets + 1e12, np.array([0.0, 0.1, 1.1, 9e11]), 0.5) == 1
    assert best_budget(np.arange(3.0), np.array([0.0, 0.3, 0.3 + 0.3]), 0.3) == 0


# Rewards


def test_a_large_common_reward_keeps_differences_of_a_thousandth():
    """They were taken for rounding of one number, and the plan, called exact, ignored them."""
    m = choice([(0.5, 1e12), (0.5, 1e12 + 0.004)], [(1.0, 1e12 + 0.003)], horizon=2)
    check(m, (0.3, 0.6, 1.0))
    grid = exact_grid([np.array([1e12, 1e12 + 0.004])], 2, 1.0)
    assert grid is not None
    assert grid.unit == Fraction(1e12 + 0.004) - 10**12


def test_fractions_are_recognised_only_where_chance_would_not_make_them():
    assert as_fraction(0.1 + 0.2) == Fraction(3, 10)
    assert as_fraction(1000 + 1 / 3) == Fraction(3001, 3)
    assert as_fraction(2**0.5) == Fraction(2**0.5)
    assert as_fraction(1e12 + 0.004) == Fraction(1e12 + 0.004)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e90])
def test_the_scale_of_rewards_does_not_matter(scale):
    m = choice([(0.1, -scale), (0.9, 3 * scale)], [(1.0, scale)], horizon=3)
    check(m, (1e-12, 0.05, 0.3, 1.0))


def test_rewards_over_many_decades_are_bracketed():
    m = choice([(0.1, -0.05), (0.8, 0.03), (0.1, 1e12)], [(0.1, -0.02), (0.9, 0.01)], horizon=2)
    check(m, (1e-6, 0.1, 0.5), exact=False)


def test_steps_that_pay_very_different_rewards_do_not_cost_each_other_digits():
    """10^12 for certain, then irrational thousandths: counted from one origin, no digit of them was left."""
    rows = ((0, 0, 0, 0, 1.0, 1e12), (1, 0, 0, 0, 0.5, 1e-3 * 2**0.5), (1, 0, 0, 0, 0.5, -1e-3))
    rows += ((1, 0, 1, 0, 0.3, 1e-3 * 3**0.5), (1, 0, 1, 0, 0.7, -1e-4))
    m = Tiny(rows, 2, (1.0,), 1.0, 2)
    check(m, (0.2, 0.5), exact=False)


def test_starts_whose_returns_lie_far_apart():
    """The table of starting budgets had an entry for every unit between them."""
    rows = (
        (None, 0, 0, 0, 0.5, 0.0),
        (None, 0, 0, 0, 0.5, 1.0),
        (None, 1, 0, 1, 0.5, 1e11),
        (None, 1, 0, 1, 0.5, 1e11 + 1),
    )
    check(Tiny(rows, 2, (0.5, 0.5), 1.0, 1), (0.1, 0.4, 0.7))


def test_many_halvings_do_not_overflow():
    """With a discount of one half the unit of 70 steps is 2^-69, and the first reward 2^69 of them."""
    m = MDP.from_rows(
        [0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1], [0.5, 0.5, 1, 1], [0, 1, 0, 1], horizon=70, discount=0.5
    )
    plan = solve(m, tau=0.3)
    assert plan.status == "bracketed"
    assert plan.lower <= 1.0 + 1e-12 <= plan.upper + 2e-12
    assert plan.cvar == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("reward", [1e101, -1e308, np.inf, np.nan])
def test_rewards_that_are_too_large_are_refused(reward):
    with pytest.raises(InputError, match=r"^reward = .* at state 0, action 0 .*must be"):
        MDP.from_rows([0], [0], [0], [1.0], [reward], horizon=1)
    with pytest.raises(InputError, match=r"^values\[0\] = .*must be"):
        cvar([reward, 1.0], 0.5)
    with pytest.raises(InputError, match=r"^returns\[0\] = .*must be"):
        intervals.cvar_interval([reward, 1.0], 0.5, 0.9, (0, 1))


def test_the_horizon_counts_in_what_is_too_large():
    MDP.from_rows([0], [0], [0], [1.0], [1e100], horizon=1)
    with pytest.raises(InputError, match="times 2 steps"):
        MDP.from_rows([0], [0], [0], [1.0], [1e100], horizon=2)


def test_evaluation_lists_thousandths_beside_a_huge_reward():
    """Returns closer than 10^-13 of the largest were merged, and the first of them stood for all."""
    m = choice([(0.1, -0.05), (0.8, 0.03), (0.1, 1e12)], horizon=2)
    policy = MarkovPolicy(np.zeros((2, 1), dtype=np.int64))
    for tau in (0.01, 0.3, 0.9):
        own = cvar_by_integral(*zip(*fuzz.law_of(m, policy)), tau)
        assert evaluate(policy, MDP.from_rows(**m.columns()), tau).cvar == pytest.approx(float(own), rel=1e-12)


def test_the_best_mean_where_terms_cancel_and_where_they_do_not():
    rare = choice([(1e-13, -1.0), (1 - 1e-13, 1.0)], [(2e-14, -1.0), (1 - 2e-14, 1.0)])
    jackpot = choice([(1.0, 0.5)], [(1e-12, 1e12), (1 - 1e-12, 0.0)])
    for m in (rare, jackpot):
        policy, values = risk_neutral(MDP.from_rows(**m.columns()))
        assert policy.actions[0, 0] == 1
        assert values[0, 0] == pytest.approx(float(fuzz.best_mean(m)), rel=1e-15)


@pytest.mark.parametrize(
    ("unit", "message"), [(1e-300, "is too small for rewards"), (1e-20, "is too small"), (0, "must be positive")]
)
def test_a_unit_that_cannot_be_used_is_refused(unit, message):
    m = MDP.from_rows(**choice([(0.5, 1.0), (0.5, 3.0)], [(1.0, 1.5)]).columns())
    with pytest.raises(InputError, match=f"^unit = .*{message}"):
        solve(m, tau=0.3, unit=unit)
    assert solve(m, tau=0.3, unit=1e300).upper >= 1.5


# Probabilities


@pytest.mark.parametrize("p", [5e-324, 1e-300, 1e-16])
def test_probabilities_near_nothing(p):
    m = choice([(p, -1.0), (1.0 - p, 1.0)], [(1.0, 0.5)], horizon=2)
    check(m, (1e-300, max(p, 1e-300), 1e-6, 0.5))


@pytest.mark.parametrize("off", [1e-12, -1e-12, 9e-7])
def test_laws_that_nearly_sum_to_one(off):
    check(choice([(0.5 + off, -1.0), (0.5, 1.0)], [(1.0, -0.25)], horizon=2), (0.1, 0.5, 0.75))


def test_a_law_of_a_thousand_outcomes():
    p = np.random.default_rng(0).dirichlet(np.ones(1000))
    m = choice([(float(q), float(i % 7)) for i, q in enumerate(p)], [(1.0, 2.0)])
    check(m, (1e-6, 0.4, 0.9))


# Sizes


def test_one_of_everything():
    mdp = MDP.from_rows([0], [0], [0], [1.0], [-0.0], horizon=1)
    for criterion in ("cvar", "mean", "iterated", "chow", "sampled-iterated"):
        plan = solve(mdp, tau=1e-6, criterion=criterion)
        assert (plan.cvar, plan.var, plan.mean) == (0.0, 0.0, 0.0)


def test_ten_thousand_steps():
    """A coin that pays 1 or 0, or 0.5 for certain: the CVaR of a binomial law, or the sure thing."""
    mdp = MDP.from_rows([0, 0, 1], [0, 0, 0], [1, 1, 1], [0.5, 0.5, 1.0], [0.0, 1.0, 0.001], horizon=10_000)
    plan = solve(mdp, tau=0.25)
    assert plan.status == "exact"
    assert plan.cvar == pytest.approx(9.999, abs=1e-9)
    sure = solve(MDP.from_rows([0], [0], [0], [1.0], [1.0], horizon=10_000, discount=1 - 1e-12), tau=0.1)
    assert sure.cvar == pytest.approx((1 - (1 - 1e-12) ** 10_000) / 1e-12, rel=1e-3)


# Intervals


@pytest.mark.parametrize("method", intervals.METHODS)
@pytest.mark.parametrize("tau", [1e-300, 1e-6, 0.3, 1.0])
def test_intervals_of_any_scale_with_a_common_part(method, tau):
    """Shifted and scaled samples have shifted and scaled intervals, to the digits that are left."""
    x = np.array([0.0, 0.25, 0.25, 1.0, 3.0, 4.0])
    rng = np.random.default_rng
    base = intervals.cvar_interval(x, tau, 0.9, (0, 4), method, rng=rng(0))
    for shift, scale in ((0.0, 1e-12), (0.0, 1e90), (2.0**40, 2.0**-10)):
        found = intervals.cvar_interval(shift + scale * x, tau, 0.9, (shift, shift + 4 * scale), method, rng=rng(0))
        expected = shift + scale * base.lower, shift + scale * base.upper
        assert (found.lower, found.upper) == pytest.approx(expected, rel=1e-12, abs=4 * np.spacing(shift))


def test_a_range_that_does_not_hold_the_returns_is_refused_at_any_offset():
    with pytest.raises(InputError, match="must hold every return"):
        intervals.cvar_interval([1e12 + 500], 0.5, 0.95, (1e12, 1e12 + 1e-3))
    with pytest.raises(InputError, match=r"^bounds\[0\] = 'a': must be a number"):
        intervals.cvar_interval([0.5], 0.5, 0.95, ("a", 1))
    grown = intervals.cvar_interval([1.0 + 1e-10], 0.5, 0.95, (0, 1))
    assert grown.lower <= 1.0 + 1e-10 <= grown.upper


@pytest.mark.parametrize("delta", [1e-12, 1e-16])
def test_a_band_for_a_confidence_next_to_one(delta):
    """Each of its quantiles is missed with at most delta / n, by the tail of the beta law, not one less it."""
    from scipy.special import betainc, betaincc

    n, index = 50, np.arange(1, 51)
    upper, lower = _bands.beta_upper(n, 1.0, delta), _bands.beta_lower(n, 1.0, delta)
    assert (betaincc(index, n + 1 - index, upper) <= delta / n * (1 + 1e-6)).all()
    assert (betainc(index, n + 1 - index, lower) <= delta / n * (1 + 1e-6)).all()


# Learning


@pytest.mark.parametrize("correlation", [1e-3, 1e-7, 1e-9])
def test_norms_of_features_that_are_nearly_the_same(correlation):
    """Against rational arithmetic; the covariance itself has lost half of the digits, or is not positive at all."""
    rows = np.array([[1.0, 0.0], [1.0 - correlation, correlation], [0.5, 0.5]])
    seen, lam = np.array([1e9, 1e9, 0.0]), 1e-9
    a, b, c = (
        sum(Fraction(n) * Fraction(x[i]) * Fraction(x[j]) for n, x in zip(seen, rows))
        for i, j in ((0, 0), (0, 1), (1, 1))
    )
    a, c = a + Fraction(lam), c + Fraction(lam)
    exact = [
        (Fraction(x) ** 2 * c - 2 * Fraction(x) * Fraction(y) * b + Fraction(y) ** 2 * a) / (a * c - b * b)
        for x, y in rows
    ]
    found = bonus.norms(rows, seen, lam)
    np.testing.assert_allclose(found, [float(x) ** 0.5 for x in exact], rtol=1e-5)


@pytest.mark.parametrize("name", COUNTABLE)
def test_every_learner_on_one_state_one_action_one_step_and_equal_rewards(name):
    extra, said = {"ella": {"iterations": 3, "evaluations": 3}}.get(name, {}), []
    for horizon in (1, 3):
        env = from_mdp(MDP.from_rows([0], [0], [0], [1.0], [1.0], horizon=horizon))
        try:
            learner = make_learner(name, tau=1e-6, **extra)
            state = learner.init(env, Streams(0))
            state, _ = learner.step(state, env, Streams(0))
        except InputError as refused:
            said.append(str(refused))
            continue
        plan = learner.greedy(state, env, Streams(0))
        assert plan.act(0, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))[0] == 0
        assert np.isfinite(plan.objective)
    assert all(line.count("\n") == 0 and ": " in line for line in said)


@pytest.mark.parametrize("upsilon", [1e-300, 1e-10, 0.0, -1.0])
def test_a_spacing_of_rewards_that_cannot_be_used_is_refused(upsilon):
    with pytest.raises(InputError, match=r"^upsilon"):
        from_mdp(MDP.from_rows([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=2), upsilon=upsilon)


@pytest.mark.parametrize(
    "changes", [{"tau": 1e-300}, {"H": 10**60}, {"epsilon": 1e-200}, {"epsilon": 1e300}, {"class_size": 0.5}]
)
def test_figures_of_the_theorems_that_are_no_numbers_are_refused(changes):
    settings = {"H": 1, "A": 1, "d": 1, "class_size": 1, "tau": 1.0, "epsilon": 0.1}
    assert all(np.isfinite(value) for _, value, _ in Theory(**settings).table())
    with pytest.raises(InputError) as caught:
        Theory(**settings | changes).table()
    assert "\n" not in str(caught.value)


def test_what_is_saved_is_what_was_solved(tmp_path):
    for m in (
        choice([(0.5, 1e12), (0.5, 1e12 + 0.004)], horizon=2),
        choice([(1e-300, -1e-12), (1.0, 1e-12)], horizon=2),
    ):
        mdp = FiniteMDP.from_rows(**m.columns())
        plan = solve(mdp, tau=1e-6)
        tailrank.save(plan, tmp_path / "plan.policy")
        assert evaluate(tailrank.load(tmp_path / "plan.policy").policy, mdp, 1e-6).cvar == plan.cvar
