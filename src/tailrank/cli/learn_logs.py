"""The command `tailrank learn-logs`: a policy from records, where nobody may experiment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrank.cli.errors import Command, Failure, say
from tailrank.cli.objective_options import measures_of, objective_options
from tailrank.cli.options import print_json

if TYPE_CHECKING:
    from tailrank.learning.offline.learned import LearnedFromLogs

PATIENCE = 10.0
"""Seconds between two lines that say how far the work is, where they go to a file."""


@click.command("learn-logs", cls=Command)
@click.argument("source")
@click.option("--tau", type=float, default=0.1, show_default=True, metavar="T", help="Tail fraction in (0, 1].")
@click.option("--horizon", type=int, metavar="H", help="Number of steps.  [default: those of the longest episode]")
@click.option("--delta", type=float, default=0.05, show_default=True, metavar="D", help="Chance that a bound fails.")
@click.option("--discount", type=float, default=1.0, show_default=True, metavar="G", help="Discount in (0, 1].")
@click.option(
    "--reward-range", type=float, nargs=2, metavar="LOW HIGH", help="What rewards can be.  [default: the log's]"
)
@click.option("--return-range", type=float, nargs=2, metavar="LOW HIGH", help="What returns can be, if that is less.")
@click.option(
    "--dynamics",
    default="auto",
    show_default=True,
    metavar="auto|same|by-step",
    help="Whether outcomes depend on the step.",
)
@click.option(
    "--states",
    default="seen",
    show_default=True,
    metavar="seen|unseen|N",
    help="Whether all states are in the log, or how many there are.",
)
@click.option("--column", "columns", multiple=True, metavar="OURS=THEIRS", help="Column of another name (state=ward).")
@click.option("--actions", metavar="N|A,B,..", help="All actions there are.  [default: those of the log]")
@click.option(
    "--model",
    default="auto",
    show_default=True,
    metavar="auto|block|lowrank|kernel",
    help="Of observations; auto: by held-out likelihood.",
)
@click.option("--rank", type=int, default=10, show_default=True, metavar="D", help="Most latents of observations.")
@click.option("--budgets", type=int, metavar="N", help="Budgets at the first step.  [default: as many as are cheap]")
@click.option(
    "--caution",
    type=float,
    metavar="C",
    help="Nats of doubt; 0: plain counts; inf: the best bound.  [default: cross-fitted]",
)
@click.option(
    "--fallback",
    default="plan",
    show_default=True,
    metavar="plan|behaviour|step",
    help="What to return where nothing is sure to improve.",
)
@objective_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the halves that choose and judge.")
@click.option("--out", metavar="DIR", help="Folder for the plan.  [default: runs/NAME-logs]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@click.option("--quiet", is_flag=True, help="No progress, no notes.")
def learn_logs(
    source: str, columns: tuple[str, ...], actions: str | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """A policy with a good CVaR from SOURCE, a table of past episodes, with bounds that hold.

    SOURCE is a .csv, .parquet or .arrow file with columns episode, step, state, action, reward (and where there are any
    next_state, terminated, truncated, probability, admissible; obs_0, obs_1, .. for observations), or a Minari data
    set by name or folder.
    """
    from tailrank.learning.offline.learn import learn_logs as learn
    from tailrank.runs.log_runs import KeptStages, check_free, write_log_run

    name = Path(source).name.split(".")[0] or "log"
    out = Path(options.pop("out") or f"runs/{name}-logs")
    check_free(out)
    measures = measures_of(options, (options["tau"],), ())
    given: dict[str, Any] = {key: value or None if key.endswith("_range") else value for key, value in options.items()}
    settings = {key: str(x) if x == float("inf") else x for key, x in options.items() if x not in (None, ())}
    if str(given["states"]).isdigit():
        given["states"] = tuple(range(min(int(given["states"]), 10**7)))
    learned = learn(
        source,
        columns=column_names(columns),
        actions=action_labels(actions),
        objective=None if measures is None else measures[0],
        watch=None if quiet else progress(),
        keeper=lambda mark: KeptStages(out, mark),
        **given,
    )
    write_log_run(out, learned, source, settings)
    notes = [*(f"assumed: {line}" for line in learned.assumptions), *learned.notes]
    if as_json:
        print_json(learned.as_dict() | {"out": str(out)}, notes, quiet)
        return
    show(learned, out)
    for line in () if quiet else notes:
        say(f"note: {line}")


def column_names(pairs: tuple[str, ...]) -> dict[str, str]:
    """Our names of columns to the table's, from OURS=THEIRS."""
    result = {}
    for text in pairs:
        ours, equals, theirs = text.partition("=")
        if not equals or not ours or not theirs:
            raise Failure(f"--column {text}: must be OURS=THEIRS, such as state=ward")
        result[ours.strip()] = theirs
    return result


def action_labels(text: str | None) -> tuple[int | str, ...]:
    """All actions, from a number or a list."""
    if text is None:
        return ()
    if "," not in text and text.strip().isdigit() and 0 < int(text) <= 10**6:
        return tuple(range(int(text)))
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise Failure(f"--actions {text}: must be a number, or names divided by commas")
    return tuple(int(word) for word in words) if all(word.lstrip("-").isdigit() for word in words) else tuple(words)


def progress() -> Callable[[str, float], None]:
    """Shows what is being done: in one line where somebody looks, else in a line every PATIENCE seconds."""
    shown = [time.monotonic()]

    def told(name: str, share: float) -> None:
        click.echo(f"\r\x1b[K{name} {share:.0%}", nl=False, err=True)
        if name == "diagnostics":
            click.echo("\r\x1b[K", nl=False, err=True)

    def plainly(name: str, share: float) -> None:
        if time.monotonic() - shown[0] > PATIENCE:
            shown[0] = time.monotonic()
            click.echo(f"{name} {share:.0%}", err=True)

    return told if sys.stderr.isatty() else plainly


def show(learned: LearnedFromLogs, out: Path) -> None:
    """The numbers for people."""
    from tailrank.learning.offline.split import TILTED

    b, cover = learned.behaviour, learned.coverage
    sure = f"with probability {1 - learned.delta:g}"
    say(f"{learned.status} ({learned.episodes} episodes, {learned.transitions} transitions, {learned.seconds:.1f} s)")
    say(f"  {learned.objective} of the plan    at least {learned.lower:.6g} {sure}")
    model = "model" if "model" in learned.diagnostics else "counts"
    told = "by weighted returns" if learned.diagnostics.get("returned") == TILTED else f"if the {model} were the truth"
    say(f"  {told:<32}{learned.promise:.6g}")
    say(f"  of any policy                   at most {learned.upper:.6g} {sure}")
    say(f"  of whoever made the log         {b.cvar:.6g}, in [{b.low:.6g}, {b.high:.6g}] {sure}; mean {b.mean:.6g}")
    say(f"  the log has {cover.seen_pairs} of {cover.possible_pairs} pairs of state and action")
    if cover.rare is not None and cover.unseen is not None:
        say(f"  the plan is on rare pairs in {cover.rare:.1%} of its steps, on unseen ones in {cover.unseen:.1%}")
    if learned.diagnostics.get("returned") == TILTED:
        say(
            "  no plan is sure to improve; what was saved acts as whoever made the log, with more of what leads to more"
        )
    if learned.status == "not improved":
        saved = {
            "behaviour": "; what was saved acts as whoever made the log",
            "actions taken more than once": "; what was saved takes only actions that were taken more than once",
        }
        what = saved.get(learned.diagnostics.get("returned", ""), "")
        say(f"  the records do not show that it beats what was done: keep to that{what}")
    say(f"{out}: saved; tailrank report {out} shows what the records support")
