"""A finite environment whose rewards depend on the next state: FrozenLake pays 1 for arriving at the goal."""

from __future__ import annotations

import numpy as np
import pytest

import tailrank
from tailrank.envs import from_mdp
from tailrank.episodes.streams import Streams
from tailrank.learning.ela.ela import ELA
from tailrank.learning.judge import ExactJudge
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.output import OutputRule
from tailrank.learning.train import train
from tailrank.policies.tables import UniformPolicy

pytest.importorskip("gymnasium")
H = 40


@pytest.fixture(scope="module")
def lake():
    return from_mdp(tailrank.read_mdp("FrozenLake-v1", horizon=H).mdp)


@pytest.mark.parametrize("tau", [1.0, 0.7, 0.1])
def test_it_is_learned_far_better_than_at_random(lake, tau):
    learner = ELA(tau, ModelChoice("counts"), share=True)
    *_, (state, _) = train(learner, lake, iterations=20, seed=3)
    returned = OutputRule("best", episodes=400).choose(learner, lake, state, {20: state.plan}, Streams(3))
    law = ExactJudge.of(learner, lake).law(returned.policy)
    uniform = UniformPolicy(4, H, np.random.default_rng(0))
    assert tailrank.play(uniform, lake, 2000, rng=np.random.default_rng(1)).returns.mean() < 0.05
    assert law.mean > 0.35  # the best is 0.46, also where the worst tenth of every policy earns nothing
    bound = float(returned.returned.split("at least ")[1].split()[0])
    assert 0.0 <= bound <= law.cvar(tau) + 1e-12  # a seed with which the bound holds


def test_what_is_learned_is_evaluated_in_the_lake_itself(lake, tmp_path):
    plan = tailrank.solve(lake.truth, tau=0.9)
    tailrank.save(plan, tmp_path / "lake.policy")
    mdp = tailrank.read_mdp("FrozenLake-v1", horizon=H).mdp
    assert mdp.n_states == lake.n_states - 1
    found = tailrank.evaluate(tailrank.load(tmp_path / "lake.policy"), mdp, 0.9)
    assert found.cvar == pytest.approx(tailrank.solve(mdp, tau=0.9).cvar, abs=1e-9)
