"""What a run is, as plain data, and the same as a TOML file.

The checksum is of the values: two files that say the same in another order describe the same run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailrank import checks
from tailrank._system.reading import read_bytes
from tailrank.checks import InputError
from tailrank.envs import ENVIRONMENTS, SIMULATORS
from tailrank.learning.ela.parts import COLLECTS
from tailrank.learning.lowrank.ela import MODELS as OBSERVED
from tailrank.learning.observed.ela import BONUSES
from tailrank.learning.oracles.choices import MODELS
from tailrank.learning.output import RULES
from tailrank.learning.registry import ALGORITHMS, LOW_RANK, Recipe
from tailrank.learning.rivals.observations import RIVALS, settings_of
from tailrank.runs.toml_text import toml_of

READING = ("horizon", "discount", "start", "upsilon", "index_base", "axis_order", "imports")
"""How an MDP is read from a source; environments with a name have `settings` instead."""


@dataclass(frozen=True)
class RunConfig:
    """A run. Every value is checked when it is made; None leaves the choice to the environment.

    environment: a name (`settings` are its own), or a file or Gymnasium id that `tailrank solve` reads.
    stop_cvar: stop as soon as the CVaR of a plan reaches this; stop_within: or this share of CVaR* below CVaR*.
    growth: collections between two fits, as a share of all so far. planner: settings that only this algorithm has (of
    CVaR-LSVI for ella).

    Learning from observations (`simulated`): model is one of mixture, linear, neural, table; `episodes` bounds what is
    played; rewards are learned, on a grid over reward_range (found in a pilot if left out); width copies of the
    environment play side by side; evaluate_every iterations the plan is judged by evaluation_episodes fresh episodes.
    There share, bonus and rank default to one model for all steps, visits and auto, but for the locks of this package.
    """

    environment: str
    iterations: int
    tau: float = 0.1
    algorithm: str = "ela"
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    horizon: int | None = None
    discount: float | None = None
    start: str | None = None
    upsilon: float | None = None
    index_base: str = "auto"
    axis_order: str = "auto"
    imports: tuple[str, ...] = ()
    model: str | None = None
    rank: int | str | None = None
    collect: str | None = None
    share: bool | None = None
    batch: int = 1
    growth: float = 0.0
    alpha_scale: float | None = None
    lam_scale: float | None = None
    cap: str | float = "corrected"
    log: str = "corrected"
    output: str = "best"
    output_episodes: int = 1000
    checkpoint_every: int = 25
    stop_cvar: float | None = None
    stop_within: float | None = None
    planner: dict[str, Any] = field(default_factory=dict)
    episodes: int | None = None
    rewards: str | None = None
    reward_range: tuple[float, ...] | None = None
    reward_levels: int = 20
    action_levels: int | None = None
    width: int | None = None
    bonus: str | None = None
    pilot: int = 20
    evaluate_every: int = 0
    evaluation_episodes: int = 1000
    network: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or (isinstance(value, str) and name not in ("cap", "rank")):
                raise InputError(f"{name} = {value!r}: must be a number")
        values = {
            "tau": checks.tail_level(self.tau),
            "seed": checks.whole(self.seed, "seed", least=0),
            "imports": self._imports(),
            "start": None if self.start is None else str(self.start),
            "index_base": checks.one_of(str(self.index_base), "index_base", ("auto", "0", "1")),
        }
        for name in (
            "iterations",
            "batch",
            "output_episodes",
            "checkpoint_every",
            "reward_levels",
            "pilot",
            "evaluation_episodes",
        ):
            values[name] = checks.whole(getattr(self, name), name)
        values["evaluate_every"] = checks.whole(self.evaluate_every, "evaluate_every", least=0)
        for name in ("horizon", "rank", "episodes", "action_levels", "width"):
            if getattr(self, name) is not None and not (name == "rank" and self.rank == "auto"):
                values[name] = checks.whole(getattr(self, name), name)
        for name in ("alpha_scale", "lam_scale", "stop_cvar", "stop_within", "upsilon", "growth"):
            if getattr(self, name) is not None:
                values[name] = checks.number(getattr(self, name), name)
        if self.discount is not None:
            values["discount"] = checks.discount_factor(self.discount)
        if not isinstance(self.cap, str):
            values["cap"] = checks.number(self.cap, "cap")
        if self.reward_range is not None:
            values["reward_range"] = self._range()
        self._check_names()
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self.recipe.schedule  # noqa: B018 raises where its numbers are out of range
        if self.stop_within is not None:
            checks.inside(self.stop_within, "stop_within", "[0, 1)")
        if self.upsilon is not None:
            checks.positive(self.upsilon, "upsilon")
        if self.named:
            for name in READING:
                if getattr(self, name) != DEFAULTS[name]:
                    raise InputError(f"{name}: is for MDPs that are read; set what {self.environment} has in settings")
        elif self.settings and not self.simulated:
            raise InputError(f"settings: are for {', '.join(ENVIRONMENTS)}, not for {self.environment!r:.60}")
        self._check_kind()

    def _range(self) -> tuple[float, ...]:
        if not isinstance(self.reward_range, list | tuple) or len(self.reward_range) != 2:
            raise InputError(f"reward_range = {self.reward_range!r:.60}: must be two numbers, the least and the most")
        return tuple(checks.number(x, "reward_range") for x in self.reward_range)

    def _check_kind(self) -> None:
        """Settings that do nothing for this kind of run are refused."""
        if self.simulated:
            if self.stop_cvar is not None and not self.evaluate_every:
                raise InputError("stop_cvar: needs evaluate_every, how often a plan is judged in fresh episodes")
            if self.rival:
                self._check_rival()
                return
            if self.algorithm not in ("ela", "ella"):
                rivals = ", ".join(RIVALS)
                raise InputError(f"algorithm = {self.algorithm!r}: from observations learn ela, ella and {rivals}")
            self._check_learner()
            if self.model in MODELS:
                known = ", ".join(OBSERVED)
                raise InputError(f"model = {self.model!r}: is for finite environments; for observations: {known}")
            if self.output == "uniform":
                raise InputError("output = 'uniform': is for finite environments; for observations: best, greedy")
            for name in (
                "collect",
                "stop_within",
                "discount",
                "start",
                "upsilon",
                "index_base",
                "axis_order",
            ):
                if getattr(self, name) != DEFAULTS[name]:
                    raise InputError(f"{name}: is for finite environments, not for learning from observations")
            return
        has = ALGORITHMS[self.algorithm].settings
        for name in LOW_RANK:
            if name not in has and getattr(self, name) != DEFAULTS[name]:
                known = ", ".join(has) or "no such settings"
                raise InputError(f"{name}: is no setting of {self.algorithm}, which has {known}")
        self._check_learner()
        for name in OBSERVING:
            value = getattr(self, name)
            if value != DEFAULTS[name] and value != {}:
                raise InputError(
                    f"{name}: is for learning from observations (--model mixture, neural, linear or table)"
                )
        if self.rank == "auto":
            raise InputError("rank = 'auto': is for learning from observations; give a number")

    def _check_rival(self) -> None:
        """What is ELA's, or for finite environments, does nothing for a rival on observations."""
        if self.environment in ENVIRONMENTS:
            raise InputError(
                f"algorithm = {self.algorithm!r}: learns from observations, {self.environment} has states; use "
                f"{next(iter(SIMULATORS))} or a Gymnasium id"
            )
        others = (
            "reward_range",
            "reward_levels",
            "bonus",
            "pilot",
            "network",
            "output",
            "output_episodes",
            "stop_within",
            "discount",
            "start",
            "upsilon",
            "index_base",
            "axis_order",
        )
        for name in (*LOW_RANK, *others):
            value = getattr(self, name)
            if value != DEFAULTS[name] and value != {}:
                raise InputError(f"{name}: is no setting of {self.algorithm}, whose own are given in planner")
        self._check_learner()

    def _check_learner(self) -> None:
        """The settings that only some learners have."""
        known = settings_of(self.algorithm) if self.rival else ALGORITHMS[self.algorithm].extra
        for name in self.planner:
            if name not in known:
                near = checks.did_you_mean(name, known)
                has = f"which has {', '.join(known)}" if known else "which has none of its own"
                raise InputError(f"planner.{name}: is no setting of {self.algorithm}, {has}{near}")

    @property
    def recipe(self) -> Recipe:
        """What it says about its learner (on finite environments)."""
        return Recipe(
            self.algorithm,
            self.tau,
            self.model,
            None if self.rank in (None, "auto") else int(self.rank),
            self.collect,
            bool(self.share),
            self.batch,
            self.growth,
            self.alpha_scale,
            self.lam_scale,
            self.cap,
            self.log,
            self.planner,
        )

    def _check_names(self) -> None:
        allowed = {
            "algorithm": tuple(dict.fromkeys((*ALGORITHMS, *RIVALS))),
            "log": ("corrected", "printed"),
            "output": RULES,
            "axis_order": ("auto", "state-first", "action-first"),
        }
        if self.model is not None:
            allowed["model"] = (*MODELS, *OBSERVED)
        if self.collect is not None:
            allowed["collect"] = COLLECTS
        if self.rewards is not None:
            allowed["rewards"] = ("learned",)
        if self.bonus is not None:
            allowed["bonus"] = BONUSES
        for name, names in allowed.items():
            checks.one_of(str(getattr(self, name)), name, names)
        if not isinstance(self.environment, str) or not self.environment:
            raise InputError(f"environment = {self.environment!r:.60}: must be a name, a file or a Gymnasium id")
        if self.share is not None and not isinstance(self.share, bool):
            raise InputError(f"share = {self.share!r:.60}: must be true or false")
        for name in TABLES:
            table = getattr(self, name)
            if not isinstance(table, dict):
                raise InputError(f"{name} = {table!r:.60}: must be a table of values by name")
            for key, value in table.items():
                if not _plain(value):
                    raise InputError(f"{name}.{key} = {value!r:.60}: must be a finite number, text, true or false")

    def _imports(self) -> tuple[str, ...]:
        if not isinstance(self.imports, list | tuple) or not all(isinstance(x, str) for x in self.imports):
            raise InputError(f"imports = {self.imports!r:.60}: must be a list of names of packages")
        return tuple(self.imports)

    @property
    def named(self) -> bool:
        """Whether the environment is one of those with a name."""
        return self.environment in ENVIRONMENTS or self.environment in SIMULATORS

    @property
    def simulated(self) -> bool:
        """Whether it learns from observations of a simulator."""
        asked = self.model in OBSERVED or self.rewards is not None
        return asked or self.environment in SIMULATORS or self.algorithm not in ALGORITHMS

    @property
    def rival(self) -> bool:
        """Whether it is one of the rivals that learn from observations."""
        return self.simulated and self.algorithm in RIVALS

    @property
    def checksum(self) -> str:
        """SHA-256 of the values."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """The configuration with these values; an unknown name is refused with the nearest known one."""
        for name in values:
            if name not in KEYS:
                near = checks.did_you_mean(name, KEYS)
                raise InputError(f"{name}: is no setting of a run{near or '; known are ' + ', '.join(KEYS)}")
        for name in ("environment", "iterations"):
            if values.get(name) is None:
                raise InputError(f"{name}: must be given")
        return cls(**values)

    @classmethod
    def read(cls, path: str | Path) -> RunConfig:
        """The configuration in a TOML file."""
        try:
            return cls.from_dict(read_toml(path))
        except InputError as error:
            text = str(error)
            raise InputError(text if text.startswith(str(path)) else f"{path}: {text}") from None

    def toml(self) -> str:
        """The text of a TOML file that `read` gives this configuration for."""
        values = {name: getattr(self, name) for name in KEYS if getattr(self, name) is not None}
        return toml_of(values, tables=TABLES)


TABLES = ("settings", "planner", "network")
OBSERVING = (
    "episodes",
    "rewards",
    "reward_range",
    "reward_levels",
    "action_levels",
    "width",
    "bonus",
    "pilot",
    "evaluate_every",
    "evaluation_episodes",
    "network",
)
KEYS = tuple(f.name for f in dataclasses.fields(RunConfig))
DEFAULTS = {f.name: f.default for f in dataclasses.fields(RunConfig)}
NUMBERS = (
    "iterations",
    "tau",
    "seed",
    "horizon",
    "discount",
    "upsilon",
    "rank",
    "batch",
    "growth",
    "alpha_scale",
    "lam_scale",
    "cap",
    "output_episodes",
    "checkpoint_every",
    "stop_cvar",
    "stop_within",
    "episodes",
    "reward_levels",
    "action_levels",
    "width",
    "pilot",
    "evaluate_every",
    "evaluation_episodes",
)


MOST_TOML = 2**20


def read_toml(path: str | Path) -> dict[str, Any]:
    """The values in a TOML file."""
    try:
        return tomllib.loads(read_bytes(path, MOST_TOML).decode())
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not a TOML file ({error})") from None


def _plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | tuple):
        return all(_plain(x) for x in value)
    return isinstance(value, bool | int | str)
