"""The kernel model: interpolation, scores and metric by closed forms; learning, resuming and saving."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_simulators import Lock, Simulated

from tailrank import cvar
from tailrank.checks import InputError
from tailrank.episodes.rollout import Observed, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.simulators import model as model_module
from tailrank.learning.simulators.candidates import FitData
from tailrank.learning.simulators.counted import ended_by_place, steps_matter
from tailrank.learning.simulators.kernel import FittedKernel, KernelCandidate
from tailrank.learning.simulators.learners import KernelLearner
from tailrank.learning.simulators.metric import Standard, Trend, relevance
from tailrank.learning.simulators.model import choose, fit_kernel
from tailrank.learning.simulators.outcomes import ActionTree, KernelChoice, OutcomeModel, crps, held_out_scores
from tailrank.learning.simulators.played import PlayedEpisodes, PlayedTransitions
from tailrank.learning.simulators.scale import budget_scale, covers
from tailrank.learning.simulators.state import CandidatesState
from tailrank.planning.kernel.induction import plan_crossed, plan_kernel
from tailrank.policies.kernel import interpolation
from tailrank.policies.tables import UniformPolicy
from tailrank.runs.policy_files import storage


class Walk(Simulated):
    """On a line: step left or right with noise; right of 1 pays 1 and ends, left of -1 costs 2 and ends."""

    horizon, n_actions, n_features = 12, 2, 2

    def _begin(self, rng):
        return rng.uniform(-0.5, 0.5)

    def _see(self, h, latent, rng):
        return np.array([latent, rng.normal()])

    def _move(self, h, latent, action, rng):
        place = latent + (0.3 if action else -0.3) + 0.1 * rng.normal()
        return (1.0 if place > 1 else -2.0 if place < -1 else 0.0), place, abs(place) > 1


def moves(x, after, *more):
    """Transitions from the rows of x to those of `after`."""
    n = len(x)
    return PlayedTransitions(np.concatenate([x, after]), np.arange(n), n + np.arange(n), *more)


def learner(**more):
    kernel = KernelCandidate(representatives=60, budgets=40)
    return KernelLearner(0.2, pilot=20, kernel=kernel, **({"total": 120} | more))


def run(one, env, seed=0):
    streams = Streams(seed)
    state, rows = one.init(env, streams), []
    while not one.over(state, env.horizon):
        state, info = one.step(state, env, streams)
        rows.append(info.row())
    return state, rows


def test_interpolation_reproduces_points_inside_and_projects_those_outside():
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    mix = rng.dirichlet(np.ones(3), size=20)
    index, weight = interpolation(mix @ corners, corners, 3)
    np.testing.assert_allclose(np.einsum("nk,nkm->nm", weight, corners[index]), mix @ corners, atol=2e-2)
    assert (weight >= 0).all()
    np.testing.assert_allclose(weight.sum(axis=1), 1.0)
    index, weight = interpolation(np.array([[2.0, -1.0], [1.0, 0.0]]), corners, 3)
    assert (weight >= 0).all()
    np.testing.assert_allclose(weight.sum(axis=1), 1.0)
    assert index[0, weight[0].argmax()] == 1
    assert weight[0].max() > 0.99
    assert weight[1].max() == 1.0
    assert index[1, weight[1].argmax()] == 1


def test_crps_against_all_pairs():
    rng = np.random.default_rng(1)
    values, weights, seen = rng.normal(size=(5, 7)), rng.dirichlet(np.ones(7), size=5), rng.normal(size=5)
    apart = np.abs(values[:, :, None] - values[:, None])
    plain = (weights * np.abs(values - seen[:, None])).sum(axis=1)
    plain -= 0.5 * np.einsum("ni,nj,nij->n", weights, weights, apart)
    np.testing.assert_allclose(crps(values, weights, seen), plain, atol=1e-12)


def transitions(n=2000, seed=0):
    """x = (place, noise that nothing depends on); the place moves by the action, the reward is the place."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)).astype(np.float32)
    a = rng.integers(0, 2, size=n)
    after = np.column_stack([0.8 * x[:, 0] + a - 0.5, rng.normal(size=n)]).astype(np.float32)
    zero = np.zeros(n)
    return moves(x, after, a, x[:, 0] * 2.0, zero.astype(int), zero.astype(bool), np.arange(n) // 10)


def test_metric_knows_what_matters():
    data = transitions()
    made = Standard.of(data.features, False, np.random.default_rng(0))
    s, after = made.place(data.features, np.zeros(data.n)), made.place(data.after, np.zeros(data.n))
    v = relevance(s, after, data, 2)
    assert v[0] == 1.0
    assert v[1] <= 0.011
    trend = Trend.of(s, data.actions, after, 2)
    slopes = trend.slopes(s, data.actions)
    assert slopes[0, 0] == pytest.approx(0.64, abs=0.02)
    assert slopes[0, 1] < 1e-3


@pytest.mark.parametrize(
    ("move", "labels"),
    [
        ("shift", "kept"),
        ("trend", "kept"),
        ("trend", "near"),
        ("noise", "near"),
        ("shift", "trend"),
        ("trend", "trend"),
        ("noise", "trend"),
    ],
)
def test_outcomes_are_moved_to_the_state(move, labels):
    data = transitions()
    s, after = (np.asarray(x, dtype=float) for x in (data.features, data.after))
    model = OutcomeModel.of(s, after, data, np.ones(2), KernelChoice(8, move, labels), 2)
    found = model.sample(np.array([[0.3, 0.1]]), 1)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0)
    exact = 0.8 * 0.3 + 0.5
    error = np.abs(found.after[0, :, 0] - exact).max()
    assert error < (0.1 if move == "shift" else 1e-2)
    assert np.abs(found.rewards - 0.6).max() < (1e-2 if labels == "trend" else 0.4)


def test_the_reward_of_an_end_is_not_moved():
    data = transitions()
    data = replace(data, ended=np.ones(data.n, dtype=bool))
    s, after = (np.asarray(x, dtype=float) for x in (data.features, data.after))
    choices = [KernelChoice(8, "trend", labels) for labels in ("kept", "trend")]
    kept, moved = (OutcomeModel.of(s, after, data, np.ones(2), choice, 2).sample(s[:5] + 0.1, 1) for choice in choices)
    np.testing.assert_array_equal(kept.rewards, moved.rewards)


@pytest.mark.parametrize("others", [0, 2])
def test_a_season_does_not_hide_how_stocks_move(others):
    """One stock loses the demand, whatever the order a, others decay; the reward is linear in the stocks and
    quadratic in a. The season says whether demand is high, and the step where the season goes."""
    rng, n, H = np.random.default_rng(0), 150, 20
    step, episode = np.tile(np.arange(H), n), np.repeat(np.arange(n), H)
    a, stocks = rng.integers(0, 5, size=n * H), 6.0 * rng.random((n * H, 1 + others))
    left = 0.9 * stocks[:, 0] + a - rng.poisson(2.0 + np.sin(step / 2))
    x = np.column_stack([stocks, np.sin(step / 2)]).astype(np.float32)
    after = np.column_stack([left, 0.5 * stocks[:, 1:] + rng.random((n * H, others)), np.sin((step + 1) / 2)])
    rewards = a * (4.0 - a) + stocks.sum(axis=1) + rng.normal(size=n * H)
    data = moves(x, after.astype(np.float32), a, rewards, step, np.zeros(n * H, dtype=bool), episode)
    choice, _ = choose(data, H, 5, np.random.default_rng(1))
    assert (choice.move, choice.labels, choice.timed) == ("noise", "trend", True)
    assert choice.power > 0


def test_finite_observations_become_counts():
    env, streams = Lock(horizon=3, n_actions=3), Streams(3)
    played = PlayedEpisodes.none(3, 4).with_played(
        play_simulator(UniformPolicy(3, 3, streams.planner(0)), env, streams.train_seeds(0, 300), keep_features=True)
    )
    model = fit_kernel(played, 3, 5, 40, 10**6, np.random.default_rng(0))  # no room for pairs with the step
    data = played.transitions(10**6, np.random.default_rng(0))
    ended = ended_by_place(data, 3)
    assert len(model.representatives) == len(played.observations) == 3
    assert model.visits.sum() == data.n
    assert model.neighbours == 1
    fitted = FittedKernel(model, 0.1, 3, 0.3, 0.1, played.returns())
    unseen = np.vstack([played.features[:4], np.full((1, 4), 0.5)])
    assert fitted._unseen(0, unseen).tolist() == [False] * 4 + [True]  # explored at random, not by the nearest plan
    for j in range(3):
        for a in range(3):
            e = slice(model.rows.ptr[3 * j + a], model.rows.ptr[3 * j + a + 1])
            mine = (model.metric.place(data.features, 0.0) - model.representatives[j] == 0).all(axis=1)
            mine &= data.actions == a
            if mine.any():
                over = model.rows.weight[e][model.rows.after[e] == 3].sum()
                assert over == pytest.approx(ended[mine].mean())


def test_budgets_cover_what_was_seen():
    rng = np.random.default_rng(0)
    rewards = rng.integers(-3, 4, size=(30, 5)).astype(float)
    lengths = rng.integers(1, 6, size=30)
    rewards[np.arange(5) >= lengths[:, None]] = 0.0
    features = np.zeros((30, 6, 1))
    batch = Observed(np.zeros((30, 5), dtype=int), rewards, rewards.sum(axis=1), lengths, np.arange(30), features)
    played = PlayedEpisodes.none(5, 1).with_played(batch)
    np.testing.assert_allclose(played.returns(), rewards.sum(axis=1))
    scale = budget_scale(played, 40)
    assert scale.unit == 1.0
    assert covers(scale, played)
    assert not covers(replace(scale, count=3), played)
    np.testing.assert_allclose(scale.budget(scale.place(np.array([0.3, 2.0]), 4), 4), [0.3, 2.0])


def test_learns_the_best_tail_of_a_walk(tmp_path):
    state, rows = run(learner(), Walk())
    assert state.episodes == 120
    assert state.chosen
    assert rows[-1]["model"].startswith("choice among 2")
    policy = learner().policy(state, Walk(), Streams(0))
    seeds = Streams(0).evaluation_seeds(0, 200)
    returns = play_simulator(policy, Walk(), seeds).returns
    assert cvar(returns, 0.2) > 0.9  # always to the right: no walk falls off on the left
    returned = learner().choose(state, Walk(), Streams(0))
    assert returned.returned.startswith("kernel")
    assert returned.why.endswith("too few for a bound")  # 12 episodes each, tau = 0.2
    assert "bound" not in returned.about
    assert returned.about["promise"] <= 1.0 + 1e-6

    storage.save(policy, tmp_path / "walk.policy")
    again = storage.load(tmp_path / "walk.policy").policy
    np.testing.assert_array_equal(play_simulator(again, Walk(), seeds).returns, returns)


def test_damaged_kernel_policies_are_refused(tmp_path):
    from tailrank.runs.policy_files import budgeted

    state, _ = run(learner(), Walk())
    arrays, scalars = budgeted.kernel_parts(learner().policy(state, Walk(), Streams(0)))
    for name, change in (
        ("rows.after", lambda x: x + 1000),
        ("rows.ptr", lambda x: x[::-1].copy()),
        ("tables", lambda x: x[:, :, 1:]),
        ("steps", lambda x: x + 1),
        ("metric.project", lambda x: x[1:]),
        ("representatives", lambda x: x * np.nan),
    ):
        with pytest.raises(InputError):
            budgeted.kernel_policy(arrays | {name: change(arrays[name])}, scalars)


def test_a_resumed_run_is_the_same_run():
    whole, _ = run(learner(), Walk())
    one, streams, env = learner(), Streams(0), Walk()
    state = one.init(env, streams)
    while not one.over(state, env.horizon):
        state = one.restored(state.to_arrays(), env, streams) if state.k else state
        state, _ = one.step(state, env, streams)
    for name, array in whole.to_arrays().items():
        np.testing.assert_array_equal(state.to_arrays()[name], array, err_msg=name)


def test_steps_can_be_the_limit():
    state, _ = run(learner(total=None, total_steps=600), Walk())
    assert state.chosen
    assert 500 <= state.steps <= 750


def test_the_choice_goes_by_all_rounds():
    one = learner(total=60)
    none = CandidatesState(4, PlayedEpisodes.none(3, 1), ())
    first = replace(none, before=none.rounds_of((0, 1, 2)), finalists=(0, 1, 2), returns=np.array([[5.0], [4], [0]]))
    before = first.rounds_of((0, 1))
    np.testing.assert_array_equal(before, [[5.0], [4.0]])
    last = replace(first, finalists=(0, 1), before=before, returns=np.array([[1.0, 1.0], [2.0, 2.0]]))
    last = replace(last, imagined=np.zeros((3, 0)))
    assert one.survivors(last) == (1,)  # the worst tenth of 4, 2, 2 is better than that of 5, 1, 1
    mean = replace(one, tau=1.0)
    assert mean.survivors(replace(last, before=np.array([[9.0], [4.0]]))) == (0,)  # 11 against 8; the last round: 2, 4


def test_a_bound_comes_with_enough_episodes():
    one = learner(total=300, choice=0.6)
    state, _ = run(one, Walk())
    returned = one.choose(state, Walk(), Streams(0))
    assert returned.about["bound"] <= max(returned.about["scores"].values())
    assert "about confidence 0.9" in returned.why


def test_steps_are_told_apart_where_they_matter():
    """In the lock the right action changes with the step; the walk on whole numbers is the same at every step."""
    one = KernelLearner(0.2, pilot=60, total=400)
    lock, streams = Lock(horizon=3, n_actions=3), Streams(0)
    state, _ = run(one, lock)
    assert state.fitted[0].model.choice.timed
    returns = play_simulator(one.policy(state, lock, streams), lock, streams.evaluation_seeds(0, 300)).returns
    assert cvar(returns, 0.2) == pytest.approx(0.8)  # the safe end of the lock
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, size=600)
    after = (x + rng.integers(0, 2, size=600)) % 3
    step, zero = np.tile(np.arange(6), 100), np.zeros(600)
    data = moves(x, after, zero.astype(int), zero, step, zero > 0, np.arange(600) // 6)
    assert not steps_matter(x, after, data, rng)


class Gift(Simulated):
    """Action 1 pays 1 one time in ten, action 0 nothing: the tails at tau = 0.2 are the same, the means are not."""

    horizon, n_actions, n_features = 4, 2, 1

    def _begin(self, rng):
        return 0.0

    def _see(self, h, latent, rng):
        return np.array([latent])

    def _move(self, h, latent, action, rng):
        return float(action and rng.random() < 0.1), 0.0, False


def test_where_tails_are_the_same_the_mean_decides():
    state, _ = run(learner(), Gift())
    policy = learner().policy(state, Gift(), Streams(0))
    assert policy.act(0, np.zeros((3, 1)), policy.start(3)).tolist() == [1, 1, 1]
    assert policy.act(3, np.zeros((3, 1)), np.array([-1.0, 0.0, 0.5])).tolist() == [1, 1, 1]


class Toll(Simulated):
    """A place in [0, 1]; action 0 pays 1 less a toll of 10 one time in twelve, action 1 nothing, wherever it is."""

    horizon, n_actions, n_features = 1, 2, 1

    def _begin(self, rng):
        return rng.uniform()

    def _see(self, h, latent, rng):
        return np.array([latent])

    def _move(self, h, latent, action, rng):
        return (1.0 - 10.0 * (rng.random() < 1 / 12) if action == 0 else 0.0), latent, True


def test_the_crossed_plan_does_not_believe_in_places_where_nobody_happened_to_pay():
    """The toll is as likely everywhere: the shortfall of budget 1 is 10 / 12 with it, and 1 without."""
    env, streams = Toll(), Streams(5)
    batch = play_simulator(
        UniformPolicy(2, 1, streams.planner(0)), env, streams.train_seeds(0, 1500), keep_features=True
    )
    played = PlayedEpisodes.none(1, 1).with_played(batch)
    fitted = KernelCandidate().fit(FitData(played, 2, 0.1), np.random.default_rng(0))
    assert [output.name for output in fitted.outputs()][2:] == ["kernel, crossed"]
    model, allowed = fitted.model, np.ones_like(fitted.model.visits, dtype=bool)
    assert model.halves is not None
    plain = plan_kernel(model.rows, model.scale, 1, model.start, 0.1, np.zeros(allowed.shape), allowed).curve
    crossed = plan_crossed(model.halves, model.scale, 1, model.start, 0.1, allowed).curve
    budgets = model.scale.budget(np.arange(model.scale.count), 1)
    assert np.interp(1.0, budgets, plain) < 0.81
    assert 10 / 12 < np.interp(1.0, budgets, crossed) < 1.02


def test_no_halves_where_an_action_is_in_one_of_them_only():
    x = np.linspace(0.0, 1.0, 42, dtype=np.float32)[:, None]
    actions = np.r_[1, np.zeros(20, dtype=int)]  # 21 episodes of one step, action 1 in the first alone
    played = PlayedEpisodes.of(3, x, actions, x[::2, 0].astype(float), np.ones(21, dtype=int))
    model = fit_kernel(played, 2, 10, 20, 10**6, np.random.default_rng(0))
    assert model.halves is None
    fitted = FittedKernel(model, 0.1, 3, 0.3, 0.1, played.returns())
    assert [output.name for output in fitted.outputs()] == ["kernel, share 0", "kernel, share 0.1"]


def test_many_actions_have_fewer_representatives():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4 * 2000, 2)).astype(np.float32)
    actions = rng.integers(200, size=3 * 2000)  # 2,000 episodes of three steps
    played = PlayedEpisodes.of(3, x, actions, rng.normal(size=actions.size), np.full(2000, 3))
    few = fit_kernel(played, 200, 500, 5, 10**6, np.random.default_rng(0))
    assert len(few.representatives) <= model_module.MOST_OUTCOMES // (200 * few.choice.neighbours) < 500
    assert few.rows.ptr.size == 200 * len(few.representatives) + 1


def test_many_coordinates_have_fewer_representatives():
    assert model_module.affordable(27 * 32, 24) == 439  # 27 * 32 * 24 * 439^2 is about MOST_WORK
    assert model_module.affordable(8 * 32, 7) == 1494
    assert model_module.affordable(8 * 64, 7) == model_module.MOST_OUTCOMES // (8 * 64) == 1000
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4 * 2000, 20)).astype(np.float32)
    played = PlayedEpisodes.of(3, x, rng.integers(2, size=6000), rng.normal(size=6000), np.full(2000, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_module, "MOST_WORK", 2e6)
        few = fit_kernel(played, 2, 500, 5, 10**6, np.random.default_rng(0))
    assert len(few.representatives) ** 2 * 2 * few.choice.neighbours * 20 <= 2.2e6


@pytest.mark.parametrize("move", ["shift", "noise"])
def test_outcomes_of_all_actions_are_those_of_each(move, monkeypatch):
    """Where all actions have the same neighbours, these are looked for once."""
    rng = np.random.default_rng(1)
    s, after, actions = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)), rng.integers(0, 3, size=60)
    actions = np.where(actions == 1, 3, actions)  # nobody tried 1
    data = moves(s, after, actions, rng.normal(size=60), np.zeros(60, dtype=int), rng.random(60) < 0.2, np.arange(60))
    model, asked = OutcomeModel.of(s, after, data, np.ones(2), KernelChoice(8, move, "trend"), 4), []
    alone = {a: model.sample(s[:9] + 0.1, a) for a in (0, 2, 3)}
    query = ActionTree.query
    monkeypatch.setattr(ActionTree, "query", lambda tree, *rest: asked.append(1) or query(tree, *rest))
    found = dict(model.samples(s[:9] + 0.1))
    assert len(asked) == (1 if move == "noise" else 3)
    assert list(found) == [0, 2, 3]
    for a, one in found.items():
        for name in ("after", "rewards", "ended", "weights"):
            np.testing.assert_array_equal(getattr(one, name), getattr(alone[a], name))


def test_scores_of_actions_with_few_transitions_and_with_none():
    rng = np.random.default_rng(2)
    s, after = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    actions = np.where(np.arange(40) < 3, 0, 1)  # three of action 0, none of action 2
    data = moves(s, after, actions, rng.normal(size=40), np.zeros(40, dtype=int), np.arange(40) % 3 == 0, np.arange(40))
    model, v = OutcomeModel.of(s, after, data, np.ones(2), KernelChoice(8), 3), np.array([1.0, 0.5])
    test = replace(data, actions=np.arange(40) % 3)
    found = held_out_scores(model, s + 0.1, after, test, v)
    spread = [np.abs(np.subtract.outer(x, x)).mean() / 2 for x in (data.rewards, 1.0 * data.ended, *(after - s).T)]
    for i in range(40):
        if i % 3 == 2:
            assert found[i] == 3.0
            continue
        at = s[i : i + 1] + 0.1
        one = model.sample(at, i % 3)
        assert one.weights.shape[1] == (3 if i % 3 == 0 else 8)
        follows = [one.rewards, one.ended.astype(float), *np.moveaxis(one.after - at[:, None], 2, 0)]
        seen = [data.rewards[i], float(data.ended[i]), *(after[i] - at[0])]
        wanted = [crps(x, one.weights, np.array([y]))[0] / z for x, y, z in zip(follows, seen, spread, strict=True)]
        moved = 0.0 if data.ended[i] else (wanted[2] + 0.5 * wanted[3]) / 1.5
        assert found[i] == pytest.approx(wanted[0] + wanted[1] + moved)
