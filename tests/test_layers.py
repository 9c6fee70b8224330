"""The package keeps its shape: imports point down, nothing heavy at the top, no assert, no pickle."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "src" / "tailrank"
MODULES = sorted(ROOT.rglob("*.py"))

LAYERS = {
    "foundations": (
        "text atomic checks reading parallel machine_code jit streams statistics bands bootstrap bounds risk grid"
    ),
    "models": "data mdp policy lowrank rewards protocols problem replay latents decoder",
    "environments": "envs reward_grid",
    "planning": "row_kernels kernels bellman rollout evaluation planners plan bracket criteria solver estimate predict",
    "learning": "schedules bonus ascent oracles observation_policy feature_policies learners rivals_rich training",
    "running": "storage_observed storage experiments",
    "showing": "report comparison plots",
    "command line": "cli __main__",
}
"""Lowest first, in a layer too: a module imports what comes before it. docs/design.md has the same list."""
LEVEL = {name: level for level, name in enumerate(" ".join(LAYERS.values()).split())}
MAY_CATCH_ALL = {"tables.py", "players.py", "probing.py", "gym_checker.py", "loggers.py", "worker.py"}
"""Runs code of other packages, which may raise anything."""
ENVS_MAY = {
    "text", "atomic", "checks", "reading", "risk", "grid", "data", "mdp", "policy", "envs", "lowrank", "rewards",
    "protocols",
}  # fmt: skip


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
    assert mine in LEVEL, f"{path.name}: give it a layer in LAYERS"
    for other in imported(ast.parse(path.read_text())):
        assert other in LEVEL, f"{path.name} imports {other}, which has no layer"
        assert LEVEL[other] <= LEVEL[mine], f"{path.name} imports {other}, which comes after {mine}"
        assert mine != "envs" or other in ENVS_MAY, f"{path.name} imports {other}"


def dotted(path: Path) -> str:
    """`tailrank.envs.gym`; a package by its own name."""
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


def test_the_design_notes_list_the_layers():
    text = (ROOT.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in text.splitlines() if line.startswith("| ")]
    listed = {name: cell.replace("`", "").replace(",", "") for name, cell in rows if name in LAYERS}
    assert listed == LAYERS
    assert list(listed) == list(LAYERS)


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
            "import tailrank.kernels, tailrank.solver, tailrank.learners",
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
