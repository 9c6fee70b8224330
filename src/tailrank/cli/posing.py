"""How a problem is posed before it is solved: its horizon, a compulsory goal, rewards or costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrank import checks
from tailrank.checks import InputError
from tailrank.cli.options import read_source

if TYPE_CHECKING:
    from tailrank.envs import Source
    from tailrank.planning.objectives.horizon import CutOff

SIGNED = ("cvar", "var", "mean", "budget", "claim")


def posed(source: str, options: dict[str, Any], tau: float = 1.0) -> tuple[Source, CutOff | None]:
    """The source as --horizon auto, --must-reach and --costs say; what may come after the steps of --horizon auto.

    tau: the smallest tail fraction that is asked for.
    """
    after = None
    if options["horizon"] == "auto":
        from tailrank.planning.objectives.horizon import cut
        from tailrank.planning.solve import tolerance_of

        try:
            read = read_source(source, options | {"horizon": 1})
        except InputError as error:
            raise InputError(str(error).replace("horizon = 1:", "horizon = auto:")) from None
        mdp, after = cut(read.mdp, tolerance_of(options["tolerance"]), 1.0 / checks.tail_level(tau))
        read = replace(read, mdp=mdp)
    else:
        read = read_source(source, options)
    if options["must_reach"] is not None:
        from tailrank.planning.objectives.must_reach import must_reach

        read = replace(read, mdp=must_reach(read.mdp, options["must_reach"]))
    if options["costs"]:
        read = replace(read, mdp=replace(read.mdp, reward=-read.mdp.reward))
        after = None if after is None else after.in_costs()
    return read, after


def as_costs(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a problem in costs: signs turned around, bounds exchanged; the tail is the upper one."""
    rows = []
    for row in result["results"]:
        turned = dict(row)
        for name in SIGNED:
            if turned.get(name) is not None:
                turned[name] = -turned[name]
        value = row.get("objective", {}).get("name") not in ("target", "utility")
        if value:
            turned |= {"value": -row["value"], "lower": -row["upper"], "upper": -row["lower"]}
        turned["risk_neutral"] = {k: -v for k, v in row["risk_neutral"].items()}
        rows.append(turned)
    return result | {"costs": True, "results": rows}
