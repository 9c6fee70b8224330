"""What `tailrank train` prints after a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tailrank.cli.errors import flags
from tailrank.cli.terminal import console, line
from tailrank.runs import folder as files

WORDS = {
    "kernel, crossed": "the plan of the kernel model, each choice valued by episodes that did not make it",
    "low-rank model": "the plan of the low-rank model",
    "search": "the policy found by searching in a model",
    "shortfall network": "the policy of the shortfall network",
    "gradient": "the policy found by gradients",
}
"""Outputs of simulators by the beginning of their names."""


def summary(result: Mapping[str, Any], notes: list[str]) -> None:
    """Print the result of a run."""
    out = console()
    played = f"{result['episodes']} episodes, {result['steps']} steps, {result['seconds']:.3g} s"
    lines = [("value", _value(result))] if "value" in result else []
    lines += [("CVaR", _cvar(result))]
    if result.get("value_star") is not None:
        lines.append(("best value", f"{result['value_star']:.6g}"))
    if result.get("cvar_star_lower") is not None:
        lines.append(("best CVaR", f"{result['cvar_star_lower']:.6g} to {result['cvar_star']:.6g}"))
    elif result.get("cvar_star") is not None:
        lines.append(("best CVaR", f"{result['cvar_star']:.6g}"))
    lines.append(("returned", f"{returned(str(result['returned']))}: {result['why']}"))
    if "regret" in result:
        most = "at most " if "cvar_upper" in result else ""
        regret = f"{most}{result['regret']:.6g} over {result['iterations']} iterations of {result['algorithm']}"
        lines.append(("regret", regret))
    lines += [
        ("played", played),
        ("files", f"{result['out']} ({files.PLAN}, {files.ROWS}, {files.CONFIG}, {files.MANIFEST})"),
    ]
    for name, value in lines:
        line(out, f"{name:<11}{value}")
    for note in notes:
        line(out, flags(f"note: {note}"))


def returned(text: str) -> str:
    """Which policy a run returns, in words.

    >>> returned("greedy, prior 5, caution 0")
    'the plan of the last model, with 5 imagined visits of every outcome'
    """
    numbers = re.fullmatch(r"greedy, prior ([^,]+), caution ([^,]+)", text)
    kernel = re.fullmatch(r"kernel, share ([^,]+)(, after \d+ episodes)?", text)
    if kernel is not None:
        share, then = float(kernel[1]), kernel[2] or ""
        some = f", without actions tried less than {share:g} of the most tried" if share else ""
        return f"the plan of the kernel model{then}{some}"
    for name, words in WORDS.items():
        if text.startswith(name):
            return words + text.removeprefix(name)
    if numbers is None:
        plain = re.sub(r"^iterate (\d+)", r"the plan of iteration \1", text)
        return re.sub(r"^greedy", "the plan of the last model", plain)
    prior, caution = (float(number) for number in numbers.groups())
    careful = ", careful where there is little data" if caution else ""
    return "the plan of the last model" + (f", with {prior:g} imagined visits of every outcome" if prior else careful)


def _value(result: Mapping[str, Any]) -> str:
    text = f"{result['value']:.6g} by {result['objective']}, of the policy that is returned"
    if "value_low" not in result:
        return f"{text} (exact)"
    between = f"{result['value_low']:.6g} to {result['value_high']:.6g}"
    return f"{text}; {between} with confidence 0.95 ({result['value_method']})"


def _cvar(result: Mapping[str, Any]) -> str:
    if "cvar_upper" in result:
        between = f"{result['cvar']:.6g} to {result['cvar_upper']:.6g}"
        return f"{between} at tau = {result['tau']:g}, of the policy that is returned (bounds for the real rewards)"
    text = f"{result['cvar']:.6g} at tau = {result['tau']:g}, of the policy that is returned"
    if "cvar_low" not in result:
        return f"{text}; mean {result['mean']:.6g} (both exact)" if "mean" in result else f"{text} (exact)"
    n, method = result["evaluation_episodes"], result["method"]
    between = f"{result['cvar_low']:.6g} to {result['cvar_high']:.6g}"
    return f"{text}; {between} with confidence 0.95 ({method}, {n} fresh episodes); mean {result['mean']:.6g}"
