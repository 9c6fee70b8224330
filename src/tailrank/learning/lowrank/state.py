"""Where a learner of low-rank models stands, and the same as arrays.

A checkpoint holds what the next iteration depends on; the plan follows from the rest. Whatever is read is checked by
`runs/_restored.py` before it is used.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.learning.lowrank.oracle import LowRankFit, Setting
from tailrank.learning.lowrank.planning import ObservedSupport
from tailrank.learning.lowrank.psi import KINDS
from tailrank.learning.observed.state import ObservedState
from tailrank.planning.observed.support import RewardKinds
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.observed import ObservationPolicy
from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.policies.units import PHI

PREFIX = "lowrank."


@dataclass(frozen=True)
class LowRankState:
    """The block learner's state (with all episodes), and where a low-rank model is in charge its fit and support.

    policy: what is played next. compared, fitted_at: episodes at the last comparison and the last fit.
    """

    block: ObservedState
    policy: ObservationPolicy | LowRankPolicy
    fit: LowRankFit | None = None
    support: ObservedSupport | None = None
    compared: int = 0
    fitted_at: int = 0

    @property
    def k(self) -> int:
        """Iterations done."""
        return self.block.k

    @property
    def replay(self) -> Replay:
        """All episodes."""
        return self.block.replay

    @property
    def episodes(self) -> int:
        """Episodes played."""
        return self.block.episodes

    @property
    def steps(self) -> int:
        """Steps played."""
        return self.block.steps

    @property
    def converged(self) -> bool:
        """Whether the last fit was; training of phi ends where held-out likelihood is best."""
        return self.fit is not None or self.block.converged

    @property
    def chosen(self) -> str:
        """The model in charge, in words."""
        if self.fit is None:
            return self.block.chosen
        setting = self.fit.setting
        heads, psi = ("shared" if x else "by step" for x in (setting.shared_heads, setting.shared_psi))
        return f"low rank {setting.rank}, phi {setting.phi} {heads}, psi {self.fit.psi[0].name} {psi}"

    @property
    def rewards_said(self) -> str:
        """How rewards are seen, in words."""
        if self.fit is None:
            return self.block.rewards_said
        rewards = self.fit.rewards
        if self.fit.known is not None:
            return f"rewards: known laws on {len(rewards.values)} levels"
        exact = "exact" if rewards.exact else "interpolated"
        return f"rewards: as they are, {len(rewards.values)} laws; budgets in steps of {rewards.spacing:.4g}, {exact}"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint; episodes are kept elsewhere."""
        arrays = self.block.to_arrays()
        arrays[PREFIX + "counters"] = np.array([self.compared, self.fitted_at, int(self.fit is not None)])
        if self.fit is not None and self.support is not None:
            mine = _fit_arrays(self.fit) | {"first": self.support.first}
            for i, (states, weights) in enumerate(zip(self.support.states, self.support.weights, strict=True)):
                mine |= {f"states.{i}": states, f"weights.{i}": weights}
            arrays |= {PREFIX + name: np.ascontiguousarray(array) for name, array in mine.items()}
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, np.ndarray], replay: Replay, known: KnownRewards | None = None
    ) -> LowRankState:
        """From a checkpoint, the episodes and the known laws of rewards; the plan is still to be made."""
        block = ObservedState.from_arrays(arrays, replay)
        mine = {name.removeprefix(PREFIX): x for name, x in arrays.items() if name.startswith(PREFIX)}
        compared, fitted_at, charge = (int(x) for x in mine["counters"])
        if not charge:
            return cls(block, block.policy, compared=compared, fitted_at=fitted_at)
        parts = range(sum(name.startswith("states.") for name in mine))
        support = ObservedSupport(
            tuple(mine[f"states.{i}"] for i in parts), tuple(mine[f"weights.{i}"] for i in parts), mine["first"]
        )
        return cls(block, block.policy, replace(_fit_from(mine), known=known), support, compared, fitted_at)


def _fit_arrays(fit: LowRankFit) -> dict[str, np.ndarray]:
    setting = fit.setting
    arrays = {f"network.{name}": x for name, x in fit.network.to_arrays().items()}
    arrays |= {f"member.{name}": x for name, x in fit.weights.items()}
    for i, psi in enumerate(fit.psi):
        arrays |= {f"psi.{i}.{name}": x for name, x in psi.to_arrays().items()}
    return arrays | {
        "psi": np.frombuffer(fit.psi[0].name.encode(), dtype=np.uint8),
        "rewards": np.concatenate(fit.rewards.values),
        "laws": np.array([v.size for v in fit.rewards.values]),
        "spacing": np.array([fit.rewards.spacing, float(fit.rewards.exact)]),
        "setting": np.array([*astuple(setting)[:-1], PHI.index(setting.phi)], dtype=np.float64),
        "fit": np.array([float(fit.ends), fit.held_out, float(fit.searched)]),
    }


def _fit_from(arrays: dict[str, np.ndarray]) -> LowRankFit:
    def named(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}

    rank, decay, heads, psi, phi = arrays["setting"]
    kind = KINDS[arrays["psi"].tobytes().decode()]
    ends, held_out, searched = arrays["fit"]
    spacing, exact = arrays["spacing"]
    laws = tuple(np.split(arrays["rewards"], np.cumsum(arrays["laws"])[:-1]))
    return LowRankFit(
        OutcomeNetwork.from_arrays(named("network.")),
        tuple(kind(**named(f"psi.{i}.")) for i in range(sum(name.startswith("states.") for name in arrays))),
        RewardKinds(laws, float(spacing), bool(exact)),
        Setting(int(rank), float(decay), bool(heads), bool(psi), PHI[int(phi)]),
        bool(ends),
        float(held_out),
        int(searched),
        named("member."),
    )
