"""The command line: `tailrank solve`, `train`, `evaluate`, `report`, `plot`, `check` and so on.

Only click is imported at the top, so that `tailrank --help` answers at once. Bad input of any kind ends
with one line on stderr and exit code 2.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

import tailrank
from tailrank import cli_check, cli_compare, cli_list, cli_names, cli_plot, cli_report, cli_sweep, cli_train
from tailrank.cli_errors import Failure, Group, say
from tailrank.cli_options import collected, print_json, reading_options
from tailrank.cli_options import read as read_source

if TYPE_CHECKING:
    from tailrank.envs import Source
    from tailrank.plan import Plan

NEXT = """\
tailrank finds the policy with the best CVaR: the mean of its worst returns, at tau = 0.1 of the worst tenth. Try:

  tailrank solve FrozenLake-v1 --horizon 100 --tau 0.5    an MDP that is known: exact
  tailrank train risky-lock --iterations 60 --out runs/a  one that is not: learn it
  tailrank report runs/a                                  look at it in a browser
  tailrank evaluate runs/a --episodes 2000                measure it in fresh episodes
  tailrank check CartPole-v1                              is an environment fit for learning?
  tailrank list                                           all algorithms; sweep and compare set them side by side

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


@main.command()
@click.argument("source")
@reading_options
@click.option("--tau", "taus", type=float, multiple=True, default=(0.1,), show_default="0.1", metavar="T",
              help="Tail fraction in (0, 1]; may be given several times.")  # fmt: skip
@click.option("--criterion", default="cvar", show_default=True, metavar="cvar|mean|iterated|sampled-iterated|chow",
              help="What the policy optimises.")  # fmt: skip
@click.option("--samples", type=int, metavar="N", help="Outcomes of each pair for sampled-iterated.  [default: 1000]")
@click.option("--seed", type=int, metavar="N", help="Seed for sampled-iterated.  [default: 0]")
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
    with collected(notes):
        read = read_source(source, options)
        limits = {name: options[name] for name in ("tolerance", "unit", "memory", "seconds", "samples", "seed")}
        plans: tuple[Plan, ...] = plan_for(read.mdp, taus, criterion=criterion, **limits)
    notes[:0] = [line for line in dict.fromkeys(read.notes) if line not in notes]
    notes += [line for line in dict.fromkeys(line for plan in plans for line in plan.notes) if line not in notes]
    if options["save"]:
        from tailrank import storage

        about = {"source": read.name, "states": read.mdp.labels, "actions": read.mdp.action_labels}
        storage.save(plans[0], options["save"], info=about)
        notes.append(f"saved to {options['save']}")
    if options["as_json"]:
        print_json(_solved(read, plans, criterion, notes, options["frontier"]), notes, options["quiet"])
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


@main.command("import")
@click.argument("source")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def import_(source: str, as_json: bool, **options: Any) -> None:
    """Read SOURCE and say what is in it."""
    notes: list[str] = []
    with collected(notes):
        read = read_source(source, options)
    notes[:0] = read.notes
    from tailrank import show as view

    summary = view.summary(read)
    if as_json:
        print_json(summary | {"notes": notes}, notes, quiet=False)
    else:
        view.described(summary, notes)


@main.command()
@click.argument("source")
@click.argument("path")
@reading_options
def export(source: str, path: str, **options: Any) -> None:
    """Write the MDP in SOURCE to PATH (.csv, .json, either also .gz, or .npz)."""
    from tailrank.envs import write_mdp

    notes: list[str] = []
    with collected(notes):
        read = read_source(source, options)
        remarks = write_mdp(read.mdp, path)
    say(f"{path}: {read.mdp.n_states} states, {read.mdp.n_actions} actions, {read.mdp.prob.size} rows")
    for line in (*read.notes, *notes, *remarks):
        say(f"note: {line}")


@main.command()
@click.argument("policy")
@click.argument("source", required=False)
@reading_options
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
    with collected(notes):
        if os.path.isdir(policy):
            trusted = options.pop("imports")
            if source or any(value not in (None, "auto", ()) for value in options.values()):
                raise Failure(f"{policy}: is a run, which has its own environment; no SOURCE and no option for it")
            task = cli_evaluate.of_run(policy, taus, seed, trusted)
        elif source is None:
            raise Failure(f"SOURCE: must be given to evaluate a policy file ({policy} is no folder of a run)")
        else:
            stored = load(policy)
            task = cli_evaluate.saved(stored.policy, read_source(source, options), taus, seed)
        results, said = cli_evaluate.measure(task, **wanted)
    notes[:0] = said
    if as_json:
        print_json({"results": results, "notes": notes}, notes, quiet=False)
        return
    from tailrank import show as view

    view.evaluated(results, notes)


@main.command()
@click.argument("policy")
@click.option("--step", type=int, metavar="H", help="Only this step (from 0).")
@click.option("--state", type=int, metavar="S", help="Only this state or latent (from 0).")
@click.option("--rows", type=int, default=60, show_default=True, help="Most rows to print.")
def show(policy: str, step: int | None, state: int | None, rows: int) -> None:
    """The saved POLICY as a table: which action at which step, state (or latent) and remaining budget."""
    from tailrank.show_policy import policy_table
    from tailrank.storage import load

    policy_table(load(policy), step=step, state=state, rows=rows)


COMMANDS = (
    cli_check.check, cli_compare.compare, cli_list.list_, cli_plot.plot, cli_report.report, cli_report.serve,
    cli_sweep.sweep, cli_train.train, cli_train.theory,
)  # fmt: skip
for command in COMMANDS:
    main.add_command(command)
cli_names.completed(main)
