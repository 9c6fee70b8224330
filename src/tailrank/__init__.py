"""Tail-risk-averse reinforcement learning: policies with the best CVaR, exact answers, certified bounds.

    plan = tailrank.solve("machine.csv", tau=0.1, horizon=100)     a problem that is known
    learned = tailrank.learn("CartPole-v1", tau=0.1, episodes=300) one that can only be played
    tailrank.learn_logs("ward.csv", tau=0.1, horizon=8)            one of which there are only records
    plan.evaluate(); plan.save("machine.policy"); tailrank.load("machine.policy").predict("broken")

Conventions: tau in (0, 1] is the fraction of the lower tail of the return; tau = 1 is the mean. Steps,
states and actions are counted from zero in Python.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tailrank._system.lazy import lazy_names

__version__ = "0.2.0"

_HOMES = {
    "ConfidenceInterval": "risk.intervals",
    "ELA": "learning.ela.ela",
    "Estimate": "planning.evaluate",
    "FiniteMDP": "models.mdp",
    "InputError": "checks",
    "Learned": "learning.learned",
    "NotConverged": "checks",
    "ObservedELA": "learning.observed.ela",
    "Plan": "planning.plan",
    "Predictor": "policies.predictor",
    "Result": "policies.result",
    "ReturnLaw": "risk.law",
    "Schedule": "learning.schedule",
    "cvar": "risk.law",
    "evaluate": "planning.evaluate",
    "learn": "learning.learn",
    "learn_logs": "learning.offline.learn",
    "load": "runs.policy_files.storage",
    "make": "envs.sources",
    "play": "episodes.rollout",
    "save": "runs.policy_files.storage",
    "solve": "planning.solve",
    "train": "learning.train",
    "var": "risk.law",
    "write_mdp": "envs",
}
"""The public names and the modules they stand in; nothing is imported before it is asked for."""

_OLDER = {
    "BudgetPolicy": "policies.tables",
    "Discriminative": "learning.decoding.choose",
    "MarkovPolicy": "policies.tables",
    "ModelChoice": "learning.oracles.choices",
    "Policy": "policies.tables",
    "cvar_interval": "risk.intervals",
    "make_episodic": "envs",
    "make_simulator": "envs",
    "mean_interval": "risk.intervals",
    "open_simulator": "envs",
    "play_simulator": "episodes.rollout",
    "read_mdp": "envs",
    "var_interval": "risk.intervals",
}
"""Names of 0.1 that have become parts of others; they stay where they are for code that was written with them."""

_OBJECTIVES = {
    "Cap": "planning.objectives.constrained",
    "Floor": "planning.objectives.constrained",
    "efficient_frontier": "planning.objectives.efficient",
    "maximise_mean": "planning.objectives.maximise",
} | dict.fromkeys(
    (
        "CVaR",
        "EVaR",
        "Entropic",
        "Expectile",
        "Mean",
        "MeanCVaR",
        "MeanVariance",
        "Measure",
        "Spectral",
        "Target",
        "Utility",
        "VaR",
        "WorstCase",
    ),
    "risk.measures",
)
"""What `solve` takes as its objective (also as `tailrank.objectives.CVaR`), constraints, and the efficient frontier."""

_MODULES = {"objectives": "risk.measures"}
"""Modules that are reached by another name."""

__all__ = [
    "ELA",
    "ConfidenceInterval",
    "Estimate",
    "FiniteMDP",
    "InputError",
    "Learned",
    "NotConverged",
    "ObservedELA",
    "Plan",
    "Predictor",
    "Result",
    "ReturnLaw",
    "Schedule",
    "cvar",
    "evaluate",
    "learn",
    "learn_logs",
    "load",
    "make",
    "play",
    "save",
    "solve",
    "train",
    "var",
    "write_mdp",
]

if TYPE_CHECKING:
    from tailrank.checks import InputError, NotConverged
    from tailrank.envs import write_mdp
    from tailrank.envs.sources import make
    from tailrank.episodes.rollout import play
    from tailrank.learning.ela.ela import ELA
    from tailrank.learning.learn import learn
    from tailrank.learning.learned import Learned
    from tailrank.learning.observed.ela import ObservedELA
    from tailrank.learning.offline.learn import learn_logs
    from tailrank.learning.schedule import Schedule
    from tailrank.learning.train import train
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.evaluate import Estimate, evaluate
    from tailrank.planning.plan import Plan
    from tailrank.planning.solve import solve
    from tailrank.policies.predictor import Predictor
    from tailrank.policies.result import Result
    from tailrank.risk.intervals import ConfidenceInterval
    from tailrank.risk.law import ReturnLaw, cvar, var
    from tailrank.runs.policy_files.storage import load, save


_load = lazy_names("tailrank", _HOMES | _OLDER | _OBJECTIVES)


def __getattr__(name: str) -> object:
    return importlib.import_module(f"tailrank.{_MODULES[name]}") if name in _MODULES else _load(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
