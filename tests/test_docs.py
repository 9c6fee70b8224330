"""The tools behind the documentation: what they must accept, and what they must refuse."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "scripts"), str(ROOT / "docs" / "_ext")]

pytest.importorskip("sphinx", reason="the dependency group docs is not installed")

from check_docs import agree, blocks_of  # noqa: E402
from docstrings import paragraph  # noqa: E402
from sources import Unknown, find  # noqa: E402


@pytest.mark.parametrize(
    ("said", "printed", "fits"),
    [
        ("CVaR 0.800, mean 2\n", "CVaR  0.8,   mean 2.0\n\n", True),
        ("0.8000", "0.8007", True),
        ("0.800", "0.802", False),
        ("a 1", "a -1", False),
        ("played 100 episodes, ... s", "played 100 episodes, 3.21 s", True),
        ("played 100 episodes, ... s", "played 110 episodes, 3.21 s", False),
        ("one\n...\nlast", "one\ntwo\nthree\nlast", True),
        ("True", "False", False),
        ("True", "True\nand more", False),
        ("", "anything", False),
    ],
)
def test_what_a_page_says_is_compared_with_what_is_printed(said, printed, fits):
    assert agree(said, printed) is fits


def test_blocks_of_a_page():
    text = """
```python
a = 1
```

```output
1
```

words

```output
belongs to nothing
```

<!-- not run: takes hours -->
```sh
sleep 9999
```

1. a list
   ```python
   if a:
       b = 2
   ```
```toml
x = 1
```
"""
    blocks, skipped = blocks_of("page.md", text)
    assert [(b.language, b.code, b.expected) for b in blocks] == [
        ("python", "a = 1\n", "1\n"),
        ("python", "if a:\n    b = 2\n", None),
    ]
    assert skipped == 1


def test_names_of_code_are_found_or_refused():
    path, line = find("learning/ela/bonus.py:elliptical_bonus")
    assert path.read_text().splitlines()[line - 1].startswith("def elliptical_bonus(")
    path, line = find("learning/ela/ela.py:ELA._collect")
    assert path.read_text().splitlines()[line - 1].startswith("    def _collect(")
    assert find("test_docs.py::test_names_of_code_are_found_or_refused")[0] == Path(__file__)
    assert find("tau = 0.1") is None
    assert find("planning/NAME.py") is None
    with pytest.raises(Unknown, match=r"has no ELA\._collected"):
        find("learning/ela/ela.py:ELA._collected")
    with pytest.raises(Unknown, match=r"no file learning/elaa\.py"):
        find("learning/elaa.py:ELA")


def test_docstrings_become_lists_of_names():
    lines = ["tolerance: the widest bracket, |CVaR|.", "unit: a spacing. memory, seconds: limits, `a: b`."]
    assert paragraph(lines, first=False) == [
        "- **tolerance**: the widest bracket, \\|CVaR\\|.",
        "- **unit**: a spacing.",
        "- **memory, seconds**: limits, `a: b`.",
    ]
    assert paragraph(["    V = c", "    W = d"], first=False) == ["::", "", "    V = c", "    W = d"]
    assert paragraph([">>> solve(mdp)", "1"], first=False) == [">>> solve(mdp)", "1"]


@pytest.mark.parametrize(("algorithm", "lines", "ends"), [(1, 16, {14}), (2, 18, {13}), (3, 19, set())])
def test_every_line_of_the_algorithms_has_a_place(algorithm, lines, ends):
    """`ends`: lines that only end a loop and stand alone."""
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    table = text.split(f"| Algorithm {algorithm} |")[1].split("\n\n")[0]
    covered = set()
    for cell in re.findall(r"^\| (\d[\d, -]*) \|", table, re.M):
        for part in cell.split(","):
            first, _, last = part.strip().partition("-")
            covered |= set(range(int(first), int(last or first) + 1))
    assert covered | ends == set(range(1, lines + 1))
    assert all("`" in row for row in table.splitlines()[2:])


def test_the_readme_does_not_overstate_the_benchmarks():
    rows = json.loads((ROOT / "benchmarks" / "results.json").read_text())["contenders"]
    peers = [row for row in rows.values() if row["kind"] == "peer" and "failed" not in row]

    def seconds(row):
        return row["build_seconds"] + row["solve_seconds"]

    fastest, least = min(map(seconds, peers)), min(row["peak_bytes"] for row in peers)
    measured = (
        fastest / seconds(rows["tailrank"]),
        fastest / seconds(rows["tailrank_kernel"]),
        least / rows["tailrank"]["peak_bytes"],
    )
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    claim = re.search(
        r"takes (\d+) times as long .* (\d+) times as long as its induction .* (\d+) times the memory", text
    )
    assert all(int(said) <= found for said, found in zip(claim.groups(), measured, strict=True)), measured


PAGES = [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_pictures_are_there(path):
    """Sphinx checks those between its pages; this one also the README, CONTRIBUTING.md and pictures."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name}: {target}"
