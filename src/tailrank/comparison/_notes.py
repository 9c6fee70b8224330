"""What a reader of a comparison must know, a line each: what is missing, how runs were aligned, how sure it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tailrank.comparison._records import Record
from tailrank.comparison.across import tasks_with_scores
from tailrank.comparison.measures import Options, TaskResults, settled_runs
from tailrank.comparison.tasks import Crossed, differing, method_of
from tailrank.risk.over_runs.intervals import ENOUGH, FEWEST
from tailrank.runs.read import Run


def left_out(runs: Sequence[Run]) -> list[str]:
    """Runs with nothing to compare."""
    if not runs:
        return []
    names, which = _some([str(run.folder) for run in runs]), "runs have" if len(runs) > 1 else "run has"
    return [f"{len(runs)} {which} no plan that was judged and no result, left out: {names}"]


def of(methods: Sequence[str], tasks: Sequence[TaskResults], options: Options) -> Iterator[str]:
    """Everything that the runs themselves give rise to."""
    records = [record for task in tasks for cell in task.cells for record in cell.records]
    yield from _few(tasks)
    yield from _note_unfinished(records)
    for task in tasks:
        yield from (f"{task.name}: {line}" if len(tasks) > 1 else line for line in _task(task, options))
    yield from _note_tasks(methods, tasks)
    if any(record.run.config.get("stop_cvar") is not None for record in records):
        yield "runs with stop_cvar end when they get there: nothing is known of whether they would have stayed"
    platforms = {str(record.run.manifest.get("platform")) for record in records}
    if len(platforms) > 1:
        yield f"seconds: the runs were made on {len(platforms)} different platforms"
    versions = {str(record.run.manifest.get("versions")) for record in records}
    if len(versions) > 1:
        yield "the runs were made with different versions of packages"


def of_settings(table: Crossed) -> Iterator[str]:
    """Settings in which methods differ beside those in their names."""
    by_task: dict[int, list[dict[str, str]]] = {}
    for (t, _), runs in table.cells.items():
        by_task.setdefault(t, []).extend(method_of(run) for run in runs)
    hidden = sorted(differing(list(by_task.values())) - {key for one in table.methods for key in one})
    if hidden:
        yield f"configurations also differ in {', '.join(hidden)}"


def _few(tasks: Sequence[TaskResults]) -> Iterator[str]:
    counts = [len(cell.records) for task in tasks for cell in task.cells]
    if min(counts) < FEWEST:
        yield f"fewer than {FEWEST} runs of a configuration on a task: no intervals from resamples"
    if min(counts) < ENOUGH:
        span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        yield f"intervals over fewer than {ENOUGH} runs are too narrow ({span} here): more seeds, or say how many"


def _note_unfinished(records: Sequence[Record]) -> Iterator[str]:
    open_ones = [record.run for record in records if record.run.status != "finished"]
    if open_ones:
        kinds = ", ".join(f"{count} {status}" for status, count in sorted(Counter(r.status for r in open_ones).items()))
        names = _some([str(run.folder) for run in open_ones])
        yield f"not finished, counted as far as they got, in the episodes to CVaR* only: {kinds} ({names})"


def _task(task: TaskResults, options: Options) -> Iterator[str]:
    """What is missing in a task, and how its runs are aligned."""
    records = [record for cell in task.cells for record in cell.records]
    stars = [record.star for record in records]
    if all(star is None for star in stars):
        yield ("CVaR* is not known: no episodes to it, no regret, no share of it; CVaR is compared as it is")
    elif any(star is None for star in stars):
        yield "some runs do not know CVaR*: no episodes to it, no share of it"
    elif task.star is None and len({str(record.run.config.get("settings")) for record in records}) == 1:
        yield "runs differ in CVaR*: has the environment changed between them?"
    if any(star is not None and star <= options.floor for star in stars):
        yield (
            f"CVaR* is not above {options.floor:g}: no share of it; give --floor a lower number, "
            "such as the least possible return"
        )
    blind = [record for record in records if record.judged is None]
    if blind:
        yield (
            f"no plan was judged on the way in {len(blind)} of {len(records)} runs (evaluate_every = 0): "
            "no episodes to CVaR*, no last plan"
        )
    elif any(record.estimated for record in records):
        yield (
            "CVaR is estimated from fresh episodes, now and then: episodes to CVaR* are rounded up to the next "
            "evaluation, and chance can make the first one early"
        )
    if stars[0] is not None and all(record.regret is None for record in records):
        yield "regret is only counted where every plan is judged exactly"
    yield from _note_episodes(task, [record for cell in task.cells for record in settled_runs(cell.records)])


def _note_episodes(task: TaskResults, records: Sequence[Record]) -> Iterator[str]:
    spans = [(record.span, record.run) for record in records]
    ends = sorted((span[1], str(run.folder)) for span, run in spans if span is not None)
    if not ends or ends[0][0] == ends[-1][0]:
        return
    lengths = f"runs end after {ends[0][0]:g} to {ends[-1][0]:g} episodes"
    if task.at is None:
        yield f"{lengths} and have none in common: no last plan, no regret"
        return
    where = "as asked" if task.at < ends[0][0] else f"where the first one ends ({ends[0][1]})"
    yield (
        f"{lengths}: last plans and regret are compared at {task.at:g}, {where}; returned plans are those of whole "
        "runs; a run that did not get there counts as longer than itself"
    )


def _note_tasks(methods: Sequence[str], tasks: Sequence[TaskResults]) -> Iterator[str]:
    shared = tasks_with_scores(tasks, len(methods))
    if len(shared) < len(tasks):
        rest = f"{len(shared)} of {len(tasks)}" if shared else "none"
        yield f"numbers over all tasks are over those in which every configuration has a score: {rest}"
    counts = {len(cell.records) for task in shared for cell in task.cells}
    if len(shared) > 1 and len(counts) > 1:
        yield "tasks with more runs count more in the interquartile mean"


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
