"""The lock files in requirements/: exact versions and hashes of everything that is installed to work on tailrank.

    python scripts/lock.py [--upgrade]      write them anew (needs uv and the package index)
    python scripts/lock.py --check          say where they disagree with pyproject.toml (needs neither)

They hold for every platform and Python that the packages have files for. Versions stay as they are unless
pyproject.toml asks for others or --upgrade is given; none is younger than a week, because releases with something
evil in them are found within days.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
AGE = datetime.timedelta(days=7)
CORE = "core"
"""What a user gets without extras."""
LOWEST = "lowest"
"""The lock file with the lowest versions that pyproject.toml declares."""
LOCKS = {
    "build": ["build"],
    "dev": [CORE, "plot", "envs", "neural", "cluster", "logs", "test", "dev", "docs"],
    LOWEST: [CORE, "plot", "envs", "neural", "cluster", "test"],
    "peers": [CORE, "peers"],
    "tools": ["tools"],
}
"""Lock file: the extras and dependency groups of pyproject.toml that it covers."""
ENTRY = re.compile(r"^([A-Za-z0-9][\w.-]*==[^\\\n]+?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M)


def project() -> dict[str, Any]:
    """What pyproject.toml says of the project, with its dependency groups."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return data["project"] | {"dependency-groups": data["dependency-groups"]}


def tables() -> dict[str, list[str]]:
    """The requirements of pyproject.toml by extra or dependency group."""
    data = project()
    return {CORE: data["dependencies"]} | data["optional-dependencies"] | data["dependency-groups"]


def digest(name: str, wanted: dict[str, list[str]]) -> str:
    """What a lock file was made from."""
    parts = {part: wanted[part] for part in LOCKS[name]}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def locked(name: str) -> list[tuple[Requirement, list[str]]]:
    """(requirement with its exact version, hashes) of a lock file."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [(Requirement(line), re.findall("[0-9a-f]{64}", hashes)) for line, hashes in ENTRY.findall(text)]


def versions(name: str) -> dict[str, str]:
    """The version of each package that a lock file gives to this Python on this platform."""
    return {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin, _ in locked(name)
        if pin.marker is None or pin.marker.evaluate()
    }


def problems(name: str, wanted: dict[str, list[str]]) -> list[str]:
    """Where a lock file and pyproject.toml disagree, one line each."""
    text, where = (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), f"requirements/{name}.txt"
    found = [] if digest(name, wanted) in text else [f"{where}: pyproject.toml has changed since; run make lock"]
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    if len(lines) != len(locked(name)):
        found.append(f"{where}: {len(lines)} requirements, of which {len(locked(name))} have a version and hashes")
    if "://" in text:
        found.append(f"{where}: an address; where packages come from is up to pip's configuration")
    have = versions(name)
    for requirement in (Requirement(line) for part in LOCKS[name] for line in wanted[part]):
        version = have.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{where}: {requirement} is asked for, {version or 'nothing'} is locked")
    return found


def write(name: str, extra: list[str]) -> None:
    """Resolve and write a lock file."""
    path, data = FOLDER / f"{name}.txt", project()
    command: list[Any] = [Path(sys.executable).with_name("uv"), "pip", "compile", "--universal", "--generate-hashes"]
    command += ["--python-version", data["requires-python"].removeprefix(">="), "--no-emit-index-url"]
    command += ["--exclude-newer", (datetime.datetime.now(datetime.UTC) - AGE).strftime("%Y-%m-%d"), "--no-header"]
    command += ["--resolution", "lowest-direct" if name == LOWEST else "highest"]
    command += ["--quiet", "--no-annotate", "--output-file", path, *extra]
    for part in LOCKS[name]:
        group = "--group" if part in data["dependency-groups"] else "--extra"
        command += ["pyproject.toml"] if part == CORE else [group, part]
    subprocess.run(command, cwd=ROOT, check=True)
    head = "# Written by `make lock`, for pip install --require-hashes.\n"
    head += f"# From pyproject.toml: {digest(name, tables())}\n"
    path.write_text(head + path.read_text(encoding="utf-8"), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Exit code: 0 if the files are written, or agree."""
    if "--check" not in arguments:
        FOLDER.mkdir(exist_ok=True)
        for name in LOCKS:
            write(name, arguments)
    found = [problem for name in LOCKS for problem in problems(name, tables())]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
