"""What the tests of reports share: models, a run without an MDP, names that try to become code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tailrank import FiniteMDP

MODELS = Path(__file__).parents[2] / "examples" / "models"
OPTIONS = {"machine": {"horizon": 30, "discount": 0.8, "start": 1}}
HOSTILE = '</script><script>window.harm=1</script><img src=x onerror="window.harm=2">\u2028&amp;'


def hostile_mdp() -> FiniteMDP:
    """Two steps with a safe and a risky action, and names that try to become code."""
    rows = ([0, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1], [1, 0.9, 0.1, 1], [1, 2, -5, 0])
    return FiniteMDP.from_rows(*rows, horizon=2, labels=(HOSTILE, "b"), action_labels=(HOSTILE, "go"))


def simulator_run(folder: Path) -> Path:
    """The folder of a run that knows no MDP: bounds in its rows, a sample of returns, another kind of policy."""
    folder.mkdir()
    config = {"environment": "CartPole-v1", "iterations": 30, "tau": 0.1, "seed": 3}
    (folder / "config.toml").write_text("".join(f"{k} = {v!r}\n" for k, v in config.items()).replace("'", '"'))
    result = {"cvar": 36.4, "cvar_low": 35.0, "cvar_high": 38.0, "cvar_star": None}
    about = {"status": "finished", "seed": 3, "notes": [HOSTILE, "misspecified: too small"], "result": result}
    (folder / "manifest.json").write_text(json.dumps(about))
    rows = [{"k": k, "episodes": 4 * k, "cvar": None, "bonus": 1 / k, "converged": k != 9} for k in range(1, 31)]
    for row in rows[2::3]:
        row |= {"cvar": row["k"], "cvar_low": row["k"] - 3.0, "cvar_high": row["k"] + 2.0, "method": "beta"}
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    save_file({"returns": np.random.default_rng(0).gamma(9, 8, size=3000)}, folder / "evaluation.safetensors")
    return folder


def bare_run(folder: Path) -> Path:
    """A run that has just begun."""
    folder.mkdir()
    (folder / "config.toml").write_text('environment = "risky-lock"\niterations = 300\n')
    (folder / "manifest.json").write_text('{"status": "running"}')
    (folder / "rows.jsonl").write_text('{"k": 1, "epi')
    return folder
