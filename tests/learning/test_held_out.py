"""The model is chosen by held-out likelihood: against the truth, by hand, and through runs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tailrank import ELA, InputError, ModelChoice, make_episodic
from tailrank.envs import from_mdp
from tailrank.episodes.streams import Streams
from tailrank.learning.oracles.counts import TabularCounts
from tailrank.learning.oracles.finite_class import FiniteClass
from tailrank.learning.oracles.held_out import HELD_OUT, Candidate, Menu, choose
from tailrank.learning.oracles.latent_em import LatentEM
from tailrank.models.lowrank import StepModel
from tailrank.runs.config import RunConfig
from tailrank.runs.run import resume, run


def drawn(laws, each, rng):
    """Counts [S, A, S] of so many transitions from every pair."""
    return np.array([[rng.multinomial(each, law) for law in row] for row in laws], dtype=float)


def kernel(rng, S=12, A=3, rank=None):
    if rank is None:
        return rng.dirichlet(np.full(S, 0.3), size=(S, A))
    return rng.dirichlet(np.full(rank, 0.3), size=(S, A)) @ rng.dirichlet(np.full(S, 0.3), size=rank)


def candidates(steps, share=(False, True)):
    made = {"counts": TabularCounts(), "em": LatentEM(3)}
    return tuple(Candidate(name, (oracle,) * steps, way) for name, oracle in made.items() for way in share)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rank", "alike"), [(None, True), (None, False), (3, True), (3, False)])
def test_the_truth_is_chosen(seed, rank, alike):
    rng = np.random.default_rng(seed)
    first = kernel(rng, rank=rank)
    counts = [drawn(first if alike else kernel(rng, rank=rank), 40 if rank else 400, rng) for _ in range(3)]
    best = candidates(3)[choose(candidates(3), counts, rng)[0]]
    assert (best.name, best.share) == ("em" if rank else "counts", alike)


def test_scores_are_what_the_definition_says():
    rng = np.random.default_rng(5)
    counts = [drawn(kernel(rng, 4, 2), 30, rng) for _ in range(2)]
    _, scores = choose(candidates(2, (False,))[:1], counts, np.random.default_rng(9))
    again, total, n = np.random.default_rng(9), 0.0, 0
    held = [again.binomial(c.astype(int), HELD_OUT) for c in counts]
    for c, out in zip(counts, held, strict=True):
        kept = c - out
        q = (kept.sum(axis=(0, 1)) + 1) / (kept.sum() + 4)
        for s, a, t in np.ndindex(c.shape):
            visits = kept[s, a].sum()
            empirical = kept[s, a, t] / visits
            total += out[s, a, t] * np.log((visits * empirical + q[t]) / (visits + 1))
            n += out[s, a, t]
    assert scores[0] == pytest.approx(total / n, abs=1e-12)


def test_a_class_that_is_wrong_gives_way_to_counts():
    rng = np.random.default_rng(2)
    truth, other = kernel(rng, 5, 2), kernel(rng, 5, 2)
    step = StepModel(np.eye(10).reshape(5, 2, 10), other.reshape(10, 5))
    right = StepModel(step.phi, truth.reshape(10, 5))
    counts = [drawn(truth, 200, rng)]
    for models, chosen in (([step, right], 0), ([step], 1)):
        known = (Candidate("class", (FiniteClass(models),)), Candidate("counts", (TabularCounts(),)))
        assert choose(known, counts, rng)[0] == chosen
    never = StepModel(step.phi, np.tile(np.eye(5)[0], (10, 1)))  # excludes what was seen
    known = (Candidate("class", (FiniteClass([never]),)), Candidate("counts", (TabularCounts(),)))
    best, scores = choose(known, counts, rng)
    assert (best, scores[0]) == (1, -np.inf)


def test_nothing_to_go_by_is_the_simplest():
    empty = [np.zeros((4, 2, 4))] * 2
    menu = Menu(candidates(2)).reconsidered(empty, np.random.default_rng(0))
    assert (menu.chosen, menu.said) == (0, "")
    one = np.zeros((4, 2, 4))
    one[0, 0, 1] = 1.0
    best, _ = choose(candidates(2), [one, empty[1]], np.random.default_rng(1))
    sizes = [c.size([one, empty[1]]) for c in candidates(2)]
    assert sizes[best] == min(sizes)


def test_what_is_offered():
    lock, lake = make_episodic("risky-lock"), from_mdp(make_episodic("risky-shortcut").truth)
    assert [c.said for c in ModelChoice().menu(lock, None).candidates] == ["class", "counts"]
    said = [c.said for c in ModelChoice().menu(lake, None).candidates]
    assert said[:2] == ["counts", "counts, all steps as one"]
    assert {"em of rank 4", "block of rank 2, all steps as one"} < set(said)
    assert not any("8" in text for text in said)  # five states
    assert [c.said for c in ModelChoice(rank=3).menu(lake, False).candidates] == ["block of rank 3", "em of rank 3"]
    assert [c.said for c in ModelChoice("counts").menu(lake, None).candidates] == ["counts"]
    with pytest.raises(InputError, match="rank = 9: must be at most the number of states, 5"):
        ModelChoice(rank=9).menu(lake, None)


def test_a_run_says_what_it_chose_and_resumes_to_the_same_bits(tmp_path):
    config = RunConfig.of("risky-shortcut", iterations=12, checkpoint_every=5, output_episodes=20)
    whole = run(config, tmp_path / "whole")
    assert whole["notes"][-1].startswith("model: ")
    assert "all steps as one, chosen among 10 by held-out likelihood" in whole["notes"][-1]

    def stop(row, *_):
        if row["k"] == 7:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(config, tmp_path / "cut", progress=stop)
    resume(tmp_path / "cut")
    assert (tmp_path / "cut" / "rows.jsonl").read_bytes() == (tmp_path / "whole" / "rows.jsonl").read_bytes()


def test_the_choice_is_kept_until_there_is_half_as_much_data_again():
    env, streams = make_episodic("risky-shortcut"), Streams(0)
    learner = ELA(0.1)
    state, when = learner.init(env, streams), []
    for _ in range(12):
        state, _ = learner.step(state, env, streams)
        when.append(state.menu.seen)
    assert when[0] > 0.0
    assert all(b == a or b >= 1.5 * a for a, b in pairwise(when))
    assert len(set(when)) < 8
