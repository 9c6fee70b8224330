"""Compile the kernels that `make demo` and the README use, so that the first command of a user is quick."""

from __future__ import annotations

import warnings

import tailrank as tr
from tailrank.learning.registry import make_learner

warnings.simplefilter("ignore")
for reward in (0.5, 2**0.5):
    mdp = tr.FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.5, 0.5], [reward, 2, 0], horizon=20)
    for criterion in ("cvar", "iterated", "chow"):
        tr.solve(mdp, tau=(0.2, 1.0), criterion=criterion, seconds=2)
lock = tr.make("risky-lock", horizon=3, n_actions=2, n_states=6)
for name in ("ela", "cvar-ucbvi"):
    list(tr.train(make_learner(name, "countable", tau=0.2), lock, iterations=2, seed=0))
for source, settings in (("rich-lock", {"horizon": 3, "n_actions": 2}), ("CartPole-v1", {"horizon": 5})):
    tr.learn(source, tau=0.2, episodes=24, seed=0, **settings)
log = {"episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "state": [0] * 4, "action": [0, 1, 1, 0], "reward": [1, 0, 2, 1]}
tr.learn_logs(log, tau=0.2)
