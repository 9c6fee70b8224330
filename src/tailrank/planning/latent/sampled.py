"""The latent planner for models whose states cannot be listed: E_{psi_j} is taken over N samples of psi_j.

    M_h[j, c] = (1 / N) sum over s' sampled from psi_hj of V_{h+1}(s', c)

Every table needs V only at the d N sampled states of the next step, so the cost does not depend on how many
states there are, and the error falls as 1 / sqrt(N). The plan acts in states it has never seen: it needs phi
there, and the tables. Rewards must be independent of next states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank.planning.latent.planner import backup
from tailrank.planning.lsvi.model import FeatureModel, view
from tailrank.risk.law import best_budget


@dataclass(frozen=True)
class SampledPlan:
    """tables [H] of [d, C_h], of slope one above; `budget` and `objective` in units; curve V_0(start, c) [C]."""

    model: FeatureModel
    tables: tuple[np.ndarray, ...]
    budget: int
    objective: float
    curve: np.ndarray

    def act(self, h: int, states: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """Actions [n] in any states of step h with these remaining budgets (units)."""
        seen = view(self.model, h, states)
        mean = seen.phi @ self.tables[h]
        n_units = seen.law.shape[2]
        left = np.maximum(np.asarray(budgets)[:, None] - np.arange(n_units), 0)
        above = np.maximum(left - (mean.shape[2] - 1), 0)
        after = np.take_along_axis(mean, (left - above)[:, None, :], axis=2) + above[:, None, :]
        return np.asarray(((seen.law * after).sum(axis=2) - seen.bonus).argmin(axis=1))


def plan_sampled(model: FeatureModel, tau: float, *, samples: int, rng: np.random.Generator) -> SampledPlan:
    """The plan from `samples` states of every psi_j (and the exact reward laws)."""
    N, tau = checks.whole(samples, "samples"), checks.tail_level(tau)
    H = model.horizon
    states = [model.start()]
    for h in range(H - 1):
        states.append(model.sample_latent(h, np.repeat(np.arange(model.rank(h)), N), rng))
    tables: list[np.ndarray] = []
    table = np.zeros((1, 1))
    for h in reversed(range(H)):
        seen = view(model, h, states[h])
        n, A, n_units = seen.law.shape
        law_of = np.arange(n * A).reshape(n, A)
        # Every psi_j of the step before is followed by its own N samples; the first step has one start.
        mean = np.repeat(np.eye(model.rank(h - 1)) / N, N, axis=1) if h else np.full((1, n), 1 / n)
        chosen = np.empty((n, (H - h) * (n_units - 1) + 1), dtype=np.uint32)
        tables.append(table)
        table = backup(seen.phi, table, law_of, seen.law.reshape(n * A, n_units), seen.bonus, mean, chosen)
    curve = table[0]
    best = best_budget(np.arange(curve.size), curve, tau)
    return SampledPlan(model, tuple(reversed(tables)), best, float(best - curve[best] / tau), curve)
