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
    "Discriminative": "oracles.discriminative",
    "ELA": "learners.ela",
    "Estimate": "estimate",
    "FiniteMDP": "mdp",
    "InputError": "checks",
    "Interval": "bounds",
    "MarkovPolicy": "policy",
    "ModelChoice": "learners.choices",
    "NotConverged": "checks",
    "Plan": "plan",
    "Policy": "policy",
    "Predictor": "predict",
    "ReturnLaw": "risk",
    "Schedule": "schedules",
    "cvar": "risk",
    "cvar_interval": "bounds",
    "evaluate": "estimate",
    "load": "storage",
    "make_episodic": "envs",
    "make_simulator": "envs",
    "mean_interval": "bounds",
    "open_simulator": "envs",
    "play": "rollout",
    "play_simulator": "rollout",
    "read_mdp": "envs",
    "save": "storage",
    "solve": "solver",
    "train": "training",
    "var": "risk",
    "var_interval": "bounds",
    "write_mdp": "envs",
}

__all__ = [
    "ELA",
    "BudgetPolicy",
    "Discriminative",
    "Estimate",
    "FiniteMDP",
    "InputError",
    "Interval",
    "MarkovPolicy",
    "ModelChoice",
    "NotConverged",
    "Plan",
    "Policy",
    "Predictor",
    "ReturnLaw",
    "Schedule",
    "cvar",
    "cvar_interval",
    "evaluate",
    "load",
    "make_episodic",
    "make_simulator",
    "mean_interval",
    "open_simulator",
    "play",
    "play_simulator",
    "read_mdp",
    "save",
    "solve",
    "train",
    "var",
    "var_interval",
    "write_mdp",
]

if TYPE_CHECKING:
    from tailrank.bounds import Interval, cvar_interval, mean_interval, var_interval
    from tailrank.checks import InputError, NotConverged
    from tailrank.envs import make_episodic, make_simulator, open_simulator, read_mdp, write_mdp
    from tailrank.estimate import Estimate, evaluate
    from tailrank.learners.choices import ModelChoice
    from tailrank.learners.ela import ELA
    from tailrank.mdp import FiniteMDP
    from tailrank.oracles.discriminative import Discriminative
    from tailrank.plan import Plan
    from tailrank.policy import BudgetPolicy, MarkovPolicy, Policy
    from tailrank.predict import Predictor
    from tailrank.risk import ReturnLaw, cvar, var
    from tailrank.rollout import play, play_simulator
    from tailrank.schedules import Schedule
    from tailrank.solver import solve
    from tailrank.storage import load, save
    from tailrank.training import train


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrank' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tailrank.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
