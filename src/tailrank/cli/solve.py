"""The command `tailrank solve`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure
from tailrank.cli.objective_options import measures_of, objective_options
from tailrank.cli.options import collected, print_json, reading_options
from tailrank.cli.posing import as_costs, posed

if TYPE_CHECKING:
    from tailrank.envs import Source
    from tailrank.planning.plan import Plan


LIMITS = ("tolerance", "unit", "memory", "seconds", "samples", "seed", "undominated")


GROUPS = {
    "Options": ("taus", "horizon", "discount", "start", "save", "frontier", "json", "as_json", "quiet"),
    "What is best": ("objective", "criterion", "undominated", "samples", "seed"),
    "How exact, how long": ("tolerance", "unit", "memory", "seconds"),
    "How SOURCE is read": ("index_base", "axis_order", "imports"),
}


@click.command(cls=Command, groups=GROUPS)
@click.argument("source")
@reading_options
@click.option(
    "--tau",
    "taus",
    type=float,
    multiple=True,
    default=(0.1,),
    show_default="0.1",
    metavar="T",
    help="Tail fraction in (0, 1]; may be given several times.",
)
@objective_options
@click.option(
    "--criterion",
    default="cvar",
    show_default=True,
    metavar="cvar|mean|iterated|sampled-iterated|chow",
    help="What the policy optimises.",
)
@click.option(
    "--tie-break/--no-tie-break",
    "undominated",
    default=True,
    help="Of the plans with the best CVaR take one with the best mean.  [default: yes]",
)
@click.option("--samples", type=int, metavar="N", help="Outcomes of each pair for sampled-iterated.  [default: 1000]")
@click.option("--seed", type=int, metavar="N", help="Seed for sampled-iterated.  [default: 0]")
@click.option(
    "--tolerance",
    default="1%",
    show_default=True,
    metavar="TOL",
    help="Widest bracket allowed, in reward units or as % of |CVaR|.",
)
@click.option("--unit", type=float, metavar="U", help="Fixed spacing of budgets instead of the automatic one.")
@click.option("--memory", default="4GB", show_default=True, metavar="SIZE", help="Most memory for tables.")
@click.option("--seconds", type=float, default=60.0, show_default=True, metavar="X", help="Time to refine bounds.")
@click.option("--save", metavar="PATH", help="Save the plan (one --tau only).")
@click.option("--frontier", is_flag=True, help="Also the best CVaR at other tail fractions.")
@click.option(
    "--subject-to",
    metavar="BOUND",
    help="Best mean with cvar:TAU>=K (CVaR at least K) or below:C<=P (a return below C with probability at most P).",
)
@click.option("--must-reach", metavar="STATE", help="Only policies that reach this state surely; it ends the episode.")
@click.option("--costs", is_flag=True, help="Rewards are costs: the less the better, the tail is the upper one.")
@click.option("--efficient", is_flag=True, help="Also the best mean at every CVaR that can be had, at the first --tau.")
@click.option("--plot", "plot_path", metavar="PATH", help="Draw --efficient to a .png, .svg or .pdf file.")
@click.option("--csv", "csv_path", metavar="PATH", help="Write the table of --efficient to a file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No notes, no picture.")
def solve(source: str, taus: tuple[float, ...], criterion: str, **options: Any) -> None:
    """The policy with the best CVaR, or the best value of another --objective, for the MDP in SOURCE."""
    from tailrank.planning.solve import solve as plan_for

    if options["save"]:
        _check_save(options["save"], len(taus))
    for name in ("efficient", "subject_to", "frontier"):
        if options["costs"] and options[name]:
            raise Failure(f"--{name.replace('_', '-')}: is not for --costs; give rewards instead")
    for name in ("csv", "plot"):
        if options[f"{name}_path"] and not options["efficient"]:
            raise Failure(f"--{name}: is for the table of --efficient")
    if options["plot_path"]:
        from pathlib import Path

        from tailrank.plots.style import checked_path

        checked_path(Path(options["plot_path"]))
    if options["subject_to"]:
        from tailrank.cli import bounded

        bounded.solve(source, criterion, options)
        return
    notes: list[str] = []
    with collected(notes):
        read, after = posed(source, options, min(taus, default=1.0))
        measures = measures_of(options, taus, options["imports"])
        limits = {name: options[name] for name in LIMITS}
        plans: tuple[Plan, ...] = ()
        if measures is None or measures[0].name == "cvar":
            plans = plan_for(read.mdp, taus, criterion=criterion, **limits)
        for measure in () if plans else measures or ():
            levels = (measure.tau,) if hasattr(measure, "tau") else taus
            plans += plan_for(read.mdp, levels, objective=measure, criterion=criterion, **limits)
        if after is not None:
            from tailrank.planning.objectives.horizon import widened

            plans = tuple(widened(plan, after) for plan in plans)
    notes[:0] = [line for line in dict.fromkeys(read.notes) if line not in notes]
    notes += [line for line in dict.fromkeys(line for plan in plans for line in plan.notes) if line not in notes]
    if options["save"]:
        from tailrank.runs.policy_files import storage

        about = {"source": read.name, "states": read.mdp.labels, "actions": read.mdp.action_labels}
        storage.save(plans[0], options["save"], info=about)
        notes.append(f"saved to {options['save']}")
    efficient = None
    if options["efficient"]:
        from tailrank.cli.bounded import efficient_table

        efficient = efficient_table(read, taus[0], options["seconds"], options["csv_path"], options["plot_path"])
    if options["as_json"]:
        result = _solved(read, plans, notes, options["frontier"])
        result = as_costs(result) if options["costs"] else result
        print_json(result | ({"efficient": efficient} if efficient else {}), notes, options["quiet"])
        return
    from tailrank.cli import terminal

    if options["costs"]:
        terminal.costs(read, as_costs(_solved(read, plans, notes, options["frontier"])), notes)
        return
    if efficient:
        terminal.efficient(efficient)
    terminal.solved(read, plans, notes, frontier=options["frontier"], quiet=options["quiet"])


def _check_save(path: str, plans: int) -> None:
    """Raise before the work is done, not after it."""
    if plans > 1:
        raise Failure(f"--save: a file holds one plan, found {plans} times --tau")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder) or os.path.isdir(path):
        raise Failure(f"--save {path}: must be a file in a folder that exists")


def _solved(read: Source, plans: tuple[Plan, ...], notes: list[str], frontier: bool) -> dict[str, object]:
    mdp = read.mdp
    result: dict[str, object] = {
        "status": plans[0].status,
        "criterion": plans[0].criterion,
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "horizon": mdp.horizon,
        "discount": mdp.discount,
        "seconds": plans[0].seconds,
        "results": [plan.as_dict() for plan in plans],
        "notes": notes,
    }
    if frontier:
        pieces = plans[0].frontier()
        keys = ("tau_from", "tau_to", "budget", "shortfall")
        columns = (getattr(pieces, key).tolist() for key in keys)
        result["frontier"] = [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
    return result
