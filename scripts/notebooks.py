"""Run the notebooks of examples/notebooks and keep what they show: `python scripts/notebooks.py [--write]`.

A cell is run as in Jupyter: what it prints is kept, and the value of its last line is shown, as HTML where it has
`_repr_html_`. Nothing but Python is needed. Without --write nothing is changed: that they run, and that what they show
is of the same kinds as before, is what is checked.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"


def run(book: dict[str, Any], name: str) -> None:
    """Run all cells in one namespace and put what they show into the book."""
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, start=1):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, value = io.StringIO(), None
        where = f"{name}, cell {number}"
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, where, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), where, "eval"), names)
        cell["execution_count"], cell["outputs"] = number, _outputs(printed.getvalue(), value, number)


def _outputs(printed: str, value: Any, number: int) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append(
            {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"},
        )
    return outputs


def kinds(book: dict[str, Any]) -> list[list[list[str]]]:
    """What the cells show, without the words: kinds of output and of their data."""
    shown = [cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code"]
    return [[sorted((one["output_type"], *one.get("data", ()))) for one in outputs] for outputs in shown]


def main() -> int:
    """0 if all notebooks run and show what they should."""
    write, failed = "--write" in sys.argv[1:], 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        book = json.loads(path.read_text())
        before = kinds(book)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("error")
            run(book, path.name)
        if write:
            path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + os.linesep)
        elif kinds(book) != before:
            print(f"{path.name}: shows other things than it holds; run scripts/notebooks.py --write")
            failed = 1
        print(f"{path.name}: {len(before)} cells ran")
    return failed


if __name__ == "__main__":
    sys.exit(main())
