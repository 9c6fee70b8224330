"""What several commands share: options for reading an MDP, KEY=VALUE pairs, warnings as notes, results as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrank._system.settings import Place, settings_of
from tailrank.cli.errors import Failure, flags, say
from tailrank.cli.names import known
from tailrank.runs.settings import EnvironmentConfig

if TYPE_CHECKING:
    from tailrank.envs import Source

F = TypeVar("F", bound=Callable[..., Any])
READING = ("horizon", "discount", "start", "index_base", "axis_order", "imports")
FLAGS = {"imports": "--import", "settings": "--set", "risk_beta": "--beta", "points": "--point"}


class Steps(click.ParamType):  # type: ignore[type-arg]
    """A whole number, or the word auto."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the word."""
        return value if value == "auto" else click.INT.convert(value, param, ctx)


def with_options(function: F, options: Sequence[Callable[[F], F]]) -> F:
    """The command with these options, shown in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def option_of(name: str, *places: Place, default: bool = False) -> Callable[[F], F]:
    """The option of a setting, which may stand in several classes; None, or nothing, where nobody said.

    default: whether the help text says what it is then.
    """
    place, rule = places[0], places[0].rule
    flag = FLAGS.get(name, "--" + name.replace("_", "-"))
    metavar = "|".join(dict.fromkeys(word for p in places for word in p.rule.metavar.split("|")))
    plain = place.default is MISSING or place.default in (None, (), 0)
    text = f"{rule.help}  [default: {place.default}]" if default and not plain else rule.help
    if rule.kind is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=text)
    if name in ("imports", "points"):
        return click.option(flag, name, multiple=True, metavar=metavar, help=text)
    if rule.kind is tuple:
        return click.option(flag, name, type=float, nargs=2, metavar=metavar, help=text)
    if metavar.startswith("["):
        return click.option(flag, name, type=click.Choice(rule.words), help=text)
    words = any(p.rule.words for p in places)
    return click.option(flag, name, type=str if words else rule.kind, metavar=metavar, help=text)


def reading_options(function: F) -> F:
    """The options that say how an MDP is read (`READING`); None, or nothing, where nobody said."""
    places = settings_of(EnvironmentConfig)
    others = [option_of(name, places[name], default=True) for name in READING if name != "horizon"]
    horizon = click.option(
        "--horizon", type=Steps(), metavar="H", help=f"{places['horizon'].rule.help} Or auto (solve)."
    )
    return with_options(function, [horizon, *others])


def solving_options(function: F) -> F:
    """The options for showing an MDP, which is read and solved first."""
    options = (
        click.option("--tau", type=float, metavar="T", help="Tail fraction in (0, 1] to solve for.  [default: 0.1]"),
        click.option("--seconds", type=float, default=60.0, show_default=True, metavar="X", help="Time to solve."),
        reading_options,
    )
    return with_options(function, options)


def read_source(source: str, options: dict[str, Any]) -> Source:
    """The MDP of a source as the options of `reading_options` say; a name that nobody knows gets near ones."""
    from tailrank.envs import ENVIRONMENTS, SIMULATORS, read_mdp

    if options["imports"]:  # also for a file: a package may bring a criterion or a format
        from tailrank.envs.gymnasium.tables import load

        load(options["imports"])
    names = (*ENVIRONMENTS, *SIMULATORS)
    if source in names:
        raise Failure(f"{source}: is there to be learned, not a file or table; see tailrank train {source} --help")
    said = {name: options[name] for name in READING if options[name] is not None}
    if said.get("horizon") == "auto":
        raise Failure("--horizon auto: is for solve")
    return known(lambda: read_mdp(source, **said), source, names)


@contextmanager
def collected(notes: list[str]) -> Iterator[None]:
    """Warnings for the user become notes, in the order they came.

    What environments print meanwhile goes to stderr, and if they change the current folder it is changed back.
    """
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(sys.stderr), chdir("."):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        line = " ".join(str(warning.message).split())
        if line not in notes:
            notes.append(line)


def print_json(result: dict[str, Any], notes: Sequence[str], quiet: bool) -> None:
    """The result as one line on stdout, notes on stderr."""
    for line in () if quiet else notes:
        say(f"tailrank: note: {line}", err=True)
    if "notes" in result:
        result = result | {"notes": [flags(line) for line in result["notes"]]}
    click.echo(json.dumps(result, allow_nan=False))


def pairs(texts: Sequence[str], flag: str) -> dict[str, Any]:
    """The values of KEY=VALUE by name."""
    result = {}
    for text in texts:
        name, equals, said = text.partition("=")
        if not equals or not name.strip():
            raise Failure(f"{flag} {text}: must be KEY=VALUE")
        result[name.strip().replace("-", "_")] = value(said.strip())
    return result


def value(text: str) -> Any:
    """A number, true, false or JSON where the text is one, else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float, json.loads):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
