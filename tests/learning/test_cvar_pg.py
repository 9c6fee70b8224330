"""Gradients on tables against finite differences of the exact CVaR, the critic against exact values, blindness."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank import InputError, cvar, var
from tailrank.envs import from_mdp, make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.registry import make_learner
from tailrank.learning.rivals.ascent import tail_weights
from tailrank.learning.rivals.states.gradient_episodes import GradientBatch, play, softmax, start_law
from tailrank.learning.rivals.states.policy_gradient import (
    CvarGradient,
    drifted,
    episode_weights,
    likeliest,
    score,
    temporal_differences,
)
from tailrank.learning.train import train
from tailrank.models.mdp import FiniteMDP


def tiny(rng, start=None):
    """Two states, two actions, two steps; rewards in quarters that do not depend on the next state."""
    rows = []
    for h in range(2):
        for s in range(2):
            for a in range(2):
                go, pay = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2))
                values = rng.choice(np.arange(9), size=2, replace=False) / 4
                rows += [(h, s, a, t, go[t] * pay[i], values[i]) for t in range(2) for i in range(2)]
    h, s, a, t, p, r = (np.array(x) for x in zip(*rows))
    return from_mdp(FiniteMDP.from_rows(s, a, t, p, r, step=h, start=0 if start is None else start, n_states=2))


def listed(env, budget):
    """Every episode that can happen, with the chance of the environment's part: all as one batch."""
    found = []

    def go(h, chance, states, left, actions, earned):
        if h == env.horizon:
            found.append((chance, states, left, actions, earned))
            return
        ptr, after, prob, reward = env.truth.rows(h)
        for a in range(env.n_actions):
            pair = states[-1] * env.n_actions + a
            for row in range(ptr[pair], ptr[pair + 1]):
                units = int(env.rewards.grid.units(h, reward[[row]])[0])
                go(
                    h + 1,
                    chance * prob[row],
                    [*states, int(after[row])],
                    [*left, max(left[-1] - units, 0)],
                    [*actions, a],
                    earned + units,
                )

    go(0, 1.0, [env.start], [budget], [], 0)
    chance, states, left, actions, earned = (np.array(x) for x in zip(*found))
    return chance, GradientBatch(states.T, left.T, actions.T, earned, np.ones(chance.size))


def law(logits, chance, batch):
    """Probability of every episode, with the softmax written out once more."""
    p = chance.copy()
    for h, table in enumerate(logits):
        for i in range(p.size):
            row = table[batch.states[h, i], batch.places[h, i] if table.shape[1] > 1 else 0]
            p[i] *= np.exp(row[batch.actions[h, i]]) / np.exp(row).sum()
    return p


def random_logits(env, seen, rng):
    return tuple(rng.normal(size=(env.n_states, seen, env.n_actions)) for _ in range(env.horizon))


def finite_differences(tables, of, step=1e-6):
    found = [np.zeros_like(t) for t in tables]
    for table, g in zip(tables, found):
        for i in np.ndindex(table.shape):
            kept, ends = table[i], []
            for sign in (1, -1):
                table[i] = kept + sign * step
                ends.append(of())
            table[i] = kept
            g[i] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("tau", [0.07, 0.33, 1.0])
def test_expected_gradient_is_that_of_the_exact_cvar(tau, looks):
    rng = np.random.default_rng(3)
    env = tiny(rng)
    top = env.rewards.n_budgets - 1
    logits = random_logits(env, top + 1 if looks else 1, rng)
    chance, batch = listed(env, top)
    p = law(logits, chance, batch)
    assert p.sum() == pytest.approx(1.0)
    weights = p * tail_weights(batch.returns, tau, var(batch.returns, tau, p))
    got = score(logits, batch, np.broadcast_to(weights, batch.actions.shape))
    want = finite_differences(logits, lambda: cvar(batch.returns, tau, law(logits, chance, batch)))
    assert max(np.abs(w).max() for w in want) > 1e-3
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, atol=1e-7)


def exact_critic(env, logits):
    """E(what is missing in the end) of the softmax policy at every (step, state, budget), by dynamic programming."""
    C = env.rewards.n_budgets
    after, values = np.broadcast_to(np.arange(C, dtype=float), (env.n_states, C)), []
    for h in reversed(range(env.horizon)):
        ptr, to, prob, reward = env.truth.rows(h)
        now = np.zeros((env.n_states, C))
        for s in range(env.n_states):
            for b in range(C):
                pi = softmax(logits[h][s, b if logits[h].shape[1] > 1 else 0])
                for a in range(env.n_actions):
                    for row in range(ptr[s * env.n_actions + a], ptr[s * env.n_actions + a + 1]):
                        units = int(env.rewards.grid.units(h, reward[[row]])[0])
                        now[s, b] += pi[a] * prob[row] * after[to[row], max(b - units, 0)]
        values.append(now)
        after = now
    return tuple(reversed(values))


@pytest.mark.parametrize("looks", [False, True])
def test_actor_with_the_exact_critic_climbs_the_objective(looks):
    """Expected TD errors times scores are the gradient of c - E(c - R)^+ / tau at a fixed c, by finite differences."""
    rng = np.random.default_rng(5)
    env, tau = tiny(rng), 0.3
    top = env.rewards.n_budgets - 1
    logits, c = random_logits(env, top + 1 if looks else 1, rng), top // 2
    critic = exact_critic(env, logits)
    chance, batch = listed(env, c)
    p = law(logits, chance, batch)
    errors = temporal_differences(tuple(v.copy() for v in critic), batch, rate=0.0 + 1e-15)
    for h in range(2):  # the critic takes off what is expected: nothing is left on average in any state and budget
        place = batch.states[h] * (top + 1) + batch.places[h]
        np.testing.assert_allclose(np.bincount(place, weights=p * errors[h]), 0.0, atol=1e-12)
    got = score(logits, batch, -errors * p / tau)

    def objective():
        return c - law(logits, chance, batch) @ np.maximum(c - batch.returns, 0) / tau

    want = finite_differences(logits, objective)
    assert max(np.abs(w).max() for w in want) > 1e-3
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, atol=1e-6)


def test_critic_finds_what_dynamic_programming_says():
    rng = np.random.default_rng(6)
    env = tiny(rng)
    c = env.rewards.n_budgets // 2
    logits = random_logits(env, 1, rng)
    exact = exact_critic(env, logits)
    critic = tuple(np.broadcast_to(np.arange(env.rewards.n_budgets, dtype=float), v.shape).copy() for v in exact)
    for k in range(300):
        temporal_differences(critic, play(env, logits, c, 200, np.random.default_rng(k)), rate=0.2 / (1 + k))
    assert critic[0][env.start, c] == pytest.approx(exact[0][env.start, c], abs=0.02 * c)
    assert np.abs(critic[1][:, c] - exact[1][:, c]).max() < 0.5 * c  # met only after a reward of nothing


@pytest.mark.parametrize("critic", [None, 0.1])
def test_blind_to_success(critic):
    """The lock: more than tau of the episodes earn nothing, so the gradient is exactly zero, whoever succeeds."""
    env = make_episodic("risky-lock", horizon=3, n_actions=3)
    learner = CvarGradient(0.1, critic_rate=critic)
    rows = list(train(learner, env, iterations=10, seed=0))
    last = rows[-1][0]
    assert all((table == 0).all() for table in last.logits)
    batch = play(env, last.logits, env.rewards.n_budgets - 1, 400, np.random.default_rng(0))
    assert (batch.returns >= 0.8 * env.rewards.top).sum() > 5
    soft, _ = list(train(CvarGradient(0.1, critic_rate=critic, soft=30), env, iterations=60, seed=0))[-1]
    assert max(np.abs(table).max() for table in soft.logits) > 1.0


@pytest.mark.parametrize("name", ["policy-gradient", "actor-critic"])
def test_learns_what_is_not_blind(name):
    env = make_episodic("random-lowrank")
    learner = make_learner(name, tau=0.1, soft=40)
    *_, (state, row) = train(learner, env, iterations=80, seed=0)
    from tailrank.planning.solve import solve

    assert row["cvar"] > 0.95 * solve(env.truth, tau=0.1).cvar
    assert state.episodes == row["episodes"] == 80 * 200


@pytest.mark.parametrize("settings", [{}, {"critic_rate": 0.1, "budgets": True}, {"track": "lagrangian", "soft": 3}])
def test_goes_on_from_arrays(settings):
    env, learner = make_episodic("random-lowrank"), CvarGradient(0.2, per_update=50, **settings)
    states = [s for s, _ in train(learner, env, iterations=6, seed=1)]
    again = learner.init(env, Streams(0)).from_arrays(states[2].to_arrays())
    for _ in range(3):
        again, _ = learner.step(again, env, Streams(1))
    for h, table in enumerate(again.logits):
        np.testing.assert_array_equal(table, states[5].logits[h])
    assert again.tracked == states[5].tracked


def test_plan_plays_the_likeliest_action():
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 1, 2)))
    plan = likeliest(logits, 4, 5)
    assert (plan.actions[0] == logits[0].argmax(axis=2)).all()
    assert (plan.actions[1] == logits[1].argmax(axis=2)).all()
    assert plan.actions[1].shape == (3, 5)


def test_sampled_start_leaves_the_expectation_and_drifts_to_the_worst():
    """State 1 is rare and bad: it is drawn more often, and weights keep means as they are."""
    p = np.array([0.75, 0.25])
    rows = ([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1], [1.0] * 4, [3.0, 2.0, 0.0, 1.0])
    mdp = FiniteMDP.from_rows(*rows, horizon=1, start=p)
    env = from_mdp(mdp)
    law = start_law(env)
    np.testing.assert_allclose(law[:2], p)
    learner = CvarGradient(0.1, per_update=400, sampling=True)
    states = [s for s, _ in train(learner, env, iterations=30, seed=0)]
    assert states[5].start[1] > 0.7
    assert states[5].start.sum() == pytest.approx(1.0)
    drawn = play(env, states[5].logits, env.rewards.n_budgets - 1, 20_000, np.random.default_rng(1), states[5].start)
    assert drawn.weights.mean() == pytest.approx(1.0, abs=0.02)
    assert (drawn.weights * (drawn.states[1] == 1)).mean() == pytest.approx(0.25, abs=0.01)
    assert states[-1].plan.actions[1][1, 0] == 1  # learned where it hurts
    same = drifted(law, law, drawn, 1.0)
    assert same.sum() == pytest.approx(1.0)


def test_episodes_of_a_sampled_start_are_weighed():
    """Two starts drawn evenly that come with 0.9 and 0.1: the quantile and the weights are those of the true law."""
    returns, weights = np.repeat([4, 1], 50), np.repeat([1.8, 0.2], 50)
    batch = GradientBatch(np.zeros((2, 100)), np.zeros((2, 100)), np.zeros((1, 100)), returns, weights)
    found = episode_weights(batch, 0.2, None, False)
    np.testing.assert_allclose(found, np.where(returns == 1, -3 / 0.2 * 0.2, 0.0))
    assert 4 + found.mean() == pytest.approx(cvar([4, 1], 0.2, [0.9, 0.1]))
    assert (episode_weights(batch, 0.2, 1.0, False) == 0).all()


def test_bad_settings():
    with pytest.raises(InputError, match="per_update = 1"):
        CvarGradient(0.1, per_update=1)
    with pytest.raises(InputError, match="rate = 0"):
        CvarGradient(0.1, rate=0)
    with pytest.raises(InputError, match="budgets = 1: must be true or false"):
        CvarGradient(0.1, budgets=1)
    with pytest.raises(InputError, match="sampling: needs an environment with a random start"):
        CvarGradient(0.1, sampling=True).init(make_episodic("risky-lock"), Streams(0))
    learner, env = CvarGradient(0.1), make_episodic("risky-shortcut")
    with pytest.raises(InputError, match="no iteration has been run"):
        learner.greedy(learner.init(env, Streams(0)), env, Streams(0))
