"""Rewards that change with the step: found where they do, planned for at every step, played and saved the same."""

from __future__ import annotations

import numpy as np
import pytest
from small_simulators import Simulated

from tailrank import load, save
from tailrank.checks import InputError
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.simulators import drifting as drifting_module
from tailrank.learning.simulators.counted import numbers
from tailrank.learning.simulators.drifting import reward_drift
from tailrank.learning.simulators.kernel import KernelCandidate
from tailrank.learning.simulators.learners import KernelLearner
from tailrank.learning.simulators.played import PlayedTransitions
from tailrank.planning.kernel.induction import plan_crossed, plan_kernel
from tailrank.policies.kernel import BudgetScale, KernelRows
from tailrank.runs.policy_files import budgeted


class Corridor(Simulated):
    """Eight places in a row; the right end pays 1 less 0.9 of the time that is over.

    Action 0 goes right, and falls with probability .02; action 1 waits, and is moved to the right with probability .2;
    action 2 goes left. Whoever thinks that the goal always pays the same waits.
    """

    horizon, n_actions, n_features = 40, 3, 8

    def _begin(self, rng):
        return 3

    def _see(self, h, latent, rng):
        return np.eye(8)[latent]

    def _move(self, h, latent, action, rng):
        chance = rng.random()
        if action == 0 and chance < 0.02:
            return 0.0, 0, True
        there = latent + (1, int(chance < 0.2), -int(latent > 0))[action]
        return (1.0 - 0.9 * (h + 1) / 40 if there == 7 else 0.0), there, there == 7


def transitions(rng, n, ended, reward):
    """n transitions of four cells in episodes of five; reward(cell, step)."""
    cell, step = rng.integers(4, size=n), rng.integers(50, size=n)
    here = np.zeros(n, dtype=np.int64)
    data = (np.zeros((1, 1)), here, here, here, reward(cell, step), step, np.full(n, ended), np.arange(n) // 5)
    return cell, PlayedTransitions(*data)


@pytest.mark.parametrize("ended", [False, True])
def test_slopes_are_found_where_there_are_some(ended):
    rng = np.random.default_rng(0)
    slopes = np.array([-0.02, -0.02, 0.0, 0.01])
    cell, data = transitions(rng, 60, ended, lambda c, h: 0.5 * c + slopes[c] * h)
    np.testing.assert_allclose(reward_drift(data, cell), slopes[cell], atol=3e-3)
    # A cell that was seen once has the slope of the others, unless it paid what stays.
    one, pays = np.append(cell, [7, 8]), np.append(data.rewards, [0.3, 1.0])
    more = PlayedTransitions(
        data.observations,
        *(np.append(x, [0, 0]) for x in (data.here, data.there, data.actions)),
        pays,
        np.append(data.step, [20, 20]),
        np.append(data.ended, [ended] * 2),
        np.append(data.episode, [90, 91]),
    )
    found = reward_drift(more, one)
    assert found[-2] < -0.005
    assert found[-1] == 0.0


LAWS = {
    "normal": lambda h, rng: rng.normal(size=h.size),
    "seldom": lambda h, rng: (rng.random(h.size) < 0.1) * 1.0,
    "the same": lambda h, rng: -np.ones(h.size),
    "hardly": lambda h, rng: 0.01 * h + rng.normal(size=h.size),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ended", [False, True])
def test_no_slopes_in_noise(law, ended):
    for seed in range(80):
        rng = np.random.default_rng(seed)
        cell, data = transitions(rng, (30, 300)[seed % 2], ended, lambda _, h, rng=rng: LAWS[law](h, rng))
        assert not reward_drift(data, cell).any()
        assert not reward_drift(data).any()


def test_a_handful_of_rewards_on_one_line_is_enough_where_nothing_is_alike():
    rng = np.random.default_rng(0)
    for n, enough in ((5, False), (8, True)):
        step, lost = rng.permutation(90)[:n], rng.integers(90, size=200)
        rewards = np.append(1.0 - 0.009 * step, np.zeros(200))
        nought, ended = np.zeros(n + 200, dtype=np.int64), np.ones(n + 200, dtype=bool)
        step = np.append(step, lost)
        data = PlayedTransitions(np.zeros((1, 1)), nought, nought, nought, rewards, step, ended, np.arange(n + 200))
        expected = np.append(np.full(n, -0.009 * enough), np.zeros(200))
        np.testing.assert_allclose(reward_drift(data), expected, atol=1e-9)


def test_two_early_successes_among_many_late_ones_are_enough():
    nought, known = np.zeros(40, dtype=np.int64), 0
    for place in range(39):
        step = np.full(40, 90)
        step[[place, 39]] = 30, 50
        about = (1.0 - 0.009 * step, step, np.ones(40, dtype=bool), np.arange(40))
        found = reward_drift(PlayedTransitions(np.zeros((1, 1)), nought, nought, nought, *about), nought)
        known += bool(np.allclose(found, -0.009))
    assert known == 38  # only where both are in one part they are not found


def random_rows(rng, M, A, drift):
    """Four outcomes of each pair, the reward of which changes by whole units."""
    size = 4 * M * A
    weight = rng.dirichlet(np.ones(4), size=M * A).ravel()
    about = rng.integers(M + 1, size=size), rng.integers(-2, 3, size=size), weight
    return KernelRows(4 * np.arange(M * A + 1), *about, rng.integers(-1, 2, size=size) * drift)


def unrolled(rows, M, A, H):
    """The same with a copy of the representatives for each step, and rewards that do not change."""
    after = np.concatenate([np.where(rows.after == M, M * H, rows.after + M * min(h + 1, H - 1)) for h in range(H)])
    shift = np.concatenate([(rows.shift + h * rows.drift).astype(np.int64) for h in range(H)])
    return KernelRows(4 * np.arange(M * A * H + 1), after, shift, np.tile(rows.weight, H))


def test_plans_are_those_of_copies_for_every_step():
    rng, (M, A, H) = np.random.default_rng(1), (3, 2, 6)
    scale, start = BudgetScale(1.0, -40.0, 90, 0.0), np.array([1.0, 0.0, 0.0])
    one, other = (random_rows(rng, M, A, 1.0) for _ in range(2))
    none, free = np.zeros((M, A)), np.ones((M, A), dtype=bool)
    first, every = np.append(start, np.zeros(M * (H - 1))), np.ones((M * H, A), dtype=bool)
    mine = plan_kernel(one, scale, H, start, 0.3, none, free)
    long = [unrolled(rows, M, A, H) for rows in (one, other)]
    theirs = plan_kernel(long[0], scale, H, first, 0.3, np.zeros((M * H, A)), every)
    np.testing.assert_allclose(mine.curve, theirs.curve, atol=1e-9)
    crossed = plan_crossed((one, other), scale, H, start, 0.3, free).curve
    np.testing.assert_allclose(crossed, plan_crossed((long[0], long[1]), scale, H, first, 0.3, every).curve, atol=1e-9)


def test_what_comes_between_two_units_is_split():
    rows = random_rows(np.random.default_rng(2), 3, 2, 0.37)
    for h in (0, 1, 5):
        now = rows.at(h)
        assert now.shift.dtype == np.int64
        for k in range(6):
            mine, split = slice(*rows.ptr[k : k + 2]), slice(*now.ptr[k : k + 2])
            assert now.weight[split].sum() == pytest.approx(1.0)
            mean = (rows.weight * (rows.shift + h * rows.drift))[mine].sum()
            assert (now.weight * now.shift)[split].sum() == pytest.approx(mean)


def learned(env, episodes, seed):
    streams = Streams(seed)
    kernel = KernelCandidate(representatives=60)  # pairs of place and step are more
    learner = KernelLearner(1.0, kernel=kernel).prepared(env, streams, episodes)
    state = learner.init(env, streams)
    while not learner.over(state, env.horizon):
        state = learner.step(state, env, streams)[0]
    return learner, state, streams


def test_nobody_waits_for_a_goal_that_pays_less_and_less(tmp_path):
    env, seeds = Corridor(), np.arange(1, 401, 2)
    learner, state, streams = learned(env, 200, 0)
    assert "rewards that change with the step" in state.fitted[0].about()
    again = learner.restored(state.to_arrays(), env, streams)
    assert again.fitted[0].promise == state.fitted[0].promise
    policy = learner.policy(state, env, streams)
    played = play_simulator(policy, env, seeds)
    assert played.lengths.max() <= 4
    assert state.fitted[0].promise == pytest.approx(played.returns.mean(), abs=0.05)
    save(policy, tmp_path / "p")
    found = play_simulator(load(tmp_path / "p").policy, env, seeds)
    np.testing.assert_array_equal(found.actions, played.actions)


def test_without_slopes_it_waits(monkeypatch):
    monkeypatch.setattr(drifting_module, "FEWEST", 10**9)
    learner, state, streams = learned(Corridor(), 200, 0)
    policy = learner.policy(state, Corridor(), streams)
    assert play_simulator(policy, Corridor(), np.arange(1, 401, 2)).lengths.mean() > 8.0


def test_damaged_slopes_are_refused(tmp_path):
    learner, state, streams = learned(Corridor(), 60, 0)
    arrays, scalars = budgeted.kernel_parts(learner.policy(state, Corridor(), streams))
    for damaged in (arrays["rows.drift"][1:], arrays["rows.drift"] * np.nan, arrays["rows.drift"].astype(int)):
        with pytest.raises(InputError, match=r"rows\.drift"):
            budgeted.kernel_policy(arrays | {"rows.drift": damaged}, scalars)


def test_cells_need_not_be_numbered_from_nought():
    rng = np.random.default_rng(3)
    cell, data = transitions(rng, 60, True, lambda c, h: -0.1 * h)
    np.testing.assert_array_equal(reward_drift(data, cell), reward_drift(data, numbers(cell + 1000)))
