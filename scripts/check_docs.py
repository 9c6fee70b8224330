"""Run the examples of the documentation and compare what they print with what the pages say.

    python scripts/check_docs.py [--write] [PAGE...]        PAGE as in docs/, all if none is given

The ```python and ```sh blocks of a page run in order, in one folder; those in Python share their names. A block
```output after one holds what it prints: words must agree, numbers up to a thousandth, `...` stands for anything.
--write replaces those that do not agree (with `...` for times and sizes of files). A block after the line
<!-- not run: REASON --> is left out.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from check_readme import ENVIRONMENT, ROOT, command_of, workplace

DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)```(python|sh|output)\n(.*?)^\1```$", re.M | re.S)
SKIP = re.compile(r"<!-- not run: [^\n]+ -->\s*\Z")
VARIES = re.compile(r"[\d.,]+(?= (?:s|kB)\b)")
NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
LONGEST = 600
"""Seconds that a page may take."""
GENERATED = {"results.md", "benchmarks.md"}
CLIFF = """
import shutil, numpy as np
from tailrank import read_mdp, save, solve
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run
shutil.copy("examples/models/cliff.json", "cliff.json")
env = read_mdp("cliff.json").mdp
plan = solve(env, tau=0.05)
policy = plan.policy
save(plan, "cliff.policy")
for seed, name in enumerate("abc"):
    run(RunConfig.of("risky-lock", iterations=12, seed=seed, settings={"horizon": 4}), f"runs/{name}")
"""
BEFORE = {"evaluation.md": CLIFF, "report.md": CLIFF}
"""What pages that are written elsewhere take for granted."""
ELSEWHERE = {
    "evaluation.md": {"while ...": "a sketch of a loop", "stable_baselines3": "needs stable-baselines3"},
    "rivals_rich.md": {"episodes=5000": "takes minutes"},
    "report.md": {"tailrank serve": "runs until it is stopped"},
}
"""Blocks of those pages that are not run, by a part of their text."""


@dataclass
class Block:
    """A block and the place of its ```output block in the page, if there is one."""

    line: int
    language: str
    code: str
    expected: str | None = None
    span: tuple[int, int] = (0, 0)
    indent: str = ""


def blocks_of(name: str, text: str) -> tuple[list[Block], int]:
    """The blocks of a page that are run, and how many are not."""
    found: list[Block] = []
    skipped, last_end, last = 0, -1, None
    for match in FENCE.finditer(text):
        indent, language, code = match.groups()
        code = re.sub(rf"^{indent}", "", code, flags=re.M)
        if language == "output":
            if last is not None and not text[last_end : match.start()].strip():
                last.expected, last.span, last.indent = code, match.span(3), indent
            continue
        last, last_end = None, match.end()
        unfit = [line for line in code.splitlines() if any(part in line for part in ELSEWHERE.get(name, ()))]
        if language == "sh" and unfit:
            code = "\n".join(line for line in code.splitlines() if line not in unfit)
            skipped += 1
        elif unfit or SKIP.search(text[: match.start()]):
            skipped += 1
            continue
        last = Block(text.count("\n", 0, match.start()) + 1, language, code)
        found.append(last)
    return found, skipped


def agree(expected: str, printed: str) -> bool:
    """Whether the page says what was printed."""
    want, have = (_lines(text) for text in (expected, printed))
    pattern, numbers = "", []
    for i, part in enumerate(re.split(r"(\.\.\.)", want)):
        if i % 2:
            pattern += ".*?"
            continue
        begin = 0
        for match in NUMBER.finditer(part):
            pattern += re.escape(part[begin : match.start()]) + f"({NUMBER.pattern})"
            numbers.append(match[0])
            begin = match.end()
        pattern += re.escape(part[begin:])
    found = re.fullmatch(pattern, have, re.S)
    return found is not None and all(_close(a, b) for a, b in zip(numbers, found.groups(), strict=True))


def _lines(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def _close(a: str, b: str) -> bool:
    x, y = (float(text.replace("−", "-")) for text in (a, b))
    return abs(x - y) <= 1e-3 * max(abs(x), abs(y)) + 1e-9


def work() -> None:
    """Run the blocks that stand on stdin as JSON; a line of JSON for each: what it printed, and whether it failed."""
    names: dict[str, object] = {"__name__": "__main__"}
    results = os.fdopen(os.dup(1), "w")
    for block in json.load(sys.stdin):
        error = ""
        if block["language"] == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                try:
                    exec(compile(block["code"], block["where"], "exec"), names)
                except BaseException as problem:
                    error = f"{type(problem).__name__}: {problem}"
            printed = out.getvalue()
        else:
            command = command_of("sh", block["code"])
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            printed, error = done.stdout, (done.stderr or "failed") if done.returncode else ""
        print(json.dumps({"printed": printed, "error": error}), file=results, flush=True)
        if error:
            return


def check(path: Path, write: bool) -> tuple[list[str], int, int, float]:
    """What is wrong with a page, how many blocks were run and were not, and the seconds it took."""
    began, name = time.perf_counter(), str(path.relative_to(DOCS))
    text = path.read_text(encoding="utf-8")
    blocks, skipped = blocks_of(name, text)
    if not blocks:
        return [], 0, skipped, 0.0
    tasks = [{"language": b.language, "code": b.code, "where": f"{name}:{b.line}"} for b in blocks]
    if name in BEFORE:
        tasks.insert(0, {"language": "python", "code": BEFORE[name], "where": f"{name}:0"})
    try:
        with workplace() as folder:
            done = subprocess.run(
                [sys.executable, "-W", "error", __file__, "--work"],
                cwd=folder,
                env=ENVIRONMENT,
                text=True,
                input=json.dumps(tasks),
                capture_output=True,
                timeout=LONGEST,
            )
    except subprocess.TimeoutExpired:
        return [f"docs/{name}: its blocks were not done after {LONGEST} s"], 0, skipped, float(LONGEST)
    results = [json.loads(line) for line in done.stdout.splitlines()][len(tasks) - len(blocks) :]
    problems = list(_compared(name, blocks, results))
    if len(results) < len(blocks) and not problems:
        problems.append(f"docs/{name}: the blocks did not run to the end\n{done.stdout}{done.stderr}")
    if write:
        for block, result in reversed(list(zip(blocks, results, strict=False))):
            wrong = block.expected is not None and not agree(block.expected, result["printed"])
            if wrong and not result["error"]:
                printed = VARIES.sub("...", result["printed"].strip("\n"))
                lines = [block.indent + line.rstrip() for line in printed.splitlines()]
                text = text[: block.span[0]] + "\n".join(lines) + "\n" + text[block.span[1] :]
        path.write_text(text, encoding="utf-8")
    return problems, len(blocks), skipped, time.perf_counter() - began


def _compared(name: str, blocks: list[Block], results: list[dict[str, str]]) -> Iterator[str]:
    for block, result in zip(blocks, results, strict=False):
        where = f"docs/{name}:{block.line}"
        if result["error"]:
            yield f"{where}: this {block.language} block fails:\n{block.code}\n{result['printed']}{result['error']}"
        elif block.expected is not None and not agree(block.expected, result["printed"]):
            yield f"{where}: the page says\n{block.expected}\nbut this is printed\n{result['printed']}"


def unlisted() -> list[str]:
    """Public names that the pages of the API leave out."""
    import tailrank

    text = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md")))
    return [f"docs/api: leaves out tailrank.{n}" for n in tailrank.__all__ if not re.search(rf"tailrank\.{n}\b", text)]


def main(arguments: list[str]) -> int:
    """Exit code: 0 if every block runs and prints what its page says."""
    write = "--write" in arguments
    names = [name for name in arguments if name != "--write"]
    every = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts and path.name not in GENERATED)
    pages = [DOCS / name for name in names] or every
    pages.sort(key=lambda path: -path.read_text(encoding="utf-8").count("\ntailrank "))  # the longest first
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda path: check(path, write), pages))
    problems = [] if names else unlisted()
    for path, (wrong, ran, skipped, seconds) in zip(pages, found, strict=True):
        problems += wrong
        if ran or skipped:
            left = f", {skipped} not run" if skipped else ""
            print(f"{path.relative_to(DOCS)}: {ran} blocks run in {seconds:.1f} s{left}")
    print("\n\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        sys.exit(main(sys.argv[1:]))
