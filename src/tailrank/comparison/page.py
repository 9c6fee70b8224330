"""A comparison as one HTML file: notes, tables, pictures. No script, nothing from outside.

It has the look and the Content-Security-Policy of a report: one style, allowed by its hash. All text is escaped.
Pictures are SVG that needs no style of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from tailrank.comparison.compare import Comparison
from tailrank.comparison.export import settings_of
from tailrank.comparison.tables import Table, of_task, over_all, task_title
from tailrank.report.document import asset, content_policy

CAPTIONS = {
    "episodes_first": "Share of runs that are not within {within} of CVaR* yet (Kaplan, Meier); ticks: ends of runs.",
    "episodes_stay": "The same for the episodes after which a run stays within {within}.",
    "regret": "Regret: the sum over episodes of CVaR* less the CVaR of their plan; means over runs.",
    "profile": "Performance profiles: share of runs with a score above x, mean over tasks.",
    "improvement": "Probability that a run of one configuration ends above a run of another.",
}
STYLE = """
.wide { overflow-x: auto; margin-bottom: 1.5rem; }
.wide td, .wide thead th { white-space: pre-line; }
.wide td { white-space: nowrap; }
.drawn { margin: 0 0 1.75rem; }
.drawn svg { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
.wide tbody th { min-width: 9rem; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Comparison of {title}</title>
<style>{style}</style>
</head>
<body>
<header class="top"><div><p class="kicker">Comparison of runs</p><h1>{title}</h1></div></header>
<main>
{sections}
</main>
<footer>{footer}</footer>
</body>
</html>
"""


def page(found: Comparison, pictures: Mapping[str, str]) -> str:
    """The whole page; pictures: SVG by name, those of `CAPTIONS`."""
    style = asset("style.css") + STYLE
    tasks = f"{len(found.tasks)} tasks" if len(found.tasks) > 1 else found.tasks[0].name
    runs = sum(len(cell.records) for task in found.tasks for cell in task.cells)
    confidence = f"{100 * found.options.confidence:g}%"
    sections = "\n".join(_sections(found, pictures))
    return PAGE.format(
        policy=escape(content_policy(style, "", live=False)),
        style=style,
        sections=sections,
        title=escape(f"{len(found.methods)} configurations on {tasks}" if len(found.methods) > 1 else tasks),
        footer=escape(f"{runs} runs. In brackets: {confidence} intervals over runs, of no width where all were alike."),
    )


def _sections(found: Comparison, pictures: Mapping[str, str]) -> Iterator[str]:
    if found.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
        yield f'<section><div class="notice"><strong>Read this first</strong><ul>{items}</ul></div></section>'
    tables = "".join(map(_table, over_all(found)))
    drawn = "".join(_picture(found, name, svg) for name, svg in pictures.items())
    if tables or drawn:
        yield f"<section><h2>Over all tasks</h2>{tables}{drawn}</section>"
    for task in found.tasks:
        tables = "".join(map(_table, of_task(found, task)))
        yield f"<section><h2>{escape(task_title(task))}</h2>{tables}</section>"
    yield f"<section><h2>How this was made</h2>{''.join(_settings(found))}</section>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
    )
    return (
        f'<div class="wide"><table><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def caption(found: Comparison, name: str) -> str:
    """What a picture shows."""
    return CAPTIONS[name].format(within=f"{100 * found.options.within:g}%")


def _picture(found: Comparison, name: str, svg: str) -> str:
    text = escape(caption(found, name))
    return f'<figure class="drawn">{svg}<figcaption class="caption">{text}</figcaption></figure>'


def _settings(found: Comparison) -> Iterator[str]:
    for task in found.tasks:
        for cell in task.cells:
            folders = [str(record.run.folder) for record in cell.records]
            lines = [f"{key} = {value}" for key, value in settings_of(cell.records).items()]
            items = "".join(f"<li>{escape(line)}</li>" for line in [*lines, *folders])
            name = escape(f"{found.methods[cell.method]} on {task.name}")
            yield f'<details class="facts"><summary>{name}</summary><ul>{items}</ul></details>'
