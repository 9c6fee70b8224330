"""The planner on observed latents: against the exact planner of the same model, and against plain recursions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from brute_force import cvar_by_sorting
from tailrank import CVaR, FiniteMDP, solve
from tailrank.episodes.replay import Replay
from tailrank.models.latent_counts import LatentCounts
from tailrank.planning.observed import planner
from tailrank.planning.observed.planner import plan_observed, supports
from tailrank.planning.observed.problem import CountedProblem

TAUS = (0.05, 0.2, 0.5, 1.0)


@dataclass
class Model:
    """Counts of a random model, and what the planner is told beside them."""

    counts: LatentCounts
    H: int
    zero: int
    present: np.ndarray
    start: np.ndarray
    usual: np.ndarray

    def problem(self, tau, bonus=None, **told):
        shape = (self.counts.steps, self.counts.n_latents, self.counts.n_actions)
        bonus = np.zeros(shape) if bonus is None else bonus
        parts = (self.counts, self.H, bonus, self.present, self.start, tau, self.zero, self.usual)
        return CountedProblem(*parts, **told)

    def plan(self, tau, bonus=None, prior=0.0, support=None, undominated=False, **told):
        told |= {"prior": prior, "support": support, "undominated": undominated}
        return plan_observed(self.problem(tau, bonus, **told))


def random_model(seed, *, H=4, K=3, A=2, top=4, paid=None, zero=0, shared=False, ends=0.3, untried=0.0, absent=False):
    """Every pair was tried some times, but for a share `untried` of them; episodes end with probability `ends`.

    paid: the most units that any pair was seen to pay (default: top).
    """
    rng = np.random.default_rng([seed, H, K, A, top])
    steps = 1 if shared else H
    counts = LatentCounts(steps, K, A, top)
    present = np.ones((H, K), dtype=bool)
    if absent:
        present[1:, K - 1] = rng.random(H - 1) < 0.3
    rows = []
    for h in range(steps):
        for z in range(K):
            for a in range(A):
                if rng.random() < untried:
                    continue
                for _ in range(int(rng.integers(1, 8))):
                    last = not shared and h == H - 1
                    live = np.flatnonzero(present[h + 1]) if h + 1 < H else np.arange(K)
                    after = K if last or rng.random() < ends else int(rng.choice(live))
                    rows.append((h, z, a, after, int(rng.integers((top if paid is None else paid) + 1))))
    counts.add(*np.array(rows).T)
    start = np.eye(K)[rng.integers(0, K, size=5)]
    return Model(counts, H, zero, present, start, rng.integers(0, top + 1, size=H))


def laws(model):
    """P(z', units | h, z, a) as {(h, z, a): [(z', units, count)]} for the steps of the tables."""
    ptr, after, units, count = model.counts.outcomes()
    shape = (model.counts.steps, model.counts.n_latents, model.counts.n_actions)
    return {
        tuple(int(i) for i in np.unravel_index(k, shape)): [
            (int(after[e]), int(units[e]), float(count[e])) for e in range(ptr[k], ptr[k + 1])
        ]
        for k in range(ptr.size - 1)
    }


def as_mdp(model, low, unit):
    """The same model as rows; state K is where ended episodes stay and earn nothing."""
    K, A = model.counts.n_latents, model.counts.n_actions
    columns = defaultdict(list)
    for h in range(model.counts.steps):
        for a in range(A):
            for z in range(K):
                outcomes = laws(model)[h, z, a]
                n = sum(c for *_, c in outcomes)
                for after, units, c in outcomes:
                    for name, x in zip("hsatpr", (h, z, a, after, c / n, low + units * unit)):
                        columns[name].append(x)
            for name, x in zip("hsatpr", (h, K, a, K, 1.0, 0.0)):
                columns[name].append(x)
    step = {"step": columns["h"]} if model.counts.steps > 1 else {"horizon": model.H}
    start = np.append(model.start.mean(axis=0), 0.0)
    names = [columns[name] for name in "satpr"]
    return FiniteMDP.from_rows(*names, **step, start=start, n_states=K + 1, n_actions=A)


def return_law(model, plan):
    """{units of the return: probability} of the plan in its model, by carrying every history's sum forward."""
    rows = laws(model)
    here = defaultdict(float)
    K = model.counts.n_latents
    for mix in model.start:
        here[int(mix.argmax()), plan.budget, 0] += 1.0 / len(model.start)
    for h in range(model.H):
        following = defaultdict(float)
        for (z, c, total), p in here.items():
            if z == K:
                following[z, 0, total + model.zero] += p
                continue
            a = int(plan.act(h, np.eye(K)[[z]], np.array([c]))[0])
            outcomes = rows[h if model.counts.steps > 1 else 0, z, a]
            n = sum(count for *_, count in outcomes)
            for after, units, count in outcomes:
                following[after, max(c - units, 0), total + units] += p * count / n
        here = following
    law = defaultdict(float)
    for (_, _, total), p in here.items():
        law[total] += p
    return list(law), list(law.values())


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("zero", "ends", "paid", "seed"),
    [(0, 0.0, 4, 0), (0, 0.4, 4, 1), (2, 0.4, 4, 2), (4, 0.2, 4, 3), (1, 0.7, 4, 4), (4, 0.3, 2, 5)],
)
def test_it_is_the_exact_planner_of_the_counted_model(shared, zero, ends, paid, seed):
    """Rewards are (units - zero) / 4: of both signs unless zero is 0; an ended episode then loses or gains nothing.

    In the last case every step costs something, and the best that can happen is the end.
    """
    model = random_model(seed, zero=zero, ends=ends, shared=shared, paid=paid)
    unit, H = 0.25, model.H
    mdp = as_mdp(model, -zero * unit, unit)
    for tau in TAUS:
        plan, best = model.plan(tau), solve(mdp, tau=tau)
        assert best.status == "exact"
        assert (plan.objective - H * zero) * unit == pytest.approx(best.cvar, abs=1e-9)
        units, probs = return_law(model, plan)
        assert sum(probs) == pytest.approx(1)
        reached = cvar_by_sorting([(u - H * zero) * unit for u in units], probs, tau)
        assert reached == pytest.approx(best.cvar, abs=1e-9)
        assert plan.curve.size == plan.values[0].shape[2]


def test_the_budget_matters_in_these_models():
    """Else a planner that forgets it would pass: the mean's plan is worse in the tail of some of them."""
    worse = 0
    for seed in range(4):
        model = random_model(seed, ends=0.3)
        plan = model.plan(1.0)
        units, probs = return_law(model, plan)
        worse += cvar_by_sorting(units, probs, 0.2) < model.plan(0.2).objective - 1e-6
    assert worse >= 2


def reference(model, bonus, prior, mixes=None):
    """Q(h, z, a, c) of the module's formulas, one number at a time. mixes [H] of [n, K]: observed states, by step."""
    rows, H, K, A = laws(model), model.H, model.counts.n_latents, model.counts.n_actions

    def table(h):
        return h if model.counts.steps > 1 else 0

    @cache
    def q(h, z, a, c):
        mine = rows[table(h), z, a]
        pooled = [row for b in range(A) for row in rows[table(h), z, b]]
        n = sum(count for *_, count in mine)
        if n == 0:
            left = max(c - int(model.usual[h]), 0)
            live = [j for j in range(K) if h + 1 < H and model.present[h + 1, j]]
            value = sum(m(h + 1, j, left) for j in live) / len(live) if live else over(h + 1, left)
        else:
            w = prior / (n + prior)
            value = (1 - w) * mean(h, mine, c) + w * mean(h, pooled, c)
        return value - bonus[table(h), z, a]

    def mean(h, outcomes, c):
        n = sum(count for *_, count in outcomes)
        return sum(count * m(h + 1, after, max(c - units, 0)) for after, units, count in outcomes) / n

    @cache
    def m(h, j, c):
        """The value in next latent j: over the observed states that show it, or in the latent itself."""
        if h == H:
            return float(c)
        if j == K:
            return over(h, c)
        if mixes is None or mixes[h] is None:
            return min(q(h, j, a, c) for a in range(A))
        weights = mixes[h][:, j] / mixes[h][:, j].sum()
        return sum(w * q(h, j, chosen(h, tuple(x), c), c) for w, x in zip(weights, mixes[h]) if w > 0)

    @cache
    def chosen(h, mix, c):
        return min(range(A), key=lambda a: sum(mix[z] * q(h, z, a, c) for z in range(K)))

    def over(h, c):
        return float(max(c - (H - h) * model.zero, 0))

    return q


def check_values(plan, q, model):
    for h, table in enumerate(plan.values):
        expected = [
            [[q(h, z, a, c) for c in range(table.shape[2])] for a in range(model.counts.n_actions)]
            for z in range(model.counts.n_latents)
        ]
        np.testing.assert_allclose(table, expected, atol=1e-10, err_msg=f"step {h}")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("prior", [0.0, 0.7, 5.0])
@pytest.mark.parametrize(("zero", "paid"), [(0, 3), (2, 3), (0, 1)])
def test_untried_pairs_prior_and_bonus(shared, prior, zero, paid):
    """paid = 1: the usual reward may be more than any pair was seen to pay since."""
    for seed in range(3):
        model = random_model(seed, H=3, top=3, paid=paid, zero=zero, shared=shared, untried=0.4, absent=not shared)
        rng = np.random.default_rng(seed)
        bonus = rng.exponential(0.5, size=(model.counts.steps, 3, 2))
        q = reference(model, bonus, prior)
        for tau in (0.2, 1.0):
            plan = model.plan(tau, bonus, prior)
            check_values(plan, q, model)
            first = [
                np.mean([min(sum(x[z] * q(0, z, a, c) for z in range(3)) for a in range(2)) for x in model.start])
                for c in range(plan.curve.size)
            ]
            objective = np.arange(len(first)) - np.array(first) / tau
            np.testing.assert_allclose(plan.curve, first, atol=1e-10)
            assert plan.objective == pytest.approx(objective.max(), abs=1e-9)
            assert objective[plan.budget] == pytest.approx(objective.max(), abs=1e-9)


@dataclass
class Told:
    """A decoder whose features are the probabilities themselves."""

    n_latents: int
    kind = "told"
    shared = False

    def log_odds(self, h, features):
        with np.errstate(divide="ignore"):
            return np.log(features.astype(np.float64))


def soft_replay(seed, n, H, K, unsure=0.5, hidden=None):
    """Episodes whose observations tell the latent for sure, or not; `hidden`: a latent that is never shown."""
    rng = np.random.default_rng(seed)
    mix = rng.dirichlet(np.full(K, 0.7), size=(n, H))
    sure = rng.random((n, H)) >= unsure
    mix[sure] = np.eye(K)[rng.integers(0, K, size=int(sure.sum()))]
    if hidden is not None:
        mix[..., hidden] = 0.0
        mix[mix.sum(axis=-1) == 0] = np.eye(K)[0]
        mix /= mix.sum(axis=-1, keepdims=True)
    replay = Replay(H, K)
    replay.add(mix, np.zeros((n, H)), np.zeros((n, H)), rng.integers(1, H + 1, size=n))
    return replay


def rounded(replay, h):
    """Probabilities [n, K] of the observations of a step; those that are sure as one-hot."""
    mix = replay.features[replay.alive(h), h].astype(np.float64)
    mix = mix / mix.sum(axis=1, keepdims=True)
    sure = mix.max(axis=1) >= 1 - planner.SURE
    mix[sure] = np.eye(mix.shape[1])[mix[sure].argmax(axis=1)]
    return mix


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_soft_observations(seed):
    """psi is an average over the observed states, each of which plays the action that its own mixture prefers."""
    H, K = 3, 3
    model = random_model(seed, H=H, K=K, top=3, untried=0.2)
    replay = soft_replay(seed, 30, H, K)
    found = supports(Told(K), replay, np.random.default_rng(0))
    assert all(s is not None for s in found)
    for s in found:
        np.testing.assert_allclose(s.weights.sum(axis=1) + s.sure, 1)
    bonus = np.full((H, K, 2), 0.1)
    plan = model.plan(0.3, bonus, 0.5, found)
    mixes = [rounded(replay, h) for h in range(H)]
    check_values(plan, reference(model, bonus, 0.5, mixes), model)
    hard = model.plan(0.3, bonus, 0.5)
    assert max(np.abs(a - b[..., : a.shape[2]]).max() for a, b in zip(hard.values, plan.values)) > 0.01


def test_sure_observations_need_no_support():
    assert supports(Told(3), soft_replay(0, 20, 3, 3, unsure=0.0), np.random.default_rng(0)) == [None] * 3


def test_a_latent_that_no_observation_shows_keeps_its_value():
    """As one that was met after the last fit, or is so rare that it is not in the sample."""
    H, K = 3, 3
    model = random_model(5, H=H, K=K, top=3)
    replay = soft_replay(5, 30, H, K, hidden=2)
    found = supports(Told(K), replay, np.random.default_rng(0))
    plan = model.plan(0.3, support=found)
    mixes = [np.vstack([rounded(replay, h), np.eye(K)[2]]) for h in range(H)]
    check_values(plan, reference(model, np.zeros((H, K, 2)), 0.0, mixes), model)


def test_a_sample_of_many_observations_says_how_far_off_it_may_be():
    H, K = 2, 3
    model = random_model(2, H=H, K=K, top=4, ends=0.0)
    replay = soft_replay(2, 3000, H, K)
    everything = reference(model, np.zeros((H, K, 2)), 0.0, [rounded(replay, h) for h in range(H)])
    off, errors = [], []
    for draw in range(6):
        found = supports(Told(K), replay, np.random.default_rng(draw))
        assert len(found[1].mix) == planner.LARGEST_SUPPORT
        seen = rounded(replay, 1)
        shares = seen[seen.max(axis=1) == 1].sum(axis=0) / seen.sum(axis=0)
        np.testing.assert_allclose(found[1].sure, shares, atol=0.1)
        plan = model.plan(0.3, support=found)
        size = plan.values[0].shape[2]
        exact = [[[everything(0, z, a, c) for c in range(size)] for a in range(2)] for z in range(K)]
        off.append(np.abs(plan.values[0] - exact).max())
        errors.append(plan.support_error)
    assert 0 < max(off) < 4 * min(errors)
    assert max(errors) < 0.1


def test_ties_go_to_the_first_action_and_budgets_stay_inside():
    model = random_model(0, H=2, K=2, A=3)
    values = np.zeros((2, 3, 4))
    values[:, 0] = 1.0
    plan = planner.ObservedPlan((values,), 0, 0.0, np.zeros(4))
    mix = np.full((3, 2), 0.5)
    assert plan.act(0, mix, np.array([0, 10**12, -5])).tolist() == [1, 1, 1]
    assert model.plan(1.0).support_error == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_ties_go_to_the_mean(seed):
    """As the exact planner breaks them; switched off, some plan in some model has less."""
    model = random_model(seed, zero=seed % 3, ends=0.3, shared=bool(seed % 2))
    mdp = as_mdp(model, -model.zero * 0.25, 0.25)
    for tau in (0.1, 0.4):
        best = solve(mdp, tau=tau)
        values, probs = return_law(model, model.plan(tau, undominated=True))
        returns = 0.25 * (np.array(values) - model.H * model.zero)
        assert CVaR(tau).of(returns, probs) == pytest.approx(best.cvar, abs=1e-8)
        assert float(returns @ np.array(probs)) == pytest.approx(best.mean, abs=1e-6)


def test_without_the_rule_plans_are_dominated():
    lost = 0.0
    for seed in range(6):
        model = random_model(seed, ends=0.3)
        means = [np.dot(*return_law(model, model.plan(0.1, undominated=on))) for on in (False, True)]
        assert means[0] <= means[1] + 1e-9
        lost += means[1] - means[0]
    assert lost > 0.5


@pytest.mark.parametrize(("tries", "action"), [(0, 0), (29, 0), (30, 1)])
def test_what_was_seldom_tried_does_not_win_a_tie(tries, action):
    """Action 0 paid 8 in 1,000 tries, action 1 always 10: the same CVaR at a budget of 8, to which another latent, that
    pays 8 at most, holds it down."""
    counts = LatentCounts(1, 2, 2, 10)
    for z, a, pays, n in ((0, 0, 8, 1000), (0, 1, 10, tries), (1, 0, 8, 1000), (1, 1, 0, 1000)):
        one = np.ones(n, dtype=np.int64)
        counts.add(0 * one, z * one, a * one, 2 * one, pays * one)
    start = np.repeat(np.eye(2), 50, axis=0)
    model = Model(counts, 1, 0, np.ones((1, 2), dtype=bool), start, np.full(1, 10))
    for enough, chosen in ((30.0, action), (0.0, 1)):
        plan = model.plan(0.1, undominated=True, enough=enough)
        assert plan.budget == 8
        assert plan.objective == pytest.approx(8.0, abs=1e-6)
        assert plan.act_in(0, np.zeros(1, dtype=np.int64), np.array([8])).tolist() == [chosen]
