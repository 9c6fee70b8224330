"""What was run with what, and what the reader must know first, as lines of text."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np

from tailrank.models.mdp import FiniteMDP
from tailrank.planning.plan import Plan
from tailrank.runs.read import Run, finite_or_none

Facts = tuple[str, tuple[tuple[str, str], ...]]
PACKAGES = ("tailrank", "numpy", "numba", "scipy")
FEW_RUNS = 12
RANK_STATES = 400


def versions() -> Facts:
    """The packages that made the report."""
    rows = [(name, metadata.version(name)) for name in PACKAGES]
    return "Versions", (("python", platform.python_version()), *rows)


def facts_of_mdp(mdp: FiniteMDP) -> Facts:
    """Sizes."""
    rows: list[tuple[str, Any]] = [
        ("states", mdp.n_states),
        ("actions", mdp.n_actions),
        ("steps", mdp.horizon),
        ("discount", mdp.discount),
        ("outcome rows", mdp.prob.size),
        ("rewards", f"{mdp.reward.min():g} to {mdp.reward.max():g}"),
    ]
    return "Decision process", tuple((name, str(value)) for name, value in rows)


def facts_of_plan(plan: Plan) -> tuple[Facts, ...]:
    """How the plan was made and how sure it is."""
    sure = "exact" if plan.status == "exact" else f"bracketed: the best CVaR lies in [{plan.lower:g}, {plan.upper:g}]"
    rows = [
        ("criterion", plan.criterion),
        ("tau", f"{plan.tau:g}"),
        ("status", sure),
        ("law", plan.evaluation.method),
        ("seconds", f"{plan.seconds:.3g}"),
    ]
    if plan.claim is not None:
        rows.append(("the criterion claims", f"{plan.claim:g}"))
    return (("Plan", tuple(rows)),)


def facts_of_runs(runs: list[Run]) -> tuple[Facts, ...]:
    """Configuration, result and versions of every run; what all runs share is said once."""
    configs = [_flat(run.config) for run in runs]
    shared = {k: v for k, v in configs[0].items() if all(c.get(k) == v for c in configs)}
    facts: list[Facts] = [("Configuration", tuple(sorted(shared.items())))]
    for run, config in zip(runs[:FEW_RUNS], configs, strict=False):
        rows = [(k, v) for k, v in sorted(config.items()) if k not in shared]
        rows.append(("status", run.status))
        names = (
            "cvar_star",
            "regret",
            "iterations",
            "episodes",
            "evaluation_episodes",
            "model",
            "returned",
            "why",
            "seconds",
        )
        rows += [(k.replace("_", " "), _text(run.result[k])) for k in names if run.result.get(k) is not None]
        facts.append((f"Run {run.folder.name}", tuple(rows)))
    if len(runs) > FEW_RUNS:
        facts.append(("More runs", (("not listed", str(len(runs) - FEW_RUNS)),)))
    made = runs[0].manifest.get("versions")
    python = runs[0].manifest.get("python")
    packages = [("python", str(python))] if python else []
    packages += [(str(k), str(v)) for k, v in made.items()] if isinstance(made, dict) else []
    return (*facts, ("Versions of the run", tuple(packages))) if packages else tuple(facts)


def warnings_of(runs: list[Run]) -> tuple[str, ...]:
    """What is wrong or unfinished, a line each."""
    lines = []
    for run in runs:
        found = _warnings(run)
        lines += [f"{run.folder.name}: {line}" for line in found] if len(runs) > 1 else found
    versions = {str(run.manifest.get("versions")) for run in runs}
    if len(versions) > 1:
        lines.append("The runs were made with different versions of packages.")
    return tuple(dict.fromkeys(lines))


def is_warning(note: str) -> bool:
    """Whether a note of a run belongs above the numbers."""
    return note.startswith(("misspecified", "overpromised")) or "did not converge" in note


def _warnings(run: Run) -> list[str]:
    lines = []
    if run.status != "finished":
        error = run.manifest.get("error")
        lines.append(f"The run is not finished ({run.status}){f': {error}' if error else ''}.")
    if run.missing:
        lines.append(f"The environment could not be made: {run.missing}.")
    missed = sum(row.get("converged") is False for row in run.rows)
    if missed:
        lines.append(f"The fit of the model did not converge in {missed} of {len(run.rows)} iterations.")
    lines += [f"{note[0].upper()}{note[1:]}." for note in run.notes if is_warning(note)]
    rank, true = run.config.get("rank"), _true_rank(run)
    if isinstance(rank, int) and true is not None and rank < true:
        lines.append(f"Misspecified rank: the model has rank {rank}, the environment has rank {true}.")
    if run.rows and (finite_or_none(run.rows[-1].get("saturated")) or 0.0) > 0.5:
        lines.append("More than half of the bonuses are still at their cap: the run has explored little.")
    cvar, star = finite_or_none(run.result.get("cvar")), run.star
    if cvar is not None and star is not None and star - cvar > 0.05 * max(abs(star), 1e-12):
        lines.append(f"The returned policy has CVaR {cvar:.4g}, the best possible is {star:.4g}.")
    return lines


def _true_rank(run: Run) -> int | None:
    """The rank of the true kernels, where they are known and small enough to look at."""
    steps = getattr(getattr(run.environment, "model", None), "steps", None)
    if not steps or steps[0].phi.shape[0] > RANK_STATES:
        return None
    kernels = {id(step): step.kernel.reshape(-1, step.psi.shape[1]) for step in steps}
    return max(int(np.linalg.matrix_rank(kernel)) for kernel in kernels.values())


def _flat(config: dict[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": _text(inner) for name, inner in value.items()}
        else:
            flat[str(key)] = _text(value)
    return flat


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)[:200]
