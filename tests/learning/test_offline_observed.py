"""Logs of observation vectors: the latents are found, the plan acts on what it sees, the bound is labelled."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from command import cli, fails
from logged import frame_of, small_mdp
from tailrank import InputError, cvar, learn_logs, load, save, solve
from tailrank.envs.logs.read import read_log
from tailrank.learning.decoding.choose import judged
from tailrank.learning.lowrank.transitions import SeenTransitions
from tailrank.learning.offline import models
from tailrank.learning.offline.classes import kernel_bound, lowrank_bound, theory
from tailrank.learning.offline.clone import softmax_clone
from tailrank.learning.offline.importance import weights_of
from tailrank.learning.offline.observed import fitted_decoder
from tailrank.policies.moved import Moved
from tailrank.policies.softmax import SoftmaxPolicy
from tailrank.risk.measures import CVaR, Mean
from tailrank.runs.log_runs import write_log_run

PLACES = np.array([[0.0, 0.0, 5.0], [5.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
"""Where the observations of each state lie."""


def seen(states, rng):
    return PLACES[states] + 0.3 * rng.normal(size=(*states.shape, 3))


def observed_frame(mdp, n, seed):
    frame = frame_of(mdp, n, seed)
    features = seen(frame.pop("state"), np.random.default_rng(seed))
    return frame | {f"obs_{i}": features[:, i] for i in range(3)}


def played(policy, mdp, n, seed):
    """Returns of a policy that sees observations only, played by hand."""
    rng = np.random.default_rng(seed)
    states, memory, returns = np.zeros(n, dtype=int), policy.start(n), np.zeros(n)
    ptr, after, prob, reward = mdp.rows(0)
    for h in range(mdp.horizon):
        features = seen(states, rng)
        actions = policy.act(h, features, memory)
        first = ptr[states * mdp.n_actions + actions]  # three outcomes each
        total = np.cumsum(prob[first[:, None] + np.arange(3)], axis=1)
        rows = first + np.minimum((rng.random(n)[:, None] >= total).sum(axis=1), 2)
        rewards, states = reward[rows], after[rows].astype(int)
        memory = policy.update(h, Moved(features, actions, rewards, seen(states, rng)), memory)
        returns += rewards
    return returns


def test_latents_are_found_and_the_plan_is_good(tmp_path):
    mdp, tau = small_mdp(3, H=4), 0.3
    learned = learn_logs(observed_frame(mdp, 4000, 0), tau, model="block")
    assert learned.coverage.possible_pairs == 6
    assert "if the model class holds the truth" in learned.assumptions[0]
    earned = cvar(played(learned.policy, mdp, 4000, 1), tau)
    assert learned.lower <= earned <= learned.upper
    assert earned == pytest.approx(solve(mdp, tau).cvar, rel=0.1)
    save(learned.policy, tmp_path / "plan.policy")
    again = played(load(tmp_path / "plan.policy").policy, mdp, 200, 2)
    np.testing.assert_array_equal(again, played(learned.policy, mdp, 200, 2))


def test_on_the_command_line(tmp_path):
    mdp = small_mdp(3)
    for name, n, seed in (("log", 2000, 0), ("later", 1500, 1)):
        frame = observed_frame(mdp, n, seed)
        lines = [",".join(frame)] + [",".join(map(str, row)) for row in zip(*frame.values())]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "run"
    done = cli("learn-logs", tmp_path / "log.csv", "--tau", 0.3, "--model", "block", "--out", out, "--json")
    assert done.exit_code == 0, done.output
    judged = cli("evaluate", out, "--logs", tmp_path / "later.csv", "--json")
    assert judged.exit_code == 0, judged.output
    found = json.loads(judged.stdout)["results"][0]
    assert found["matched"] > 0
    assert found["lower"] <= found["cvar"] <= found["upper"]
    fails(cli("evaluate", out, "examples/models/machine.csv"), "observations", "--logs")
    fails(cli("learn-logs", tmp_path / "log.csv", "--discount", 0.9, "--out", tmp_path / "x"), "discount")
    assert cli("report", out, "-o", tmp_path / "page.html").exit_code == 0


def walk(n, seed, H=4):
    """A point on a line: action 1 goes further and pays more, but beyond 1 it falls and loses 4."""
    rng = np.random.default_rng(seed)
    x, columns = rng.random(n), []
    for h in range(H):
        a = rng.integers(0, 2, n)
        after = x + np.where(a == 1, 0.3, 0.1) + 0.05 * rng.normal(size=n)
        reward = np.where(a == 1, 2.0, 1.0) - 4.0 * (after > 1)
        columns.append((np.arange(n), np.full(n, h), x, a, reward, np.full(n, 0.5)))
        x = np.where(after > 1, 0.1 * rng.random(n), after)
    names = ("episode", "step", "obs_0", "action", "reward", "probability")
    return {name: np.stack(parts, axis=1).ravel() for name, parts in zip(names, zip(*columns))}


def walked(policy, n, seed, H=4):
    """Returns of a policy on the line, played by hand."""
    rng = np.random.default_rng(seed)
    x, memory, returns = rng.random(n), policy.start(n), np.zeros(n)
    for h in range(H):
        a = policy.act(h, x[:, None], memory)
        after = x + np.where(a == 1, 0.3, 0.1) + 0.05 * rng.normal(size=n)
        reward = np.where(a == 1, 2.0, 1.0) - 4.0 * (after > 1)
        x = np.where(after > 1, 0.1 * rng.random(n), after)
        memory = policy.update(h, Moved(x[:, None], a, reward, x[:, None]), memory)
        returns += reward
    return returns


def check_bound_of_the_class(model, given):
    """With the alpha of the theory nothing is left, with none it is what the model promises, in between it falls."""

    def bound(scale):
        schedule = replace(theory(0.05), alpha_scale=scale)
        if model == "lowrank":
            return lowrank_bound(*given[:-1], schedule).plan.objective
        return kernel_bound(*given[:-1], schedule)[0].promise

    found = [bound(scale) for scale in (1e-12, 1e-5, 1.0)]
    assert found[0] > found[1] > found[2]
    assert found[2] <= 4 * -3.0  # four steps of the worst reward
    if model == "lowrank":
        plain = models.policy_for(*given[:2], 4, 0.25).plan.objective
    else:
        kernel = given[0]
        allowed = np.ones_like(kernel.visits, dtype=bool)
        plain = models.plan_kernel(kernel.rows, kernel.scale, 4, kernel.start, 0.25, 0 * kernel.visits, allowed).promise
    assert found[0] == pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize("model", ["lowrank", "kernel"])
def test_models_of_a_line_are_planned_with_fear(model, tmp_path, monkeypatch):
    given, bounded = [], {"lowrank": lowrank_bound, "kernel": kernel_bound}[model]
    monkeypatch.setattr(models, f"{model}_bound", lambda *args: given.extend(args) or bounded(*args))
    learned = learn_logs(walk(250, 0), objective=CVaR(0.25), model=model)
    assert learned.tau == 0.25
    check_bound_of_the_class(model, given)
    earned = cvar(walked(learned.policy, 3000, 1), 0.25)
    assert learned.diagnostics["model"].startswith("low rank" if model == "lowrank" else "kernel")
    assert learned.lower <= earned
    assert earned > learned.behaviour.high
    assert learned.diagnostics["value_with_penalty"] <= learned.promise
    save(learned.policy, tmp_path / "plan.policy")
    again = walked(load(tmp_path / "plan.policy").policy, 200, 2)
    np.testing.assert_array_equal(again, walked(learned.policy, 200, 2))
    assert "model class" in repr(learned)
    assert learned.bounds["if the model class holds the truth"] <= learned.lower
    write_log_run(tmp_path / "run", learned, "walk", {})
    shown = cli("show", tmp_path / "run", "--step", 0)
    assert shown.exit_code == 0, shown.output
    assert "remaining budget" in shown.stdout
    assert cli("report", tmp_path / "run", "-o", tmp_path / "page.html").exit_code == 0


def test_models_are_compared_in_the_same_units():
    """On a line a kernel tells more than latents do; mean of P(x' | x, a) / P(x') over x' drawn blindly is one."""
    log = read_log(walk(300, 3))
    replay, laws = models.replay_of(log)
    kernel = models.fit_kernel_model(models.played_episodes(log, held_out=True), 2, 0.25, np.random.default_rng(0))
    t = SeenTransitions.of(replay)
    keep = t.held & ~t.cut
    gains = models.kernel_gains(kernel, t, keep, replay)
    decoder = fitted_decoder(log.observation, 4, np.random.default_rng(0))
    held = np.flatnonzero(np.arange(replay.n) % 5 == 0)
    assert gains.shape == judged(decoder, replay, 2, laws, True, held).shape
    assert gains.mean() > judged(decoder, replay, 2, laws, True, held).mean()
    rng, known = np.random.default_rng(1), np.flatnonzero(~t.cut)
    blind = []
    for _ in range(5):
        place = np.arange(t.h.size)
        place[known] = rng.permutation(known)
        mixed = replace(t, after=t.after[place], reward=t.reward[place])
        blind.append(np.exp(models.kernel_gains(kernel, mixed, keep, replay)).mean())
    assert np.mean(blind) < 1.2


def test_models_that_cannot_be_had_are_refused():
    with pytest.raises(InputError, match="model = kernel"):
        learn_logs(walk(30, 0), objective=Mean(), model="kernel")


def leaning(n, seed):
    """The walk of somebody who takes action 1 more often the further left they are: chance 1 / (1 + exp(4 x - 2))."""
    frame = walk(n, seed)
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(4 * frame["obs_0"] - 2))
    frame["action"] = (rng.random(p.size) < p).astype(int)
    return frame | {"probability": np.where(frame["action"] == 1, p, 1 - p)}


def test_clone_of_who_saw_observations(tmp_path):
    """It finds the softmax that the actions came from, draws from it, and is the same from a file."""
    log = read_log(leaning(1500, 0))
    clone = softmax_clone(log, np.random.default_rng(0))
    x = np.linspace(0.0, 1.0, 11)[:, None]
    p = clone.network.probabilities(2, x)[:, 1]
    np.testing.assert_allclose(p, 1 / (1 + np.exp(4 * x[:, 0] - 2)), atol=0.05)
    drawn = clone.act(0, np.zeros((4000, 1)), clone.start(4000)).mean()
    assert drawn == pytest.approx(p[0], abs=0.03)
    weights = weights_of(clone, log, log.probability)
    assert weights.mean() == pytest.approx(1.0, abs=0.1)
    assert weights.std() < 0.3
    learned = learn_logs(leaning(60, 1), 0.25, model="block", fallback="behaviour")
    assert learned.lower == learned.behaviour.low
    assert "softmax of the observation" in learned.assumptions[-1]
    save(learned.policy, tmp_path / "clone.policy")
    again = load(tmp_path / "clone.policy").policy
    seen = np.random.default_rng(3).random((50, 1))
    fresh = SoftmaxPolicy(learned.policy.network, np.random.default_rng(0))
    np.testing.assert_array_equal(again.act(1, seen, again.start(50)), fresh.act(1, seen, fresh.start(50)))
