"""The command `tailrank check`: whether an environment or a file is fit for use, before time is spent on it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tailrank.cli.errors import Command, Failure, flags, say
from tailrank.cli.options import collected, pairs

if TYPE_CHECKING:
    from tailrank.envs.gymnasium.checking import Report

POLICIES = (".policy", ".safetensors")
COLOURS = {"error": "red", "warning": "yellow", "ok": "green", "note": "cyan"}


@click.command(cls=Command)
@click.argument("source")
@click.option("--horizon", type=int, metavar="H", help="Number of steps.  [default: the environment's own limit]")
@click.option("--import", "imports", multiple=True, metavar="PKG", help="Package to import first.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the environment (JSON or text)."
)
@click.option("--levels", metavar="N[,N...]", help="Values in every dimension of Box actions.  [default: 5]")
@click.option("--episodes", type=int, default=5, show_default=True, metavar="N", help="Random episodes to play.")
@click.option(
    "--seconds", type=float, default=20.0, show_default=True, metavar="X", help="Time after which no more begin."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(
    source: str,
    horizon: int | None,
    imports: tuple[str, ...],
    settings: tuple[str, ...],
    levels: str | None,
    episodes: int,
    seconds: float,
    as_json: bool,
) -> int:
    """Say what is right and wrong with SOURCE: a Gymnasium environment, a file with an MDP, a table of episodes, a
    policy.

    An environment is played at random, and some episodes twice. Exit code 1 if there are errors.
    """
    kind = _kind(source)
    if kind == "environment":
        from tailrank.envs.gymnasium.checking import examine

        report = examine(
            source,
            horizon=horizon,
            imports=imports,
            levels=_levels(levels),
            settings=pairs(settings, "--set"),
            episodes=episodes,
            seconds=seconds,
        )
    elif kind == "log":
        report = _log(source, horizon)
    else:
        report = _mdp(source, horizon) if kind == "mdp" else _policy(source)
    counts = {level: sum(found.level == level for found in report.findings) for level in COLOURS}
    if as_json:
        found = [{"level": x.level, "what": flags(x.what), "advice": flags(x.advice)} for x in report.findings]
        result = {"source": source, "kind": kind, "errors": counts["error"], "warnings": counts["warning"]}
        click.echo(json.dumps(result | {"findings": found, "facts": report.facts}, allow_nan=False))
    else:
        _print(report, counts)
        if not counts["error"]:
            say(f"next: {_next(source, kind, report, horizon, imports, settings, levels)}")
    return 1 if counts["error"] else 0


def _kind(source: str) -> str:
    """`mdp`, `log`, `policy` or `environment`."""
    from tailrank.envs.logs.read import is_log_csv, is_log_name
    from tailrank.envs.mdp_files.formats import suffixes

    if is_log_name(source) or os.path.isfile(os.path.join(source, "data", "metadata.json")):
        return "log"
    if source.lower().endswith((".csv", ".csv.gz")) and os.path.isfile(source) and is_log_csv(source):
        return "log"
    if source.endswith(suffixes()):
        kind = "mdp"
    elif source.endswith(POLICIES) or os.path.exists(source):
        kind = "policy"
    else:
        return "environment"
    if not os.path.isfile(source):
        raise Failure(f"{source}: must be a file" if os.path.exists(source) else f"{source}: no such file")
    return kind


def _mdp(source: str, horizon: int | None) -> Report:
    """Whether a file with an MDP reads; a horizon that it does not say is no fault of it."""
    from tailrank.checks import InputError
    from tailrank.envs import read_mdp
    from tailrank.envs.gymnasium.checking import Report

    report, notes = Report(source), list[str]()
    with collected(notes):
        try:
            try:
                read = read_mdp(source, horizon=horizon)
            except InputError:
                if horizon is not None:
                    raise
                read = read_mdp(source, horizon=1)
                report.add("note", "horizon: the file does not say how many steps there are", "give --horizon")
        except InputError as error:
            report.add("error", str(error))
            return report
    mdp = read.mdp
    report.facts = {"states": mdp.n_states, "actions": mdp.n_actions, "rows": int(mdp.prob.size)}
    low, high = float(mdp.reward.min()), float(mdp.reward.max())
    report.facts["rewards"] = [low, high]
    what = (
        f"an MDP of {mdp.n_states} states, {mdp.n_actions} actions and {mdp.prob.size} rows, rewards {low:g}..{high:g}"
    )
    report.add("ok", what, f"`tailrank solve {source}`")
    for line in (*read.notes, *notes):
        report.add("note", line)
    return report


def _log(source: str, horizon: int | None) -> Report:
    """Whether a table of episodes reads, and what it holds."""
    from tailrank.checks import InputError
    from tailrank.envs.gymnasium.checking import Report
    from tailrank.envs.logs.checking import findings, log_facts
    from tailrank.envs.logs.read import read_log

    report = Report(source)
    try:
        log = read_log(source, horizon=horizon)
    except InputError as error:
        report.add("error", str(error))
        return report
    report.facts = log_facts(log)
    for level, what, advice in findings(log, report.facts):
        report.add(level, what, advice)
    return report


def _policy(source: str) -> Report:
    """Whether a policy file reads, and what it says about itself."""
    from tailrank.checks import InputError
    from tailrank.envs.gymnasium.checking import Report
    from tailrank.runs.policy_files.storage import load

    report = Report(source)
    try:
        stored = load(source)
    except InputError as error:
        report.add("error", str(error))
        return report
    info = stored.info if isinstance(stored.info, Mapping) else {}
    kind = type(stored.policy).__name__
    about = f" for {info['source']}" if info.get("source") else ""
    report.facts = {"policy": kind, "for": info.get("source")}
    report.add("ok", f"a policy file: {kind}{about}", f"`tailrank show {source}`")
    return report


def _print(report: Report, counts: Mapping[str, int]) -> None:
    from tailrank.checks import printable

    say(report.name)
    for found in report.findings:
        click.echo(f"{click.style(f'{found.level:<9}', fg=COLOURS[found.level])}{printable(flags(found.what))}")
        if found.advice:
            say(f"{'':<9}-> {found.advice}")
    say(", ".join(f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}" for level in ("error", "warning")))


def _next(
    source: str,
    kind: str,
    report: Report,
    horizon: int | None,
    imports: Sequence[str],
    settings: Sequence[str],
    levels: str | None,
) -> str:
    """The command to type now, with the options that were given here."""
    table = kind == "environment" and bool(report.facts.get("table")) and not settings
    said = [f"--horizon {horizon}"] if horizon is not None else []
    if horizon is None and (kind == "mdp" or report.facts.get("horizon") is None):
        lacks = kind != "mdp" or any(found.what.startswith("horizon: the file") for found in report.findings)
        said = ["--horizon H"] if lacks and kind in ("mdp", "environment") else []
    said += [f"--import {shlex.quote(package)}" for package in imports]
    name = shlex.quote(source)
    if kind == "policy":
        return f"tailrank show {name}"
    if kind == "log":
        return " ".join(["tailrank learn-logs", name, "--tau 0.1", *said])
    if kind == "mdp" or table:
        return " ".join(["tailrank solve", name, "--tau 0.1", *said])
    said += [f"--set {shlex.quote(pair)}" for pair in settings]
    said += [f"--action-levels {levels}"] if levels is not None and levels.isdigit() else []
    return " ".join(["tailrank train", name, "--tau 0.1 --episodes 300", *said])


def _levels(text: str | None) -> int | list[int] | None:
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise Failure(f"--levels {text}: must be a whole number, or several divided by commas") from None
    return numbers[0] if len(numbers) == 1 else numbers
