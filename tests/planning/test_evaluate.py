"""Playing and estimating: episodes follow the law, and intervals hold as often as they say, also at a stop."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from scipy import special

import tailrank
from tailrank import FiniteMDP, InputError, evaluate, play, solve
from tailrank.envs import from_mdp, make_episodic
from tailrank.episodes.rollout import Decoded, play_simulator
from tailrank.planning.evaluate import estimated, evaluate_all, odd_seeds, stages, until_narrow
from tailrank.policies.moved import Moved
from tailrank.risk import intervals

MDP = FiniteMDP.from_rows(
    [0, 0, 0, 1, 1],
    [0, 1, 1, 0, 0],
    [1, 0, 1, 0, 1],
    [1, 0.7, 0.3, 0.5, 0.5],
    [1, 3, -4, 0, 2],
    horizon=5,
    discount=0.9,
)


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
def test_episodes_follow_the_exact_law(tau):
    plan = solve(MDP, tau=tau)
    exact = evaluate(plan, MDP)
    sampled = evaluate(plan, MDP, episodes=20_000, rng=np.random.default_rng(0))
    assert (exact.method, exact.status, exact.cvar_interval.width) == ("exact", "exact", 0.0)
    assert (sampled.method, sampled.episodes, sampled.confidence) == ("beta", 20_000, 0.95)
    assert sampled.lower <= exact.cvar <= sampled.upper
    assert sampled.mean_interval.lower <= exact.mean <= sampled.mean_interval.upper
    assert sampled.var_interval.lower <= exact.var <= sampled.var_interval.upper
    assert (sampled.var_interval.method, sampled.mean_interval.method) == ("order", "beta")
    assert sampled.mean == pytest.approx(exact.mean, abs=0.1)
    assert sampled.cvar == pytest.approx(exact.cvar, abs=0.15)
    assert sampled.upper - sampled.lower < 0.7


def test_several_levels_come_from_the_same_episodes():
    policy = solve(MDP, tau=0.2).policy
    one, two = evaluate_all(policy, MDP, (0.2, 0.7), episodes=500, rng=np.random.default_rng(3))
    alone = evaluate(policy, MDP, 0.7, episodes=500, rng=np.random.default_rng(3))
    assert one.mean == two.mean == alone.mean
    assert two.cvar_interval == alone.cvar_interval


def test_the_method_and_the_range_can_be_chosen():
    plan, draw = solve(MDP, tau=0.3), lambda: np.random.default_rng(1)
    tight, loose = (evaluate(plan, MDP, episodes=500, rng=draw(), method=m) for m in ("beta", "thomas"))
    assert loose.lower < tight.lower < tight.upper < loose.upper
    assert loose.mean_interval.method == "anderson"
    wider = evaluate(plan, MDP, episodes=500, rng=draw(), bounds=(-100, 100))
    assert wider.lower < tight.lower
    assert evaluate(plan, MDP, episodes=500, rng=draw(), method="percentile").method == "percentile"


def test_certified_bounds_on_the_quantile_hold():
    """Rewards that fit no grid: the law is known but for rounding; the exact one lists all returns."""
    rng = np.random.default_rng(2)
    mdp = FiniteMDP.from_rows([0] * 4, [0, 0, 1, 1], [0] * 4, [0.3, 0.7, 0.5, 0.5], rng.random(4), horizon=6)
    plan = solve(mdp, tau=0.3, unit=0.05)
    listed = evaluate(plan, mdp)
    rounded = tailrank.planning.exact.return_law.return_law(plan.policy, mdp, plan.policy.grid, listed_limit=0)
    assert not rounded.exact
    found = tailrank.planning.evaluate._known(rounded, 0.3, mdp)
    assert found.method == "certified"
    assert found.lower <= listed.cvar <= found.upper
    assert found.var_interval.lower <= listed.var <= found.var_interval.upper
    assert found.var_interval.width < 0.5


def test_playing_in_gymnasium_earns_what_the_table_says():
    read = tailrank.read_mdp("FrozenLake-v1", horizon=100)
    plan = solve(read.mdp, tau=0.5)
    env = gymnasium.make("FrozenLake-v1")
    played = play(plan.policy, env, 150, rng=np.random.default_rng(0), horizon=100)
    assert played.returns.mean() == pytest.approx(plan.mean, abs=0.15)
    again = play(plan.policy, env, 150, rng=np.random.default_rng(0), horizon=100)
    np.testing.assert_array_equal(played.states, again.states)
    estimate = evaluate(plan, env, episodes=100, rng=np.random.default_rng(1), horizon=100)
    assert estimate.method == "bca"
    assert estimate.cvar_interval.approximate
    assert estimate.lower <= estimate.cvar <= estimate.upper
    known = evaluate(plan, env, episodes=100, rng=np.random.default_rng(1), horizon=100, bounds=(0, 1))
    assert (known.method, known.cvar) == ("beta", estimate.cvar)


def test_environments_for_learners_are_played_by_policies_on_states_and_on_groups():
    env = from_mdp(MDP)
    plan = solve(env.truth, tau=0.3)
    assert plan.cvar == pytest.approx(solve(MDP, tau=0.3).cvar, abs=1e-9)
    played = evaluate(plan.policy, env, 0.3, episodes=4000, rng=np.random.default_rng(0))
    assert played.lower <= plan.cvar <= played.upper
    assert played.mean == pytest.approx(plan.mean, abs=0.15)
    lock = make_episodic("risky-lock", horizon=4, n_actions=3, n_states=30)
    best = solve(lock.truth, tau=0.3)
    seen = evaluate(Decoded(best.policy, lock.group), lock, 0.3, episodes=4000, rng=np.random.default_rng(0))
    assert seen.lower <= best.cvar <= seen.upper
    assert seen.mean == pytest.approx(best.mean, abs=0.05)
    rounded = make_episodic("random-lowrank", reward="uniform", upsilon=0.25, seed=1)
    policy = Decoded(solve(rounded.truth, tau=0.3).policy, rounded.group)
    off_grid = evaluate(policy, rounded, 0.3, episodes=500, rng=np.random.default_rng(0))
    assert off_grid.lower <= off_grid.cvar <= off_grid.upper
    low, high = tailrank.planning.evaluate.return_range(rounded.truth)
    assert tailrank.planning.evaluate.return_range(rounded) == pytest.approx((low - 0.25 * rounded.horizon, high))
    same = tailrank.planning.evaluate.return_range(MDP)
    assert tailrank.planning.evaluate.return_range(env) == pytest.approx(same, abs=1e-12)


# Simulators


class Walk:
    """Episodes of random length: features are (place, steps left); a step right may fall, which ends the episode."""

    name, horizon, n_actions, n_features = "walk", 6, 2, 2

    def __init__(self, width: int = 7) -> None:
        self.width, self.seeds = width, []

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        assert 1 <= len(seeds) <= self.width
        self.seeds += [int(s) for s in seeds]
        self.rngs = [np.random.default_rng(int(s)) for s in seeds]
        self.seen = np.stack([np.zeros(len(seeds)), np.full(len(seeds), 6.0)], axis=1)
        self.over = np.zeros(len(seeds), dtype=bool)
        return self.seen

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rewards = np.zeros(len(self.rngs))
        for i in np.flatnonzero(~self.over):
            fell = actions[i] == 1 and self.rngs[i].random() < 0.2
            rewards[i] = -3.0 if fell else float(actions[i])
            self.seen[i] += (actions[i], -1)  # in place, as simulators may
            self.over[i] = fell or self.seen[i, 1] == 0
        return rewards, self.seen, self.over


class Bold:
    """Steps right until it has earned its budget; remembers what it was told."""

    def __init__(self, budget: float = 3.0) -> None:
        self.budget, self.told = budget, []

    def start(self, n):
        return np.full(n, self.budget)

    def act(self, h, features, memory):
        return (memory > 0).astype(np.int64)

    def update(self, h, moved, memory):
        self.told.append((h, moved.states.copy(), moved.actions, moved.rewards, moved.next_states.copy()))
        return memory - moved.rewards


def one_by_one(policy, simulator, seed, discount):
    """One episode by hand."""
    seen, memory = simulator.reset(np.array([seed])).copy(), policy.start(1)
    total, rewards, actions, shown = 0.0, [], [], [seen[0].copy()]
    for h in range(simulator.horizon):
        action = policy.act(h, seen, memory)
        reward, after, over = simulator.step(action)
        total += discount**h * reward[0]
        rewards, actions, shown = [*rewards, reward[0]], [*actions, action[0]], [*shown, after[0].copy()]
        if over[0]:
            break
        memory, seen = policy.update(h, Moved(seen, action, reward, after), memory), after.copy()
    return total, rewards, actions, shown


@pytest.mark.parametrize("width", [1, 7, 100])
def test_a_batch_plays_what_single_episodes_play(width):
    seeds = odd_seeds(23, np.random.default_rng(0))
    played = play_simulator(Bold(), Walk(width), seeds, discount=0.9, keep_features=True)
    assert set(played.lengths) > {1, 6}
    for i, seed in enumerate(seeds):
        total, rewards, actions, shown = one_by_one(Bold(), Walk(1), seed, 0.9)
        n = len(rewards)
        assert played.returns[i] == pytest.approx(total)
        assert played.lengths[i] == n
        np.testing.assert_array_equal(played.rewards[i], rewards + [0.0] * (6 - n))
        np.testing.assert_array_equal(played.actions[i], actions + [-1] * (6 - n))
        np.testing.assert_array_equal(played.features[i], shown + [shown[-1]] * (6 - n))
    assert play_simulator(Bold(), Walk(width), seeds).features is None


def test_a_policy_in_a_simulator_is_told_everything():
    policy = Bold()
    play_simulator(policy, Walk(), odd_seeds(7, np.random.default_rng(1)))
    assert [step[0] for step in policy.told] == list(range(len(policy.told)))
    for _, before, actions, rewards, after in policy.told:
        moved = after[:, 1] < before[:, 1]
        np.testing.assert_array_equal(after[moved, 0] - before[moved, 0], actions[moved])
        assert (rewards[~moved] == 0).all()


def test_a_simulator_is_judged_on_odd_seeds():
    sim = Walk()
    found = evaluate(Bold(), sim, 0.2, episodes=3000, rng=np.random.default_rng(0), bounds=(-3, 6))
    assert len(sim.seeds) == 3000
    assert all(seed % 2 == 1 for seed in sim.seeds)
    # Earns 3 in three steps, or falls at the first, second or third one; 0.2 < 1 - 0.8 ** 3.
    exact = tailrank.cvar([-3, -2, -1, 3], 0.2, [0.2, 0.16, 0.128, 0.512])
    assert found.lower <= exact <= found.upper
    again = evaluate(Bold(), Walk(64), 0.2, seeds=np.array(sim.seeds), bounds=(-3, 6))
    assert (again.cvar, again.lower, again.upper) == (found.cvar, found.lower, found.upper)
    unknown = evaluate(Bold(), Walk(), 0.2, episodes=50, rng=np.random.default_rng(0))
    assert unknown.method == "bca"


def test_a_simulator_that_does_not_keep_its_word_is_named():
    sim = Walk()
    sim.n_features = 3
    with pytest.raises(InputError, match=r"walk: features must have shape \[2, 3\], found \[2, 2\]"):
        play_simulator(Bold(), sim, np.array([1, 3]))
    sim = Walk()
    sim.step = lambda actions: (np.array([0.0, np.nan]), sim.seen, sim.over)
    with pytest.raises(InputError, match="walk, seed 3, step 0: reward = nan, must be finite"):
        play_simulator(Bold(), sim, np.array([1, 3]))
    for seeds in ([], [[1]], [0.5]):
        with pytest.raises(InputError, match="seeds: must be a non-empty list of whole numbers"):
            play_simulator(Bold(), Walk(), np.array(seeds))


# Stopping


def test_the_looks_are_at_doubled_sizes():
    assert list(stages(0.1, 5000)) == [640, 1280, 2560, 5000]
    assert list(stages(0.1, 100)) == [100]


def test_an_evaluation_ends_when_its_interval_is_narrow():
    plan, rng = solve(MDP, tau=0.5), np.random.default_rng(0)
    found = evaluate(plan, MDP, rng=rng, width=1.0)
    assert found.status == "narrow enough"
    assert found.upper - found.lower <= 1.0
    assert found.lower <= plan.cvar <= found.upper
    assert found.confidence == found.var_interval.confidence == found.mean_interval.confidence == 0.95
    assert found.episodes in [128 * 2**k for k in range(12)]
    short = evaluate(plan, MDP, rng=rng, width=0.01, max_episodes=300)
    assert (short.status, short.episodes) == ("out of episodes", 300)
    assert short.lower <= plan.cvar <= short.upper
    sim = evaluate(Bold(), Walk(), 0.5, width=3.0, rng=rng, bounds=(-3, 6), confidence=0.9)
    assert (sim.status, sim.confidence) == ("narrow enough", 0.9)
    seeded = evaluate(Bold(), Walk(), 0.5, width=0.01, seeds=odd_seeds(200, rng), bounds=(-3, 6))
    assert (seeded.status, seeded.episodes) == ("out of episodes", 200)


@pytest.mark.parametrize(("low", "width"), [(0.3, 0.25), (0.02, 0.15)])
def test_the_interval_holds_when_it_was_decided_to_stop(low, width):
    """Two-point laws: samples that are luckier than the law have narrower intervals and stop earlier."""
    rng, times, tau = np.random.default_rng(0), 300, 0.4
    value = tailrank.cvar([0, 1], tau, [low, 1 - low])
    held, sizes = 0, set()
    for _ in range(times):
        (found,) = until_narrow(lambda n: (rng.random(n) > low) * 1.0, (tau,), width, 5000, 0.9, (0.0, 1.0))
        held += found.lower - 1e-12 <= value <= found.upper + 1e-12
        sizes.add(found.episodes)
    assert len(sizes) > 1
    assert held / times >= 0.9 - 4 * np.sqrt(0.09 / times)


def test_all_looks_hold_at_once(monkeypatch):
    """An interval for normal returns that is exact at every size: the spending alone must make up for many looks."""
    looks, levels = [], []

    def normal(x, tau, deltas, ends):
        reach = -special.ndtri(np.array(deltas)) / np.sqrt(x.shape[-1])
        looks.append(abs(x.mean()) <= reach[0])
        levels.append(sum(deltas))
        return x.mean() - reach[0], x.mean() + reach[1]

    monkeypatch.setitem(intervals.METHODS, "normal", normal)
    monkeypatch.setitem(intervals.MEAN_METHODS, "normal", lambda x, *_: (x.mean(), x.mean()))
    rng, times, delta, missed = np.random.default_rng(0), 800, 0.2, 0
    for _ in range(times):
        looks.clear(), levels.clear()
        ends = (-np.inf, np.inf)
        until_narrow(lambda n: rng.normal(size=n), (1.0,), 1e-9, 2048, 1 - delta, ends, "normal")
        missed += not all(looks)
    assert levels == pytest.approx([delta / (k * (k + 1)) for k in (1, 2, 3, 4, 5, 6, 6)])
    assert 0.4 * delta <= missed / times <= delta


def test_what_is_missing_is_said():
    plan, rng = solve(MDP, tau=0.3), np.random.default_rng(0)
    lake = gymnasium.make("FrozenLake-v1")
    cases = [
        (lambda: evaluate(plan.policy, MDP), "tau: must be given"),
        (lambda: evaluate(plan, MDP, episodes=5), "rng: a numpy Generator must be given"),
        (lambda: evaluate(plan, MDP, episodes=0, rng=rng), "episodes = 0: must be a whole number of at least 1"),
        (lambda: evaluate(plan, MDP, episodes=5, rng=rng, confidence=1), "confidence = 1: must lie in"),
        (lambda: evaluate(plan, MDP, episodes=5, rng=rng, method="dkv"), "did you mean 'dkw'"),
        (lambda: evaluate(plan, MDP, episodes=5, width=1, rng=rng), "episodes, width: give one of them"),
        (lambda: evaluate(plan, MDP, width=0, rng=rng), "width = 0: must be positive"),
        (lambda: evaluate(plan, MDP, width=1, max_episodes=0, rng=rng), "max_episodes = 0"),
        (lambda: evaluate(plan, MDP, width=1, rng=rng, method="bca"), "width: needs bounds"),
        (lambda: evaluate(plan, lake, width=1, rng=rng, horizon=9), "width: needs bounds"),
        (lambda: evaluate(plan, MDP, seeds=np.array([1])), "seeds: are for simulators"),
        (lambda: evaluate(Bold(), Walk(), 0.1, seeds=np.array([1]), episodes=2), "seeds: 2 are needed, found 1"),
        (lambda: evaluate(plan, lake), "episodes: must be given"),
        (lambda: play(plan.policy, gymnasium.make("CartPole-v1"), 1, rng=rng), "observation of episode 0, step 0"),
        (lambda: estimated(np.array([2.0]), 0.1, 0.9, (0, 1)), "must hold every return, found 2.0"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()


def test_a_loaded_policy_file_is_evaluated_and_played_like_its_policy(tmp_path):
    mdp = tailrank.FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.9, 0.1], [1, 2, -5], horizon=2)
    plan = tailrank.solve(mdp, tau=0.2)
    tailrank.save(plan, tmp_path / "p.policy")
    stored = tailrank.load(tmp_path / "p.policy")
    assert tailrank.evaluate(stored, mdp, 0.2).cvar == plan.cvar
    returns = [
        tailrank.play(item, mdp, 50, rng=np.random.default_rng(0)).returns for item in (plan.policy, plan, stored)
    ]
    assert returns[0].tolist() == returns[1].tolist() == returns[2].tolist()
    with pytest.raises(tailrank.InputError, match="policy: must be a policy, a plan or a loaded policy file"):
        tailrank.evaluate("p.policy", mdp, 0.2)
