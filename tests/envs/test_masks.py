"""Masks of actions in `info`: every form is read, wrong ones are refused, workers and vectors have the same ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from masked import ALLOWED, STEPS, Masked

from tailrank.checks import InputError
from tailrank.envs import open_simulator
from tailrank.envs.gymnasium.checking import check_environment
from tailrank.episodes.masks import among
from tailrank.episodes.rollout import play_simulator
from tailrank.policies.tables import UniformPolicy

SEEDS = np.arange(0, 40, 2)


def played(source=Masked, seeds=SEEDS, **options):
    with open_simulator(source, **({"horizon": STEPS} | options)) as simulator:
        policy = UniformPolicy(simulator.n_actions, STEPS, np.random.default_rng(0))
        return play_simulator(policy, simulator, seeds, keep_features=True)


def states(found):
    return found.features.argmax(axis=2)[:, :STEPS]


@pytest.mark.parametrize(
    ("key", "form"),
    [("action_mask", "array"), ("action_mask", "bools"), ("admissible_actions", "list"), ("admissible_actions", "set")],
)
def test_every_form_is_read_and_only_allowed_actions_are_played(key, form):
    found = played(key=key, form=form, strict=True, width=5)
    np.testing.assert_array_equal(found.allowed[:, :STEPS], ALLOWED[states(found)] == 1)
    assert found.allowed[:, STEPS].all()  # over
    assert ALLOWED[states(found), found.actions].all()


def test_numbers_of_a_space_that_begins_later_and_parts_of_a_combination():
    late = played(lambda: Masked("admissible_actions", "from seven", actions=spaces.Discrete(4, start=7)))
    np.testing.assert_array_equal(late.actions, played(key="admissible_actions", form="list").actions)
    both = played(lambda: Masked(form="parts", actions=spaces.MultiDiscrete([2, 2])))
    assert (both.actions == 1).all()  # (0, 1)


@pytest.mark.parametrize(
    ("key", "form", "message"),
    [
        ("action_mask", "short", "must be 4 times True or False"),
        ("action_mask", "twos", "must be 4 times True or False"),
        ("action_mask", "words", "must be 4 times True or False"),
        ("action_mask", "ragged", "must be 4 times True or False"),
        ("action_mask", "none", "must allow an action as long as the episode goes on"),
        ("admissible_actions", "beyond", r"must be a list of actions 0\.\.3"),
        ("admissible_actions", "no list", r"must be a list of actions 0\.\.3"),
        ("admissible_actions", "words", r"must be a list of actions 0\.\.3"),
        ("admissible_actions", "empty list", "must allow an action"),
    ],
)
def test_a_mask_that_is_none_is_refused_with_its_place(key, form, message):
    for more in ({}, {"workers": 1, "width": 4}):
        with pytest.raises(InputError, match=rf"Masked, seed 6, step 1: info\['{key}'\] = .*{message}") as caught:
            played(key=key, form=form, **more)
        assert "\n" not in str(caught.value)
    assert played(key=key, form=form, masks=False).allowed is None
    left_out = played(key=key, form=form, skip_bad=True, width=3)
    np.testing.assert_array_equal(left_out.seeds, SEEDS[SEEDS != 6])


def test_workers_copies_and_vectors_give_the_same_bits():
    one = played()
    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    others = [
        played(width=3),
        played(width=4, workers=2),
        played(width=3, skip_bad=True),
        played(lambda: gymnasium.vector.SyncVectorEnv([Masked] * 4)),
        played(lambda: gymnasium.vector.SyncVectorEnv([Masked] * 3, autoreset_mode=same_step)),
    ]
    for other in others:
        # Uniform actions are drawn by batches, so that only what replaces them is the same.
        np.testing.assert_array_equal(other.allowed[:, :STEPS], ALLOWED[states(other)] == 1)
        assert ALLOWED[states(other), other.actions].all()
    np.testing.assert_array_equal(one.seeds, others[0].seeds)
    first = play_zeros(width=1)
    for options in ({"width": 5}, {"width": 5, "workers": 3}, {"width": 2, "skip_bad": True}):
        again = play_zeros(**options)
        for name in ("actions", "rewards", "features", "allowed"):
            np.testing.assert_array_equal(getattr(again, name), getattr(first, name), err_msg=name)


class Zeros:
    """Plays action 0 whatever is allowed."""

    def start(self, n):
        return np.zeros(n)

    def act(self, h, states, memory):
        return np.zeros(len(states), dtype=int)

    def update(self, h, moved, memory):
        return memory


def play_zeros(**options):
    with open_simulator(Masked, horizon=STEPS, strict=True, **options) as simulator:
        return play_simulator(Zeros(), simulator, SEEDS, keep_features=True)


def test_masks_can_be_ignored_and_need_not_be_there():
    ignored = played(masks=False)
    assert ignored.allowed is None
    assert not ALLOWED[states(ignored), ignored.actions].all()
    assert played(form="absent").allowed is None
    assert played("CartPole-v1", horizon=STEPS, seeds=SEEDS[:2]).allowed is None


def test_a_wrapper_that_changes_the_actions_is_not_asked_unless_told():
    def turned(actions=4):
        return gymnasium.wrappers.TransformAction(Masked(), lambda a: 3 - a, spaces.Discrete(actions))

    assert played(turned).allowed is not None  # the same space
    assert played(lambda: turned(3)).allowed is None
    with pytest.raises(InputError, match="must be 3 times True or False"):
        played(lambda: turned(3), masks=True)


def test_what_replaces_an_action_is_uniform_among_those_allowed():
    allowed = np.tile([True, False, True, True, False], (30_000, 1))
    seeds = 2 * np.arange(30_000)
    drawn = among(np.full(30_000, 1), allowed, seeds, 3)
    shares = np.bincount(drawn, minlength=5) / drawn.size
    np.testing.assert_allclose(shares, [1 / 3, 0, 1 / 3, 1 / 3, 0], atol=0.015)
    assert np.mean(drawn == among(np.full(30_000, 1), allowed, seeds, 4)) < 0.36  # another draw at another step
    np.testing.assert_array_equal(among(np.array([2, 9, -1]), allowed[:3], seeds[:3], 0), [2, 9, -1])


def test_check_says_that_there_are_masks_and_what_is_wrong_with_them():
    said = [f for f in check_environment(Masked, horizon=STEPS) if f.what.startswith("masks")]
    assert [f.level for f in said] == ["note"]
    assert "2..3 of 4" in said[0].what
    wrong = check_environment(Masked, horizon=STEPS, settings={"form": "short"})
    assert any(f.level == "error" and "seed 6, step 2: info['action_mask']" in f.what for f in wrong)
