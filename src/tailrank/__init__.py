"""Tail-risk-averse reinforcement learning: policies with the best CVaR, exact answers, certified bounds.

Conventions: tau in (0, 1] is the fraction of the lower tail of the return; tau = 1 is the mean. Steps,
states and actions are counted from zero in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrank._system.lazy import lazy_names

__version__ = "0.2.0"

_HOMES = {
    "BudgetPolicy": "policies.tables",
    "Discriminative": "learning.decoding.choose",
    "ELA": "learning.ela.ela",
    "Estimate": "planning.evaluate",
    "FiniteMDP": "models.mdp",
    "InputError": "checks",
    "ConfidenceInterval": "risk.intervals",
    "MarkovPolicy": "policies.tables",
    "ModelChoice": "learning.oracles.choices",
    "NotConverged": "checks",
    "ObservedELA": "learning.observed.ela",
    "Plan": "planning.plan",
    "Policy": "policies.tables",
    "Predictor": "policies.predictor",
    "ReturnLaw": "risk.law",
    "Schedule": "learning.schedule",
    "cvar": "risk.law",
    "cvar_interval": "risk.intervals",
    "evaluate": "planning.evaluate",
    "learn": "learning.learn",
    "learn_logs": "learning.offline.learn",
    "load": "runs.policy_files.storage",
    "make_episodic": "envs",
    "make_simulator": "envs",
    "mean_interval": "risk.intervals",
    "open_simulator": "envs",
    "play": "episodes.rollout",
    "play_simulator": "episodes.rollout",
    "read_mdp": "envs",
    "save": "runs.policy_files.storage",
    "solve": "planning.solve",
    "train": "learning.train",
    "var": "risk.law",
    "var_interval": "risk.intervals",
    "write_mdp": "envs",
}

__all__ = [
    "ELA",
    "BudgetPolicy",
    "ConfidenceInterval",
    "Discriminative",
    "Estimate",
    "FiniteMDP",
    "InputError",
    "MarkovPolicy",
    "ModelChoice",
    "NotConverged",
    "ObservedELA",
    "Plan",
    "Policy",
    "Predictor",
    "ReturnLaw",
    "Schedule",
    "cvar",
    "cvar_interval",
    "evaluate",
    "learn",
    "learn_logs",
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
    from tailrank.checks import InputError, NotConverged
    from tailrank.envs import make_episodic, make_simulator, open_simulator, read_mdp, write_mdp
    from tailrank.episodes.rollout import play, play_simulator
    from tailrank.learning.decoding.choose import Discriminative
    from tailrank.learning.ela.ela import ELA
    from tailrank.learning.learn import learn
    from tailrank.learning.observed.ela import ObservedELA
    from tailrank.learning.offline.learn import learn_logs
    from tailrank.learning.oracles.choices import ModelChoice
    from tailrank.learning.schedule import Schedule
    from tailrank.learning.train import train
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.evaluate import Estimate, evaluate
    from tailrank.planning.plan import Plan
    from tailrank.planning.solve import solve
    from tailrank.policies.predictor import Predictor
    from tailrank.policies.tables import BudgetPolicy, MarkovPolicy, Policy
    from tailrank.risk.intervals import ConfidenceInterval, cvar_interval, mean_interval, var_interval
    from tailrank.risk.law import ReturnLaw, cvar, var
    from tailrank.runs.policy_files.storage import load, save


__getattr__ = lazy_names("tailrank", _HOMES)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
