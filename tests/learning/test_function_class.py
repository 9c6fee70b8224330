"""A class of functions (phi, psi) over raw states: its likelihood by hand, Algorithm 1 on it, bad members."""

from __future__ import annotations

import math

import numpy as np
import pytest
from click.testing import CliRunner
from small_simulators import Lock

from tailrank import InputError, load
from tailrank.cli import main
from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.learn import learn
from tailrank.learning.lowrank.class_ela import FunctionClassELA
from tailrank.learning.lowrank.class_planning import bonus_of
from tailrank.learning.lowrank.function_class import FunctionClass, KnownRewards
from tailrank.learning.schedule import Schedule
from tailrank.risk.law import cvar

H, A = 4, 3


def lock(instance=0, m=6):
    return make_simulator("lowrank-lock", horizon=H, n_actions=A, n_features=m, instance=instance)


def member(env, h):
    return lambda x: env.features(h, x), lambda x: np.exp(env.log_densities(x))


@pytest.fixture(scope="module")
def members():
    """The truth of step h is member 2 + h; before and after it those of other locks."""
    wrong = [member(lock(i), h) for i in (1, 2) for h in range(2)]
    return wrong[:2] + [member(lock(), h) for h in range(H - 1)] + wrong[2:]


def run(learner, env, iterations, seed=0):
    streams = Streams(seed)
    state = learner.init(env, streams)
    for _ in range(iterations):
        state, info = learner.step(state, env, streams)
    return state, info, streams


@pytest.mark.parametrize("share", [False, True])
def test_the_most_likely_member_by_brute_force(members, share):
    env = lock()
    learner = FunctionClassELA(tau=0.25, members=members, batch=3, share=share)
    state, info, _ = run(learner, env, 2)
    scores = np.zeros((H - 1, len(members)))
    played = state.played
    begin = 0
    for e, length in enumerate(played.lengths):
        for h in range(max(e % H - 1, 0), length):  # what came before is of the roll-in
            x, after = (played.features[begin + e + h + i][None].astype(float) for i in (0, 1))
            for i, (phi, psi) in enumerate(members):
                scores[h, i] += math.log(
                    sum(p * q for p, q in zip(phi(x)[0, played.actions[begin + h]], psi(after)[0]))
                )
        begin += length
    assert state.scores == pytest.approx(scores, rel=1e-9)
    best = scores.argmax(axis=1) if not share else [scores.sum(axis=0).argmax()] * (H - 1)
    assert info.chosen == tuple(best)


def test_collection_is_that_of_the_print(members):
    learner = FunctionClassELA(members=members)
    state, _, _ = run(learner, lock(), 5)
    assert state.episodes == 5 * H
    assert state.steps == 5 * (1 + H * (H - 1) // 2 + (H - 2))
    seen, in_d = learner.data(state.played)
    for h in range(H - 1):
        assert sorted(seen.episode[(seen.step == h) & in_d] % H) == [h + 1] * 5, "D_h: trajectory h"
        assert sorted(seen.episode[(seen.step == h) & ~in_d] % H) == [h] * 5, "D~_h: trajectory h - 1"


def test_the_last_actions_of_a_collection_are_uniform(members):
    """Whatever the plan: at each step of D and D~ all actions are played about as often, not so in roll-ins."""
    learner = FunctionClassELA(members=members, batch=400)
    state, _, _ = run(learner, lock(), 2)
    seen, in_d = learner.data(state.played)
    for h in range(H - 1):
        for part in (in_d, ~in_d):
            rows = part & (seen.step == h) & (seen.episode >= 400 * H)
            assert np.bincount(seen.actions[rows], minlength=A) / 400 == pytest.approx(np.full(A, 1 / A), abs=0.1)
    every = state.played.transitions(state.played.steps, np.random.default_rng(0))
    rolled = (every.step == 0) & (every.episode % H >= 2) & (every.episode >= 400 * H)
    assert np.bincount(every.actions[rolled], minlength=A).min() < 0.1 * rolled.sum()


@pytest.mark.parametrize("collect", ["printed", "plan"])
def test_the_right_members_are_found_and_the_plan_is_good(members, collect, tmp_path):
    env = lock()
    learned = learn(env, FunctionClassELA(tau=0.25, members=members, collect=collect, growth=0.2), episodes=300)
    assert learned.learner.chosen(learned.state) == (2, 3, 4)
    assert learned.evaluate(episodes=4000).cvar >= 0.93 * env.optimum(0.25)
    assert learned.returns.size == (0 if collect == "printed" else learned.episodes), "cut episodes have no return"
    learned.save(tmp_path / "lock.policy")
    stored = load(tmp_path / "lock.policy").policy
    with pytest.raises(InputError, match="its phi are functions, which no file holds"):
        stored.act(0, np.zeros((1, 6)), np.zeros(1))
    again, x = stored.bound(members, KnownRewards.of(env)), np.random.default_rng(0).normal(size=(20, 6))
    left = np.linspace(0.0, learned.policy.plan.budget, 20)
    for h in range(H):
        assert np.array_equal(again.act(h, x, left), learned.policy.act(h, x, left))
    with pytest.raises(InputError, match="the plan is for member 4, found 3 members"):
        stored.bound(members[:3], KnownRewards.of(env))


def test_equally_likely_members_the_first_wins():
    same = member(lock(), 0)
    assert FunctionClass([same, same]).most_likely(np.array([-3.0, -3.0])) == 0
    with pytest.raises(InputError, match="not realizable, each of the 2"):
        FunctionClass([same, same]).most_likely(np.full(2, -np.inf))


def test_the_bonus_is_that_of_the_definition_with_log_class_size(members):
    env, k, schedule = lock(), 6, Schedule(alpha_scale=0.02, lam_scale=0.1)
    learner = FunctionClassELA(tau=0.25, members=members, schedule=schedule)
    state, _, _ = run(learner, env, k)
    model, (seen, in_d) = state.policy.model, learner.data(state.played)
    d, confidence = env.d, math.log(len(members) * H * k / schedule.delta)
    x = np.random.default_rng(0).normal(size=(5, 6))
    for h in range(H):
        rows = (seen.step == h) & in_d
        expected = np.zeros((5, A))
        if h < H - 2:
            phi = members[model.chosen[h]][0]
            met = phi(seen.features[rows].astype(float))[np.arange(k), seen.actions[rows]]
            inverse = np.linalg.inv(met.T @ met + 0.1 * d * confidence * np.eye(d))
            norms = np.sqrt(np.einsum("nad,de,nae->na", phi(x), inverse, phi(x)))
            expected = np.minimum(0.02 * H * math.sqrt((A + d * d) * confidence) * norms, H) * env.reward_range[1]
        assert state.policy.outcomes(h, x)[1] == pytest.approx(expected, rel=1e-9)
    twice = bonus_of(
        type(model)(FunctionClass(list(members) * 2), model.chosen, model.rewards, A),
        seen.where(in_d),
        schedule,
        k,
    )
    assert twice.alpha / state.policy.bonus.alpha == pytest.approx(
        math.sqrt((confidence + math.log(2)) / confidence), rel=1e-12
    )


def test_resumed_to_the_same_bits(members):
    env, streams = lock(), Streams(3)
    learner = FunctionClassELA(tau=0.25, members=members, growth=0.2)
    state, infos = learner.init(env, streams), []
    for k in range(6):
        state, info = learner.step(state, env, streams)
        infos.append(info)
        if k == 2:
            stored = {name: array.copy() for name, array in state.to_arrays().items()}
    again = learner.restored(stored, lock(), Streams(3))
    for info in infos[3:]:
        again, repeated = learner.step(again, env, Streams(3))
        assert repeated.objective == info.objective
        assert np.array_equal(repeated.returns, info.returns)
    assert all(np.array_equal(a, again.to_arrays()[name]) for name, a in state.to_arrays().items())


def test_output_by_fresh_episodes(members):
    env = lock()
    learner = FunctionClassELA(tau=0.25, members=members)
    state, _, streams = run(learner, env, 4)
    output = learner.choose(state, env, streams, "best", 300)
    assert set(output.about["scores"]) == {"greedy", "iterate 4"}
    assert output.about["scores"][output.returned] == max(output.about["scores"].values())
    assert learner.choose(state, env, streams, "greedy", 300).returned == "greedy"


BAD = {
    r"phi: must have shape \[12, 3, 4\], found \[12, 2, 4\]": lambda phi, psi: (lambda x: phi(x)[:, :2], psi),
    r"phi: must have shape": lambda phi, psi: (lambda x: 1.0, psi),
    r"phi\[0, 0\] sums to 2, expected 1": lambda phi, psi: (lambda x: 2 * phi(x), psi),
    r"phi\[0, 0, 0\] = -1: a probability must not be negative": lambda phi, psi: (lambda x: 0 * phi(x) - 1, psi),
    r"phi: must return numbers": lambda phi, psi: (lambda x: [["a"]] * len(x), psi),
    r"phi has d = 5, members\[0\] has 4": lambda phi, psi: (
        lambda x: np.concatenate([phi(x), np.zeros((len(x), A, 1))], axis=2),
        lambda x: np.ones((len(x), 5)),
    ),
    r"psi: must have shape \[12, 4\], found \[12, 3\]": lambda phi, psi: (phi, lambda x: psi(x)[:, :3]),
    r"psi\[0, 0\] = -1: a density must not be negative": lambda phi, psi: (phi, lambda x: 0 * psi(x) - 1),
    r"psi\[0, 0\] = nan: must be finite": lambda phi, psi: (phi, lambda x: psi(x) * np.nan),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_members_are_refused_in_one_line(message):
    good = member(lock(), 0)
    learner = FunctionClassELA(members=[good, BAD[message](*good)], batch=2)
    with pytest.raises(InputError, match=r"^members\[1\]: " + message) as error:
        run(learner, lock(), 1)
    assert "\n" not in str(error.value)


def test_what_is_no_class_is_refused():
    for members, message in (([], "at least one"), ([3], r"members\[0\]: must be a pair"), ([(np.exp,)], "pair")):
        with pytest.raises(InputError, match=message):
            FunctionClassELA(members=members)
    good = member(lock(), 0)
    with pytest.raises(InputError, match="rewards: rich-lock does not tell its laws"):
        FunctionClassELA(members=[good]).init(make_simulator("rich-lock", horizon=3), Streams(0))
    with pytest.raises(InputError, match="levels: must be finite numbers that grow"):
        KnownRewards(np.array([1.0, 0.0]), lambda h, x: x)
    state = FunctionClassELA(members=[good]).init(lock(), Streams(0))
    with pytest.raises(InputError, match=r"scores: must have shape \[3, 2\], found \[3, 1\]"):
        FunctionClassELA(members=[good] * 2).restored(state.to_arrays(), lock(), Streams(0))


class Ending:
    """A lock whose episodes end after two steps."""

    def __init__(self):
        self.inner = lock()
        self.__dict__ |= {n: getattr(self.inner, n) for n in ("name", "horizon", "n_actions", "n_features", "width")}
        self.levels, self.reward_laws, self.reset = self.inner.levels, self.inner.reward_laws, self.inner.reset
        self.h = 0

    def step(self, actions):
        rewards, after, over = self.inner.step(actions)
        self.h += 1
        return rewards, after, over | (self.h >= 2)


def test_episodes_that_end_early_are_refused(members):
    with pytest.raises(InputError, match="ended after 2 of 4 steps"):
        run(FunctionClassELA(members=members), Ending(), 1)


def lock_that_ends():
    """The lock of `small_simulators`, whose wrong actions end the episode, and its members of both steps."""
    env = Lock(horizon=3, n_actions=3)

    def phi(h):
        def at(x):
            result = np.zeros((len(x), 3, 3))
            result[:, :, 2] = 1.0
            for z in (0, 1):
                result[x[:, z] > 0.5, env.right(h, z)] = [0.5, 0.5, 0.0]
            return result

        return at

    return env, [(phi(h), lambda x: x[:, :2] + 1e-3) for h in range(2)]


def paid(h, x):
    env, result = Lock(horizon=3, n_actions=3), np.zeros((len(x), 3, 4))
    result[:, :, :2] = 0.5
    for z in (0, 1):
        rows, right = x[:, z] > 0.5, env.right(h, z)
        result[rows, right] = np.eye(4)[2 if h == 2 else 0]
        if h == 2:
            result[rows, (right + 1) % 3] = [0.1, 0.0, 0.0, 0.9]
    return result


@pytest.mark.parametrize("collect", ["printed", "plan"])
def test_the_end_of_an_episode_is_a_kind_of_phi(collect):
    env, right = lock_that_ends()
    members = [(lambda x: np.full((len(x), 3, 3), 1 / 3), right[0][1]), *right]
    rewards = KnownRewards(np.array([0.0, 0.1, 0.8, 1.0]), paid)
    learner = FunctionClassELA(tau=0.1, members=members, rewards=rewards, ends=True, collect=collect, growth=0.3)
    state, info, streams = run(learner, env, 8)
    scores, (seen, _) = np.zeros((2, 3)), learner.data(state.played)
    for t in range(seen.n):
        x, after = seen.features[t][None].astype(float), seen.after[t][None].astype(float)
        for i, (phi, psi) in enumerate(members):
            p = phi(x)[0, seen.actions[t]]
            likely = p[2] if seen.ended[t] else p[:2] @ psi(after)[0]
            scores[seen.step[t], i] += math.log(likely) if likely > 0 else -math.inf
    assert np.array_equal(np.isfinite(scores), np.isfinite(state.scores))
    assert state.scores[np.isfinite(scores)] == pytest.approx(scores[np.isfinite(scores)])
    assert info.chosen == (1, 2)
    policy = learner.greedy(state, env, streams)
    assert policy.plan.objective == pytest.approx(0.8)
    assert cvar(play_simulator(policy, env, np.arange(1, 401, 2)).returns, 0.1) == pytest.approx(0.8)


def test_one_step_needs_no_data():
    """H = 1: the known rewards are the model."""
    env = Lock(horizon=1, n_actions=3)
    levels, laws = np.array([0.0, 0.1, 0.8, 1.0]), paid
    rewards = KnownRewards(levels, lambda h, x: laws(2, x)[:, [2, 0, 1]])
    learner = FunctionClassELA(tau=0.1, members=lock_that_ends()[1], rewards=rewards)
    state, info, streams = run(learner, env, 2)
    assert (info.chosen, state.episodes, info.returns.size) == ((), 2, 1)
    policy = learner.greedy(state, env, streams)
    assert policy.plan.objective == pytest.approx(0.8)
    assert cvar(play_simulator(policy, env, np.arange(1, 101, 2)).returns, 0.1) == pytest.approx(0.8)


def test_a_narrow_simulator_plays_in_batches(members):
    wide, narrow = lock(), lock()
    narrow.width = 3
    learner = FunctionClassELA(members=members, bonus="none")
    a, b = (run(learner, env, 1)[0] for env in (wide, narrow))
    assert np.array_equal(a.played.lengths, b.played.lengths)
    assert np.array_equal(a.played.first, b.played.first)
    assert np.array_equal(np.bincount(learner.data(b.played)[0].step), np.full(H - 1, 2))


OWN = '''
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank import make_simulator
from tailrank._system.settings import fixed
from tailrank.learning.lowrank.class_ela import FunctionClassELA

lock = make_simulator("lowrank-lock", horizon=2, n_actions=3)


@dataclass(frozen=True)
class Own(FunctionClassELA):
    """ELA on one pair."""

    members: Any = fixed(((lambda x: lock.features(0, x), lambda x: np.exp(lock.log_densities(x))),))
'''


def test_a_class_of_ones_own_from_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "own_members.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    named = ["lowrank-lock", "--set", "horizon=2", "--set", "n_actions=3", "--algorithm", "own_members:Own"]
    more = [
        "--import",
        "own_members",
        "--episodes",
        "6",
        "--evaluation-episodes",
        "50",
        "--output",
        "greedy",
        "--quiet",
    ]
    result = CliRunner().invoke(main, ["train", *named, *more, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    stored = load(tmp_path / "run" / "plan.safetensors").policy
    assert (stored.chosen, stored.n_actions, stored.horizon) == ((0,), 3, 2)
