"""Compile the kernels, so that the first command of a user is quick: solves tiny MDPs both ways."""

from __future__ import annotations

import warnings

from tailrank import FiniteMDP, solve

warnings.simplefilter("ignore")
for reward in (0.5, 2**0.5):
    mdp = FiniteMDP.from_rows([0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0.5, 0.5], [reward, 2, 0], horizon=20)
    for criterion in ("cvar", "iterated", "chow"):
        solve(mdp, tau=(0.2, 1.0), criterion=criterion, seconds=2)
