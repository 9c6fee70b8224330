"""The options that name a risk measure, for `solve` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrank.cli.errors import Failure
from tailrank.cli.options import pairs, with_options

if TYPE_CHECKING:
    from tailrank.risk.measures.base import Measure

F = TypeVar("F", bound=Callable[..., Any])
NUMBERS = ("weight", "beta", "at", "alpha", "risk_aversion")
GIVEN = ("objective", *NUMBERS, "points", "levels", "parameters")


def objective_options(function: F) -> F:
    """The options of a risk measure (`GIVEN`); None, or nothing, where nobody said."""
    options = (
        click.option(
            "--objective",
            metavar="cvar|mean-cvar|entropic|evar|var|target|expectile|mean-variance|utility|spectral|mean|worst",
            help="Risk measure of the return, or PACKAGE:CLASS of an imported package.  [default: cvar]",
        ),
        click.option("--weight", type=float, metavar="W", help="Weight of the mean (mean-cvar).  [default: 0.5]"),
        click.option("--beta", type=float, metavar="B", help="Risk aversion (entropic)."),
        click.option("--at", type=float, metavar="C", help="The return to reach (target)."),
        click.option("--alpha", type=float, metavar="A", help="Asymmetry in (0, 1); 0.5 is the mean (expectile)."),
        click.option("--risk-aversion", type=float, metavar="C", help="Weight of the variance (mean-variance)."),
        click.option(
            "--point",
            "points",
            multiple=True,
            metavar="R:U",
            help="The utility U of a return R; two or more (utility).",
        ),
        click.option(
            "--level", "levels", multiple=True, metavar="TAU:W", help="A tail fraction and its weight (spectral)."
        ),
        click.option(
            "--parameter", "parameters", multiple=True, metavar="KEY=VALUE", help="Of a measure of your own package."
        ),
    )
    return with_options(function, options)


def measures_of(options: dict[str, Any], taus: Sequence[float], imports: Sequence[str]) -> tuple[Measure, ...] | None:
    """The measures that the options name, one for each tau where the measure has one; None if they name none.

    Takes the options `GIVEN` out of `options`.
    """
    given = {name: options.pop(name) for name in GIVEN}
    name = given.pop("objective")
    wanted = {key: given[key] for key in NUMBERS if given[key] is not None}
    for key in ("points", "levels"):
        if given[key]:
            wanted[key] = tuple(_pair(text, f"--{key[:-1]}") for text in given[key])
    wanted |= pairs(given["parameters"], "--parameter")
    if name is None:
        if wanted:
            first = next(iter(wanted)).replace("_", "-")
            raise Failure(f"--{first}: is for an --objective, found none")
        return None
    from dataclasses import fields

    from tailrank.risk.measures.registry import make_measure, measure_class

    cls = measure_class(name, tuple(imports))
    if "tau" not in {f.name for f in fields(cls)}:
        return (make_measure(name, wanted, tuple(imports)),)
    return tuple(make_measure(name, {"tau": tau} | wanted, tuple(imports)) for tau in taus)


def _pair(text: str, flag: str) -> tuple[float, float]:
    """The two numbers of A:B."""
    first, colon, second = text.rpartition(":")
    try:
        if colon:
            return float(first), float(second)
    except ValueError:
        pass
    raise Failure(f"{flag} {text}: must be two numbers with a colon between them")
