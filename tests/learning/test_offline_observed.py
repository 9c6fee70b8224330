"""Logs of observation vectors: the latents are found, the plan acts on what it sees, the bound is labelled."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command import cli, fails
from logged import frame_of, small_mdp
from tailrank import cvar, learn_logs, load, save, solve

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
        memory = policy.update(h, features, actions, rewards, seen(states, rng), memory)
        returns += rewards
    return returns


def test_latents_are_found_and_the_plan_is_good(tmp_path):
    mdp, tau = small_mdp(3, H=4), 0.3
    learned = learn_logs(observed_frame(mdp, 4000, 0), tau)
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
    done = cli("learn-logs", tmp_path / "log.csv", "--tau", 0.3, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    judged = cli("evaluate", out, "--logs", tmp_path / "later.csv", "--json")
    assert judged.exit_code == 0, judged.output
    found = json.loads(judged.stdout)["results"][0]
    assert found["matched"] > 0
    assert found["lower"] <= found["cvar"] <= found["upper"]
    fails(cli("evaluate", out, "examples/models/machine.csv"), "observations", "--logs")
    fails(cli("learn-logs", tmp_path / "log.csv", "--discount", 0.9, "--out", tmp_path / "x"), "discount")
    assert cli("report", out, "-o", tmp_path / "page.html").exit_code == 0
