"""The latent planner for models whose states cannot be listed: E_{psi_j} is taken over N samples of psi_j.

    M_h[j, c] = (1 / N) sum over s' sampled from psi_hj of V_{h+1}(s', c)

Every table needs V only at the d N sampled states of the next step, so the cost does not depend on how many
states there are, and the error falls as 1 / sqrt(N). The plan acts in states it has never seen: it needs phi
there, and the tables. Where rewards and next states are not independent a model gives the law of (j, r) together, as
that of a low-rank model learned from observations does (`planning/lsvi/support.py:SupportModel`).
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
        after = _after(self.tables[h], np.asarray(budgets), seen.law.shape[-1])
        law = seen.law if seen.law.ndim == 4 else seen.phi[..., None] * seen.law[:, :, None, :]
        return np.asarray((np.einsum("nadr,dnr->na", law, after) - seen.bonus).argmin(axis=1))


def _after(table: np.ndarray, budgets: np.ndarray, n_units: int) -> np.ndarray:
    """A table [d, C], of slope one above, at budgets [n] less rewards of 0..n_units - 1, [d, n, n_units]."""
    left = np.maximum(budgets[:, None] - np.arange(n_units), 0)
    above = np.maximum(left - (table.shape[1] - 1), 0)
    return table[:, left - above] + above


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
        n, A, n_units = *seen.law.shape[:2], seen.law.shape[-1]
        law_of = np.arange(n * A).reshape(n, A)
        # Every psi_j of the step before is followed by its own N samples; the first step has one start.
        mean = np.repeat(np.eye(model.rank(h - 1)) / N, N, axis=1) if h else np.full((1, n), 1 / n)
        chosen = np.empty((n, (H - h) * (n_units - 1) + 1), dtype=np.uint32)
        tables.append(table)
        if seen.law.ndim == 4:
            after = _after(table, np.arange(chosen.shape[1]), n_units)
            expected = np.tensordot(seen.law, after, axes=([2, 3], [0, 2]))
            table = mean @ (expected - seen.bonus[:, :, None]).min(axis=1)
            continue
        table = backup(seen.phi, table, law_of, seen.law.reshape(n * A, n_units), seen.bonus, mean, chosen)
    curve = table[0]
    best = best_budget(np.arange(curve.size), curve, tau)
    return SampledPlan(model, tuple(reversed(tables)), best, float(best - curve[best] / tau), curve)
