"""The package keeps its shape: imports point down, nothing heavy at the top, no assert, no pickle."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tailrank

PROJECT = Path(__file__).resolve().parent.parent
ROOT = PROJECT / "src" / "tailrank"
MODULES = sorted(ROOT.rglob("*.py"))

FOLDERS = (
    "checks _system risk models policies envs episodes planning learning runs report comparison plots cli __main__"
)
"""Lowest first: a module imports from its own folder and from those before it. docs/design.md has the same order."""
LEVEL = {name: level for level, name in enumerate(FOLDERS.split())}
MAY_CATCH_ALL = {"tables.py", "_players.py", "_probing.py", "_passive_checker.py", "loggers.py", "_worker.py"}
"""Runs code of other packages, which may raise anything."""


def name_of(path: Path) -> str:
    """`envs` for every module in envs/, else the module's own name."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """Top-level parts of tailrank that a module imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("tailrank.")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            if node.module == "tailrank":
                found |= {a.name for a in node.names}
            elif node.module and node.module.startswith("tailrank."):
                found.add(node.module.split(".")[1])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    mine = name_of(path)
    if mine == "__init__":
        return
    assert mine in LEVEL, f"{path.name}: give its folder a place in FOLDERS"
    for other in imported(ast.parse(path.read_text())):
        assert other in LEVEL, f"{path.name} imports {other}, which has no place in FOLDERS"
        assert LEVEL[other] <= LEVEL[mine], f"{path.name} imports {other}, which comes after {mine}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_private_modules_are_imported_from_their_own_folder(path):
    """`_name.py` is the business of its folder; `_system` is that of the whole package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tailrank."):
            continue
        for full in {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}:
            folder, _, name = full.rpartition(".")
            if name.startswith("_") and (ROOT.parent / f"{full.replace('.', '/')}.py").exists():
                assert f"{dotted(path)}.".startswith(f"{folder}."), f"{path.name}:{node.lineno} imports {full}"


OUTSIDE = [
    path for folder in ("studies", "benchmarks", "scripts", "examples") for path in PROJECT.glob(f"{folder}/*.py")
]


def defines(module: str) -> set[str]:
    """The names at the top of a module of the package, and the modules in a folder of it."""
    place = ROOT.parent.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    names = {child.stem for child in place.iterdir()} if place.is_dir() else set()
    top = ast.parse(path.read_text()).body
    for node in [*top, *(line for block in top if isinstance(block, ast.If) for line in block.body)]:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            names |= {target.id for target in ast.walk(node) if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_what_stands_beside_the_package_imports_what_there_is(path):
    """Nobody runs a study that takes hours after every change: at least its imports must not be out of date."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tailrank":
            names = {alias.name for alias in node.names}
            if node.module == "tailrank":  # its names are found when they are asked for
                missing = {name for name in names if not hasattr(tailrank, name)}
            else:
                missing = names - defines(node.module)
            assert not missing, f"{path.name}:{node.lineno}: {node.module} has no {', '.join(sorted(missing))}"


def test_one_name_one_class():
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_root_is_small():
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "checks.py"}


def dotted(path: Path) -> str:
    """`tailrank.envs.gymnasium.registered`; a package by its own name."""
    return ".".join(("tailrank", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def test_no_imports_in_a_circle():
    """Nor within a package, nor inside functions; what only type checkers read may point anywhere."""
    modules = {dotted(path): path for path in MODULES if path != ROOT / "__init__.py"}
    needs: dict[str, set[str]] = {}
    for name, path in modules.items():
        left, needs[name] = [ast.parse(path.read_text())], set()
        while left:
            node = left.pop()
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            left += ast.iter_child_nodes(node)
            if isinstance(node, ast.ImportFrom):
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                needs[name] |= {one if one in modules else node.module for one in full} & set(modules)
    graphlib.TopologicalSorter(needs).prepare()


def test_the_design_notes_list_the_folders():
    text = (ROOT.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip(" `/") for line in text.splitlines() if line.startswith("| `")]
    assert [name.removesuffix(".py") for name in rows if name.removesuffix(".py") in LEVEL] == FOLDERS.split()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_house_rules(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= 350
    assert ast.get_docstring(tree) or not text.strip()
    for node in ast.walk(tree):
        where = f"{path.name}:{getattr(node, 'lineno', '?')}"
        assert not isinstance(node, ast.Assert), f"{where}: assert"
        if isinstance(node, ast.ExceptHandler):
            reraises = any(isinstance(x, ast.Raise) and x.exc is None for x in ast.walk(node))
            broad = node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException")
            assert not broad or reraises or path.name in MAY_CATCH_ALL, f"{where}: broad except"
        names = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        modules = [*names, getattr(node, "module", None) or ""] if names else []
        assert not {"pickle", "cloudpickle", "dill", "joblib", "shelve"} & set(modules), f"{where}: pickle"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert getattr(node.value, "value", None) is False, f"{where}: allow_pickle"


LIGHT = "numba scipy gymnasium rich matplotlib jax optax distributed dask torch sklearn pandas safetensors"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import tailrank", f"{LIGHT} numpy click"),
        ("from tailrank import FiniteMDP, cvar", LIGHT),
        (
            "import tailrank.planning.exact._kernels, tailrank.planning.solve, tailrank.learning.ela.ela",
            "numba scipy gymnasium rich matplotlib jax",
        ),
        ("from tailrank.cli import main; main(['list'], standalone_mode=False)", "numba scipy rich matplotlib jax"),
        (
            "from tailrank.cli import main\nfor name in ('', *main.commands):\n"
            "    main([*([name] if name else []), '--help'], standalone_mode=False)\n"
            "main(['--version'], standalone_mode=False)",
            f"{LIGHT} numpy",
        ),
    ],
)
def test_heavy_imports_wait(statement, absent):
    code = f"import sys\n{statement}\nprint(*(m for m in {absent.split()!r} if m in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []


def test_every_public_name_is_there():
    import tailrank

    for name in tailrank.__all__:
        assert getattr(tailrank, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        tailrank.nonsense  # noqa: B018
