"""Build the wheel and the source archive, look into them, install the wheel as a user would and use it.

Without extras: only the packages of scripts/audit.py, at their locked versions and hashes. The commands of the README
that need no more must work, and whatever needs an extra must end with one line that names it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

import lock
from audit import CORE
from packaging.requirements import Requirement

ROOT = lock.ROOT
BESIDES = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
"""What the source archive holds besides the source."""
WORKS = """
solve examples/models/betting.json --tau 0.1 --frontier --json
solve FrozenLake-v1 --horizon 20 --tau 0.5
solve examples/models/cliff.json --tau 0.05 --save cliff.policy
evaluate cliff.policy examples/models/cliff.json --tau 0.05 --episodes 1000 --seed 1
show cliff.policy --step 0
train risky-lock --iterations 10 --seed 0 --out runs/a
report runs/a -o report.html
evaluate runs/a --episodes 100
list
theory --H 5 --A 4 --d 3 --class-size 16 --tau 0.1 --epsilon 0.1
export FrozenLake-v1 lake.json --horizon 100
import lake.json --horizon 100
"""
NEEDS = {
    "plot": "plot runs/a",
    "tensorboard": "train risky-lock --iterations 2 --log-to tensorboard --out runs/b",
    "wandb": "train risky-lock --iterations 2 --log-to wandb --out runs/b",
    "mlflow": "train risky-lock --iterations 2 --log-to mlflow --out runs/b",
    "envs": "solve Sepsis/ICU-Sepsis-v2 --import icu_sepsis --tau 0.1",
    "neural": "train rich-lock --set horizon=3 --episodes 40 --model neural --out runs/n",
    "cluster": "sweep examples/sweep.toml --out runs/c --backend dask",
    "deep": "train rich-lock --algorithm qr-dqn --episodes 40 --out runs/q",
}
"""A command for each extra that needs it."""


def contents(wheel: Path, archive: Path) -> list[str]:
    """What is wrong with the files in them."""
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "tailrank").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as opened:
        files = {name for name in opened.namelist() if ".dist-info/" not in name}
        info = {name.partition(".dist-info/")[2] for name in opened.namelist()} - {""}
    with tarfile.open(archive) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    found = [f"wheel: {name} {'is missing' if name in source else 'is extra'}" for name in sorted(source ^ files)]
    wanted = {f"src/{name}" for name in source} | BESIDES
    found += [f"archive: {name} {'is missing' if name in wanted else 'is extra'}" for name in sorted(wanted ^ inside)]
    expected = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    return found + [f"wheel: dist-info/{name} is missing or extra" for name in sorted(info ^ expected)]


def install(wheel: Path, folder: Path) -> Path:
    """The command `tailrank` of a new environment with the wheel and what it needs."""
    venv.create(folder, with_pip=True, symlinks=True)
    text = (lock.FOLDER / "dev.txt").read_text(encoding="utf-8")
    needed = folder / "core.txt"
    needed.write_text("".join(m[0] for m in lock.ENTRY.finditer(text) if Requirement(m[1]).name in CORE))
    pip = [folder / "bin" / "python", "-m", "pip", "-q", "-q", "install", "--no-compile"]
    subprocess.run([*pip, "--only-binary", ":all:", "--require-hashes", "-r", needed], check=True)
    subprocess.run([*pip, "--no-deps", wheel], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "check"], check=True, stdout=subprocess.DEVNULL)
    return folder / "bin" / "tailrank"


def uses(tailrank: Path, folder: Path) -> list[str]:
    """What goes wrong in the commands."""
    os.symlink(ROOT / "examples", folder / "examples")
    kept = str(ROOT / "src" / "tailrank" / "__pycache__")  # same source, same machine code
    hidden = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env, found = hidden | {"NUMBA_CACHE_DIR": kept}, []
    for line in WORKS.strip().splitlines():
        done = subprocess.run([tailrank, *line.split()], cwd=folder, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            found.append(f"tailrank {line}: {done.stderr.strip()}")
    for extra, line in NEEDS.items():
        done = subprocess.run([tailrank, *line.split()], cwd=folder, env=env, capture_output=True, text=True)
        if done.returncode != 2 or done.stderr.count("\n") != 1 or f"tailrank[{extra}]" not in done.stderr:
            found.append(f"tailrank {line}: must name tailrank[{extra}] in one line, says: {done.stderr.strip()}")
    return found


def main() -> int:
    """Exit code: 0 if nothing is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, "-m", "hatchling", "build", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        found = contents(wheel, archive)
        extras = lock.project()["optional-dependencies"].keys()
        found += [f"extra {extra}: NEEDS must have a command for it" for extra in NEEDS.keys() ^ extras]
        (folder / "work").mkdir()
        found += uses(install(wheel, folder / "venv"), folder / "work")
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    if not found:
        print(f"package: the wheel works without extras, {len(NEEDS)} extras are named where they are missing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
