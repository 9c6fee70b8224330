"""Folders of runs that were never run: what a figure shows is then known beforehand."""

from __future__ import annotations

import json

import numpy as np

from tailrank.runs.config import RunConfig

LOCK = {"horizon": 4, "n_states": 12}


def write_run(folder, rows, result=None, status="finished", environment="risky-lock", **settings):
    """A folder with these rows; `result` becomes that of the manifest."""
    folder.mkdir(parents=True)
    values = {"environment": environment, "iterations": max(len(rows), 1)} | settings
    (folder / "config.toml").write_text(RunConfig.from_dict(values).toml())
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = {"status": status} | ({"result": result} if result is not None else {})
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def learning(cvars, star=0.8, each=4):
    """Rows of a run whose plans have these CVaRs."""
    regret = np.cumsum(star - np.asarray(cvars))
    return [
        {"k": k + 1, "episodes": each * (k + 1), "steps": 9 * (k + 1), "cvar": float(c), "regret": float(r)}
        for k, (c, r) in enumerate(zip(cvars, regret))
    ]


def final(cvar, star=0.8):
    """The result of a run."""
    return {"cvar": cvar, "cvar_star": star, "algorithm": "ela", "tau": 0.1}
