"""The folder of a run as a report sees it: its rows, its policy, and what there is to say about it.

Runs differ in what they know. A finite MDP gives exact CVaR and regret in every row and an exact return law; a
simulator gives bounds (`cvar_low`, `cvar_high`) and a sample of returns (`evaluation.safetensors`). A run that is
still going has the plan of its last checkpoint, or none yet.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import date, time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tailrank._system.reading import MOST_TEXT, check_entries, parse_json, read_arrays, read_bytes
from tailrank.checks import InputError, tail_level
from tailrank.envs.built_in.single_states import raw_truth
from tailrank.models.mdp import FiniteMDP
from tailrank.policies.tables import BudgetPolicy, Policy
from tailrank.runs import folder as files
from tailrank.runs._restored import plan_in
from tailrank.runs.beside import Beside
from tailrank.runs.build import check_trusted, environment, recipe_of
from tailrank.runs.config import RunConfig, read_toml
from tailrank.runs.flat import flat_of
from tailrank.runs.job import EVALUATION as EVALUATION
from tailrank.runs.policy_files import storage

APART = ("seed", "checkpoint_every")
"""Settings in which runs of one kind may differ."""


def finite_or_none(value: object) -> float | None:
    """A number of a file as a float; None if it is none, or not finite."""
    if not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None


def is_run(path: Path) -> bool:
    """Whether `path` is the folder of a run."""
    return path.is_dir() and (path / files.CONFIG).is_file()


@dataclass(frozen=True)
class Run:
    """A run that was read; `config` is flat, as `runs/flat.py` shows runs to readers."""

    folder: Path
    config: dict[str, Any]
    manifest: dict[str, Any]
    rows: list[dict[str, Any]] = field(repr=False)
    in_use: bool = False
    imports: tuple[str, ...] = ()
    """Packages that its configuration may have imported."""

    @classmethod
    def read(cls, folder: Path, imports: tuple[str, ...] = ()) -> Run:
        """The run in `folder`; raises where there is none or it is damaged."""
        if not is_run(folder):
            raise InputError(f"{folder}: holds no run ({files.CONFIG} is missing)")
        # In this order, while it may go on: it ends with its rows, then the manifest, then nobody holds it.
        in_use, manifest = files.in_use(folder), files.read_manifest(folder)
        values = flat_of(read_toml(folder / files.CONFIG))
        config = {name: _without_dates(value) for name, value in values.items()}
        return cls(folder, config, manifest, read_rows(folder), in_use, imports)

    @property
    def tau(self) -> float:
        """The tail fraction that it learned for."""
        return tail_level(self.config.get("tau", 0.1))

    @property
    def seed(self) -> int:
        """Its seed."""
        seed = self.config.get("seed", 0)
        return seed if isinstance(seed, int) and seed >= 0 else 0

    @property
    def status(self) -> str:
        """finished, running, interrupted, failed, stopped (killed, as nobody is running it), or unknown."""
        status = str(self.manifest.get("status", "unknown"))
        return "stopped" if status == "running" and not self.in_use else status

    @property
    def result(self) -> dict[str, Any]:
        """What it returned, empty before it has finished."""
        found = self.manifest.get("result")
        return found if isinstance(found, dict) else {}

    @property
    def notes(self) -> list[str]:
        """What it noted for the user."""
        notes = self.manifest.get("notes")
        return [str(note) for note in notes if note] if isinstance(notes, list) else []

    @property
    def interval(self) -> dict[str, float] | None:
        """The bounds on the CVaR of its sample of returns at its own tau, where it gives any."""
        low, high = (finite_or_none(self.result.get(name)) for name in ("cvar_low", "cvar_high"))
        return None if low is None or high is None else {"tau": self.tau, "low": low, "high": high}

    @property
    def star(self) -> float | None:
        """CVaR*, where it is known."""
        return finite_or_none(self.result.get("cvar_star"))

    @property
    def kind(self) -> str:
        """Runs of one kind differ in their seed only."""
        return json.dumps({k: v for k, v in self.config.items() if k not in APART}, sort_keys=True)

    def column(self, name: str) -> np.ndarray | None:
        """A column of the rows [n] with NaN where a row says nothing, or None where no row says anything."""
        values = [row.get(name) for row in self.rows]
        if all(value is None for value in values):
            return None
        numbers = [finite_or_none(value) for value in values]
        if any(x is None and isinstance(v, int | float) for x, v in zip(numbers, values, strict=True)):
            raise InputError(f"{self.folder / files.ROWS}: {name} must be finite")
        return np.array([np.nan if x is None else x for x in numbers])

    @cached_property
    def _make(self) -> tuple[Any, str]:
        """Its environment and nothing; or None, and why it was not made."""
        try:
            config = RunConfig.from_dict(self.config)
            if config.simulated:
                return None, ""
            check_trusted(config, self.imports)
            return environment(config), ""
        except (InputError, OSError) as error:
            return None, str(error)

    @property
    def environment(self) -> Any:
        """Its environment, or None where it cannot be made from the configuration or is a simulator."""
        return self._make[0]

    @property
    def missing(self) -> str:
        """Why its environment could not be made, if so."""
        return self._make[1]

    @property
    def recipe(self) -> dict[str, Any] | str:
        """What another process makes its simulator from, or why none does."""
        try:
            config = RunConfig.from_dict(self.config)
            check_trusted(config, self.imports)
            return recipe_of(config)
        except InputError as error:
            return str(error)

    @cached_property
    def truth(self) -> FiniteMDP | None:
        """The true MDP on groups, where the environment knows one."""
        found = getattr(self.environment, "truth", None)
        return found if isinstance(found, FiniteMDP) else None

    @cached_property
    def _stored(self) -> storage.Stored | None:
        """Its policy file, where it has one; raises where that is damaged."""
        return storage.load(self.folder / files.PLAN) if (self.folder / files.PLAN).is_file() else None

    @property
    def action_names(self) -> tuple[str, ...]:
        """What its policy file calls the actions of a simulator."""
        from tailrank.envs.gymnasium.actions import Actions

        try:
            known = None if self._stored is None else self._stored.info.get("actions")
            return Actions.from_json(known).labels if isinstance(known, dict) else ()
        except InputError:
            return ()

    @cached_property
    def policy(self) -> tuple[Policy | None, str]:
        """The policy on states and which one it is, or None and why there is none."""
        try:
            if (stored := self._stored) is not None:
                return stored.policy, str(stored.info.get("returned", "")).split(",")[0]
            found = files.read_checkpoint(self.folder) if self.truth is not None else None
            if found is not None and "plan.budget" in found[0]:
                plan = plan_in(found[0], "plan", self.environment)
                return plan.policy(self.environment.rewards), f"the plan of iteration {found[1].rows}"
        except InputError as error:
            return None, f"The policy cannot be shown: {error}."
        if self.truth is None:
            return None, "The environment has no list of states, so that its policy cannot be drawn or played here."
        return None, f"The run ({self.status}) has not saved a policy yet."

    def mdp_of(self, policy: Policy) -> FiniteMDP | None:
        """The MDP whose states are those of the policy: groups, or single states."""
        if self.truth is None or not isinstance(policy, BudgetPolicy):
            return self.truth
        if policy.first.shape == (self.truth.horizon, self.truth.n_states):
            return self.truth
        try:
            raw = raw_truth(self.environment)
        except InputError:
            return None
        return raw if policy.first.shape == (raw.horizon, raw.n_states) else None

    def returns(self) -> np.ndarray | None:
        """The sample of evaluation returns [n], where the run has one."""
        path = self.folder / EVALUATION
        if not path.is_file():
            return None
        arrays, _ = read_arrays(path)
        values = arrays.get("returns", np.zeros(0)).ravel()
        if values.dtype.kind not in "iuf" or values.size == 0 or not np.isfinite(values).all():
            raise InputError(f"{path}: returns must be finite numbers, at least one")
        return values.astype(np.float64)

    def beside(self) -> Beside | None:
        """What stands beside the policy, where the run has it."""
        return Beside.read(self.folder)


def _without_dates(value: Any) -> Any:
    """A value of a TOML file as JSON could hold it: dates and times, which no setting is, as text."""
    if isinstance(value, dict):
        return {name: _without_dates(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_dates(one) for one in value]
    return str(value) if isinstance(value, date | time) else value


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows so far; a last line that is still being written is left out."""
    path = folder / files.ROWS
    if not path.is_file():
        return []
    data = read_bytes(path, MOST_TEXT)
    try:
        check_entries(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    rows = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            row = parse_json(line)
        except InputError:
            row = None
        if not isinstance(row, dict):
            raise InputError(f"{path}: line {number} is damaged")
        rows.append(row)
    return rows
