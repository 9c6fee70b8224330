"""CVaR-LSVI in a learned low-rank model: what it samples, its plan written out, and the exact support planner."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import load
from tailrank.checks import InputError
from tailrank.planning.latent.sampled import plan_sampled
from tailrank.planning.lsvi.model import view
from tailrank.planning.lsvi.observed import LatentLsvi
from tailrank.planning.lsvi.support import RewardUnits, SupportModel, plan_support_lsvi
from tailrank.planning.observed.support import RewardKinds, SupportStep, plan_support
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.moved import Moved
from tailrank.policies.optimistic import OptimisticPolicy
from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.runs.policy_files.storage import save

H, A, K, L, N = 3, 2, 3, 2, 5
REWARDS = RewardKinds((np.array([-0.5]), np.array([1.0])), 0.5, True)


def network(rng, kinds=K):
    shape = (1, A, 4)
    return OutcomeNetwork(
        np.zeros(2),
        np.eye(2),
        rng.normal(size=(2, 1)),
        np.zeros(1),
        1.5 * rng.normal(size=(*shape, kinds)),
        1.5 * rng.normal(size=(*shape, L)),
        rng.normal(size=(kinds, L)),
    )


def problem(seed=0, kinds=K, bonus=False):
    """A network, its first states, and the step that all steps share: K psi on N states; kinds beyond K have ended."""
    rng = np.random.default_rng(seed)
    net, first, x = network(rng, kinds), rng.normal(size=(2, 2)), rng.normal(size=(N, 2))
    paid = rng.uniform(0.0, 0.3, size=(N, A)) if bonus else None
    step = SupportStep(net.phi(0, x), rng.dirichlet(np.ones(N), size=K), paid)
    return net, first, x, step


def test_rewards_are_rounded_up_to_the_grid():
    """r becomes ceil(r / nu) nu; multiples stay, and 0 is on the grid."""
    units = RewardUnits.of(RewardKinds((np.array([-0.55, 0.31]), np.array([0.7])), 0.01, False), levels=5)
    assert units.unit == pytest.approx(0.25)
    assert units.low == -3
    at = units.unit * (units.low + np.arange(units.top + 1))
    assert units.laws.sum(axis=1) == pytest.approx(1.0)
    assert units.laws @ at == pytest.approx([(-0.5 + 0.5) / 2, 0.75])
    exact = RewardUnits.of(REWARDS, levels=7)
    assert (exact.unit, exact.low, exact.top) == (0.5, -1, 3)


def test_samples_and_laws_are_those_of_the_model():
    _net, first, _x, step = problem(kinds=K + 1, bonus=True)
    units = RewardUnits.of(REWARDS, 20)
    model = SupportModel(lambda h: step, np.repeat(step.phi[:1], len(first), axis=0), units, H)
    points = np.arange(N + 1)
    law = model.reward_laws(1, points)
    assert law.sum(axis=(2, 3)) == pytest.approx(1.0)
    assert law.sum(axis=3) == pytest.approx(model.features(1, points))
    joint = step.phi.reshape(N, A, K + 1, L)
    assert law[:N, :, :, [0, 3]] == pytest.approx(joint)
    assert law[N, :, K, 1] == pytest.approx(1.0)  # after the end: a reward of 0, and the end again
    assert model.bonus(1, points) == pytest.approx(np.vstack([step.bonus, np.zeros(A)]) / 0.5)
    drawn = model.sample_latent(0, np.repeat(np.arange(K + 1), 20_000), np.random.default_rng(1)).reshape(K + 1, -1)
    shares = np.stack([np.bincount(row, minlength=N + 1) / row.size for row in drawn])
    assert shares[:K, :N] == pytest.approx(step.weights, abs=0.015)
    assert shares[K, N] == 1.0


@pytest.mark.parametrize("variant", ["factored", "doubling", "literal"])
def test_the_plan_written_out_is_that_of_algorithm_2(variant):
    """Scores of the stored form against those of the policy that Algorithm 2 returned, at states and budgets."""
    net, first, x, step = problem(seed=3, bonus=True)
    units, planner = RewardUnits.of(REWARDS, 20), LatentLsvi(iterations=15, evaluations=20, variant=variant)
    model = SupportModel(lambda h: step, net.phi(0, first), units, H)
    plan, inverse, beta = plan_support_lsvi(planner, model, 0.3, 7)
    stored = OptimisticPolicy(net, plan, inverse=inverse, beta=beta)
    found = planner.planned(model, H * units.top, units.top, model.largest_bonus(), 0.3, 7)
    assert plan.budget == pytest.approx(0.5 * (found.budget - H))
    for h in (1, 2):
        for left in range(found.policy.lowest(h), found.budget + 1):
            expected = found.policy.scores(h, view(model, h, np.arange(N)), np.full(N, left))
            phi, own = stored.outcomes(h, x)
            real = np.full(N, 0.5 * (left - (H - h)))
            scores = (phi @ plan.at(h, real)[:, :, None])[:, :, 0] - own - step.bonus
            assert scores / 0.5 == pytest.approx(expected)


@pytest.mark.parametrize("kinds", [K, K + 1])
def test_agrees_with_the_exact_planner(kinds):
    """Small problems: the promise is that of the exact planner but for sampling, and rewards are charged rounded."""
    net, first, _x, step = problem(seed=1, kinds=kinds)
    exact = plan_support(lambda h: step, net.phi(0, first), REWARDS, H, 0.4)
    model = SupportModel(lambda h: step, net.phi(0, first), RewardUnits.of(REWARDS, 20), H)
    plan, inverse, beta = plan_support_lsvi(LatentLsvi(iterations=100, evaluations=1000, beta=0.1), model, 0.4, 0)
    assert plan.objective == pytest.approx(exact.objective, abs=3 * plan.support_error + 0.02)
    policy = OptimisticPolicy(net, plan, inverse=inverse, beta=beta)
    nothing = np.zeros(2, dtype=np.int64)
    after = policy.update(0, Moved(first, nothing, np.array([0.3, -0.5]), first), np.array([1.0, 1.0]))
    assert after == pytest.approx([0.5, 1.5])


def test_sampled_states_give_the_exact_plan_where_every_psi_has_one():
    """`plan_sampled` takes the same model; with one state for each psi its samples are exact."""
    net, first, x, step = problem(seed=4, kinds=K + 1)
    step = SupportStep(step.phi[:K], np.eye(K))
    exact = plan_support(lambda h: step, net.phi(0, first), REWARDS, H, 0.3)
    model = SupportModel(lambda h: step, net.phi(0, first), RewardUnits.of(REWARDS, 20), H)
    plan = plan_sampled(model, 0.3, samples=2, rng=np.random.default_rng(0))
    assert 0.5 * (plan.objective - H) == pytest.approx(exact.objective, abs=1e-9)
    for h, left in ((1, 0.5), (2, 1.0)):
        budgets = np.full(K, left)
        expected = LowRankPolicy(net, exact).act(h, x[:K], budgets)
        assert plan.act(h, np.arange(K), (2 * budgets).astype(int) + H - h).tolist() == expected.tolist()


def test_a_stored_policy_acts_the_same_and_bad_files_are_refused(tmp_path):
    net, first, x, step = problem(seed=2)
    model = SupportModel(lambda h: step, net.phi(0, first), RewardUnits.of(REWARDS, 20), H)
    plan, inverse, beta = plan_support_lsvi(LatentLsvi(iterations=10, evaluations=10), model, 0.3, 0)
    policy = OptimisticPolicy(net, plan, inverse=inverse, beta=beta)
    save(policy, tmp_path / "plan.safetensors")
    again = load(tmp_path / "plan.safetensors").policy
    assert isinstance(again, OptimisticPolicy)
    budgets = np.linspace(-1.5, plan.budget, N)
    for h in range(H):
        assert again.act(h, x, budgets).tolist() == policy.act(h, x, budgets).tolist()
    wrong = OptimisticPolicy(net, plan, inverse=inverse[:, :2, :2], beta=beta)
    save(wrong, tmp_path / "wrong.safetensors")
    with pytest.raises(InputError, match="inverse"):
        load(tmp_path / "wrong.safetensors")
    assert isinstance(policy, LowRankPolicy)
