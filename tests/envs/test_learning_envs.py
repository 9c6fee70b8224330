"""Environments for learners: contracts for every registered one, closed forms, the decoy, Gymnasium."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import tailrank
from tailrank import FiniteMDP, InputError
from tailrank.envs import ENVIRONMENTS, Episodic, from_mdp, make_episodic
from tailrank.envs.gymnasium.registered import IDS, EpisodicEnv

SETTINGS = [
    ("risky-lock", {}),
    ("risky-lock", {"horizon": 8, "n_actions": 3, "n_states": 301, "seed": 4}),
    ("random-lowrank", {}),
    *(("random-lowrank", {"reward": kind, "n_states": 6}) for kind in ("levels", "beta", "uniform", "normal")),
    ("random-lowrank", {"horizon": 1}),
    ("risky-shortcut", {}),
    ("decoy", {}),
    ("walled-lock", {"horizon": 5, "n_states": 7, "seed": 2}),
    ("lowrank-conflict", {"n_states": 9, "n_actions": 3, "d": 4}),
]
each = pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=lambda x: str(x))


def test_every_environment_is_in_the_table():
    assert {name for name, _ in SETTINGS} == set(ENVIRONMENTS) == set(IDS.values())


@each
def test_shapes_and_laws(name, settings):
    env = make_episodic(name, **settings)
    H, G, A = env.horizon, env.n_groups, env.n_actions
    assert env.name == name
    assert len(env.group) == len(env.reward_of) == H
    assert len(env.model.steps) == H - 1
    assert len(env.candidates) in (0, H - 1)
    assert all(g.shape == (env.n_states,) and set(np.unique(g)) == set(range(G)) for g in env.group)
    assert all(law.shape == (G, A) for law in env.reward_of)
    np.testing.assert_allclose(env.rewards.laws.sum(axis=1), 1.0, atol=1e-12)
    assert env.truth.start[env.group[0][env.start]] == 1.0
    for h, step in enumerate(env.model.steps):
        step.check(f"steps[{h}]")
        ptr, after, prob, _ = env.truth.rows(h)
        kernel = np.zeros((G * A, G))
        np.add.at(kernel, (np.repeat(np.arange(G * A), np.diff(ptr)), after), prob)
        np.testing.assert_allclose(step.kernel.reshape(G * A, G), kernel, atol=1e-12)
        if env.candidates:
            assert any(candidate is step for candidate in env.candidates[h])
            for candidate in env.candidates[h]:
                candidate.check(f"candidates[{h}]")
    for h in range(H):
        ptr, _, prob, reward = env.truth.rows(h)
        mean = np.bincount(np.repeat(np.arange(G * A), np.diff(ptr)), weights=prob * reward, minlength=G * A)
        grid = env.rewards.grid
        expected = env.rewards.means[env.reward_of[h]].ravel() * float(grid.unit) + float(grid.origin[h])
        np.testing.assert_allclose(mean, expected, atol=1e-12)


@each
def test_what_is_played_is_the_truth(name, settings):
    n = 20_000
    env = make_episodic(name, **settings)
    rng = np.random.default_rng(7)
    G, A = env.n_groups, env.n_actions
    assert set(env.reset(3, rng)) == {env.start}
    for h in range(env.horizon):
        states, actions = rng.integers(env.n_states, size=n), rng.integers(A, size=n)
        rewards, after = env.step(h, states, actions, rng)
        assert rewards.shape == after.shape == (n,)
        assert rewards.min() >= 0
        assert rewards.max() <= 1
        here = env.group[h][states]
        units = env.rewards.grid.units(h, rewards)
        if env.sampler is None:
            np.testing.assert_allclose(env.rewards.grid.value(units), rewards, atol=1e-12)
        pairs = np.bincount(here * A + actions, minlength=G * A).reshape(G, A)
        tables = [(env.rewards.laws[env.reward_of[h]], units)]
        if h < env.horizon - 1:
            tables.append((env.model.steps[h].kernel, env.group[h + 1][after]))
        for law, outcome in tables:
            counts = np.zeros(law.shape)
            np.add.at(counts, (here, actions, outcome), 1)
            expected = pairs[:, :, None] * law
            assert (counts[law == 0] == 0).all()
            assert (np.abs(counts - expected) <= 5 * np.sqrt(expected * (1 - law)) + 2).all()


def test_observations_are_uniform_in_their_group():
    env = make_episodic("risky-lock", n_states=30, n_actions=2)
    rng = np.random.default_rng(3)
    _, after = env.step(0, env.reset(30_000, rng), rng.integers(2, size=30_000), rng)
    counts = np.bincount(after, minlength=30)
    by_group = np.array([1, 1, 2])[env.group[1]] / 40
    assert (np.abs(counts - 30_000 * by_group) <= 5 * np.sqrt(30_000 * by_group)).all()


@each
def test_seeds_reproduce(name, settings):
    runs = []
    for _ in range(2):
        env, rng = make_episodic(name, **settings), np.random.default_rng(5)
        states, seen = env.reset(50, rng), []
        for h in range(env.horizon):
            rewards, states = env.step(h, states, rng.integers(env.n_actions, size=50), rng)
            seen += [rewards, states]
        runs.append(np.array(seen))
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("settings", [{}, {"horizon": 12, "n_actions": 10, "n_states": 3000, "seed": 2}])
def test_lock_closed_form(settings):
    env = make_episodic("risky-lock", **settings)
    for tau, known in ((0.05, 0.8), (0.1, 0.8), (0.25, 0.8), (0.75, 1 - 0.1 / 0.75), (1.0, 0.9)):
        assert env.optimum(tau) == pytest.approx(known, abs=1e-12)
        assert tailrank.solve(env.truth, tau).cvar == pytest.approx(known, abs=1e-9)
    other = {"safe": 0.5, "risky": 0.75, "crash": 0.25, "bait": 0.05}
    lock = make_episodic("risky-lock", **other)
    for tau in (0.1, 0.3, 0.6, 0.8, 1.0):
        assert tailrank.solve(lock.truth, tau).cvar == pytest.approx(lock.optimum(tau), abs=1e-9)


def test_lock_class_is_shared_and_large_locks_stay_small():
    env = make_episodic("risky-lock", horizon=20, n_actions=10, n_states=30_000)
    assert len(env.candidates[0]) == 100
    assert env.candidates[0] is env.candidates[-1]
    assert env.truth.n_states == 3
    assert env.rewards.n_budgets == 201


def test_shortcut_known_answers():
    env = make_episodic("risky-shortcut")
    known = {0.05: 1.7, 0.1: 1.7, 0.25: 1.985, 0.5: 2.2925, 0.75: 2.56, 1.0: 2.88}
    for plan in tailrank.solve(env.truth, tuple(known)):
        assert plan.cvar == pytest.approx(known[plan.tau], abs=1e-9)
    assert env.notes == ("numerical rank of the kernels: 4 with 5 states",)
    assert env.model.steps[0].psi.shape == (4, 5)


def plan_with_bonus(env, steps, bonus, tau):
    """The objective for each first action: max over c of c - min E[(c - R)^+ - sum of bonuses] / tau."""
    H, G, A = env.horizon, env.n_groups, env.n_actions
    budgets = np.arange(H + 1)
    value = np.tile(budgets.astype(float), (G, 1))
    for h in reversed(range(H)):
        pay = env.reward_of[h][:, 0]
        q = np.empty((G, A, H + 1))
        for g in range(G):
            later = value[:, np.maximum(budgets - pay[g], 0)]
            q[g] = (steps[h].kernel[g] @ later if h < H - 1 else later[g]) - bonus[h][g][:, None]
        value = q.min(axis=1)
    return (budgets - q[env.start] / tau).max(axis=1)


def test_decoy_needs_the_larger_cap():
    env, tau = make_episodic("decoy"), 0.75
    H, A, d, G = env.horizon, env.n_actions, env.model.steps[0].psi.shape[0], env.n_groups
    assert (H, A, d) == (20, 8, 6)
    assert tailrank.solve(env.truth, tau).cvar == pytest.approx(17) == env.optimum(tau)
    false, true = env.candidates[0]
    assert np.argwhere((false.kernel != true.kernel).any(axis=-1)).tolist() == [[2, 1]]
    none = [np.zeros((G, A))] * H
    assert plan_with_bonus(env, (false,) * H, none, tau).argmax() == 0
    assert plan_with_bonus(env, (false,) * H, none, tau).max() == pytest.approx(19 / 3)

    def visits(k):
        """Expected D_h after one uniform iteration and k - 1 that toss the coin, [H - 1] of [G, A]."""
        laws = []
        for play in (np.full((G, A), 1 / A), np.eye(A)[np.zeros(G, dtype=int)]):
            p, law = np.eye(G)[0], []
            for _ in range(H - 1):
                law.append(p)
                p = np.einsum("g,ga,gat->t", p, play, true.kernel)
            laws.append(law)
        return [np.repeat(((u + (k - 1) * s) / A)[:, None], A, axis=1) for u, s in zip(*laws)]

    left = {2: [], H: []}
    for k in np.logspace(0, 9, 25):
        log = np.log(2 * H * k / 0.1)
        for scale in ((1, 1), (3, 3), (0.12, 0.05)):
            alpha, lam = scale[0] * H * np.sqrt((A + d * d) * log), scale[1] * d * log
            width = []
            for n in visits(k)[: H - 2]:
                sigma = np.einsum("ga,gai,gaj->ij", n, false.phi, false.phi) + lam * np.eye(d)
                width.append(alpha * np.sqrt(np.einsum("gai,ij,gaj->ga", false.phi, np.linalg.inv(sigma), false.phi)))
            for cap, found in left.items():
                bonus = [np.minimum(w, cap) for w in width] + none[:2]
                found.append(int(plan_with_bonus(env, (false,) * H, bonus, tau).argmax()))
    assert set(left[2]) == {0}
    assert left[H][-3:] == [1, 1, 1]


def test_any_mdp_becomes_an_environment():
    rows = [(0, 0, 1, 0.5, 1.0), (0, 0, 0, 0.5, 0.0), (0, 1, 1, 1.0, 0.5), (1, 0, 0, 1.0, 0.25)]
    mdp = FiniteMDP.from_rows(*zip(*rows), horizon=3, start=[0.25, 0.75])
    env = from_mdp(mdp)
    assert env.horizon == 4
    assert env.notes[0] == "random start: a first step without reward was added, the horizon is 4"
    assert env.notes[1] == "3 actions that are not available do what the lowest available one does"
    assert env.notes[2].startswith(
        "rewards depend on the next state: learners play an MDP with the same returns, in which 1 "
    )
    assert env.notes[3] == "numerical rank of the kernels: 3 with 4 states"
    for tau in (0.1, 0.5, 1.0):
        assert tailrank.solve(env.truth, tau).cvar == pytest.approx(tailrank.solve(mdp, tau).cvar, abs=1e-9)
    rng = np.random.default_rng(0)
    rewards, states = env.step(0, env.reset(4000, rng), np.zeros(4000, dtype=int), rng)
    assert not rewards.any()
    assert np.mean(states == 1) == pytest.approx(0.75, abs=0.04)
    fixed = FiniteMDP.from_rows(*zip(*rows), horizon=3)
    assert from_mdp(fixed, 0.5).rewards.top == 3  # 1 that is owed and 0.5 of its own
    discounted = FiniteMDP.from_rows(*zip(*rows), horizon=3, start=[0.25, 0.75], discount=0.5)
    assert tailrank.solve(from_mdp(discounted).truth, 0.3).cvar == pytest.approx(tailrank.solve(discounted, 0.3).cvar)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("risky-lok", {}, r"environment = 'risky-lok'.*did you mean 'risky-lock'"),
        ("risky-lock", {"horizont": 3}, r"horizont: is no setting of risky-lock.*did you mean 'horizon'"),
        ("risky-lock", {"horizon": 1}, "horizon = 1: must be a whole number of at least 2"),
        ("risky-lock", {"safe": 0.95}, r"safe = 0.95: must lie between bait = 0.1 and .* 0.9"),
        ("random-lowrank", {"reward": "bets"}, "did you mean 'beta'"),
        ("random-lowrank", {"reward": "beta", "upsilon": 0.3}, "upsilon = 3/10: must be 1 over a whole number"),
    ],
)
def test_bad_settings_are_named(name, settings, message):
    with pytest.raises(InputError, match=message):
        make_episodic(name, **settings)


def test_bad_actions_are_named():
    env = make_episodic("decoy")
    with pytest.raises(InputError, match=r"actions\[0\] = 8 at step 0: must lie in 0..7"):
        env.step(0, np.array([0]), np.array([8]), np.random.default_rng(0))


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium(env_id):
    tailrank.envs.register()
    env = gymnasium.make(env_id, horizon=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.reset(seed=1)
    over, steps = False, 0
    while not over:
        state, _, over, truncated, info = env.step(0)
        steps += 1
        assert info == {"step": steps}
        assert not truncated
        assert env.observation_space.contains(state)
    assert steps == 6
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.unwrapped.step(0)
    assert isinstance(EpisodicEnv(make_episodic(IDS[env_id])).episodic, Episodic)
