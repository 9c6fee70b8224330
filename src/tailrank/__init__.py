"""Tail-risk-averse reinforcement learning: policies with the best CVaR, exact answers, certified bounds.

Conventions: tau in (0, 1] is the fraction of the lower tail of the return; tau = 1 is the mean. Steps,
states and actions are counted from zero in Python.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "BudgetPolicy": "policy",
    "Estimate": "estimate",
    "FiniteMDP": "mdp",
    "InputError": "checks",
    "MarkovPolicy": "policy",
    "NotConverged": "checks",
    "Plan": "plan",
    "Policy": "policy",
    "ReturnLaw": "risk",
    "cvar": "risk",
    "evaluate": "estimate",
    "load": "storage",
    "read_mdp": "envs",
    "play": "rollout",
    "save": "storage",
    "solve": "solver",
    "var": "risk",
    "write_mdp": "envs",
}

__all__ = [
    "BudgetPolicy",
    "Estimate",
    "FiniteMDP",
    "InputError",
    "MarkovPolicy",
    "NotConverged",
    "Plan",
    "Policy",
    "ReturnLaw",
    "cvar",
    "evaluate",
    "load",
    "play",
    "read_mdp",
    "save",
    "solve",
    "var",
    "write_mdp",
]

if TYPE_CHECKING:
    from tailrank.checks import InputError, NotConverged
    from tailrank.envs import read_mdp, write_mdp
    from tailrank.estimate import Estimate, evaluate
    from tailrank.mdp import FiniteMDP
    from tailrank.plan import Plan
    from tailrank.policy import BudgetPolicy, MarkovPolicy, Policy
    from tailrank.risk import ReturnLaw, cvar, var
    from tailrank.rollout import play
    from tailrank.solver import solve
    from tailrank.storage import load, save


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrank' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tailrank.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
