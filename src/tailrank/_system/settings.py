"""A setting is written once: a field of a frozen dataclass, with its check and its help text.

    batch: int = setting(1, kind=int, help="Collections between two fits.", metavar="B")

From these fields come the checks when an object is made (`Checked`), the tables of config.toml, the options of the
command line, and what an error says a learner has. A field that is itself such an object is a `part`: its settings
count as those of the whole. This module and the settings that have options of their own import nothing heavy, so
that `tailrank train --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, TypeVar

from tailrank import checks
from tailrank.checks import InputError

T = TypeVar("T")
Check = Callable[[Any, str], Any]
"""The value as it is kept; raises `InputError` with the name of the setting where it is not allowed."""


@dataclass(frozen=True)
class Rule:
    """What a setting may be.

    kind: int, float, str, bool or tuple. least: of whole numbers. words: texts that are allowed, beside numbers where
    `kind` is one. check: in place of the usual one. name: in files and options, where it is not that of the field.
    only: "countable" or "simulator", the one kind of environment that it is for.
    """

    help: str
    kind: type = str
    metavar: str = ""
    least: int = 1
    words: Collection[str] = ()
    check: Check | None = None
    name: str = ""
    only: str = ""
    optional: bool = False

    def checked(self, value: Any, name: str) -> Any:
        """The value as it is kept."""
        if value is None and self.optional:
            return None
        if self.kind is bool:
            if not isinstance(value, bool):
                raise InputError(f"{name} = {value!r:.60}: must be true or false")
            return value
        if self.words and (self.kind is str or isinstance(value, str)):
            if self.kind is str or value in self.words:
                return checks.one_of(str(value), name, self.words)
            near = checks.did_you_mean(str(value), self.words)
            raise InputError(f"{name} = {value!r:.60}: must be a number or {' or '.join(self.words)}{near}")
        if self.kind in (int, float) and isinstance(value, bool | str):
            raise InputError(f"{name} = {value!r:.60}: must be a number")
        if self.check is not None:
            return self.check(value, name)
        if self.kind is str:
            return str(value)
        return checks.whole(value, name, self.least) if self.kind is int else checks.number(value, name)


def setting(default: Any = MISSING, *, help: str, kw_only: Any = MISSING, **rule: Any) -> Any:
    """A field that is a setting; the rest are those of `Rule`. A default of None allows None."""
    return field(default=default, kw_only=kw_only, metadata={"rule": Rule(help, optional=default is None, **rule)})


def share(default: float, *, help: str, interval: str = "[0, 1]", **rule: Any) -> Any:
    """A setting that is a share: a number in the interval."""

    def check(value: object, name: str) -> float:
        return checks.inside(value, name, interval)

    return setting(default, kind=float, check=check, metavar="P", help=help, **rule)


def part(default: Any, *, only: tuple[str, ...] | None = None, kw_only: Any = MISSING) -> Any:
    """A field whose own settings count as settings of the whole; only: not all of them, but these."""
    return field(default=default, kw_only=kw_only, metadata={"part": only})


def fixed(value: Any) -> Any:
    """A field that is no setting, in place of one of a base class or as a part that only code replaces."""
    return field(default=value, kw_only=True)


def changed(cls: type, name: str, default: Any, *, kw_only: bool = True) -> Any:
    """The setting of this name in a base class, with another default; it must be `kw_only` where it is there."""
    return field(default=default, kw_only=kw_only, metadata=_field(cls, name).metadata)


def _field(cls: type, name: str) -> Field[Any]:
    return next(f for f in fields(cls) if f.name == name)


class Checked:
    """A base for dataclasses with settings: each is checked when an object is made."""

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            rule = f.metadata.get("rule")
            if rule is not None:
                object.__setattr__(self, f.name, rule.checked(getattr(self, f.name), rule.name or f.name))


@dataclass(frozen=True)
class Place:
    """Where a setting stands: in a field of the object itself, or in a field of one of its parts."""

    rule: Rule
    default: Any
    field: str
    part: str = ""


def settings_of(cls: type) -> dict[str, Place]:
    """The settings of a class of objects by name, in the order of its fields; parts where they stand."""
    found: dict[str, Place] = {}
    for f in fields(cls):
        rule = f.metadata.get("rule")
        if rule is not None:
            found[rule.name or f.name] = Place(rule, f.default, f.name)
        elif "part" in f.metadata:
            only = f.metadata["part"]
            for name, place in settings_of(type(f.default)).items():
                if only is None or name in only:
                    found[name] = Place(place.rule, getattr(f.default, place.field), place.field, f.name)
    return found


def values_of(made: object) -> dict[str, Any]:
    """The settings of an object by name; those that are None are left out."""
    found = {}
    for name, place in settings_of(type(made)).items():
        value = getattr(getattr(made, place.part) if place.part else made, place.field)
        if value is not None:
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


def make(cls: type[T], values: Mapping[str, Any], who: str, shown: Mapping[str, str] | None = None) -> T:
    """The object with these settings by name; `who`, and `shown` of settings, are what they are called in errors."""
    places, given = settings_of(cls), dict[str, Any]()
    inside: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name not in places:
            known = [other for other in places if other != "tau"]
            has = f"which has {', '.join(known)}" if known else "which has none of its own"
            said = (shown or {}).get(name, name)
            raise InputError(f"{said}: is no setting of {who}, {has}{checks.did_you_mean(name, places)}")
        place = places[name]
        plain = tuple(value) if isinstance(value, list) else value
        if place.part:
            inside.setdefault(place.part, {})[place.field] = plain
        else:
            given[place.field] = plain
    for name, own in inside.items():
        default: Any = _field(cls, name).default
        given[name] = replace(default, **own)
    return cls(**given)


def rules(*classes: type) -> Iterator[tuple[str, Place]]:
    """The settings of several classes, each name once: the first class that has it says what it is."""
    known = set[str]()
    for cls in classes:
        for name, place in settings_of(cls).items():
            if name not in known:
                known.add(name)
                yield name, place
