"""What a run is, as plain data in three tables, and the same as a TOML file.

    [environment]   where it plays              `runs/settings.py:EnvironmentConfig`
    [learner]       the algorithm and its settings   the dataclass of the learner
    [run]           how long, what is returned, how it is judged    `runs/settings.py:RunSettings`

The checksum is of the values that what is learned depends on: two files that say the same in another order, or ask for
more iterations of the same, describe the same run. Flat files, as 0.1
wrote them, are read too (`runs/flat.py`).
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailrank import checks
from tailrank._system.reading import read_bytes
from tailrank._system.settings import make, settings_of, values_of
from tailrank.checks import InputError
from tailrank.envs import ENVIRONMENTS, SIMULATORS
from tailrank.learning.decoding.settings import MODELS as OBSERVED
from tailrank.learning.oracles.choices import MODELS
from tailrank.learning.registry import COUNTABLE, SIMULATED, learner_class
from tailrank.runs import flat
from tailrank.runs.settings import LATER, READING, EnvironmentConfig, RunSettings, plain_table
from tailrank.runs.toml_text import toml_of

MOST_TOML = 2**20


@dataclass(frozen=True)
class LearnerConfig:
    """The name of the learner, or "module:class", and its settings by name, as far as they were given."""

    algorithm: str = "ela"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def foreign(self) -> bool:
        """Whether its class stands in a package of somebody else, which is only imported where it is trusted."""
        return ":" in self.algorithm


@dataclass(frozen=True)
class RunConfig:
    """A run. Every value is checked when it is made; None leaves the choice to the environment.

    >>> config = RunConfig.of("risky-lock", iterations=20, tau=0.2, settings={"horizon": 5})
    >>> config.tau, config.iterations, config.environment.settings
    (0.2, 20, {'horizon': 5})
    """

    environment: EnvironmentConfig
    learner: LearnerConfig
    run: RunSettings
    written: str = field(default="", compare=False)
    """The checksum in the files of a run that 0.1 wrote."""

    @classmethod
    def of(cls, environment: str, **values: Any) -> RunConfig:
        """The run with these flat values (`runs/flat.py:KEYS`)."""
        return cls.from_dict({"environment": environment} | values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], shown: Mapping[str, str] | None = None) -> RunConfig:
        """The configuration with these values, flat or in tables; an unknown name is refused.

        shown: how settings of the learner were written, for errors.
        """
        if flat.is_flat(values):
            values, shown = flat.tables_of(values)
        for name in values:
            if name not in ("environment", "learner", "run"):
                raise InputError(f"{name}: is no table of a run; known are environment, learner and run")
        tables = {name: dict(values.get(name, {})) for name in ("environment", "learner", "run")}
        for table, name in (("environment", "name"), ("run", "iterations")):
            if tables[table].get(name) is None:
                raise InputError(f"{'environment' if name == 'name' else name}: must be given")
        settings = tables["environment"].pop("settings", {})
        given = make(EnvironmentConfig, tables["environment"], "an environment")
        environment = EnvironmentConfig(**{**_fields(given), "settings": settings})
        run = make(RunSettings, tables["run"], "a run")
        algorithm = tables["learner"].pop("algorithm", "ela")
        learner = LearnerConfig(str(algorithm), plain_table(tables["learner"], "learner"))
        return _checked(cls(environment, learner, run), shown or {})

    @classmethod
    def read(cls, path: str | Path) -> RunConfig:
        """The configuration in a TOML file."""
        try:
            values = read_toml(path)
            if not flat.is_flat(values):
                return cls.from_dict(values)
            config = cls.from_dict(flat.of_0_1(values))
            return cls(config.environment, config.learner, config.run, flat.checksum_0_1(values))
        except InputError as error:
            text = str(error)
            raise InputError(text if text.startswith(str(path)) else f"{path}: {text}") from None

    @property
    def tau(self) -> float:
        """The tail fraction."""
        return float(self.learner.settings.get("tau", 0.1))

    @property
    def seed(self) -> int:
        """The seed."""
        return self.run.seed

    @property
    def iterations(self) -> int:
        """Iterations to run, at most."""
        return self.run.iterations

    @property
    def algorithm(self) -> str:
        """The name of the learner."""
        return self.learner.algorithm

    @property
    def named(self) -> bool:
        """Whether the environment is one of those with a name."""
        return self.environment.name in ENVIRONMENTS or self.environment.name in SIMULATORS

    @property
    def simulated(self) -> bool:
        """Whether it learns from observations of a simulator."""
        environment, learner = self.environment, self.learner
        model = learner.settings.get("model")
        asked = environment.rewards is not None or (
            model in OBSERVED and (model != "auto" or environment.name not in ENVIRONMENTS)
        )
        only_there = not learner.foreign and learner.algorithm in SIMULATED and learner.algorithm not in COUNTABLE
        return asked or environment.name in SIMULATORS or only_there

    @property
    def kind(self) -> str:
        """The kind of environment: countable or simulator."""
        return "simulator" if self.simulated else "countable"

    def make_learner(self) -> Any:
        """The learner; a class in a package is imported here, and so run."""
        cls = learner_class(self.algorithm, self.kind)
        if cls.kind != self.kind:
            hint = "; add rewards = 'learned'" if cls.kind == "simulator" else ""
            raise InputError(f"algorithm = {self.algorithm!r:.80}: is for a {cls.kind} environment{hint}")
        return make(cls, _with_defaults(self), self.algorithm)

    def tables(self) -> dict[str, dict[str, Any]]:
        """The three tables as plain data; what is None is left out."""
        environment, settings = values_of(self.environment), self.environment.settings
        return {
            "environment": environment | ({"settings": settings} if settings else {}),
            "learner": {"algorithm": self.algorithm} | self.learner.settings,
            "run": values_of(self.run),
        }

    def flat(self) -> dict[str, Any]:
        """The run in one table, for readers."""
        return flat.flat_of(self.tables())

    def differences(self, other: RunConfig) -> Iterator[tuple[str, Any, Any]]:
        """Names of settings with other values in the other run, and both values."""
        for mine, theirs in zip(self.tables().values(), other.tables().values(), strict=True):
            for name in dict.fromkeys((*mine, *theirs)):
                if mine.get(name) != theirs.get(name):
                    yield "environment" if name == "name" else name, mine.get(name), theirs.get(name)

    @property
    def checksum(self) -> str:
        """SHA-256 of the values that what was learned depends on: all but those that may be changed later."""
        tables = {
            table: {name: value for name, value in values.items() if name not in LATER.get(table, ())}
            for table, values in self.tables().items()
        }
        text = json.dumps(tables, sort_keys=True, allow_nan=False)
        return self.written or hashlib.sha256(text.encode()).hexdigest()

    def with_changes(self, changes: Mapping[str, Any]) -> RunConfig:
        """The same run with other values of what may still be changed (`runs/settings.py:LATER`)."""
        tables = self.tables()
        for name, value in changes.items():
            table = next((table for table, names in LATER.items() if name in names), None)
            if table is None:
                known = ", ".join(name for names in LATER.values() for name in names)
                raise InputError(f"{name}: cannot be changed any more, the run began with it; {known} can")
            tables[table][name] = value
        return RunConfig.from_dict(tables)

    def toml(self) -> str:
        """The text of a TOML file that `read` gives this configuration for, but for the cluster: a file names none."""
        tables = self.tables()
        tables["environment"].pop("cluster", None)
        return toml_of(tables)


def _fields(given: EnvironmentConfig) -> dict[str, Any]:
    return {place.field: getattr(given, place.field) for place in settings_of(EnvironmentConfig).values()}


def _checked(config: RunConfig, shown: Mapping[str, str]) -> RunConfig:
    """The configuration with the values of its learner as they are kept; raises where something does not fit."""
    environment = config.environment
    _check_algorithm(config)
    for table in (environment, config.run):
        _check_kind(table, config.kind)
    if config.named:
        allowed = ("imports",) if config.learner.foreign else ()
        for name in READING:
            if getattr(environment, name) != settings_of(EnvironmentConfig)[name].default and name not in allowed:
                raise InputError(f"{name}: is for MDPs that are read; set what {environment.name} has in settings")
    elif environment.settings and not config.simulated:
        raise InputError(f"settings: are for {', '.join(ENVIRONMENTS)}, not for {environment.name!r:.60}")
    if config.simulated and config.run.stop_cvar is not None and not config.run.evaluate_every:
        raise InputError("stop_cvar: needs evaluate_every, how often a plan is judged in fresh episodes")
    if config.learner.foreign:
        return config
    given = _with_defaults(config)
    _check_settings(config, given, shown)
    cls = learner_class(config.algorithm, config.kind)
    learner = make(cls, given, config.algorithm, shown)
    _check_output(config, cls.outputs)
    values = values_of(learner)
    names = dict.fromkeys(("tau", *config.learner.settings))
    kept = LearnerConfig(config.algorithm, {name: values[name] for name in names if name in values})
    return RunConfig(config.environment, kept, config.run)


def _check_algorithm(config: RunConfig) -> None:
    algorithm, known = config.algorithm, SIMULATED if config.simulated else COUNTABLE
    if config.learner.foreign or algorithm in known:
        if config.simulated and config.environment.name in ENVIRONMENTS and algorithm not in COUNTABLE:
            raise InputError(
                f"algorithm = {algorithm!r}: learns from observations, {config.environment.name} has states; use "
                f"{next(iter(SIMULATORS))} or a Gymnasium id"
            )
        return
    if algorithm in COUNTABLE:
        rivals = ", ".join(name for name in SIMULATED if name not in ("ela", "ella"))
        raise InputError(f"algorithm = {algorithm!r}: from observations learn ela, ella and {rivals}")
    checks.one_of(algorithm, "algorithm", dict.fromkeys((*COUNTABLE, *SIMULATED)))


def _check_kind(table: EnvironmentConfig | RunSettings, kind: str) -> None:
    """Settings that do nothing for this kind of environment are refused."""
    for name, place in settings_of(type(table)).items():
        if place.rule.only not in ("", kind) and getattr(table, place.field) != place.default:
            raise InputError(f"{name}: {ELSEWHERE[place.rule.only]}")


ELSEWHERE = {
    "countable": "is for finite environments, not for learning from observations",
    "simulator": "is for learning from observations (--model mixture, neural, linear or table)",
}


def _with_defaults(config: RunConfig) -> dict[str, Any]:
    """The settings of the learner; ELA on simulators has others where steps may differ, as in the locks."""
    given = config.learner.settings
    if not config.simulated or config.algorithm not in ("ela", "ella"):
        return given
    share = given.get("share", config.environment.name not in SIMULATORS)
    free = share or given.get("model") == "lowrank"
    return {"share": share, "rank": "auto" if free else 3, "bonus": "visits" if share else "elliptical"} | given


def _check_settings(config: RunConfig, given: Mapping[str, Any], shown: Mapping[str, str]) -> None:
    """Settings that the same algorithm has on the other kind of environment are refused with what they are for."""
    if config.simulated and config.algorithm in ("ela", "ella") and given.get("model") in MODELS:
        known = ", ".join(OBSERVED)
        raise InputError(f"model = {given['model']!r}: is for finite environments; for observations: {known}")
    if not config.simulated and given.get("rank") == "auto":
        raise InputError("rank = 'auto': is for learning from observations; give a number")
    other, registry = ("countable", COUNTABLE) if config.simulated else ("simulator", SIMULATED)
    own = settings_of(learner_class(config.algorithm, config.kind))
    if config.algorithm in registry:
        there = settings_of(learner_class(config.algorithm, other))
        for name in given:
            if name in there and name not in own:
                said = shown.get(name, name).partition(".")[0]
                raise InputError(f"{said}: {ELSEWHERE[other]}")


def _check_output(config: RunConfig, outputs: tuple[str, ...]) -> None:
    """A rule that the learner does not know is refused."""
    defaults = settings_of(RunSettings)
    for name in ("output", "output_episodes"):
        if not outputs and getattr(config.run, name) != defaults[name].default:
            raise InputError(f"{name}: is no setting of {config.algorithm}, which returns its last policy")
    if outputs and config.run.output not in outputs:
        known = ", ".join(outputs)
        raise InputError(f"output = {config.run.output!r}: is for finite environments; for observations: {known}")


def read_toml(path: str | Path) -> dict[str, Any]:
    """The values in a TOML file."""
    try:
        return tomllib.loads(read_bytes(path, MOST_TOML).decode())
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not a TOML file ({error})") from None
