"""Which code a row of results was made with."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("src", "studies/*.py", "tests/*.py")


@cache
def commit() -> str:
    """The commit that is checked out, short, with a + where code has changed since; results may change."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def git(*words: str) -> str:
    """What git says about this project; nothing outside a checkout."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout.strip()
