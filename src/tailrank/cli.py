"""The command line: `tailrank solve`, `train`, `evaluate`, `report`, `plot`, `check` and so on.

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
from tailrank import cli_check, cli_names, cli_plot, cli_report, cli_train
from tailrank.cli_errors import Failure, Group

if TYPE_CHECKING:
    from tailrank.envs import Source
    from tailrank.plan import Plan

F = TypeVar("F", bound=Callable[..., Any])

NEXT = """\
tailrank finds the policy with the best CVaR: the mean of its worst returns, at tau = 0.1 of the worst tenth. Try:

  tailrank solve FrozenLake-v1 --horizon 100 --tau 0.5    an MDP that is known: exact
  tailrank train risky-lock --iterations 60 --out runs/a  one that is not: learn it
  tailrank report runs/a                                  look at it in a browser
  tailrank evaluate runs/a --episodes 2000                measure it in fresh episodes
  tailrank check CartPole-v1                              is an environment fit for learning?

tailrank COMMAND --help says more; tailrank --show-completion bash sets up the Tab key.
"""


def _show_completion(ctx: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    if shell is not None and not ctx.resilient_parsing:
        click.echo(cli_names.script(shell, main))
        ctx.exit()


@click.group(cls=Group, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tailrank.__version__, prog_name="tailrank")
@click.option("--show-completion", type=click.Choice(cli_names.SHELLS), metavar="|".join(cli_names.SHELLS),
              expose_value=False, is_eager=True, callback=_show_completion,
              help='What completes on the Tab key; in .bashrc: eval "$(tailrank --show-completion bash)".')  # fmt: skip
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
    from tailrank.envs import ENVIRONMENTS, SIMULATORS, read_mdp

    if source in (*ENVIRONMENTS, *SIMULATORS):
        raise Failure(f"{source}: is there to be learned, not a file or table; see tailrank train {source} --help")
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
@click.argument("source", required=False)
@source_options
@click.option("--tau", "taus", type=float, multiple=True, show_default="0.1, or that of the run", metavar="T",
              help="Tail fraction in (0, 1]; may be given several times.")  # fmt: skip
@click.option("--episodes", type=int, metavar="N", help="Play N episodes instead of the exact evaluation.")
@click.option("--width", type=float, metavar="W", help="Play until the interval for CVaR is no wider than W.")
@click.option("--max-episodes", type=int, metavar="N", help="Most episodes for --width.  [default: 100000]")
@click.option("--confidence", type=float, default=0.95, show_default=True, metavar="P", help="Of each interval.")
@click.option("--method", default="auto", show_default=True, metavar="auto|beta|thomas|dkw|brown|bca|percentile",
              help="Of the interval for CVaR.")  # fmt: skip
@click.option("--bounds", type=float, nargs=2, metavar="LOW HIGH", help="Range of the return, where it is not known.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the episodes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(
    policy: str, source: str | None, taus: tuple[float, ...], seed: int, as_json: bool, **options: Any
) -> None:
    """What the saved POLICY earns in the MDP of SOURCE, or what a run has learned.

    POLICY is a file and SOURCE as for solve, or POLICY is the folder of a run (of train), played in its environment.
    """
    from tailrank import cli_evaluate
    from tailrank.storage import load

    names = ("episodes", "width", "max_episodes", "confidence", "method", "bounds")
    wanted = {name: options.pop(name) for name in names}
    notes: list[str] = []
    with _collected(notes):
        if os.path.isdir(policy):
            if source or any(value not in (None, "auto", ()) for value in options.values()):
                raise Failure(f"{policy}: is a run, which has its own environment; no SOURCE and no option for it")
            task = cli_evaluate.of_run(policy, taus, seed)
        elif source is None:
            raise Failure(f"SOURCE: must be given to evaluate a policy file ({policy} is no folder of a run)")
        else:
            stored = load(policy)
            task = cli_evaluate.saved(stored.policy, _read(source, options), taus, seed)
        results, said = cli_evaluate.measure(task, **wanted)
    notes[:0] = said
    if as_json:
        _print_json({"results": results, "notes": notes}, notes, quiet=False)
        return
    from tailrank import show as view

    view.evaluated(results, notes)


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


COMMANDS = (
    cli_check.check, cli_plot.plot, cli_report.report, cli_report.serve, cli_train.train, cli_train.theory,
)  # fmt: skip
for command in COMMANDS:
    main.add_command(command)
cli_names.completed(main)
