"""Where a learner of low-rank models stands, and the same as arrays.

A checkpoint holds what the next iteration depends on; the plan follows from the rest. Whatever is read is checked by
`runs/_restored.py` before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.learning.lowrank.kept import fit_from_arrays, fit_to_arrays
from tailrank.learning.lowrank.oracle import LowRankFit
from tailrank.learning.lowrank.planning import ObservedSupport
from tailrank.learning.observed.state import ObservedState
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.observed import ObservationPolicy

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
            mine = fit_to_arrays(self.fit, self.support)
            arrays |= {PREFIX + name: array for name, array in mine.items()}
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
        fit, support = fit_from_arrays(mine, known)
        return cls(block, block.policy, fit, support, compared, fitted_at)
