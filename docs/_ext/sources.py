"""Code names become links to pages with the source; a name that does not exist is a warning, hence an error.

In a page, `learning/ela/ela.py:ELA.step`, `tests/risk/test_law.py::test_level_one_is_the_mean` and
`test_law.py::test_level_one_is_the_mean` in backticks are such names. Files are looked for in src/tailrank, in the
project's folder, and, for names of tests, anywhere in tests. NAME stands for any name.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "tailrank"
NAME = re.compile(r"((?:[\w.]+/)*\w+\.py)(?:::?(\w+(?:\.\w+)*))?")
log = logging.getLogger(__name__)
used: dict[str, set[Path]] = {}


class Unknown(Exception):
    """No such file, or no such name in it."""


def find(text: str) -> tuple[Path, int] | None:
    """File and line of a code name, None if the text is none; raises where it names nothing."""
    match = NAME.fullmatch(text)
    if match is None or "NAME" in text:
        return None
    file, name = match.groups()
    places = [PACKAGE / file, ROOT / file]
    if "/" not in file:
        places += sorted((ROOT / "tests").rglob(file))
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise Unknown(f"`{text}`: there is no file {file}")
    line = lines_of(path).get(name, 0) if name else 1
    if not line:
        raise Unknown(f"`{text}`: {path.relative_to(ROOT)} has no {name}")
    return path, line


@cache
def lines_of(path: Path) -> dict[str, int]:
    """Line of every function, class, method and constant of a file by its qualified name."""
    found: dict[str, int] = {}

    def visit(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                found[before + node.name] = node.lineno
                visit(node.body, f"{before}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update({before + t.id: node.lineno for t in targets if isinstance(t, ast.Name)})

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def page_of(path: Path) -> str:
    """The page that shows a file."""
    return f"source/{path.relative_to(ROOT).with_suffix('')}"


def link(app: Sphinx, doctree: nodes.document) -> None:
    """Turn the code names of a page into links."""
    here = app.env.docname
    for node in list(doctree.findall(nodes.literal)):
        if isinstance(node.parent, nodes.reference):
            continue
        try:
            found = find(node.astext())
        except Unknown as error:
            log.warning(str(error), location=node)
            continue
        if found is not None:
            path, line = found
            used.setdefault(here, set()).add(path)
            up = "../" * here.count("/")
            uri = f"{up}{page_of(path)}.html#L-{line}"
            reference = nodes.reference("", "", node.deepcopy(), internal=True, refuri=uri)
            node.parent.replace(node, reference)


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """The link [source] of an entry of api.md."""
    thing: Any = sys.modules.get(info["module"])
    for part in info["fullname"].split("."):
        thing = getattr(thing, part, None)
    thing = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "func", None) or thing)
    try:
        path = Path(inspect.getsourcefile(thing) or "")
        line = inspect.getsourcelines(thing)[1]
    except (TypeError, OSError):
        return None
    if PACKAGE not in path.parents:
        return None
    used.setdefault("api", set()).add(path)
    return f"{page_of(path)}.html#L-{line}"


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for every file that is linked to."""
    formatter = HtmlFormatter(lineanchors="L", linenos="inline", anchorlinenos=True, wrapcode=True)
    for path in sorted(set().union(*used.values())):
        code = highlight(path.read_text(encoding="utf-8"), PythonLexer(), formatter)
        title = str(path.relative_to(ROOT))
        body = f'<h1>{title}</h1><div class="highlight-python notranslate source-page">{code}</div>'
        yield page_of(path), {"title": title, "body": body}, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Links after reading, pages at the end. The set of pages lives in one process: build with -E."""
    app.connect("doctree-read", link)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
