"""CVaR-LSVI: the variants against the literal loop, against exact induction, and without a list of states."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

from tailrank.checks import InputError, NotConverged
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.planning.lsvi._fast import FastFit
from tailrank.planning.lsvi._policy import Clip
from tailrank.planning.lsvi.algorithm2 import CvarLsvi, GroupModel
from tailrank.planning.lsvi.model import rollout, view


def random_model(seed, S=12, A=3, d=3, H=4, nr=3, bonus=0.0):
    """A finite model, and its tables (kernel [H-1], law [H], bonus [H]) for exact induction."""
    rng = np.random.default_rng(seed)
    steps = tuple(
        StepModel(rng.dirichlet(np.full(d, 0.3), (S, A)), rng.dirichlet(np.full(S, 0.5), d)) for _ in range(H - 1)
    )
    laws = rng.dirichlet(np.full(nr, 0.5), 8)
    reward_of = [rng.integers(8, size=(S, A)) for _ in range(H)]
    extra = [bonus * rng.random((S, A)) * (h < H - 2) for h in range(H)]
    model = GroupModel(LowRankModel(steps, (np.arange(S),) * H), reward_of, laws, extra, 0)
    return model, ([s.phi @ s.psi for s in steps], [laws[w] for w in reward_of], extra)


def exact(tables, C, policy=None, clip=None):
    """V_0 [S, C] by induction over (state, budget): of a policy, or the least; clipped from below on request."""
    kernel, law, bonus = tables
    S, A, nr = law[0].shape
    V = np.tile(np.arange(C, dtype=float), (S, 1))
    for h in reversed(range(len(law))):
        Q = np.zeros((S, A, C))
        for s in range(S):
            for a in range(A):
                ahead = kernel[h][s, a] @ V if h < len(kernel) else V[s]
                for i in range(C):
                    Q[s, a, i] = -bonus[h][s, a] + sum(law[h][s, a, x] * ahead[max(i - x, 0)] for x in range(nr))
        if policy is None:
            V = Q.min(axis=1)
        else:
            actions = policy.act(h, np.arange(S).repeat(C), np.tile(np.arange(C), S)).reshape(S, C)
            V = np.take_along_axis(Q, actions[:, None], axis=1)[:, 0]
        V = V if clip is None else np.maximum(V, clip)
    return V


@pytest.mark.parametrize("beta", [0.0, 0.7])
@pytest.mark.parametrize("clip", ["corrected", "printed"])
def test_incremental_updates_equal_the_literal_loop(beta, clip):
    model, _ = random_model(1, bonus=0.5)
    common = {"iterations": 60, "evaluations": 5, "beta": beta, "lam": 0.5, "clip": clip, "cap": 0.5}
    slow = CvarLsvi(**common, variant="literal").run(model, 5, np.random.default_rng(0))
    fast = CvarLsvi(**common, variant="doubling", growth=1.0).run(model, 5, np.random.default_rng(0))
    assert len(slow.values) == len(fast.values) == 60
    np.testing.assert_allclose(fast.optimistic, slow.optimistic, atol=1e-9)
    np.testing.assert_allclose(fast.values, slow.values, atol=1e-12)
    for h in range(4):
        met = slow.policy.weights[h][:, max(5 - 2 * h, 0) : 6]  # only the budgets that can be met
        np.testing.assert_allclose(fast.policy.weights[h].reshape(met.shape), met, atol=1e-9)
        np.testing.assert_allclose(fast.policy.inverse[h], slow.policy.inverse[h], atol=1e-9)


def gather(model, fit, budget, rng, most):
    """Episodes one at a time, kept here as well, with the fit's policies; batches of one make them the same."""
    fit.batch = 1
    kept = []

    def watch(h, seen, left):
        if h == 0:
            kept.append([])
        actions = policy.choose(h, seen, left)
        kept[-1].append((seen, int(actions[0])))
        return actions

    class Watched:
        choose = staticmethod(watch)

    while fit.count < most:
        policy = fit.policy()
        fit.collect(Watched, most, rng)
        fit.batch = 1
    return kept


@pytest.mark.parametrize("factored", [True, False])
def test_fit_equals_least_squares_by_hand(factored):
    model, _ = random_model(2, bonus=0.5)
    clip, beta, lam, budget = Clip(4, 2, 0.5), 0.4, 0.5, 6
    fit = FastFit(model, budget, lam, beta, clip, 40, 2.0, factored)
    kept = gather(model, fit, budget, np.random.default_rng(3), 40)
    assert len(kept) == fit.count == 40
    policy = fit.policy()
    V = [np.arange(budget + 1.0)] * 40
    for h in (3, 2, 1, 0):
        exactly = factored and h == 3

        def feature(seen, a):
            return seen.phi[0, a] if factored else np.kron(seen.phi[0, a], seen.law[0, a])

        x = np.array([feature(*episode[h]) for episode in kept])
        Lambda = lam * np.eye(x.shape[1]) + sum(np.outer(row, row) for row in x)
        units = fit.units[h]
        target = [
            [v[i] if factored else v[max(i - r, 0)] for i in range(budget + 1)] for v, r in zip(V, units, strict=True)
        ]
        w = np.arange(budget + 1.0)[None] if exactly else np.linalg.solve(Lambda, x.T @ np.array(target))
        met = w[:, max(budget - 2 * (h + factored), 0) :]  # only the budgets that can be met
        np.testing.assert_allclose(policy.weights[h].reshape(met.shape), met, atol=1e-9)
        if not exactly:
            np.testing.assert_allclose(policy.inverse[h], np.linalg.inv(Lambda), atol=1e-9)
        V = []
        for episode in kept:
            seen, best = episode[h][0], np.full(budget + 1, np.inf)
            for a in range(3):
                f = feature(seen, a)
                width = 0.0 if exactly else beta * np.sqrt(f @ np.linalg.solve(Lambda, f))
                for i in range(budget + 1):
                    if factored:
                        fitted = sum(seen.law[0, a, r] * (f @ w[:, max(i - r, 0)]) for r in range(3))
                    else:
                        fitted = f @ w[:, i]
                    q = -seen.bonus[0, a] + fitted - width
                    best[i] = min(best[i], min(max(q, -0.5 * max(2 - h, 0)), i))
            V.append(best)
    assert policy.value(0, np.zeros(1, int), np.array([6]))[0] == pytest.approx(V[0][6], abs=1e-9)


@pytest.mark.parametrize("factored", [True, False])
def test_recomputes_exactly_when_a_determinant_has_doubled(factored):
    model, _ = random_model(3)
    fit = FastFit(model, 4, 1.0, 0.5, Clip(4, 2, 0.0), 300, 2.0, factored)
    rng, last, marks = np.random.default_rng(0), 0, []

    def log_dets(n):
        steps = range(3 if factored else 4)
        return np.array(
            [np.linalg.slogdet(np.eye(x.shape[1]) + x.T @ x)[1] for x in (fit.chosen[h][:n] for h in steps)]
        )

    while fit.count < 300:
        fit.collect(fit.policy(), 300, rng)
        marks.append(fit.count)
        if fit.count < 300:
            assert (log_dets(fit.count) - log_dets(last)).max() >= np.log(2) - 1e-9
        assert (log_dets(fit.count - 1) - log_dets(last)).max() < np.log(2) + 1e-9
        last = fit.count
    assert 5 < len(marks) < 60
    assert fit.simulated >= 300


def test_batches_have_the_law_of_single_episodes():
    """Same states on average after a fixed policy, whether episodes come one by one or many at a time."""
    model, (kernel, law, _) = random_model(4)
    episodes = rollout(model, lambda h, seen, left: np.zeros(left.size, int), 4, 20000, np.random.default_rng(0))
    reach = np.eye(12)[0]
    for h in range(4):
        expected = reach @ law[h][:, 0] @ np.arange(3)
        assert episodes.units[h].mean() == pytest.approx(expected, abs=0.03)
        reach = reach @ kernel[h][:, 0] if h < 3 else reach


@pytest.mark.parametrize(
    ("variant", "iterations", "allowed"), [("literal", 80, 0.1), ("doubling", 1500, 0.04), ("factored", 1500, 0.02)]
)
def test_returned_policy_is_nearly_optimal(variant, iterations, allowed):
    gaps, errors = [], []
    for seed in range(3):
        model, tables = random_model(10 + seed, bonus=0.3)
        run = CvarLsvi(iterations, 300, 0.3, cap=0.3, variant=variant).run(model, 5, np.random.default_rng(seed))
        worth = exact(tables, 6, run.policy)[0, 5]
        gaps.append(worth - exact(tables, 6)[0, 5])
        errors.append(abs(run.value - worth))
    assert min(gaps) >= -1e-9
    assert np.mean(gaps) < allowed
    assert max(errors) < 0.25  # 300 episodes, and the least of many means


@pytest.mark.parametrize("variant", ["doubling", "factored"])
def test_optimism_holds_with_a_large_beta(variant):
    """At least 95% of all iterates are optimistic with beta = 3, not with beta = 0."""
    share = {}
    for beta in (3.0, 0.0):
        below = total = 0
        for seed in range(5):
            model, tables = random_model(20 + seed, bonus=0.3)
            least = exact(tables, 6)[0, 5]
            run = CvarLsvi(400, 1, beta, lam=0.1, cap=0.3, variant=variant).run(model, 5, np.random.default_rng(seed))
            below += int((run.optimistic <= least + 1e-6).sum())
            total += run.optimistic.size
        share[beta] = below / total
    assert share[3.0] >= 0.95
    assert share[0.0] < 0.9


def lottery():
    """H = 10: action 0 leads to bonuses of 6 in all, action 1 to 14 or nothing, so to 7 on average."""
    H, S = 10, 4
    first, stay, psi = np.zeros((S, 2, 3)), np.zeros((S, 2, 3)), np.eye(3, S, 1)
    first[:, 0], first[:, 1] = [0, 0, 1], [0.5, 0.5, 0]
    stay[1:] = np.eye(3)[:, None]
    stay[0, :, 2] = 1
    bonus = [np.array([[0.0] * 2, [2.0] * 2, [0.0] * 2, [6 / 7] * 2]) * (1 <= h <= 7) for h in range(H)]
    steps = (StepModel(first, psi), *[StepModel(stay, psi)] * (H - 2))
    laws, zero = np.array([[1.0, 0.0]]), np.zeros((S, 2), int)
    model = GroupModel(LowRankModel(steps, (np.arange(S),) * H), [zero] * H, laws, bonus, 0)
    return model, ([s.phi @ s.psi for s in steps], [laws[zero]] * H, bonus)


def test_printed_clip_loses_optimism_and_the_better_action():
    model, tables = lottery()
    assert exact(tables, 1)[0, 0] == pytest.approx(-7)
    assert exact(tables, 1, clip=-10)[0, 0] == pytest.approx(-6)  # even exact induction, with the printed clip
    wrong, final = {}, {}
    for clip in ("printed", "corrected"):
        settings = CvarLsvi(6000, 4, 5.0, lam=0.1, cap=2.0, clip=clip)
        run = settings.run(model, 0, np.random.default_rng(0))
        steady = np.abs(run.values + 6) < 1e-9  # action 0 earns -6 for sure, action 1 a multiple of 3.5
        wrong[clip], final[clip] = run.weights[steady].sum() / 6000, run.optimistic[-1]
    assert wrong["printed"] > 0.85  # 0.89 to 0.95 over twelve seeds
    assert final["printed"] > -6.9
    assert wrong["corrected"] < 0.25  # 0.17 over twelve seeds
    assert final["corrected"] < -7


def test_all_budgets_give_the_best_cvar():
    model, tables = random_model(5, S=8, H=3)
    tau, C = 0.3, 7
    plan = CvarLsvi(400, 400, 0.2, lam=0.1).plan(model, tau=tau, rng=np.random.default_rng(0))
    least = exact(tables, C)[0]
    best = (np.arange(C) - least / tau).max()
    np.testing.assert_array_equal(plan.budgets, np.arange(C))
    np.testing.assert_allclose(plan.values, least, atol=0.2)
    assert plan.objective.argmax() == plan.budget
    assert plan.budget - exact(tables, C, plan.policy)[0, plan.budget] / tau == pytest.approx(best, abs=0.15)
    some = CvarLsvi(50, 20, 0.2).plan(model, [2, 4], tau=tau, rng=np.random.default_rng(0))
    assert some.budgets.tolist() == [2, 4]
    assert some.budget in (2, 4)


class OnTheLine:
    """States are reals: P(s' | s, a) = sum_j phi_j(s, a) N(s'; m_j, 1); no kernel can be listed."""

    horizon, n_actions = 3, 2
    centres = np.array([-1.0, 1.0])

    def rank(self, h):
        return 2

    def start(self):
        return np.zeros(1)

    def features(self, h, states):
        assert h < self.horizon - 1
        up = np.stack([0.2 + 0.0 * states, 0.8 + 0.0 * states], axis=1)
        return np.stack([1 - up, up], axis=2)

    def reward_laws(self, h, states):
        high = np.where(states > 0, 0.9, 0.1)[:, None].repeat(2, axis=1)
        return np.stack([1 - high, high], axis=2)

    def bonus(self, h, states):
        return np.zeros((states.size, 2))

    def sample_latent(self, h, latent, rng):
        return rng.normal(self.centres[latent], 1.0)


@pytest.mark.parametrize(("variant", "iterations"), [("literal", 60), ("doubling", 600), ("factored", 600)])
def test_model_over_reals(variant, iterations):
    """Going up is best; then each later reward is 1 with chance .9 q + .1 (1 - q), q = P(s' > 0)."""
    model = OnTheLine()
    run = CvarLsvi(iterations, 2000 if variant != "literal" else 1000, 0.3, variant=variant).run(
        model, 3, np.random.default_rng(0)
    )
    above = 0.5 * (1 + erf(1 / np.sqrt(2)))
    up = 0.8 * above + 0.2 * (1 - above)
    best = 3 - 0.1 - 2 * (0.9 * up + 0.1 * (1 - up))
    assert run.value == pytest.approx(best, abs=0.1)
    states = np.linspace(-2, 2, 9)
    if variant != "literal":
        np.testing.assert_array_equal(run.policy.act(1, states, np.full(9, 2)), 1)
    assert run.policy.act(2, states, np.zeros(9, int)).shape == (9,)


@pytest.mark.parametrize("variant", ["literal", "doubling", "factored"])
def test_one_step_only(variant):
    laws = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    model = GroupModel(LowRankModel((), (np.zeros(1, int),)), [np.array([[0, 1]])], laws, [np.zeros((1, 2))], 0)
    assert view(model, 0, np.array([0])).phi.tolist() == [[[1.0], [1.0]]]
    plan = CvarLsvi(100, 100, 0.5, lam=0.01, variant=variant).plan(model, tau=0.5, rng=np.random.default_rng(0))
    assert plan.budget == 1
    assert plan.policy.act(0, np.array([0]), np.array([1])).tolist() == [1]
    assert plan.values.tolist()[:2] == [0.0, 0.0]


def test_status_says_whether_the_gap_is_closed():
    model, _ = random_model(6, S=6, H=3)
    rng = np.random.default_rng(0)
    assert CvarLsvi(20, 10, 1.0).plan(model, 3, tau=0.5, rng=rng).status == "estimated"
    with pytest.warns(NotConverged, match="beta = 0.1 units lost optimism"):
        assert CvarLsvi(20, 10, 0.1, tolerance=5.0).plan(model, 3, tau=0.5, rng=rng).status == "converged"
    with pytest.warns(NotConverged, match="asked for 0"):
        assert CvarLsvi(20, 10, 5.0, tolerance=0.0).plan(model, 3, tau=0.5, rng=rng).status == "not converged"


def test_same_seed_same_plan():
    model, _ = random_model(7)
    runs = [CvarLsvi(100, 20, 0.5).run(model, 4, np.random.default_rng(9)) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].values, runs[1].values)
    np.testing.assert_array_equal(runs[0].policy.weights[1], runs[1].policy.weights[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"iterations": 0}, "iterations = 0"),
        ({"evaluations": 1.5}, "evaluations = 1.5"),
        ({"beta": -1.0}, "beta = -1.0: must be at least 0"),
        ({"lam": 0.0}, "lam = 0.0: must be positive"),
        ({"growth": 0.5}, "growth = 0.5: must be at least 1"),
        ({"variant": "factord"}, "did you mean 'factored'"),
        ({"clip": "none"}, "clip = 'none'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        CvarLsvi(**{"iterations": 5, "evaluations": 5, "beta": 1.0, **settings})


def test_bad_problems():
    model, _ = random_model(8, bonus=1.0)
    rng = np.random.default_rng(0)
    for variant in ("literal", "factored"):
        with pytest.raises(InputError, match=r"bonus at step 0 is .* must be at most 0\.1"):
            CvarLsvi(5, 5, 1.0, cap=0.1, variant=variant).run(model, 3, rng)
    with pytest.raises(InputError, match=r"budget = 9: must lie in 0\.\.8"):
        CvarLsvi(5, 5, 1.0).plan(model, 9, tau=0.5, rng=rng)
    low = LowRankModel((), (np.zeros(1, int),))
    with pytest.raises(InputError, match=r"bonus: must have one table a step, 1, found 0"):
        GroupModel(low, [np.zeros((1, 2), int)], np.eye(2), [], 0)
    with pytest.raises(InputError, match=r"reward_of\[0\]: must have shape \(1, 2\), found \(3, 2\)"):
        GroupModel(low, [np.zeros((3, 2), int)], np.eye(2), [np.zeros((1, 2))], 0)
    with pytest.raises(InputError, match="start_group = 4"):
        GroupModel(low, [np.zeros((1, 2), int)], np.eye(2), [np.zeros((1, 2))], 4)
