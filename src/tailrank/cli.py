"""The command line: `tailrank solve`, `import`, `export`, `evaluate`, `show`, `train`, `theory`.

Only click is imported at the top, so that `tailrank --help` answers at once. Bad input of any kind ends
with one line on stderr and exit code 2.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

import tailrank
from tailrank import cli_train
from tailrank.cli_errors import Failure, Group

if TYPE_CHECKING:
    from tailrank.envs import Source
    from tailrank.plan import Plan
    from tailrank.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])

NEXT = """\
tailrank finds the policy with the best CVaR in a finite MDP. Try:

  tailrank solve FrozenLake-v1 --horizon 100 --tau 0.5
  tailrank solve model.csv --horizon 50 --discount 0.95 --start 1 --tau 0.1 --tau 0.05
  tailrank import model.csv --horizon 50
  tailrank solve --help

tau is the fraction of the worst returns that counts: 0.1 is the worst tenth, 1 is the mean.
"""


@click.group(cls=Group, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tailrank.__version__, prog_name="tailrank")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Policies with the best CVaR in finite MDPs: exact answers or certified bounds.

    SOURCE is a file (.csv, .json, either also .gz, or .npz) or the id of a Gymnasium environment that has a
    transition table.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if ctx.invoked_subcommand is None:
        click.echo(NEXT, nl=False)


def source_options(function: F) -> F:
    """The options that say how SOURCE is read."""
    options = (
        click.option("--horizon", type=int, metavar="H", help="Number of steps."),
        click.option("--discount", type=float, metavar="G", help="Discount in (0, 1]; 1 if nobody says."),
        click.option("--start", metavar="S", help='First state, or a law "1:0.5,4:0.5".'),
        click.option(
            "--index-base", type=click.Choice(["auto", "0", "1"]), default="auto", show_default=True,
            help="What states and actions in a file are counted from.",
        ),
        click.option(
            "--axis-order", type=click.Choice(["auto", "state-first", "action-first"]), default="auto",
            show_default=True, help="Order of the axes in an .npz file.",
        ),
        click.option("--import", "imports", multiple=True, metavar="PKG", help="Package to import first."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def _read(source: str, options: dict[str, Any]) -> Source:
    from tailrank.envs import read_mdp

    names = ("horizon", "discount", "start", "index_base", "axis_order", "imports")
    return read_mdp(source, **{name: options[name] for name in names})


@contextmanager
def _collected(notes: list[str]) -> Iterator[None]:
    """Warnings for the user become notes, in the order they came."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        line = " ".join(str(warning.message).split())
        if line not in notes:
            notes.append(line)


@main.command()
@click.argument("source")
@source_options
@click.option("--tau", "taus", type=float, multiple=True, default=(0.1,), show_default="0.1", metavar="T",
              help="Tail fraction in (0, 1]; may be given several times.")  # fmt: skip
@click.option("--criterion", default="cvar", show_default=True, metavar="cvar|mean|iterated|chow",
              help="What the policy optimises.")  # fmt: skip
@click.option("--tolerance", default="1%", show_default=True, metavar="TOL",
              help="Widest bracket allowed, in reward units or as % of |CVaR|.")  # fmt: skip
@click.option("--unit", type=float, metavar="U", help="Fixed spacing of budgets instead of the automatic one.")
@click.option("--memory", default="4GB", show_default=True, metavar="SIZE", help="Most memory for tables.")
@click.option("--seconds", type=float, default=60.0, show_default=True, metavar="X", help="Time to refine bounds.")
@click.option("--save", metavar="PATH", help="Save the plan (one --tau only).")
@click.option("--frontier", is_flag=True, help="Also the best CVaR at other tail fractions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No notes, no picture.")
def solve(source: str, taus: tuple[float, ...], criterion: str, **options: Any) -> None:
    """The policy with the best CVaR for the MDP in SOURCE."""
    from tailrank.solver import solve as plan_for

    if options["save"]:
        _check_save(options["save"], len(taus))
    notes: list[str] = []
    with _collected(notes):
        read = _read(source, options)
        limits = {name: options[name] for name in ("tolerance", "unit", "memory", "seconds")}
        plans: tuple[Plan, ...] = plan_for(read.mdp, taus, criterion=criterion, **limits)
    notes[:0] = [line for line in dict.fromkeys(read.notes) if line not in notes]
    if options["save"]:
        from tailrank import storage

        about = {"source": read.name, "states": read.mdp.labels, "actions": read.mdp.action_labels}
        storage.save(plans[0], options["save"], info=about)
        notes.append(f"saved to {options['save']}")
    if options["as_json"]:
        _print_json(_solved(read, plans, criterion, notes, options["frontier"]), notes, options["quiet"])
        return
    from tailrank import show as view

    view.solved(read, plans, notes, frontier=options["frontier"], quiet=options["quiet"])


def _check_save(path: str, plans: int) -> None:
    """Raise before the work is done, not after it."""
    if plans > 1:
        raise Failure(f"--save: a file holds one plan, found {plans} times --tau")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder) or os.path.isdir(path):
        raise Failure(f"--save {path}: must be a file in a folder that exists")


def _solved(
    read: Source, plans: tuple[Plan, ...], criterion: str, notes: list[str], frontier: bool
) -> dict[str, object]:
    mdp = read.mdp
    result: dict[str, object] = {
        "status": plans[0].status, "criterion": criterion, "states": mdp.n_states, "actions": mdp.n_actions,
        "horizon": mdp.horizon, "discount": mdp.discount, "seconds": plans[0].seconds,
        "results": [plan.as_dict() for plan in plans], "notes": notes,
    }  # fmt: skip
    if frontier:
        pieces = plans[0].frontier()
        names = ("tau_from", "tau_to", "budget", "shortfall")
        columns = (getattr(pieces, name).tolist() for name in names)
        result["frontier"] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return result


def _print_json(result: dict[str, object], notes: list[str], quiet: bool) -> None:
    for line in () if quiet else notes:
        click.echo(f"tailrank: note: {line}", err=True)
    click.echo(json.dumps(result, allow_nan=False))


@main.command("import")
@click.argument("source")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def import_(source: str, as_json: bool, **options: Any) -> None:
    """Read SOURCE and say what is in it."""
    notes: list[str] = []
    with _collected(notes):
        read = _read(source, options)
    notes[:0] = read.notes
    from tailrank import show as view

    summary = view.summary(read)
    if as_json:
        _print_json(summary | {"notes": notes}, notes, quiet=False)
    else:
        view.described(summary, notes)


@main.command()
@click.argument("source")
@click.argument("path")
@source_options
def export(source: str, path: str, **options: Any) -> None:
    """Write the MDP in SOURCE to PATH (.csv, .json, either also .gz, or .npz)."""
    from tailrank.envs import write_mdp

    notes: list[str] = []
    with _collected(notes):
        read = _read(source, options)
        remarks = write_mdp(read.mdp, path)
    click.echo(f"{path}: {read.mdp.n_states} states, {read.mdp.n_actions} actions, {read.mdp.prob.size} rows")
    for line in (*read.notes, *notes, *remarks):
        click.echo(f"note: {line}")


@main.command()
@click.argument("policy")
@click.argument("source")
@source_options
@click.option("--tau", "taus", type=float, multiple=True, default=(0.1,), show_default="0.1", metavar="T",
              help="Tail fraction in (0, 1]; may be given several times.")  # fmt: skip
@click.option("--episodes", type=int, metavar="N", help="Play N episodes instead of the exact evaluation.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the episodes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(
    policy: str,
    source: str,
    taus: tuple[float, ...],
    episodes: int | None,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """What the saved POLICY earns in the MDP of SOURCE."""
    from tailrank.storage import load

    notes: list[str] = []
    with _collected(notes):
        stored, read = load(policy), _read(source, options)
        _fits(stored.policy, read)
        results = [_measured(stored.policy, read, tau, episodes, seed) for tau in taus]
    notes[:0] = read.notes
    if as_json:
        _print_json({"results": results, "notes": notes}, notes, quiet=False)
        return
    from tailrank import show as view

    view.evaluated(results, notes)


def _fits(policy: Policy, read: Source) -> None:
    """Raise unless the tables of `policy` have the steps, states and actions of the MDP."""
    table = getattr(policy, "first", getattr(policy, "actions", None))
    shape, mdp = table.shape[:2] if table is not None else (), read.mdp
    if shape != (mdp.horizon, mdp.n_states):
        found = " and ".join(f"{n} {what}" for n, what in zip(shape, ("steps", "states"), strict=False))
        raise Failure(f"policy: has {found}, {read.name} has {mdp.horizon} steps and {mdp.n_states} states")
    if int(policy.actions.max()) >= mdp.n_actions:  # type: ignore[attr-defined]
        raise Failure(f"policy: plays action {policy.actions.max()}, {read.name} has {mdp.n_actions} actions")  # type: ignore[attr-defined]


def _measured(policy: Policy, read: Source, tau: float, episodes: int | None, seed: int) -> dict[str, object]:
    """The CVaR and its interval, VaR and mean at one tau."""
    import numpy as np

    from tailrank.checks import whole
    from tailrank.estimate import evaluate as estimate

    rng = None if episodes is None else np.random.default_rng(whole(seed, "seed", least=0))
    found = estimate(policy, read.mdp, tau, episodes=episodes, rng=rng)
    names = ("tau", "cvar", "lower", "upper", "var", "mean", "confidence", "episodes", "method")
    return {name: getattr(found, name) for name in names}


@main.command()
@click.argument("policy")
@click.option("--step", type=int, metavar="H", help="Only this step (from 0).")
@click.option("--state", type=int, metavar="S", help="Only this state (from 0).")
@click.option("--rows", type=int, default=60, show_default=True, help="Most rows to print.")
def show(policy: str, step: int | None, state: int | None, rows: int) -> None:
    """The saved POLICY as a table: which action at which step, state and remaining budget."""
    from tailrank import show as view
    from tailrank.storage import load

    view.policy_table(load(policy), step=step, state=state, rows=rows)


for command in (cli_train.train, cli_train.theory):
    main.add_command(command)
