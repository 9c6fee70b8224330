"""CVaR-LSVI on counted latents: the laws it samples, the joint features, and agreement with the exact planner."""

from __future__ import annotations

import numpy as np
import pytest
from test_observed import Model, laws, random_model

from tailrank.checks import InputError
from tailrank.models.latent_counts import LatentCounts
from tailrank.planning.lsvi import _kernels as _kernels
from tailrank.planning.lsvi.algorithm2 import CvarLsvi
from tailrank.planning.lsvi.model import View, view
from tailrank.planning.lsvi.observed import LatentLsvi, LatentModel
from tailrank.planning.observed.problem import Support

pytestmark = pytest.mark.filterwarnings("ignore:CVaR-LSVI. beta")  # small ones, so that few episodes are enough


def sampled(model, bonus=None, **told):
    return LatentModel(model.problem(0.5, bonus, **told))


def planned(planner, model, tau, bonus=None, **told):
    return planner(model.problem(tau, bonus, **told))


def sizes(model):
    return model.counts.steps, model.counts.n_latents, model.counts.n_actions


@pytest.mark.parametrize("shared", [False, True])
def test_laws_are_those_that_were_counted(shared):
    model = random_model(3, untried=0.4, absent=True, zero=1, shared=shared)
    found, rows, K, prior = sampled(model, prior=2.0), laws(model), model.counts.n_latents, 2.0
    for h in range(model.H):
        law = found.reward_laws(h, np.arange(K + 1))
        np.testing.assert_allclose(law.sum(axis=(2, 3)), 1.0)
        np.testing.assert_allclose(found.features(h, np.arange(K + 1)), law.sum(axis=3))
        for z in range(K):
            for a in range(model.counts.n_actions):
                table = 0 if shared else h
                expected = np.zeros(law.shape[2:])
                mine = rows[table, z, a]
                pooled = [row for b in range(model.counts.n_actions) for row in rows[table, z, b]]
                n, everything = sum(c for *_, c in mine), sum(c for *_, c in pooled)
                for after, units, count in mine:
                    expected[after, units] += count / n * (n / (n + prior))
                if mine:
                    for after, units, count in pooled:
                        expected[after, units] += count / everything * (prior / (n + prior))
                else:
                    live = [j for j in range(K) if h + 1 < model.H and model.present[h + 1, j]] or [K]
                    expected[live, model.usual[h]] = 1 / len(live)
                np.testing.assert_allclose(law[z, a], expected, atol=1e-12)
        np.testing.assert_array_equal(law[K, :, K, 1], 1.0)


def test_observations_that_are_not_sure():
    """A point shows its mixture; psi_j is where the latent's observations are."""
    model = random_model(1, H=3)
    mix = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    one = Support(mix, np.array([[0.5, 0.1], [0.25, 0.25], [0.0, 0.6]]), np.array([0.4, 0.5, 0.4]))
    model.start = np.array([[1.0, 0, 0], [0.3, 0.7, 0.0]])
    bonus = np.random.default_rng(0).random(sizes(model))
    found = sampled(model, bonus, support=[None, one, None])
    assert found.start().tolist() == [0, 4]
    sure, law = found.reward_laws(1, np.arange(4)), found.reward_laws(1, np.array([5, 2, 4]))
    np.testing.assert_allclose(law[0], np.tensordot(mix[1], sure[:3], 1))
    np.testing.assert_allclose(law[1], sure[2])
    np.testing.assert_allclose(found.bonus(1, np.array([4]))[0], mix[0] @ bonus[1])
    np.testing.assert_allclose(
        found.reward_laws(0, np.array([4]))[0], np.tensordot([0.3, 0.7], found.reward_laws(0, np.arange(2)), 1)
    )
    after = found.sample_latent(0, np.repeat([0, 1, 2, 3], 20_000), np.random.default_rng(0)).reshape(4, -1)
    shares = np.stack([np.bincount(row, minlength=6) for row in after]) / 20_000
    expected = [[0.4, 0, 0, 0, 0.5, 0.1], [0, 0.5, 0, 0, 0.25, 0.25], [0, 0, 0.4, 0, 0, 0.6], [0, 0, 0, 1, 0, 0]]
    np.testing.assert_allclose(shares, expected, atol=0.015)
    assert (found.sample_latent(1, np.arange(4), np.random.default_rng(0)) == np.arange(4)).all()


def test_kernels_against_numpy():
    rng = np.random.default_rng(0)
    n, A, d, nr, wide, offset = 5, 3, 4, 4, 9, 2
    law = rng.dirichlet(np.ones(d * nr), size=(n, A)).reshape(n, A, d, nr) * (rng.random((n, A, d, nr)) < 0.7)
    phi, bonus, table, root = law.sum(axis=3), rng.random((n, A)), rng.normal(size=(d, wide)), rng.normal(size=(d, d))
    inverse, beta, C = root @ root.T, 0.3, wide - offset
    width = np.sqrt(np.einsum("nak,km,nam->na", phi, inverse, phi))
    q = (
        np.stack(
            [
                np.einsum("nakr,kr->na", law, np.stack([table[:, max(i + offset - r, 0)] for r in range(nr)], axis=1))
                for i in range(C)
            ],
            axis=2,
        )
        - (bonus + beta * width)[..., None]
    )
    out, high = np.empty((n, C)), np.linspace(-0.5, 0.5, C)
    _kernels.lowest_joint(phi, law, bonus, table, inverse, beta, -0.7, high, offset, out)
    np.testing.assert_allclose(out, np.clip(q.min(axis=1), -0.7, high), atol=1e-12)
    i = rng.integers(C, size=n)
    scores = _kernels.scores_joint(phi, law, bonus, i + offset, table, inverse, beta)
    np.testing.assert_allclose(scores, q[np.arange(n), :, i], atol=1e-12)
    # Independent rewards are a special case.
    alone = rng.dirichlet(np.ones(nr), size=(n, A))
    both = phi[..., None] * alone[:, :, None]
    same = _kernels.scores_factored(phi, alone, bonus, i, table, inverse, beta)
    np.testing.assert_allclose(_kernels.scores_joint(phi, both, bonus, i, table, inverse, beta), same, atol=1e-12)
    np.testing.assert_allclose(View(phi, both, bonus).joint(), View(phi, alone, bonus).joint())


@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_incremental_updates_equal_the_literal_loop(beta):
    model = random_model(1, ends=0.2)
    bonus = 0.5 * np.random.default_rng(0).random(sizes(model))
    common = {"iterations": 40, "evaluations": 5, "beta": beta, "lam": 0.5, "cap": 0.5, "quiet": 0}
    found = sampled(model, bonus)
    slow = CvarLsvi(**common, variant="literal").run(found, 6, np.random.default_rng(0))
    fast = CvarLsvi(**common, variant="doubling", growth=1.0).run(found, 6, np.random.default_rng(0))
    np.testing.assert_allclose(fast.optimistic, slow.optimistic, atol=1e-9)
    np.testing.assert_allclose(fast.values, slow.values, atol=1e-12)


def exactly(model, bonus, plan, budget):
    """E[(budget - R)^+ - bonuses] of the plan in the model, one history at a time."""
    rows, K = laws(model), model.counts.n_latents
    here = {(int(mix.argmax()), budget): 0.0 for mix in model.start}
    for mix in model.start:
        here[int(mix.argmax()), budget] += 1.0 / len(model.start)
    total = 0.0
    for h in range(model.H):
        following = {}
        for (z, c), p in here.items():
            if z == K:
                outcomes = [(K, model.zero, 1.0)]
            else:
                a = int(plan.act(h, np.eye(K)[[z]], np.array([c]))[0])
                t = h if model.counts.steps > 1 else 0
                outcomes = rows[t, z, a]
                total -= p * bonus[t, z, a]
            n = sum(count for *_, count in outcomes)
            for after, units, count in outcomes:
                key = after, max(c - units, 0)
                following[key] = following.get(key, 0.0) + p * count / n
        here = following
    return total + sum(p * c for (_, c), p in here.items())


@pytest.mark.parametrize(("variant", "seed"), [("factored", 0), ("factored", 2), ("doubling", 1)])
def test_agrees_with_the_exact_planner_as_it_runs_longer(variant, seed):
    """The policy's loss falls with T1, and the value that is stated is the best one's within its standard error."""
    model, tau = random_model(seed, H=4, K=3, A=3, ends=0.2, zero=seed, shared=seed == 2), 0.3
    bonus = np.random.default_rng(seed).random(sizes(model))
    best = model.plan(tau, bonus)
    assert best.budget - exactly(model, bonus, best, best.budget) / tau == pytest.approx(best.objective)
    lost = {}
    for iterations in (1, 10, 100):
        plan = planned(LatentLsvi(iterations, 1000, 0.1, variant), model, tau, bonus)
        assert plan.curve.size == plan.budget + 1 == plan.values[0].shape[2]
        lost[iterations] = best.objective - (plan.budget - exactly(model, bonus, plan, plan.budget) / tau)
    assert min(lost.values()) > -1e-9
    assert lost[100] < 0.15 < 0.5 < lost[1]
    assert lost[100] <= lost[10] + 0.01
    settings = CvarLsvi(300, 5000, 0.1, lam=0.1, cap=1.0, growth=8.0, variant=variant, quiet=0)
    run = settings.run(sampled(model, bonus), best.budget, np.random.default_rng(5))
    # The least of n means is a few standard errors too low.
    assert abs(run.value - best.curve[best.budget]) < 0.15 * tau + 4 * run.error
    assert run.error < 0.03


def test_rewards_may_depend_on_what_follows():
    """Latent 1 pays 4 surely at the end, latent 2 nothing. Action 0 is paid 4 at once when 2 follows: 4 in all, always;
    action 1 pays 2 and leads to one of them. With independent rewards both would be a gamble.
    """
    counts = LatentCounts(2, 3, 2, 4)
    rows = [(0, 0, 0, 1, 0), (0, 0, 0, 2, 4), (0, 0, 1, 1, 2), (0, 0, 1, 2, 2)]
    rows += [(1, 1, a, 3, 4) for a in (0, 1)] + [(1, 2, a, 3, 0) for a in (0, 1)]
    counts.add(*np.array(rows).T)
    present = np.array([[True, False, False], [False, True, True]])
    model = Model(counts, 2, 0, present, np.eye(3)[:1], np.zeros(2, dtype=np.int64))
    assert model.plan(0.5).objective == pytest.approx(4.0)
    for variant in ("factored", "doubling", "literal"):
        plan = planned(LatentLsvi(30, 50, 0.1, variant), model, 0.5)
        assert (plan.budget, plan.objective) == (4, pytest.approx(4.0))
        assert plan.act(0, np.eye(3)[:1], np.array([4])).tolist() == [0]


def test_budgets_that_cannot_be_best_are_left_out():
    model = random_model(4, H=3, K=2, A=2, top=6)
    found, tau = sampled(model), 0.2
    every = CvarLsvi(60, 200, 0.3).plan(found, tau=tau, rng=np.random.default_rng(0))
    some = CvarLsvi(60, 200, 0.3).plan(found, tau=tau, rng=np.random.default_rng(0), skip=True)
    assert some.budgets.size < every.budgets.size
    np.testing.assert_array_equal(some.values, every.values[some.budgets])
    assert some.budget == every.budget
    few = planned(LatentLsvi(30, 50, budgets=4), model, tau)
    assert few.curve.size == few.budget + 1


def test_the_same_model_gives_the_same_plan():
    model = random_model(5, shared=True)
    first, again, other = (planned(LatentLsvi(20, 20, seed=seed), model, 0.3) for seed in (0, 0, 1))
    for x, y in zip(first.values, again.values, strict=True):
        np.testing.assert_array_equal(x, y)
    assert any(x.shape != y.shape or (x != y).any() for x, y in zip(first.values, other.values, strict=True))


def test_what_is_refused(monkeypatch):
    model = random_model(0)
    with pytest.raises(InputError, match=r"caution = 0\.3: is for the exact planner"):
        planned(LatentLsvi(), model, 0.1, caution=0.3)
    with pytest.raises(InputError, match="variant = 'factord'"):
        LatentLsvi(variant="factord")
    with pytest.raises(InputError, match="budgets = 1"):
        LatentLsvi(budgets=1)
    monkeypatch.setattr("tailrank.planning.lsvi.observed.LARGEST", 100)
    with pytest.raises(InputError, match="3 latents with 5 rewards are too many; use ela"):
        planned(LatentLsvi(), model, 0.1)


def test_the_last_step_has_one_feature():
    model = random_model(0)
    seen = view(sampled(model), model.H - 1, np.arange(3))
    assert seen.phi.shape == (3, 2, 1)
    assert seen.law.shape[:3] == (3, 2, 1)
    np.testing.assert_allclose(seen.law.sum(axis=(2, 3)), 1)
