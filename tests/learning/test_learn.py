"""`learn`: one call from any environment to a policy that can be evaluated, saved and driven by other loops."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import tailrank as tr
from tailrank.checks import InputError
from tailrank.envs.gymnasium.budget import BudgetObservation

ROWS = [("shop", "rent", "shop", 1, 1), ("shop", "buy", "shop", 0.9, 2), ("shop", "buy", "shop", 0.1, -5)]


@pytest.fixture(scope="module")
def seen():
    """Learned from observations."""
    return tr.learn("rich-lock", tau=0.1, episodes=60, horizon=3, seed=0)


def test_from_rows_with_names():
    learned = tr.learn(ROWS, tau=0.2, horizon=2, episodes=100)
    assert learned.evaluate().cvar == pytest.approx(tr.solve(ROWS, tau=0.2, horizon=2).cvar, abs=1e-12)
    assert learned.predict("shop")[0] == "rent"
    assert "exact" in repr(learned)


def test_the_same_seed_gives_the_same_policy(seen, tmp_path):
    again = tr.learn("rich-lock", tau=0.1, episodes=60, horizon=3, seed=0)
    assert again.promise == seen.promise
    for learned, name in ((seen, "a"), (again, "b")):
        learned.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_saved_and_loaded_it_plays_the_same(seen, tmp_path):
    seen.save(tmp_path / "lock.policy")
    stored = tr.load(tmp_path / "lock.policy")
    assert (stored.tau, stored.info["source"]) == (0.1, "rich-lock")
    fresh = tr.make("rich-lock", horizon=3)
    estimates = [policy.evaluate(fresh, episodes=50, seed=4) for policy in (seen, stored)]
    assert estimates[0].law.values.tolist() == estimates[1].law.values.tolist()
    assert len(repr(seen).splitlines()) < 10
    assert list(seen.to_frame().columns) == ["episode", "return"]


def test_what_a_policy_earns_is_known_exactly_or_played_once_when_asked_for(monkeypatch):
    exact = tr.learn(ROWS, tau=0.2, horizon=2, episodes=100)
    best = tr.solve(ROWS, tau=0.2, horizon=2)
    assert exact.cvar == pytest.approx(best.cvar, abs=1e-12)
    assert exact.interval.lower == exact.interval.upper == exact.cvar
    played = tr.learn("CartPole-v1", tau=0.5, episodes=12, horizon=8)
    assert "CVaR     " not in repr(played)
    fresh = played.evaluate(episodes=1000)
    asked = []
    monkeypatch.setattr(type(played), "evaluate", lambda *_, **given: asked.append(given) or fresh)
    assert (played.cvar, played.interval) == (fresh.cvar, fresh.cvar_interval)
    assert played.cvar == pytest.approx(np.sort(fresh.law.values)[:1].mean()) == 8.0
    assert asked == [{"episodes": 1000}]
    assert "(1000 episodes)" in repr(played)


def test_a_gymnasium_environment_by_id_by_instance_and_by_factory():
    found = [
        tr.learn(source, tau=0.2, episodes=12, horizon=8)
        for source in ("CartPole-v1", gymnasium.make("CartPole-v1"), lambda: gymnasium.make("CartPole-v1"))
    ]
    assert {type(learned.learner).__name__ for learned in found} == {"AutoLearner"}
    for learned in found:
        action, _ = learned.predict(np.zeros(4, dtype=np.float32))
        assert int(action) in (0, 1)
        assert learned.evaluate(episodes=5).mean == pytest.approx(8.0)


class Hooks:
    def __init__(self, stop=None):
        self.calls, self.stop = [], stop

    def on_training_start(self, learner, env):
        self.calls.append("start")

    def on_rollout_end(self, state, info):
        self.calls.append(state.k)
        return None if state.k != self.stop else False

    def on_training_end(self, learned):
        self.calls.append(learned.episodes)


def test_callbacks_have_the_names_of_stable_baselines():
    hooks = Hooks()
    learned = tr.learn(ROWS, horizon=2, episodes=8, callback=hooks)
    assert hooks.calls == ["start", *range(1, learned.state.k + 1), learned.episodes]
    stopped = Hooks(stop=2)
    assert tr.learn(ROWS, horizon=2, episodes=800, callback=stopped).state.k == 2
    counts = []
    tr.learn(ROWS, horizon=2, episodes=8, callback=lambda state, info: counts.append(state.episodes))
    assert counts == sorted(counts)
    assert counts[-1] >= 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "magic"}, "model = 'magic'"),
        ({"model": "mixture"}, "model = 'mixture' needs observations: .* is a finite MDP"),
        ({"episodes": 0}, "episodes = 0"),
        ({"tau": 2}, "tau = 2"),
        ({"algorithm": "magic"}, "algorithm = 'magic'"),
        ({"algorithm": 3}, "algorithm = 3: must be one of ela"),
        ({"learner": tr.ELA(), "tau": 0.2}, "tau: is a setting of the learner, which is given"),
        ({"learner": tr.ObservedELA()}, "learner = ObservedELA needs observations"),
        ({"callback": 3}, "callback = 3: must be a function"),
        ({"nonsense": 3}, "nonsense: settings belong to an environment by name"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(InputError, match=message):
        tr.learn(ROWS, horizon=2, **{"episodes": 4} | options)


def test_the_models_are_checked_by_name():
    with pytest.raises(InputError, match="must be one of class, counts, em, block, auto"):
        tr.learn("risky-lock", horizon=3, episodes=6, model="count")
    assert tr.learn("risky-lock", horizon=3, episodes=6, model="counts").learner.oracle.model == "counts"


def evaluate_policy(model, env, n_eval_episodes, deterministic=True):
    """The loop of Stable-Baselines3's evaluate_policy for one environment: no rewards are handed back."""
    returns, state, starts = [], None, np.ones(1, dtype=bool)
    observation, _ = env.reset(seed=0)
    total = 0.0
    while len(returns) < n_eval_episodes:
        action, state = model.predict(observation, state=state, episode_start=starts, deterministic=deterministic)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, starts = total + float(reward), np.array([terminated or truncated])
        if starts[0]:
            returns.append(total)
            total, (observation, _) = 0.0, env.reset()
    return returns


class Shop(gymnasium.Env):
    """ROWS as an environment: rent pays 1, buy pays 2 or, one time in ten, -5."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.h = 0
        return 0, {}

    def step(self, action):
        self.h += 1
        reward = 1.0 if action == 0 else (-5.0 if self.np_random.random() < 0.1 else 2.0)
        return 0, reward, self.h == 3, False, {}


def test_the_loop_of_stable_baselines_drives_a_plan():
    plan = tr.solve(ROWS, tau=0.2, horizon=3)
    returns = evaluate_policy(plan, BudgetObservation(Shop(), plan.policy), 20)
    assert returns == [3.0] * 20


def test_stable_baselines_itself_drives_a_plan():
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    plan = tr.solve(ROWS, tau=0.2, horizon=3)
    mean, spread = evaluation.evaluate_policy(
        plan, BudgetObservation(Shop(), plan.policy), n_eval_episodes=20, warn=False
    )
    assert (mean, spread) == (3.0, 0.0)


def test_reports_of_results_have_uniform_actions_beside_them(seen, tmp_path):
    learned = tr.learn(ROWS, tau=0.2, horizon=2, episodes=40)
    for result, options in ((seen, {"episodes": 50}), (learned, {"episodes": 50}), (tr.solve(ROWS, horizon=2), {})):
        assert result.report(tmp_path / "page.html", **options) > 10_000
        text = (tmp_path / "page.html").read_text()
        assert ("uniform actions" in text.lower()) is bool(options)
    learned.save(tmp_path / "p")
    with pytest.raises(InputError, match="env: must be given to report"):
        tr.load(tmp_path / "p").report(tmp_path / "page.html")
    assert tr.load(tmp_path / "p").report(tmp_path / "page.html", env=tr.make(ROWS, horizon=2).truth) > 10_000
