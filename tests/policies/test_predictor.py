"""`predict` in the loops of others: the same returns as `play` earns from the same seeds."""

from __future__ import annotations

import importlib.util

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import tailrank
from tailrank import FiniteMDP, InputError, play, solve
from tailrank.envs import from_mdp
from tailrank.envs.gymnasium.actions import Actions
from tailrank.envs.gymnasium.budget import BudgetObservation
from tailrank.envs.gymnasium.registered import EpisodicEnv
from tailrank.envs.gymnasium.spaces import Encoder
from tailrank.planning.criteria.registry import replan
from tailrank.policies.moved import Moved
from tailrank.policies.predictor import Predictor
from tailrank.runs.policy_files.storage import Stored

MDP = FiniteMDP.from_rows(
    [0, 0, 0, 1, 1, 1],
    [0, 1, 1, 0, 1, 1],
    [1, 0, 1, 0, 1, 0],
    [1, 0.7, 0.3, 1, 0.5, 0.5],
    [4, -4, -3, -2, -3, 4],
    horizon=6,
)
MDP = from_mdp(MDP).truth  # as environments play it: what depends on the next state is paid a step later
PLAN = solve(MDP, tau=0.5)


class Ends(gymnasium.Wrapper):
    """Ends an episode early after some rewards, so that episodes have different lengths."""

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or (reward == -3 and self.env.unwrapped._h >= 4), truncated, info


class Seeded(gymnasium.Wrapper):
    """Takes its seeds from a list, an episode each, whatever the loop says."""

    def __init__(self, env, seeds):
        super().__init__(env)
        self.left = [int(s) for s in seeds]

    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=self.left.pop(0) if self.left else 0)


def make(mdp=MDP):
    return Ends(EpisodicEnv(from_mdp(mdp)))


def reference(policy, n, mdp=MDP):
    """What `play` earns, and the seeds that it used."""
    returns = play(policy, make(mdp), n, rng=np.random.default_rng(0), horizon=mdp.horizon).returns
    return returns, np.random.default_rng(0).integers(0, 2**31, size=n)


class Vec:
    """A vector environment as Stable-Baselines3 has them: resets by itself, and shows the new observation."""

    def __init__(self, envs):
        self.envs, self.num_envs = envs, len(envs)

    @staticmethod
    def stack(observations):
        if isinstance(observations[0], dict):
            return {key: np.stack([o[key] for o in observations]) for key in observations[0]}
        return np.stack(observations)

    def reset(self):
        return self.stack([env.reset()[0] for env in self.envs])

    def step(self, actions):
        observations, rewards, dones = [], np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=bool)
        for i, env in enumerate(self.envs):
            observation, rewards[i], terminated, truncated, _ = env.step(actions[i])
            dones[i] = terminated or truncated
            observations.append(env.reset()[0] if dones[i] else observation)
        return self.stack(observations), rewards, dones, [{} for _ in self.envs]


def evaluate_policy(model, env, n_eval_episodes, after_step=None):
    """The loop of stable_baselines3.common.evaluation: returns of the episodes in the order they end."""
    targets = np.array([(n_eval_episodes + i) // env.num_envs for i in range(env.num_envs)])
    counts, current, found = np.zeros(env.num_envs, dtype=int), np.zeros(env.num_envs), []
    observations, states = env.reset(), None
    starts = np.ones(env.num_envs, dtype=bool)
    while (counts < targets).any():
        actions, states = model.predict(observations, state=states, episode_start=starts, deterministic=True)
        observations, rewards, dones, _ = env.step(actions)
        if after_step is not None:
            states = after_step(states, rewards)
        current += rewards
        for i in range(env.num_envs):
            if counts[i] < targets[i]:
                starts[i] = dones[i]
                if dones[i]:
                    found.append(current[i])
                    counts[i] += 1
                    current[i] = 0
    return np.array(found)


def shares(seeds, n_envs):
    """The seeds of each environment: as many as the loop wants of it."""
    sizes = [(len(seeds) + i) // n_envs for i in range(n_envs)]
    return np.split(seeds, np.cumsum(sizes)[:-1])


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_loop_of_stable_baselines3_drives_an_environment_that_shows_the_budget(n_envs):
    returns, seeds = reference(PLAN.policy, 60)
    envs = [Seeded(BudgetObservation(make(), PLAN.policy), part) for part in shares(seeds, n_envs)]
    found = evaluate_policy(Predictor(PLAN.policy), Vec(envs), 60)
    np.testing.assert_allclose(np.sort(found), np.sort(returns))
    assert len(set(returns)) > 2
    if n_envs == 1:
        np.testing.assert_allclose(found, returns)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("criterion", ["cvar", "mean", "chow"])
def test_a_loop_that_tells_the_rewards(n_envs, criterion):
    plan = PLAN if criterion == "cvar" else replan(criterion, MDP.merged(), (PLAN,))[0]
    returns, seeds = reference(plan.policy, 60)
    model = Predictor(plan.policy)
    vec = Vec([Seeded(make(), part) for part in shares(seeds, n_envs)])
    found = evaluate_policy(model, vec, 60, after_step=model.reward)
    np.testing.assert_allclose(np.sort(found), np.sort(returns))


def test_the_budget_matters_here():
    """Else the tests above would pass for a predictor that forgets it."""
    forgets = PLAN.policy.with_budget(PLAN.policy.budget)
    object.__setattr__(forgets, "update", lambda h, moved, memory: memory)
    assert not np.array_equal(reference(forgets, 60)[0], reference(PLAN.policy, 60)[0])


@pytest.mark.skipif(importlib.util.find_spec("stable_baselines3") is None, reason="stable-baselines3 is not installed")
def test_the_real_loop_of_stable_baselines3():
    from stable_baselines3.common.evaluation import evaluate_policy as theirs

    returns, seeds = reference(PLAN.policy, 20)
    env = Seeded(BudgetObservation(make(), PLAN.policy), seeds)
    found, _ = theirs(Predictor(PLAN.policy), env, n_eval_episodes=20, return_episode_rewards=True, warn=False)
    np.testing.assert_allclose(found, returns)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("shown", [True, False])
def test_vector_environments_of_gymnasium(mode, shown):
    """One that resets in the next step ignores the action in between."""
    n_envs, n = 3, 30
    returns, seeds = reference(PLAN.policy, n)

    def maker(part):
        return lambda: Seeded(BudgetObservation(make(), PLAN.policy) if shown else make(), part)

    vec = SyncVectorEnv([maker(part) for part in shares(seeds, n_envs)], autoreset_mode=mode)
    model = Predictor(PLAN.policy)
    observations, _ = vec.reset()
    starts, state = np.ones(n_envs, dtype=bool), None
    current, found = np.zeros(n_envs), [[] for _ in range(n_envs)]
    before = np.zeros(n_envs, dtype=bool)
    while min(map(len, found)) < n // n_envs:
        actions, state = model.predict(observations, state, episode_start=starts)
        observations, rewards, terminated, truncated, _ = vec.step(actions)
        if state is not None:
            state = model.reward(state, rewards)
        done = terminated | truncated
        current += rewards
        for i in np.flatnonzero(done):
            found[i].append(current[i])
            current[i] = 0
        starts = done | before if mode is AutoresetMode.NEXT_STEP else done
        before = done
    first = np.concatenate([part[: n // n_envs] for part in found])
    np.testing.assert_allclose(np.sort(first), np.sort(returns))
    vec.close()


def test_a_stored_policy_predicts(tmp_path):
    tailrank.save(PLAN, tmp_path / "p")
    stored = tailrank.load(tmp_path / "p")
    env = make()
    observation, _ = env.reset(seed=3)
    state, memory, total = None, PLAN.policy.start(1), 0.0
    for h in range(MDP.horizon):
        action, state = stored.predict(observation, state)
        assert np.ndim(action) == 0
        assert action == PLAN.policy.act(h, np.array([observation]), memory)[0]
        assert state.step[0] == h + 1
        observation, reward, over, _, _ = env.step(action)
        memory = PLAN.policy.update(h, Moved(np.array([0]), np.array([action]), np.array([reward]), None), memory)
        state = stored.reward(state, reward)
        total += reward
        if over:
            break
    actions, _ = stored.predict(np.array([0, 1, 0]))
    assert actions.shape == (3,)


class Features:
    """A policy on features that remembers a float: plays 1 as long as the budget and the first feature allow."""

    horizon = 4

    def start(self, n):
        return np.full(n, 2.5)

    def act(self, h, features, memory):
        return ((memory > 0) & (features[:, 0] >= 0)).astype(np.int64)

    def update(self, h, moved, memory):
        return memory - moved.rewards


def test_policies_on_features_with_an_encoder():
    space = spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float64), "k": spaces.Discrete(3)})
    encoder = Encoder.of(space)
    flip = Encoder.of(spaces.Box(-1, 1, (2,), np.float64))
    model = Predictor(Features(), flip)
    one, state = model.predict(np.array([0.5, 0.0]))
    assert (one, state.memory.tolist(), state.step.tolist()) == (1, [2.5], [1])
    many, state = model.predict(np.array([[0.5, 0.0], [-0.5, 0.0]]))
    np.testing.assert_array_equal(many, [1, 0])
    many, state = model.predict(np.array([[0.5, 0.0], [0.5, 0.0]]), model.reward(state, [3.0, 0.0]))
    np.testing.assert_array_equal(many, [0, 1])
    np.testing.assert_allclose(state.memory, [-0.5, 2.5])
    both = Predictor(Features(), encoder)
    assert both.predict({"x": np.array([0.1, 0.2]), "k": 1})[0] in (0, 1)
    batch = {"x": np.array([[0.1, 0.2], [0.3, 0.4]]), "k": np.array([1, 2])}
    assert both.predict(batch)[0].shape == (2,)
    box = Predictor(Features(), Encoder.of(spaces.Box(-1, 1, (2,), np.float64)))
    with pytest.raises(InputError, match=r"observation: must have shape \(2,\), found None"):
        box.predict(None)
    plain = Predictor(Features(), lambda observations: -observations)
    np.testing.assert_array_equal(plain.predict(np.array([[0.5], [-0.5]]))[0], [0, 1])
    assert Predictor(Features(), lambda o: o.reshape(len(o), -1), shape=(2, 2)).predict(np.ones((2, 2)))[0] == 1


def test_a_stored_policy_brings_its_encoder_and_its_actions():
    info = {
        "encoder": Encoder.of(spaces.Box(-1, 1, (2,), np.float64)).to_json(),
        "actions": Actions.of(spaces.Box(-2, 2, (1,)), levels=2).to_json(),
    }
    stored = Stored(Features(), info)
    assert stored.predict(np.array([0.5, 0.0]))[0].tolist() == [2.0]
    many, state = stored.predict(np.array([[0.5, 0.0], [-0.5, 0.0]]))
    assert many.tolist() == [[2.0], [-2.0]]
    assert state.actions.tolist() == [1, 0]


def test_observations_with_a_budget_fit_their_space():
    env = BudgetObservation(make(), PLAN.policy)
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert (observation["step"], observation["budget"]) == (0, PLAN.policy.budget)
    following, reward, *_ = env.step(0)
    assert env.observation_space.contains(following)
    spent = PLAN.policy.grid.units(0, np.array([reward]))[0]
    assert (following["step"], following["budget"]) == (1, PLAN.policy.budget - spent)
    lake = BudgetObservation(
        gymnasium.make("FrozenLake-v1"), solve(tailrank.read_mdp("FrozenLake-v1", horizon=4).mdp).policy
    )
    lake.reset(seed=0)
    ends = [lake.step(1)[2:4] for _ in range(4)]
    assert ends[-1][1] or any(terminated for terminated, _ in ends)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, s: m.predict(0, s), "state: the reward of step 0 of episode 0 was not told"),
        (lambda m, s: m.predict([0, 1], m.reward(s, 1)), "state: is of 1 episodes, the observations are of 2"),
        (lambda m, s: m.reward(s, [1, 2]), "rewards: must be 1 numbers, found 2"),
        (lambda m, s: m.reward(s, np.nan), r"rewards\[0\] = nan: must be finite"),
        (lambda m, s: m.predict(0.5), "observation: must be a whole number"),
        (lambda m, s: m.predict([[0]]), r"observation: has shape \(1, 1\)"),
        (lambda m, s: m.predict(-1), r"observation\[0\] = -1 \(a state\): must lie in 0\.\."),
        (lambda m, s: m.predict([0, 99]), r"observation\[1\] = 99 \(a state\): must lie in 0\.\."),
        (lambda m, s: m.predict(0, (1, 2)), r"state = \(1, 2\): must be what predict or reward gave"),
        (lambda m, s: m.predict(0, 3), "state = 3: must be what predict or reward gave"),
        (
            lambda m, s: m.predict(0, m.reward(s._replace(step=s.step + 5), 1)),
            "step = 6 of episode 0: the policy is for 6",
        ),
    ],
)
def test_what_is_missing_is_said(call, message):
    model = Predictor(PLAN.policy)
    _, state = model.predict(0)
    with pytest.raises(InputError, match=message):
        call(model, state)
