"""The command line: `tailrank solve`, `train`, `evaluate`, `report`, `plot`, `check` and so on.

Only click is imported at the top, so that `tailrank --help` answers at once. Bad input of any kind ends
with one line on stderr and exit code 2.
"""

from __future__ import annotations

import os
import sys

import click

import tailrank
from tailrank.cli import names
from tailrank.cli.check import check
from tailrank.cli.compare import compare
from tailrank.cli.convert import export, import_, inspect
from tailrank.cli.errors import CommandGroup, Failure
from tailrank.cli.evaluate import evaluate
from tailrank.cli.learn_logs import learn_logs
from tailrank.cli.list import list_
from tailrank.cli.plot import plot
from tailrank.cli.report import report, serve
from tailrank.cli.show import show
from tailrank.cli.solve import solve
from tailrank.cli.sweep import sweep
from tailrank.cli.theory import theory
from tailrank.cli.train import train
from tailrank.envs.mdp_files.formats import formats_text

NEXT = """\
tailrank finds the policy with the best CVaR: the mean of its worst returns, at tau = 0.1 of the worst tenth. Try:

  tailrank solve FrozenLake-v1 --horizon 100 --tau 0.5    an MDP that is known: exact
  tailrank train risky-lock --iterations 60 --out runs/a  one that is not: learn it
  tailrank report runs/a                                  look at it in a browser
  tailrank evaluate runs/a --episodes 2000                measure it in fresh episodes
  tailrank learn-logs log.csv --tau 0.1 --out runs/ward   only records, no experiments: a plan with a bound that holds
  tailrank check CartPole-v1                              is an environment fit for learning?
  tailrank list                                           all algorithms; sweep and compare set them side by side

tailrank COMMAND --help says more; tailrank --show-completion bash sets up the Tab key.
"""


def _import(packages: tuple[str, ...]) -> None:
    from tailrank.checks import InputError
    from tailrank.envs.gymnasium.tables import load

    try:
        load(packages)
    except InputError as error:
        raise Failure(str(error)) from None


def _show_completion(ctx: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    if shell is not None and not ctx.resilient_parsing:
        click.echo(names.script(shell, main))
        ctx.exit()


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=f"""Policies with the best CVaR in finite MDPs: exact answers or certified bounds.

    SOURCE is a file ({formats_text()}) or the id of a Gymnasium environment that has a transition table.
    """,
)
@click.version_option(tailrank.__version__, prog_name="tailrank")
@click.option(
    "--show-completion",
    type=click.Choice(names.SHELLS),
    metavar="|".join(names.SHELLS),
    expose_value=False,
    is_eager=True,
    callback=_show_completion,
    help='What completes on the Tab key; in .bashrc: eval "$(tailrank --show-completion bash)".',
)
@click.option(
    "--import",
    "packages",
    multiple=True,
    metavar="PKG",
    help="Package to import first, which adds criteria, models, environments, formats, decoders or statistics.",
)
@click.pass_context
def main(ctx: click.Context, packages: tuple[str, ...]) -> None:
    """Run a command, or say which there are."""
    if packages:
        _import(packages)
    # A module in the current folder (`my_env:Shop-v0`) is found as with `python -m`; last, so that it hides no other.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if ctx.invoked_subcommand is None:
        click.echo(NEXT, nl=False)


for command in (
    check,
    compare,
    evaluate,
    export,
    import_,
    inspect,
    learn_logs,
    list_,
    plot,
    report,
    serve,
    show,
    solve,
    sweep,
    theory,
    train,
):
    main.add_command(command)
names.completed(main)
