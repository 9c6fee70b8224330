"""The grid of a simulator's rewards."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tailrank import InputError
from tailrank.episodes.replay import Replay
from tailrank.learning.observed.reward_grid import RewardGrid

NOTHING = SimpleNamespace(name="plain")


def grid_of(rewards, lengths=None, declared=None, levels=20, simulator=NOTHING):
    rewards = np.atleast_2d(np.asarray(rewards, dtype=np.float64))
    lengths = np.full(len(rewards), rewards.shape[1]) if lengths is None else np.asarray(lengths)
    return RewardGrid.of(simulator, declared, rewards, lengths, levels)


@pytest.mark.parametrize(
    ("rewards", "unit"),
    [
        ([0.0, 1.0, 3.0], 1.0),
        ([0.1, 0.25, -0.5], 0.05),
        ([2 / 3, 1 / 3, 1.0], 1 / 3),
        ([-4.0, -6.0], 2.0),
        ([0.8, 1.0, 0.1, 0.0], 0.1),
    ],
)
def test_a_shared_unit_is_found(rewards, unit):
    grid = grid_of(rewards)
    assert grid.unit == pytest.approx(unit, rel=1e-12)
    units = grid.units(np.array([rewards]), np.array([len(rewards)]))[0]
    np.testing.assert_allclose(grid.low + units * grid.unit, rewards, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_rewards_that_share_nothing_are_rounded_to_the_nearest(seed):
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=(30, 4)) * 10 ** rng.uniform(-3, 5) + rng.normal()
    grid = grid_of(rewards, levels=20)
    units = grid.units(rewards, np.full(30, 4))
    assert np.abs(grid.low + units * grid.unit - rewards).max() <= grid.unit / 2 + 1e-9 * np.abs(rewards).max()
    assert units.min() >= 0
    assert units.max() <= grid.top
    spread = np.ptp(rewards)
    wide = max(rewards.max() + spread / 4, 0) - min(rewards.min() - spread / 4, 0)
    assert grid.unit == pytest.approx(wide / 20)
    assert 20 <= grid.top <= 22
    assert "30 episodes" in grid.source


@pytest.mark.parametrize("seed", range(8))
def test_zero_lies_on_the_grid(seed):
    """An episode that is over earns exactly nothing."""
    rng = np.random.default_rng(seed)
    grid = grid_of(rng.normal(size=(10, 3)) + rng.normal() * 3)
    assert grid.low + grid.zero * grid.unit == pytest.approx(0, abs=1e-12)
    assert 0 <= grid.zero <= grid.top
    assert grid.value(5 * grid.zero, 5) == pytest.approx(0, abs=1e-9)


def test_steps_after_the_end_are_zero():
    rewards = np.array([[-1.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
    grid = grid_of(rewards, [2, 1])
    units = grid.units(rewards, np.array([2, 1]))
    assert units[0, 2] == units[1, 1] == units[1, 2] == grid.zero
    assert (units[0, :2] - grid.zero).tolist() == [-1, 2]
    # what lies beyond the end does not count for the range
    assert grid_of([[1.0, 50.0]], [1]).top * grid_of([[1.0, 50.0]], [1]).unit < 5


def test_a_declared_range_is_kept():
    grid = grid_of([[0.0, 0.3, 0.7]], declared=(-2.0, 3.0))
    assert (grid.low, grid.source) == (-2.0, "declared")
    assert grid.unit == pytest.approx(0.1)
    assert grid.low + grid.top * grid.unit == pytest.approx(3.0)
    known = SimpleNamespace(name="known", reward_range=(-1.0, 1.0))
    assert grid_of([[0.5, 0.25]], simulator=known).low == -1.0
    assert grid_of([[0.5, 0.25]], simulator=known, declared=(-3.0, 1.0)).low == -3.0, "the caller knows best"
    above = grid_of([[5.0, 6.0]], declared=(5.0, 6.0))
    assert (above.low, above.zero) == (0.0, 0), "zero belongs to it"


def test_a_unit_that_is_too_fine_is_not_taken():
    fine = grid_of([[0.0, 0.001, 1.0]], declared=(0.0, 1.0))
    assert fine.unit == pytest.approx(1 / 20)
    many = grid_of([np.arange(300) / 1.0])
    assert many.top <= 22


def test_rewards_outside_are_refused():
    grid = grid_of([[0.0, 1.0]])
    with pytest.raises(InputError) as found:
        grid.units(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 9.5]]), np.array([3, 3]))
    text = str(found.value)
    assert text.startswith("1: reward = 9.5 at step 2: lies outside -1 to 2 (1 episodes)")
    assert "reward_range" in text
    assert "\n" not in text
    with pytest.raises(InputError, match=r"reward = -3 at step 0: lies outside .* \(declared\)"):
        grid_of([[0.0, 1.0]], declared=(-1.0, 1.0)).units(np.array([[-3.0]]), np.array([1]))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ((1.0, 1.0), "reward_range = 1 1: the first must be below the second"),
        ((2.0, -1.0), "reward_range = 2 -1: the first must not be above the second"),
        ((0.0, np.inf), "reward_range = inf: must be finite"),
        (("a", 1.0), "reward_range = 'a': must be a number"),
    ],
)
def test_a_wrong_range_is_named(declared, message):
    with pytest.raises(InputError, match=message):
        grid_of([[0.0, 1.0]], declared=declared)


@pytest.mark.parametrize("seed", range(5))
def test_budgets_fall_as_rewards_are_counted(seed):
    """The policy's grid takes the same units off a budget as the planner counts, halves included."""
    rng = np.random.default_rng(seed)
    grid = grid_of(rng.normal(size=(20, 3)), declared=(-4.0, 4.0), levels=16)
    rewards = np.concatenate([rng.uniform(-4, 4, size=50), grid.low + grid.unit * (np.arange(8) + 0.5)])
    taken = grid.budget_grid(3).units(1, rewards)
    np.testing.assert_array_equal(taken, grid.units(rewards[:, None], np.ones(rewards.size))[:, 0])


def test_values_are_returns():
    grid = grid_of([[-1.0, 0.5, 2.0]])
    rewards = np.array([[-1.0, 0.5, 2.0]])
    total = grid.units(rewards, np.array([3])).sum()
    assert grid.value(total, 3) == pytest.approx(1.5)
    assert float(grid.budget_grid(3).value(int(total))) == pytest.approx(1.5)


def test_the_usual_reward_is_the_median_of_those_who_got_there():
    replay = Replay(3, 1)
    units = np.array([[1, 9, 0], [2, 0, 0], [3, 7, 0], [9, 8, 0], [4, 0, 0]])
    replay.add(np.zeros((5, 3, 1)), np.zeros((5, 3)), units, np.array([2, 1, 2, 2, 1]))
    grid = RewardGrid(-1.0, 0.5, 10, 2, "here")
    assert grid.usual(replay).tolist() == [3, 8, 2], "nobody reached step 2: a reward of 0"


@pytest.mark.parametrize("constant", [1.0, -2.5, 0.3, 0.0])
def test_a_constant_reward_needs_one_step(constant):
    grid = grid_of([[constant] * 4] * 3)
    assert grid.top == 1
    units = grid.units(np.full((2, 4), constant), np.array([4, 2]))
    np.testing.assert_allclose(grid.low + units[0] * grid.unit, constant)
    assert units[1, 3] == grid.zero
    assert grid_of([[constant] * 4], declared=(-4.0, 4.0)).top >= 20, "what is declared may still come"
