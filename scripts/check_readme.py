"""Run every ```sh and ```python block of README.md in a temporary folder; the first that fails ends it.

`make` and `pip` commands are left to CI, which runs them itself. The examples are in reach as examples/.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.M | re.S)
ENVIRONMENT = os.environ | {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "COLUMNS": "100",
}


@contextmanager
def workplace() -> Iterator[Path]:
    """A temporary folder from which the examples are in reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "examples", Path(folder, "examples"))
        yield Path(folder)


def command_of(language: str, text: str) -> list[str]:
    """What runs a block."""
    code = "\n".join(line for line in text.splitlines() if not line.startswith(("make ", "git ", "pip ")))
    if language == "sh":
        return ["bash", "-euo", "pipefail", "-c", code]
    return [sys.executable, "-W", "error", "-c", code]


def main() -> int:
    """Exit code: 0 if every block succeeds."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    with workplace() as folder:
        for language, text in blocks:
            done = subprocess.run(
                command_of(language, text), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
            )
            if done.returncode != 0:
                print(f"README.md: this {language} block fails:\n{text}\n{done.stdout}{done.stderr}", file=sys.stderr)
                return 1
    print(f"README.md: {len(blocks)} blocks run")
    return 0 if blocks else 1


if __name__ == "__main__":
    sys.exit(main())
