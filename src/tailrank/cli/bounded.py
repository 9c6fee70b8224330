"""What `tailrank solve` does with --subject-to and --efficient."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrank.cli.errors import Failure
from tailrank.cli.objective_options import measures_of
from tailrank.cli.options import collected, print_json
from tailrank.cli.posing import posed

if TYPE_CHECKING:
    from tailrank.envs import Source


def solve(source: str, criterion: str, options: dict[str, Any]) -> None:
    """Print, and save, the plan with the best mean subject to a bound."""
    from tailrank.planning.objectives.constrained import parse_bound
    from tailrank.planning.objectives.maximise import maximise_mean

    bound = parse_bound(options["subject_to"])
    notes: list[str] = []
    for name in ("frontier", "efficient"):
        if options[name]:
            raise Failure(f"--{name}: is not for --subject-to")
    measures = measures_of(options, (0.1,), options["imports"])
    if criterion != "cvar" or (measures is not None and measures[0].name != "mean"):
        raise Failure("--subject-to: is for the objective mean")
    with collected(notes):
        read, after = posed(source, options)
        if after is not None:
            raise Failure("--horizon auto: is not for --subject-to")
        plan = maximise_mean(read.mdp, bound, seconds=options["seconds"])
    notes[:0] = [line for line in dict.fromkeys(read.notes) if line not in notes]
    if plan.undecided:
        notes.append(f"{bound}: no plan was found that surely obeys it; raise --seconds to round rewards less")
    elif not plan.feasible:
        notes.append(f"{bound}: no policy obeys it; this is the policy that comes nearest")
    elif plan.share < 1.0:
        notes.append(
            f"a mixture: one of two plans is drawn once, at the start, the first with probability {plan.share:.6g}"
        )
    if options["save"]:
        notes += _save(plan, read, options["save"])
    if not plan.exact:
        notes.append("rewards lie on no common grid: what the bound is said to be is certain, not exact")
    sure = plan.exact and plan.gap <= 1e-8 * (1.0 + abs(plan.upper))
    result: dict[str, Any] = {"status": "exact" if sure else "bracketed"}
    result |= plan.as_dict() | {"seconds": plan.seconds, "notes": notes}
    if options["as_json"]:
        print_json(result, notes, options["quiet"])
        return
    from tailrank.cli import terminal

    terminal.bounded(read, result, notes, quiet=options["quiet"])


def _save(plan: Any, read: Source, path: str) -> list[str]:
    """Save the plan: one file, which holds both policies of a mixture."""
    from tailrank.runs.policy_files import storage

    about = {"source": read.name, "states": read.mdp.labels, "actions": read.mdp.action_labels}
    numbers = {name: getattr(plan, name) for name in ("share", "mean", "bounded")}
    storage.save(plan.policy, path, info=about | numbers | {"subject_to": str(plan.subject_to)})
    return [f"saved to {path}"]


def efficient_table(
    read: Source, tau: float, seconds: float, path: str | None, picture: str | None = None
) -> list[dict[str, float]]:
    """The points of the efficient frontier as plain data; written to a file and drawn, if there is a path for that."""
    from tailrank._system.atomic import write_bytes
    from tailrank.planning.objectives.efficient import efficient_frontier

    found = efficient_frontier(read.mdp, tau, seconds=seconds)
    if path:
        write_bytes(Path(path), found.as_csv().encode())
    if picture:
        from tailrank import plots

        plots.save(plots.efficient(found), picture)
    keys = ("cvar", "mean", "upper", "price")
    columns = (getattr(found, key).tolist() for key in keys)
    return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
