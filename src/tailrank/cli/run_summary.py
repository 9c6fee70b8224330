"""What `tailrank train` prints after a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailrank.cli.errors import flags
from tailrank.cli.terminal import console, line
from tailrank.runs import folder as files


def summary(result: Mapping[str, Any], notes: list[str]) -> None:
    """Print the result of a run."""
    out = console()
    played = f"{result['episodes']} episodes, {result['steps']} steps, {result['seconds']:.3g} s"
    lines = [("CVaR", _cvar(result))]
    if result.get("cvar_star") is not None:
        lines.append(("best CVaR", f"{result['cvar_star']:.6g}"))
    lines.append(("returned", f"{result['returned']}: {result['why']}"))
    if "regret" in result:
        regret = f"{result['regret']:.6g} over {result['iterations']} iterations of {result['algorithm']}"
        lines.append(("regret", regret))
    lines += [
        ("played", played),
        ("files", f"{result['out']} ({files.PLAN}, {files.ROWS}, {files.CONFIG}, {files.MANIFEST})"),
    ]
    for name, value in lines:
        line(out, f"{name:<11}{value}")
    for note in notes:
        line(out, flags(f"note: {note}"))


def _cvar(result: Mapping[str, Any]) -> str:
    text = f"{result['cvar']:.6g} at tau = {result['tau']:g}, of the policy that is returned"
    if "cvar_low" not in result:
        return f"{text} (exact)"
    n, method = result["evaluation_episodes"], result["method"]
    between = f"{result['cvar_low']:.6g} to {result['cvar_high']:.6g}"
    return f"{text}; {between} with confidence 0.95 ({method}, {n} fresh episodes); mean {result['mean']:.6g}"
