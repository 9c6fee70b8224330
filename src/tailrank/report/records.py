"""The part "what the records support" of a report: a plan from logs, as tables of facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailrank.checks import InputError, tail_level
from tailrank.report._about import Facts, versions
from tailrank.report.subject import Shown, Subject
from tailrank.runs.log_runs import is_log_run, read_log_run
from tailrank.runs.read import finite_or_none

NO_LAW = "The process is not known, only the records are: there are bounds (see What the records support), but no law."


def of_log_runs(folders: Sequence[Path]) -> Subject | None:
    """The subject of one plan from records; None if the folders hold none."""
    found = [folder for folder in folders if is_log_run(folder)]
    if not found:
        return None
    if len(folders) > 1:
        raise InputError(f"{found[0]}: holds a plan from records; it is reported on its own")
    stored, about = read_log_run(found[0])
    result = about["result"]
    tau = tail_level(result.get("tau", 0.1))
    labels = tuple(str(label)[:60] for label in stored.info.get("states", ()))
    absent = {"law": NO_LAW, "episodes": NO_LAW, "domain": NO_LAW}
    shown = Shown(f"plan for tau = {tau:g}", tau, stored.policy, labels=labels, absent=absent)
    warnings = (
        ()
        if result.get("status") == "improved"
        else ("Not improved: the records do not show that the plan beats what was done.",)
    )
    return Subject(
        Path(str(about.get("source", "log"))).name,
        f"Learned from {_number(result.get('episodes'))} past episodes",
        tau,
        (shown,),
        about=(*support(about), versions()),
        warnings=warnings,
        notes=tuple(str(line) for line in about["notes"]),
    )


def support(about: Mapping[str, Any]) -> tuple[Facts, ...]:
    """What the records support, as named tables."""
    result, cover, more = about["result"], about["coverage"], about["diagnostics"]
    own = result.get("behaviour") if isinstance(result.get("behaviour"), dict) else {}
    sure = f"with probability {_number(1.0 - float(result.get('delta', 0.05)))}"
    what, told = str(result.get("objective", "CVaR")), "model" if "model" in more else "counts"
    rows = [
        ("status", str(result.get("status"))),
        (f"{what} of the plan", f"at least {_number(result.get('lower'))} {sure}"),
        (f"{what} of any policy", f"at most {_number(result.get('upper'))} {sure}"),
        (f"{what} of the plan if the {told} were the truth", _number(result.get("promise"))),
        (
            f"{what} of the log's own policy",
            f"{_number(own.get('cvar'))}, in [{_number(own.get('low'))}, {_number(own.get('high'))}] {sure}",
        ),
        ("mean of the log's own policy", _number(own.get("mean"))),
        ("episodes, transitions", f"{_number(result.get('episodes'))}, {_number(result.get('transitions'))}"),
    ]
    rows += [(f"bound: {name}", _number(value)) for name, value in about["bounds"].items()]
    rows += [("returned", str(more["returned"]))] if "returned" in more else []
    rows += [("assumed", str(line)) for line in about.get("assumptions", ())]
    likelihood = more.get("held_out_likelihood") or {}
    covered = [
        (
            "pairs of state and action in the log",
            f"{_number(cover.get('seen_pairs'))} of {_number(cover.get('possible_pairs'))}",
        ),
        ("visits of a pair, least and median", f"{_number(cover.get('least'))}, {_number(cover.get('median'))}"),
        ("steps of the plan on pairs with fewer than 10 visits", _number(cover.get("rare"))),
        ("steps of the plan on pairs without visits", _number(cover.get("unseen"))),
        ("held-out log-likelihood, same dynamics at every step", _number(likelihood.get("same"))),
        ("held-out log-likelihood, dynamics by step", _number(likelihood.get("by_step"))),
    ]
    costly = [
        (
            f"state {row.get('state')}, action {row.get('action')}",
            f"{_number(row.get('cost'))} of the bound; {_number(row.get('visits_in_log'))} visits in the log, "
            f"{_number(row.get('visits_of_plan'))} of the plan an episode",
        )
        for row in _rows(more.get("costly_pairs"))
    ]
    more_data = [
        (f"{_number(row.get('episodes'))} episodes that look the same", _number(row.get("lower")))
        for row in _rows(more.get("bound_by_episodes"))
    ]
    parts = (
        ("What the records support", rows),
        ("Coverage", covered),
        ("Pairs that cost most of the bound", costly),
        ("The bound against the number of episodes (computed, not measured)", more_data),
    )
    return tuple((name, tuple((a[:200], b[:400]) for a, b in lines)) for name, lines in parts if lines)


def _rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _number(value: object) -> str:
    number = finite_or_none(value)
    return "unknown" if number is None else f"{number:.6g}"
