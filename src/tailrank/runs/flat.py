"""A run in one flat table: how 0.1 wrote config.toml, how sweep files are written, and how runs are compared.

`tables_of` sorts flat values into the three tables; `flat_of` is the way back, for readers of runs. A flat config.toml
of 0.1 says every value, those that its learner does not have too: `without_defaults` leaves out what was the default.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tailrank import checks
from tailrank._system.settings import settings_of
from tailrank.checks import InputError
from tailrank.learning.aim import Aim
from tailrank.learning.decoding.settings import DecoderSettings
from tailrank.learning.ela.settings import Collecting
from tailrank.learning.lowrank.settings import LowRankSettings
from tailrank.learning.observed.settings import Observing
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.schedule import Schedule
from tailrank.runs.settings import EnvironmentConfig, RunSettings, plain_table

NETWORK = ("width", "layers", "restarts", "steps", "held_out")
"""What the table `network` holds: settings of `DecoderSettings` that have no option of their own."""
COMMON = (Aim, ModelChoice, Collecting, Schedule, DecoderSettings, Observing, LowRankSettings)
"""Where the settings of learners stand that have an option of their own; others are in the table `planner`."""
LEARNER = tuple(dict.fromkeys(name for cls in COMMON for name in settings_of(cls) if name not in NETWORK))
ENVIRONMENT = tuple(name for name in settings_of(EnvironmentConfig) if name != "name")
RUN = tuple(settings_of(RunSettings))
TABLES = ("settings", "planner", "network")
KEYS = ("environment", "algorithm", "tau", "settings", *ENVIRONMENT, *LEARNER, *RUN, "planner", "network")
"""All names of a flat run."""

DEFAULTS_0_1: dict[str, Any] = {
    "tau": 0.1,
    "algorithm": "ela",
    "seed": 0,
    "index_base": "auto",
    "axis_order": "auto",
    "imports": [],
    "batch": 1,
    "growth": 0.0,
    "cap": "corrected",
    "log": "corrected",
    "output": "best",
    "output_episodes": 1000,
    "checkpoint_every": 25,
    "reward_levels": 20,
    "pilot": 20,
    "evaluate_every": 0,
    "evaluation_episodes": 1000,
    "settings": {},
    "planner": {},
    "network": {},
} | dict.fromkeys(
    (
        *("horizon", "discount", "start", "upsilon", "model", "rank", "collect", "share", "alpha_scale", "lam_scale"),
        *("stop_cvar", "stop_within", "episodes", "rewards", "reward_range", "action_levels", "width", "bonus"),
    )
)
"""What 0.1 meant where a flat file says nothing."""
CHOOSING_0_1 = ("ela", "ella", "ela-bernstein", "rep-ucb", "flambe", "greedy", "uniform")
CLASSES_0_1 = ("risky-lock", "random-lowrank", "decoy")
"""Learners of 0.1 with a choice of models, and environments of 0.1 with a class."""


def is_flat(values: Mapping[str, Any]) -> bool:
    """Whether the values are not in tables."""
    return not any(isinstance(values.get(name), Mapping) for name in ("environment", "learner", "run"))


def checksum_0_1(values: Mapping[str, Any]) -> str:
    """What 0.1 calls the run that it wrote in a flat file."""
    return hashlib.sha256(json.dumps(DEFAULTS_0_1 | dict(values), sort_keys=True).encode()).hexdigest()


def without_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """A flat file without what 0.1 wrote for learners that do not have it."""
    own = set(LEARNER)
    return {name: x for name, x in values.items() if name not in own or x != DEFAULTS_0_1.get(name)}


def of_0_1(values: Mapping[str, Any]) -> dict[str, Any]:
    """A flat file of 0.1 as it was meant where nothing else was said.

    From observations it learned by mixtures, from states by the environment's class, or by counts if there was none.
    """
    from tailrank.envs import SIMULATORS

    left = without_defaults(values)
    name, algorithm = left.get("environment"), left.get("algorithm", "ela")
    if name in SIMULATORS or left.get("rewards") is not None:
        return ({"model": "mixture"} if algorithm == "ela" else {}) | left
    if algorithm not in CHOOSING_0_1 or left.get("rank") is not None:
        return left
    return {"model": "class" if name in CLASSES_0_1 else "counts"} | left


def tables_of(values: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The three tables of flat values, and how settings of the learner were written (`planner.beta`).

    An unknown name is refused with the nearest known one.
    """
    tables: dict[str, dict[str, Any]] = {"environment": {}, "learner": {}, "run": {}}
    shown: dict[str, str] = {}
    for name, value in values.items():
        if name not in KEYS:
            near = checks.did_you_mean(name, KEYS)
            raise InputError(f"{name}: is no setting of a run{near or '; known are ' + ', '.join(KEYS)}")
        if name in ("planner", "network"):
            own = plain_table(value, name)
            tables["learner"] |= own
            shown |= {key: f"{name}.{key}" for key in own}
        elif value is not None:
            table = "environment" if name in ("settings", *ENVIRONMENT) else "run" if name in RUN else "learner"
            tables["environment" if name == "environment" else table]["name" if name == "environment" else name] = value
    return tables, shown


def flat_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """A run as flat values for readers, however it was written; without what 0.1 wrote for all learners.

    Nothing is checked: what is in the file of a run is shown as it is.
    """
    if is_flat(values):
        return without_defaults(values)
    environment, learner, run = (dict(values.get(name) or {}) for name in ("environment", "learner", "run"))
    found: dict[str, Any] = {"environment": environment.pop("name", "")} | environment | run
    algorithm = str(learner.pop("algorithm", "ela"))
    found |= {"algorithm": algorithm, "tau": learner.pop("tau", 0.1)}
    planner = {name: value for name, value in learner.items() if name not in LEARNER}
    found |= {name: value for name, value in learner.items() if name in LEARNER}
    return found | ({"planner": planner} if planner else {})
