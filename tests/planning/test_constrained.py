"""The best mean subject to a bound, and the efficient frontier, against all policies and their mixtures."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from brute_force import count_policies, cvar_by_sorting, follow, random_rows, return_laws
from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.objectives.constrained import Cap, Floor, parse_bound
from tailrank.planning.objectives.efficient import efficient_frontier
from tailrank.planning.objectives.maximise import maximise_mean
from tailrank.runs.policy_files.storage import load, save


def tiny(rng):
    while True:
        m = random_rows(rng, "integers", leaves=60)
        if 1 < count_policies(m) <= 40 and m.discount == 1.0:
            return m


def best_mixture(used: np.ndarray, means: np.ndarray, room: float) -> float:
    """The best mean of one policy, or two mixed, whose use of a bound is within its room."""
    fits = used <= room + 1e-9
    best = means[fits].max(initial=-np.inf)
    for i in np.flatnonzero(fits):
        for j in np.flatnonzero(~fits):
            share = (used[j] - room) / (used[j] - used[i])
            best = max(best, share * means[i] + (1 - share) * means[j])
    return best


def all_laws(m):
    laws = [tuple(map(np.array, zip(*law, strict=True))) for law in return_laws(m)]
    return laws, np.array([x @ p for x, p in laws])


def best_with_floor(laws, means, tau, least):
    budgets = np.unique(np.concatenate([x for x, _ in laws]))
    found = -np.inf
    for b in budgets:
        short = np.array([p @ np.maximum(b - x, 0) for x, p in laws])
        found = max(found, best_mixture(short, means, tau * (b - least)))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_floor_under_the_tail(seed):
    rng = np.random.default_rng([31, seed])
    m = tiny(rng)
    laws, means = all_laws(m)
    tau = float(rng.choice([0.2, 0.5]))
    tails = np.array([cvar_by_sorting(x, p, tau) for x, p in laws])
    mdp = FiniteMDP.from_rows(**m.columns())
    for least in (tails.max() - 0.3 * np.ptp(tails), tails.max(), float(rng.normal(0, 2))):
        plan = maximise_mean(mdp, Floor(tau, least))
        assert plan.feasible == (tails.max() >= least - 1e-9)
        if not plan.feasible:
            assert plan.bounded == pytest.approx(tails.max(), abs=1e-9)
            continue
        best = best_with_floor(laws, means, tau, least)
        assert plan.mean - 1e-7 <= best <= plan.upper + 1e-7
        assert plan.gap <= 1e-7
        assert plan.bounded >= least - 1e-7
        parts = [follow(m, policy) for policy in (plan.first, plan.second)]
        mean = sum(w * (x @ p) for w, (x, p) in zip((plan.share, 1 - plan.share), parts, strict=True))
        assert plan.mean == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_a_cap_on_falling_short(seed):
    rng = np.random.default_rng([32, seed])
    m = tiny(rng)
    laws, means = all_laws(m)
    target = float(rng.integers(-3, 4))
    chance = np.array([p[x < target - 1e-9].sum() for x, p in laws])
    mdp = FiniteMDP.from_rows(**m.columns())
    for most in (float(rng.uniform()), chance.min() + 0.3 * np.ptp(chance)):
        plan = maximise_mean(mdp, Cap(target, most))
        assert plan.feasible == (chance.min() <= most + 1e-9)
        if not plan.feasible:
            assert plan.bounded == pytest.approx(chance.min(), abs=1e-9)
            continue
        assert plan.mean == pytest.approx(best_mixture(chance, means, most), abs=1e-8)
        assert plan.gap <= 1e-8
        assert plan.bounded <= most + 1e-9


def test_a_frontier_has_so_many_points_at_most():
    with pytest.raises(InputError, match="points = 1000000: must be at most 10000"):
        efficient_frontier(FiniteMDP.from_rows(**tiny(np.random.default_rng(0)).columns()), 0.3, points=10**6)


@pytest.mark.parametrize("seed", range(20))
def test_the_efficient_frontier(seed):
    rng = np.random.default_rng([33, seed])
    m = tiny(rng)
    laws, means = all_laws(m)
    found = efficient_frontier(FiniteMDP.from_rows(**m.columns()), 0.3, points=5)
    assert (np.diff(found.cvar) <= 1e-12).all()
    assert (np.diff(found.mean) >= -1e-9).all()
    assert (found.price >= -1e-6).all()
    for i, least in enumerate(found.cvar):
        best = best_with_floor(laws, means, 0.3, least)
        assert found.mean[i] - 1e-7 <= best <= found.upper[i] + 1e-7
        assert found.plan(i).mean == pytest.approx(found.mean[i], abs=1e-7)
    best = tailrank.solve(FiniteMDP.from_rows(**m.columns()), 0.3)
    assert found.cvar[0] == pytest.approx(best.cvar, abs=1e-9)
    assert found.mean[0] == pytest.approx(best.mean, abs=1e-7)
    assert found.mean[-1] == pytest.approx(means.max(), abs=1e-9)


def test_a_mixture_keeps_its_bound_in_play(tmp_path):
    """One of the two plans is drawn for each episode; the bound holds for all episodes together, after loading too."""
    mdp = tailrank.read_mdp("examples/models/betting.json").mdp
    plan = maximise_mean(mdp, Floor(0.1, 0.0))
    assert 0.0 < plan.share < 1.0
    save(plan.policy, tmp_path / "mixture.policy")
    stored = load(tmp_path / "mixture.policy")
    found = tailrank.evaluate(stored, mdp, tau=0.1)
    assert (found.mean, found.cvar) == pytest.approx((plan.mean, plan.bounded), abs=1e-9)
    np.testing.assert_allclose(found.law.values, plan.law.values)
    np.testing.assert_allclose(found.law.probs, plan.law.probs, atol=1e-12)
    returns = tailrank.play(stored.policy, mdp, 40_000, rng=np.random.default_rng(34)).returns
    drawn = stored.policy.start(40_000)[:, 0]
    assert drawn.mean() == pytest.approx(1.0 - plan.share, abs=0.0125)
    assert len(stored.to_frame()["plan"].unique()) == 2
    assert returns.mean() == pytest.approx(plan.mean, abs=5 * returns.std() / 200)
    assert tailrank.cvar(returns, 0.1) == pytest.approx(0.0, abs=0.25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cvar:0.1>2", "must be cvar:TAU>=K or below:C<=P"),
        ("cvar:2>=1", r"tau = 2.0: must lie in \(0, 1\]"),
        ("below:1<=3", r"the probability = 3.0: must lie in \[0, 1\]"),
        ("below:x<=0.5", "below = 'x': must be a number"),
    ],
)
def test_bad_bounds(text, message):
    with pytest.raises(InputError, match=message):
        parse_bound(text)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_off_the_grid_are_certain(seed):
    """Real rewards: the plan obeys the bound in truth, and no policy or mixture that does has more than `upper`."""
    rng = np.random.default_rng(100 + seed)
    while True:
        m = random_rows(rng, "reals", leaves=40)
        if 1 < count_policies(m) <= 30 and m.discount == 1.0:
            break
    mdp = FiniteMDP.from_rows(**m.columns())
    laws, means = all_laws(m)
    floor = float(np.quantile([cvar_by_sorting(*law, 0.3) for law in laws], 0.6))
    for bound in (Floor(0.3, floor), Cap(float(np.median(means)), 0.4)):
        plan = maximise_mean(mdp, bound, seconds=5.0, tolerance=1e-3)
        if isinstance(bound, Floor):
            best = best_with_floor(laws, means, 0.3, bound.least)
        else:
            below = np.array([sum(p for x, p in zip(*law) if x < bound.target - 1e-12) for law in laws])
            best = best_mixture(below, means, bound.most)
        assert best <= plan.upper + 1e-9
        if plan.feasible:
            assert plan.mean <= best + 1e-9
            parts = [follow(m, policy) for policy in (plan.first, plan.second)]
            shares = (plan.share, 1 - plan.share)
            law = (
                np.concatenate([x for x, _ in parts]),
                np.concatenate([w * np.asarray(p) for w, (_, p) in zip(shares, parts, strict=True)]),
            )
            if isinstance(bound, Floor):
                assert cvar_by_sorting(*law, 0.3) >= bound.least - 1e-9
            else:
                assert sum(p for x, p in zip(*law) if x < bound.target - 1e-12) <= bound.most + 1e-9
        else:
            assert plan.undecided or not np.isfinite(best)


@pytest.mark.parametrize("bound", ["cvar:0.1>=1", None, 3])
def test_a_bound_is_a_floor_or_a_cap(bound):
    with pytest.raises(InputError, match=r"subject_to = .*: must be a bound"):
        maximise_mean(FiniteMDP.from_rows([0], [0], [0], [1], [1], horizon=1), bound)
