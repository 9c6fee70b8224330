"""What stands beside a policy that was learned from observations, so that a reader can tell whether it is good.

A file of arrays in the folder of a run, beside.safetensors:
    uniform, neutral [n]                 returns of uniform actions, and of the model's plan for the mean (tau = 1), in
                                         the first of the fresh episodes that the policy was judged by
    seen [N, m], played [N]              what the policy saw in some of them, and what it did there
    at, paid [N]                         the steps at which it did, and what the episode had paid before
    kept.rewards, kept.actions [E, H]    whole episodes of the policy, worst first; -1 for actions after the end
    kept.seen [E, H + 1, m]              what it saw in them (the last observation stays after the end)
    kept.seeds [E]                       their seeds
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
    at: np.ndarray
    paid: np.ndarray
    rewards: np.ndarray
    actions: np.ndarray
    observations: np.ndarray
    seeds: np.ndarray

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
        every = np.zeros((0, 1, env.n_features)) if watched.features is None else watched.features[..., :FEATURES]
        episode, step = np.nonzero(np.arange(env.horizon) < watched.lengths[:, None])
        some = np.linspace(0, step.size - 1, min(step.size, POINTS)).astype(np.int64)
        episode, step = episode[some], step[some]
        order = np.argsort(watched.returns, kind="stable")
        kept = order[np.unique((np.array(QUANTILES) * (order.size - 1)).astype(np.int64))]
        return cls(
            others,
            every[episode, step].astype(np.float64),
            watched.actions[episode, step],
            step,
            (np.cumsum(watched.rewards, axis=1) - watched.rewards)[episode, step],
            watched.rewards[kept],
            watched.actions[kept],
            every[kept].astype(np.float64),
            watched.seeds[kept].astype(np.int64),
        )

    @property
    def lengths(self) -> np.ndarray:
        """Steps of the episodes that are kept, [E]."""
        return (self.actions >= 0).sum(axis=1)

    def save(self, folder: Path) -> None:
        """Write the file."""
        from safetensors.numpy import save

        arrays = self.others | {"seen": self.seen, "played": self.played, "at": self.at, "paid": self.paid}
        arrays |= {"kept.rewards": self.rewards, "kept.actions": self.actions}
        arrays |= {"kept.seen": self.observations, "kept.seeds": self.seeds}
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
            "at": "whole [N*] >= 0, < 10000000",
            "paid": "float64 [N*]",
            "kept.rewards": "float64 [E, H]",
            "kept.actions": "whole [E, H] >= -1, < 100000",
            "kept.seen": "float64 [E, H+1, m]",
            "kept.seeds": "whole [E] >= 0",
        }
        if "neutral" not in arrays:
            del described["neutral"]
        if metadata.get("format") != "tailrank-beside":
            raise InputError(f"{path}: is not what a run writes beside its policy")
        check_arrays(arrays, described, f"{path}: ")
        others = {name: array for name, array in arrays.items() if name in ("uniform", "neutral")}
        names = ("seen", "played", "at", "paid", "kept.rewards", "kept.actions", "kept.seen", "kept.seeds")
        return cls(others, *(arrays[name] for name in names))
