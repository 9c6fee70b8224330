"""The measures by name: one file and one row each.

A measure from another package is named `package.module:Class`; its options are its fields.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any

from tailrank.checks import InputError, one_of
from tailrank.risk.measures.base import Measure

HOMES = {
    "cvar": "cvar:CVaR",
    "mean-cvar": "mean_cvar:MeanCVaR",
    "entropic": "entropic:Entropic",
    "evar": "evar:EVaR",
    "var": "value_at_risk:VaR",
    "target": "target:Target",
    "expectile": "expectile:Expectile",
    "mean-variance": "mean_variance:MeanVariance",
    "utility": "utility:Utility",
    "spectral": "spectral:Spectral",
    "mean": "mean:Mean",
    "worst": "worst_case:WorstCase",
}


def measure_class(name: str, trusted: tuple[str, ...] = ()) -> type[Measure]:
    """The class of a measure, by its name or as `package.module:Class` of a package in `trusted`."""
    if ":" in name:
        module, _, cls = name.partition(":")
        if module.split(".")[0] not in {t.split(".")[0] for t in trusted}:
            raise InputError(f"objective = {name}: imports={module.split('.')[0]} must allow its package")
        found = getattr(import_module(module), cls, None)
        if not (isinstance(found, type) and issubclass(found, Measure)):
            raise InputError(f"objective = {name}: must be a Measure (see docs/howto/extend.md)")
        return found
    module, _, cls = HOMES[one_of(name, "objective", HOMES)].partition(":")
    found = getattr(import_module(f"tailrank.risk.measures.{module}"), cls)
    return found


def make_measure(name: str, options: dict[str, Any], trusted: tuple[str, ...] = ()) -> Measure:
    """The measure with these options; options that it does not have, or lacks, are named in one line."""
    cls = measure_class(name, trusted)
    known = {f.name: f for f in fields(cls)}
    for option in options:
        if option not in known:
            takes = ", ".join(known) or "nothing"
            raise InputError(f"{option.replace('_', '-')}: is not for the objective {name}, which takes {takes}")
    for option, field in known.items():
        if option not in options and field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"{option.replace('_', '-')}: must be given for the objective {name}")
    return cls(**options)
