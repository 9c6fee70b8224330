"""The search: trees against brute force, the compiled rollout against a plain twin, learning to balance, resuming."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_simulators import Simulated

from tailrank import cvar
from tailrank.checks import InputError
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.learn import learn
from tailrank.learning.promise import broken_in, broken_promise
from tailrank.learning.search._kernels import play_all
from tailrank.learning.search.candidate import FittedSearch, SearchCandidate
from tailrank.learning.search.judging import imagined_returns, weighed_cvar
from tailrank.learning.search.model import ImaginedSimulator, TreeModel, Trees
from tailrank.learning.simulators.learners import SearchLearner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.recall import Recall, RecallPolicy
from tailrank.policies.tables import UniformPolicy


class Beam(Simulated):
    """A ball on a beam: place and speed; it is pushed left or right, and falls off beyond 1, which costs 5."""

    horizon, n_actions, n_features = 15, 2, 2

    def _begin(self, rng):
        return 0.3 * rng.normal() + 0.0j

    def _see(self, h, latent, rng):
        return np.array([latent.real, latent.imag])

    def _move(self, h, latent, action, rng):
        speed = latent.imag + 0.15 * latent.real + 0.12 * (2 * action - 1) + 0.03 * rng.normal()
        place = latent.real + speed
        over = abs(place) > 1.0
        return (-5.0 if over else 0.1), complex(place, speed), over


def played(n=150, seed=0):
    env, streams = Beam(), Streams(seed)
    uniform = UniformPolicy(2, 15, streams.planner(0))
    batches = [play_simulator(uniform, env, streams.train_seeds(k, 50), keep_features=True) for k in range(n // 50)]
    found = PlayedEpisodes.none(15, 2)
    for batch in batches:
        found = found.with_played(batch)
    return found


def squares(y):
    return ((y - y.mean(axis=0)) ** 2).sum()


@pytest.mark.parametrize("seed", range(8))
def test_the_first_split_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 9, size=(80, 3)).astype(float), rng.normal(size=(80, 2))
    y[:, 0] += 2.0 * (x[:, 1] > 1) + 2.0 * (x[:, 2] > 6)
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    tree = Trees.of(x, y, [np.arange(80)], 5)
    found = {}
    for f in range(3):
        for at in np.unique(x[:, f])[:-1]:
            low = x[:, f] <= at
            if min(low.sum(), (~low).sum()) >= 5:
                found[f, at] = squares(y[low]) + squares(y[~low])
    f, at = min(found, key=found.get)
    assert tree.child[0] == 1
    assert tree.feature[0] == f
    assert at < tree.threshold[0] < at + 1
    leaves = np.flatnonzero(tree.child < 0)
    members = np.concatenate([tree.members[tree.begin[i] : tree.stop[i]] for i in leaves])
    assert sorted(members) == list(range(80))
    assert (tree.stop - tree.begin)[leaves].min() >= 5
    for i in leaves:  # the rows of a leaf are those that fall into it
        for row in tree.members[tree.begin[i] : tree.stop[i]]:
            assert falls(tree, 0, x[row]) == i


def falls(tree, action, point):
    i = tree.roots[action]
    while tree.child[i] >= 0:
        i = tree.child[i] + int(point[tree.feature[i]] > tree.threshold[i])
    return i


def test_noise_is_not_split():
    rng = np.random.default_rng(1)
    tree = Trees.of(rng.normal(size=(500, 4)), rng.normal(size=(500, 1)), [np.arange(500)], 5)
    assert tree.child.tolist() == [-1]


def test_episodes_of_the_model_against_a_plain_twin():
    some = played()
    model = TreeModel.of(some, some.transitions(10**6, np.random.default_rng(0)), 2)
    model = replace(model, linear=np.random.default_rng(3).normal(size=model.linear.shape))
    theta = np.random.default_rng(1).normal(size=(3, 2, 4))
    found, steps = model.returns(theta, 7, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    first, draws = model.first[rng.integers(0, len(model.first), size=7)], rng.random((7, 15, 2))
    count = 0
    for p in range(3):
        for n in range(7):
            s, total = first[n], 0.0
            for h in range(15):
                a = int(np.argmax(theta[p] @ np.array([*s, h / 15, 1.0])))
                leaf = falls(model.moves, a, np.array([*s, h / 15]))
                rows = model.moves.members[model.moves.begin[leaf] : model.moves.stop[leaf]]
                basis = np.array([1.0, *s, s[0] * s[0], s[0] * s[1], s[1] * s[1]])
                after = basis @ model.trend[a] + model.rest[rows[int(draws[n, h, 0] * rows.size)]]
                after = np.clip(after, model.low, model.high)
                leaf = falls(model.pays, a, np.array([*s, *after, h / 15]))
                rows = model.pays.members[model.pays.begin[leaf] : model.pays.stop[leaf]]
                row = rows[int(draws[n, h, 1] * rows.size)]
                total, count = total + model.paid[row], count + 1
                if model.ended[row]:
                    break
                total += np.array([*s, *after, 1.0]) @ model.linear[a]
                s = after
            assert found[p, n] == pytest.approx(total, abs=1e-9)
    assert steps == count


def test_no_episode_of_the_model_is_worse_than_all_real_ones():
    some = played()
    model = TreeModel.of(some, some.transitions(10**6, np.random.default_rng(0)), 2)
    real = np.add.reduceat(some.rewards, np.cumsum(some.lengths) - some.lengths)
    assert model.worst == pytest.approx(real.min())
    costly = replace(model, paid=model.paid - 0.1)
    theta = np.array([np.zeros((2, 4)), [[0.0] * 4, [-1.0, -2.0, 0.0, 0.0]]])
    free = replace(costly, worst=-np.inf).returns(theta, 200, np.random.default_rng(2))[0]
    assert free.min() < model.worst < free.max()
    found = costly.returns(theta, 200, np.random.default_rng(2))[0]
    np.testing.assert_array_equal(found, np.maximum(free, model.worst))
    policy, rng = fitted(model, theta[0]), np.random.default_rng(0)
    assert imagined_returns(some, 2, [policy, policy], rng).min() >= model.worst


def test_every_other_episode_explores_with_a_policy_of_its_own():
    rng = np.random.default_rng(0)
    theta, centre, spread = rng.normal(size=(3, 6)), rng.normal(size=4), rng.random(4) + 0.5
    one = FittedSearch(theta, np.full((3, 6), 1e-9), centre, spread, 0.0, 10, 0.0)
    policy, x = one.explorer(np.random.default_rng(1)), rng.normal(size=(400, 4))
    memory = policy.start(7)
    assert memory.tolist() == [0, 1, 0, 2, 0, 3, 0]
    draws = np.random.default_rng(1).normal(size=(3, 3, 6)) * 0.3 * np.sqrt((theta**2).mean())
    for which, drawn in enumerate((theta, *(theta + draws))):
        np.testing.assert_array_equal(policy.act(4, x, np.full(400, which)), one.policy(drawn).act(4, x, np.zeros(400)))
    recalling = RecallPolicy(one.explorer(np.random.default_rng(1)), Recall(0, True), 1, 3)  # keeps numbers of its own
    seen = np.hstack([x[:7, :1], np.zeros((7, 3))])
    np.testing.assert_array_equal(recalling.act(4, x[:7, :1], recalling.start(7)), policy.act(4, seen, memory))
    assert policy.start(2).tolist() == [1, 0]  # the eighth episode of all is one of its own
    random = replace(one, epsilon=1.0).explorer(rng)
    share = np.bincount(random.act(0, x, random.start(400))) / 400
    np.testing.assert_allclose(share, 1 / 3, atol=0.1)


@pytest.mark.parametrize(("parameters", "wanted"), [(12, (40, 40)), (40, (100, 16)), (400, (160, 10))])
def test_more_parameters_need_more_policies(parameters, wanted):
    assert SearchCandidate().crowd(parameters) == wanted


def test_the_model_pays_as_the_simulator_does():
    """A policy that never pushes right: mean return and length of whole episodes, 2,000 fresh ones each."""
    some = played(300)
    model = TreeModel.of(some, some.transitions(10**6, np.random.default_rng(0)), 2)
    theta = np.array([[[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0], [-1.0, -2.0, 0.0, 0.0]]])
    found = model.returns(theta, 2000, np.random.default_rng(0))[0].mean(axis=1)
    for returns, one in zip(found, theta, strict=True):
        policy = fitted(model, one)
        real = play_simulator(policy, Beam(), Streams(9).evaluation_seeds(0, 400)).returns
        assert returns == pytest.approx(real.mean(), abs=4 * real.std() / 20 + 0.15)


def fitted(model, theta):
    one = FittedSearch(theta, theta, model.centre, model.spread, 0.0, 15, 0.1)
    return one.policy(theta)


def test_the_policy_is_the_one_that_was_searched():
    """On features, with another centre and spread, and in the model's own coordinates."""
    rng = np.random.default_rng(0)
    theta, centre, spread = rng.normal(size=(3, 6)), rng.normal(size=4), rng.random(4) + 0.5
    one = FittedSearch(theta, theta, centre, spread, 0.0, 10, 0.1)
    x = rng.normal(size=(50, 4))
    inputs = np.column_stack([(x - centre) / spread, np.full(50, 0.7), np.ones(50)])
    np.testing.assert_array_equal(one.policy(theta).act(7, x, np.zeros(50)), (inputs @ theta.T).argmax(axis=1))
    moved = replace(one, centre=centre + 1.0, spread=2.0 * spread)
    again = one.around(moved.centre, moved.spread)
    np.testing.assert_array_equal(moved.policy(again).act(7, x, np.zeros(50)), (inputs @ theta.T).argmax(axis=1))


def small(**more):
    search = SearchCandidate(policies=16, model_episodes=20, rounds=8)
    return SearchLearner(0.2, search=search, **({"pilot": 30, "total": 200, "growth": 1.0} | more))


def run(one, resumed=False):
    env, streams = Beam(), Streams(0)
    state = one.init(env, streams)
    while not one.over(state, env.horizon):
        state = one.restored(state.to_arrays(), env, streams) if resumed and state.k else state
        state, _ = one.step(state, env, streams)
    return state


def test_a_ball_is_balanced_and_a_resumed_run_is_the_same():
    one = small()
    state = run(one)
    policy = one.policy(state, Beam(), Streams(0))
    seeds = Streams(5).evaluation_seeds(0, 300)
    uniform = play_simulator(UniformPolicy(2, 15, np.random.default_rng(0)), Beam(), seeds).returns
    assert cvar(uniform, 0.2) < -4.0
    assert cvar(play_simulator(policy, Beam(), seeds).returns, 0.2) > 0.5  # 1.5 is all that can be earned
    again = run(small(), resumed=True)
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array, err_msg=name)


def test_too_many_parameters_are_refused():
    wide = Beam()
    wide.n_features = 300
    with pytest.raises(InputError, match=r"search: small has 300 features and 2 actions"):
        small().init(wide, Streams(0))


def test_policies_of_any_kind_play_in_the_model():
    """The model as a simulator gives the episodes of the compiled loop, with the chance of its seeds."""
    some = played()
    model = TreeModel.of(some, some.transitions(10**6, np.random.default_rng(0)), 2)
    theta, seeds = np.random.default_rng(1).normal(size=(2, 4)), np.arange(100)
    own = [np.random.default_rng(int(seed)) for seed in seeds]
    first = model.first[[int(rng.integers(len(model.first))) for rng in own]]
    draws, wanted = np.stack([rng.random((15, 2)) for rng in own]), np.empty((1, 100))
    play_all(model.arrays, theta[None], first, draws, -np.inf, wanted)
    found = play_simulator(fitted(model, theta), ImaginedSimulator(model), seeds).returns
    np.testing.assert_allclose(found, wanted[0], atol=1e-9)


def test_imagined_episodes_help_where_real_ones_are_few():
    """Two policies with ten perfect episodes each: the model knows which one falls."""
    some, rng = played(), np.random.default_rng(0)
    steady, idle = np.array([[0.0, 0.0, 0.0, 0.0], [-1.0, -2.0, 0.0, 0.0]]), np.array([[0.0] * 4, [0.0] * 3 + [-1.0]])
    model = TreeModel.of(some, some.transitions(10**6, rng), 2)
    imagined = imagined_returns(some, 2, [fitted(model, idle), fitted(model, steady)], rng)
    perfect = np.full(10, 1.5)
    assert weighed_cvar(perfect, imagined[1], 0.1) > weighed_cvar(perfect, imagined[0], 0.1) + 1.0
    # A hundred real ones decide: the steady policy fails in 20 of them, the other never.
    real = np.where(np.arange(100) < 20, -5.0, 1.5)
    assert weighed_cvar(real, np.full(50, 1.5), 0.5) < weighed_cvar(np.full(100, 1.5), np.full(50, -5.0), 0.5)
    assert imagined_returns(some, 2, [fitted(model, idle)], rng).shape == (1, 0)  # nothing to choose


def test_a_model_has_no_say_beside_a_real_tail():
    """Ten episodes have no tail of a tenth, 82 have one: what a policy never does in them, a model must not add."""
    good, bad = np.full(82, -20.0), np.full(82, -30.0)
    terrible, fine = np.full(50, -500.0), np.full(50, -10.0)
    assert weighed_cvar(good[:10], terrible, 0.1) < weighed_cvar(bad[:10], fine, 0.1)
    assert weighed_cvar(good, terrible, 0.1) > weighed_cvar(bad, fine, 0.1)


def test_broken_promises_are_told(monkeypatch):
    rng = np.random.default_rng(0)
    returns = rng.normal(size=200)
    assert broken_in(returns, 0.1, -1.7, rng) == ""
    assert broken_promise(-140.3, -140.9, -141.0, -140.8) == ""  # not in the interval, and close
    assert "promised a CVaR of 1, fresh episodes give -1." in broken_in(returns, 0.1, 1.0, rng)
    assert "even their mean is at most" in broken_in(returns[:20], 0.1, 1.0, rng)
    assert broken_in(returns[:20], 0.1, -0.5, rng) == ""  # too few to say
    assert broken_in(np.full(20, 0.955), 0.1, 0.9551, rng) == ""  # what is missing is a rounding
    monkeypatch.setattr(SearchLearner, "doubt", lambda *_: "the model promised too much")
    with pytest.warns(UserWarning, match="promised too much"):
        learned = learn(Beam(), small(total=None), episodes=60)
    assert "the model promised too much" in learned.remarks
