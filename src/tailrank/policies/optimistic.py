"""A policy of CVaR-LSVI (Algorithm 2) on observations of a learned low-rank model.

    a = argmin_a phi_h(x, a) . M_h[:, c] - b_h(x, a) - beta ||phi_h(x, a)||_{Lambda_h^{-1}}

The last term belongs to the policies of Algorithm 2, also where nothing is explored. Budgets lie on the grid of the
rounded rewards: a reward is charged as the multiple of the spacing that it is rounded up to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.moved import Moved


@dataclass(frozen=True)
class OptimisticPolicy(LowRankPolicy):
    """inverse [H, J, J]: of Lambda_h, on phi_h(x, a) [J]. beta in the units of rewards."""

    inverse: np.ndarray = field(kw_only=True, repr=False)
    beta: float = field(kw_only=True)

    def outcomes(self, h: int, states: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """phi, and the bonus with the term of Algorithm 2."""
        phi, bonus = super().outcomes(h, states)
        rows = phi.reshape(-1, phi.shape[2])
        square = ((rows @ self.inverse[h]) * rows).sum(axis=1).reshape(phi.shape[:2])
        mine = self.beta * np.sqrt(np.maximum(square, 0.0))
        return phi, mine if bonus is None else bonus + mine

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """The budget less the reward, which is rounded up."""
        return np.asarray(memory - rounded_up(moved.rewards, self.plan.spacing))


def rounded_up(rewards: np.ndarray, unit: float) -> np.ndarray:
    """ceil(r / unit) unit; what is a multiple but for the last bits stays as it is."""
    return np.asarray(np.ceil(np.asarray(rewards) / unit - 1e-9) * unit)
