"""The package keeps its shape: imports point down, nothing heavy at the top, no assert, no pickle."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "src" / "tailrank"
MODULES = sorted(ROOT.rglob("*.py"))

LAYERS = (
    ("text", "atomic"),
    ("checks",),
    ("reading",),
    ("bands", "bootstrap", "statistics"),
    ("bounds",),
    ("risk", "grid", "data"),
    ("mdp", "policy", "lowrank", "streams", "schedules", "replay", "latents", "decoder", "ascent"),
    ("rewards",),
    ("protocols", "problem"),
    ("envs", "reward_grid"),
    ("kernels",),
    ("bellman", "rollout", "bonus", "predict"),
    ("evaluation", "planners", "oracles"),
    ("plan", "bracket", "observation_policy", "feature_policies"),
    ("storage_observed",),
    ("estimate", "storage", "rivals", "learners", "rivals_rich"),
    ("solver",),
    ("training",),
    ("loggers",),
    ("experiments",),
    ("report",),
    ("comparison",),
    ("plots",),
    ("show", "cli_errors"),
    ("cli_names", "show_policy", "show_compare"),
    ("cli_options",),
    ("cli_train", "cli_list", "cli_sweep", "cli_check", "cli_evaluate", "cli_report", "cli_plot", "cli_compare"),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
WITHIN = {
    "comparison",
    "envs",
    "estimate",
    "experiments",
    "feature_policies",
    "learners",
    "oracles",
    "planners",
    "plots",
    "report",
    "risk",
    "rivals_rich",
    "statistics",
}
"""Groups whose modules may import each other."""
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
        allowed = LEVEL[other] < LEVEL[mine] or (other == mine and mine in WITHIN)
        assert allowed, f"{path.name} (layer {LEVEL[mine]}) imports {other} (layer {LEVEL[other]})"
        assert mine != "envs" or other in ENVS_MAY, f"{path.name} imports {other}"


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


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import tailrank", "numpy numba scipy gymnasium rich click matplotlib"),
        ("import tailrank.cli", "numpy numba scipy gymnasium rich matplotlib"),
        ("from tailrank import FiniteMDP, cvar", "numba scipy gymnasium rich matplotlib"),
    ],
)
def test_heavy_imports_wait(statement, absent):
    code = f"import sys; {statement}; print(*(m for m in {absent.split()!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_public_name_is_there():
    import tailrank

    for name in tailrank.__all__:
        assert getattr(tailrank, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        tailrank.nonsense  # noqa: B018
