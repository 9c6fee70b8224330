"""Compile the kernels that `make demo` and the README use, so that the first command of a user is quick."""

from __future__ import annotations

import warnings

from tailrank import ELA, Discriminative, FiniteMDP, ModelChoice, make_episodic, make_simulator, solve, train
from tailrank.learning.rivals.states.cvar_ucbvi import cvar_ucbvi

warnings.simplefilter("ignore")
for reward in (0.5, 2**0.5):
    mdp = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.5, 0.5], [reward, 2, 0], horizon=20)
    for criterion in ("cvar", "iterated", "chow"):
        solve(mdp, tau=(0.2, 1.0), criterion=criterion, seconds=2)
lock = make_episodic("risky-lock", horizon=3, n_actions=2, n_states=6)
list(train(ELA(tau=0.2, oracle=ModelChoice("class")), lock, iterations=2, seed=0))
list(train(cvar_ucbvi(0.2), lock, iterations=2, seed=0))
rich = make_simulator("rich-lock", horizon=3, n_actions=2)
ELA(tau=0.2, oracle=Discriminative(rank=3), rewards="learned").learn(rich, episodes=24, seed=0)
