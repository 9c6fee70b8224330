"""Docstrings are plain text with `names` in backticks; this makes reStructuredText of them, paragraph by paragraph.

Outside backticks the signs that have a meaning there (* | _ at the end of a word) are taken literally. Indented
paragraphs, which hold formulas and code, become literal blocks; lists and doctests stay. Sentences that begin with
names and a colon, as in "memory, seconds: limits on refinement", become the items of a list.
"""

from __future__ import annotations

import re
from itertools import groupby, pairwise
from typing import Any

from sphinx.application import Sphinx

SIGNS = re.compile(r"([*|\\]|_(?=\W|$))")
ITEM = re.compile(r"- |\d+\. ")
NAME = r"[a-z]\w*(?: \[[^\]]*\])*"
FIELD = re.compile(rf"({NAME}(?:,? (?:and )?{NAME})*): ")
BETWEEN = re.compile(rf"(?<=[.)]) (?={FIELD.pattern})")


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite `lines` in place."""
    result: list[str] = []
    for text, group in groupby(lines, key=lambda line: bool(line.strip())):
        if text:
            result += [*paragraph(list(group), first=not result), ""]
    lines[:] = result


def paragraph(lines: list[str], first: bool) -> list[str]:
    """A paragraph of a docstring; the first one is never a list."""
    if lines[0].lstrip().startswith(">>> "):
        return lines
    if lines[0].startswith("    "):
        return ["::", "", *lines]
    if any(ITEM.match(line) for line in lines):
        return [line for raw in lines for line in (["", escaped(raw)] if ITEM.match(raw) else [escaped(raw)])]
    if first:
        return [escaped(line) for line in lines]
    found: list[str] = []
    for part in _parts(" ".join(lines)):
        named = FIELD.match(part)
        found.append(f"- **{named[1]}**: {escaped(part[named.end() :])}" if named else escaped(part))
        if not named:
            found.append("")
    return found


def _parts(text: str) -> list[str]:
    """The text, cut before every sentence that begins with names and a colon."""
    ends = [match.start() for match in BETWEEN.finditer(text) if text.count("`", 0, match.start()) % 2 == 0]
    places = [0, *(end + 1 for end in ends), len(text) + 1]
    return [text[a : b - 1] for a, b in pairwise(places)]


def escaped(line: str) -> str:
    """The line with its signs taken literally, but for what stands in backticks."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if i % 2 else SIGNS.sub(r"\\\1", part) for i, part in enumerate(parts))


def setup(app: Sphinx) -> dict[str, bool]:
    """Process all docstrings."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
