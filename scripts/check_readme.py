"""Run every ```sh and ```python block of README.md in a temporary folder; the first that fails ends it.

`make` commands are left to CI, which runs them itself. The examples are in reach as examples/.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.M | re.S)


def main() -> int:
    """Exit code: 0 if every block succeeds."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "examples", Path(folder, "examples"))
        for language, text in blocks:
            lines = [line for line in text.splitlines() if not line.startswith(("make ", "git "))]
            code = "\n".join(lines)
            command = [sys.executable, "-W", "error", "-c", code]
            if language == "sh":
                command = ["bash", "-euo", "pipefail", "-c", code]
            done = subprocess.run(
                command, cwd=folder, env=os.environ | {"PATH": paths}, capture_output=True, text=True, timeout=300
            )
            if done.returncode != 0:
                print(f"README.md: this {language} block fails:\n{text}\n{done.stdout}{done.stderr}", file=sys.stderr)
                return 1
    print(f"README.md: {len(blocks)} blocks run")
    return 0 if blocks else 1


if __name__ == "__main__":
    sys.exit(main())
