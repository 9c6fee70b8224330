"""What stands beside a policy that was learned from observations, so that a reader can tell whether it is good.

A file of arrays in the folder of a run, beside.safetensors:
    uniform, neutral [n]                 returns of uniform actions, and of the model's plan for the mean (tau = 1), in
                                         the first of the fresh episodes that the policy was judged by
    seen [N, m], played [N]              what the policy saw in some of them, and what it did there
    kept.rewards, kept.actions [E, H]    whole episodes of the policy, worst first; -1 for actions after the end
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrank._system.arrays import check_arrays
from tailrank._system.atomic import write_bytes
from tailrank._system.reading import read_arrays
from tailrank._system.telling import doing
from tailrank.checks import InputError
from tailrank.episodes.rollout import play_simulator
from tailrank.policies.tables import Policy, UniformPolicy

BESIDE = "beside.safetensors"
OTHERS = 200
"""Episodes that other policies play, at most."""
WATCHED = 50
"""Episodes of the policy in which it is watched."""
POINTS, FEATURES = 4000, 64
"""Steps and features that are kept of what it saw, at most."""
QUANTILES = (0.0, 0.1, 0.5, 1.0)
"""Of the returns: the episodes that are kept whole."""


@dataclass(frozen=True)
class Beside:
    """See above; others: returns [n] by the name of the policy."""

    others: dict[str, np.ndarray]
    seen: np.ndarray
    played: np.ndarray
    rewards: np.ndarray
    actions: np.ndarray

    @classmethod
    def of(
        cls, policy: Policy, neutral: Policy | None, env: Any, seeds: np.ndarray, rng: np.random.Generator
    ) -> Beside:
        """Play it: `seeds` [n] are those of the fresh episodes of the judge."""
        compared = {"uniform": UniformPolicy(env.n_actions, env.horizon, rng)} | (
            {} if neutral is None else {"neutral": neutral}
        )
        others = {}
        for name, other in compared.items():
            with doing("playing uniform actions" if name == "uniform" else "playing the plan for the mean"):
                others[name] = play_simulator(other, env, seeds[:OTHERS]).returns
        with doing("watching what is returned"):
            watched = play_simulator(policy, env, seeds[:WATCHED], keep_features=True)
        alive = np.arange(env.horizon) < watched.lengths[:, None]
        features = np.zeros((0, env.n_features)) if watched.features is None else watched.features[:, :-1][alive]
        some = np.linspace(0, len(features) - 1, min(len(features), POINTS)).astype(np.int64)
        order = np.argsort(watched.returns, kind="stable")
        kept = order[np.unique((np.array(QUANTILES) * (order.size - 1)).astype(np.int64))]
        return cls(
            others,
            features[some, :FEATURES].astype(np.float64),
            watched.actions[alive][some],
            watched.rewards[kept],
            watched.actions[kept],
        )

    def save(self, folder: Path) -> None:
        """Write the file."""
        from safetensors.numpy import save

        arrays = self.others | {"seen": self.seen, "played": self.played}
        arrays |= {"kept.rewards": self.rewards, "kept.actions": self.actions}
        whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_bytes(folder / BESIDE, save(whole, metadata={"format": "tailrank-beside"}), inside=True)

    @classmethod
    def read(cls, folder: Path) -> Beside | None:
        """What is in the file, None where there is none; raises where it is not as it must be."""
        path = folder / BESIDE
        if not path.is_file():
            return None
        arrays, metadata = read_arrays(path)
        described = {
            "uniform": "float64 [n]",
            "neutral": "float64 [n]",
            "seen": "float64 [N*, m]",
            "played": "whole [N*] >= 0, < 100000",
            "kept.rewards": "float64 [E, H]",
            "kept.actions": "whole [E, H] >= -1, < 100000",
        }
        if "neutral" not in arrays:
            del described["neutral"]
        if metadata.get("format") != "tailrank-beside":
            raise InputError(f"{path}: is not what a run writes beside its policy")
        check_arrays(arrays, described, f"{path}: ")
        others = {name: array for name, array in arrays.items() if name in ("uniform", "neutral")}
        return cls(others, arrays["seen"], arrays["played"], arrays["kept.rewards"], arrays["kept.actions"])
