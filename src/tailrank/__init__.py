"""Tail-risk-averse reinforcement learning: policies with the best CVaR, exact answers, certified bounds.

Conventions: tau in (0, 1] is the fraction of the lower tail of the return; tau = 1 is the mean. Steps,
states and actions are counted from zero in Python.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.2.0"

_HOMES = {
    "BudgetPolicy": "policies.tables",
    "Cap": "planning.objectives.constrained",
    "ConfidenceInterval": "risk.intervals",
    "cvar": "risk.law",
    "CVaR": "risk.measures",
    "cvar_interval": "risk.intervals",
    "Discriminative": "learning.decoding.choose",
    "efficient_frontier": "planning.objectives.efficient",
    "ELA": "learning.ela.ela",
    "Entropic": "risk.measures",
    "Estimate": "planning.evaluate",
    "evaluate": "planning.evaluate",
    "EVaR": "risk.measures",
    "Expectile": "risk.measures",
    "FiniteMDP": "models.mdp",
    "Floor": "planning.objectives.constrained",
    "InputError": "checks",
    "load": "runs.policy_files.storage",
    "make_episodic": "envs",
    "make_simulator": "envs",
    "MarkovPolicy": "policies.tables",
    "maximise_mean": "planning.objectives.constrained",
    "Mean": "risk.measures",
    "mean_interval": "risk.intervals",
    "MeanCVaR": "risk.measures",
    "MeanVariance": "risk.measures",
    "Measure": "risk.measures",
    "ModelChoice": "learning.oracles.choices",
    "NotConverged": "checks",
    "open_simulator": "envs",
    "Plan": "planning.plan",
    "play": "episodes.rollout",
    "play_simulator": "episodes.rollout",
    "Policy": "policies.tables",
    "Predictor": "policies.predictor",
    "read_mdp": "envs",
    "ReturnLaw": "risk.law",
    "save": "runs.policy_files.storage",
    "Schedule": "learning.schedule",
    "solve": "planning.solve",
    "Spectral": "risk.measures",
    "Target": "risk.measures",
    "train": "learning.train",
    "Utility": "risk.measures",
    "var": "risk.law",
    "VaR": "risk.measures",
    "var_interval": "risk.intervals",
    "WorstCase": "risk.measures",
    "write_mdp": "envs",
}

__all__ = [
    "ELA",
    "BudgetPolicy",
    "CVaR",
    "Cap",
    "ConfidenceInterval",
    "Discriminative",
    "EVaR",
    "Entropic",
    "Estimate",
    "Expectile",
    "FiniteMDP",
    "Floor",
    "InputError",
    "MarkovPolicy",
    "Mean",
    "MeanCVaR",
    "MeanVariance",
    "Measure",
    "ModelChoice",
    "NotConverged",
    "Plan",
    "Policy",
    "Predictor",
    "ReturnLaw",
    "Schedule",
    "Spectral",
    "Target",
    "Utility",
    "VaR",
    "WorstCase",
    "cvar",
    "cvar_interval",
    "efficient_frontier",
    "evaluate",
    "load",
    "make_episodic",
    "make_simulator",
    "maximise_mean",
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
    from tailrank.checks import InputError, NotConverged
    from tailrank.envs import make_episodic, make_simulator, open_simulator, read_mdp, write_mdp
    from tailrank.episodes.rollout import play, play_simulator
    from tailrank.learning.decoding.choose import Discriminative
    from tailrank.learning.ela.ela import ELA
    from tailrank.learning.oracles.choices import ModelChoice
    from tailrank.learning.schedule import Schedule
    from tailrank.learning.train import train
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.evaluate import Estimate, evaluate
    from tailrank.planning.objectives.constrained import Cap, Floor, maximise_mean
    from tailrank.planning.objectives.efficient import efficient_frontier
    from tailrank.planning.plan import Plan
    from tailrank.planning.solve import solve
    from tailrank.policies.predictor import Predictor
    from tailrank.policies.tables import BudgetPolicy, MarkovPolicy, Policy
    from tailrank.risk.intervals import ConfidenceInterval, cvar_interval, mean_interval, var_interval
    from tailrank.risk.law import ReturnLaw, cvar, var
    from tailrank.risk.measures import (
        CVaR,
        Entropic,
        EVaR,
        Expectile,
        Mean,
        MeanCVaR,
        MeanVariance,
        Measure,
        Spectral,
        Target,
        Utility,
        VaR,
        WorstCase,
    )
    from tailrank.runs.policy_files.storage import load, save


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrank' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tailrank.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
