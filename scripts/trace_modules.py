"""Print the modules of tailrank in which functions run, in the order of their first call, for four commands.

    python scripts/trace_modules.py > trace.md        docs/design.md has the counts and the main modules

Each command runs twice in a process of its own; the second run is traced, so that importing and compiling do not count.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
from itertools import groupby
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = f"{ROOT / 'src' / 'tailrank'}{os.sep}"
COMMANDS = {
    "`solve FILE`, exact": ("solve", str(ROOT / "examples/models/counter_example.json"), "--tau", "0.5"),
    "`train risky-lock`": ("train", "risky-lock", "--horizon", "4", "--iterations", "3", "--out", "finite"),
    "`train rich-lock`": ("train", "rich-lock", "--horizon", "3", "--iterations", "3", "--out", "observed"),
    "`report` of the first run": ("report", "finite", "--out", "page.html"),
}


def trace(words: list[str]) -> list[str]:
    """The modules, as paths in the package, that the second run of a command passes through."""
    from tailrank.cli.root import main

    modules: dict[str, None] = {}

    def look(frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PACKAGE):
            modules.setdefault(path.removeprefix(PACKAGE))

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(words, standalone_mode=False)
        again = [*words, "--overwrite"] if words[0] == "train" else words
        threading.setprofile(look)
        sys.setprofile(look)
        main(again, standalone_mode=False)
        sys.setprofile(None)
    return list(modules)


def line_of(modules: list[str]) -> str:
    """The modules in their order, those of one folder that follow each other behind its name."""
    parts = []
    for folder, names in groupby(modules, key=lambda path: str(Path(path).parent)):
        stems = ", ".join(Path(name).stem for name in names)
        parts.append(stems if folder == "." else f"{Path(folder).as_posix()}: {stems}")
    return "; ".join(parts)


def run() -> None:
    """Trace every command in a process and a folder of its own; print a list item for each."""
    source = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as folder:
        for title, words in COMMANDS.items():
            command = [sys.executable, __file__, "--one", *words]
            environment = os.environ | {"PYTHONPATH": source}
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
            modules = done.stdout.split()
            print(f"- {title}: {len(modules)} modules. {line_of(modules)}.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print("\n".join(trace(sys.argv[2:])))
    else:
        run()
