"""What a shortfall network learns: targets of all budgets, traced backward through whole episodes.

With g_t(c) = V_{t+1}(c - r_t), or (c - r_t)^+ where the episode is over, the target of Q(x_t, c, a_t) is g_t(c), and

    V_t(c) = min_a Q(x_t, c, a) + trust (g_t(c) - Q(x_t, c, a_t)),         Q the mean of all networks

So what was paid in the end corrects what the network says of all the steps before, in one pass: a value that is only
handed on from a step to the one before would need 100 passes to tell the first of 100 steps about a fall. Where a_t is
not what the network would do with budget c, trust is multiplied by `ELSEWHERE`: half way between a cut (Watkins) and no
difference (Harutyunyan et al. 2016, Q(lambda) with off-policy corrections). One transition teaches all budgets.
Slopes of targets are cut to [0, 1], those of a shortfall. Where many actions were not the network's own, this errs to
the side of caution: noise below 0 is cut where returns are low, so that bad ones look more likely there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.kernel import BudgetScale
from tailrank.policies.shortfall import network_input

ELSEWHERE = 0.5
"""Of `trust`, what is left where the episode did something else than the network would do."""


@dataclass(frozen=True)
class TeachingSteps:
    """T steps of whole episodes: x [T, k] (inputs of the network), actions [T], shift [T] (rewards less the origin, in
    units), end [T] (place + end is the shortfall of an episode that is over after the step), lengths [n]."""

    x: np.ndarray
    actions: np.ndarray
    shift: np.ndarray
    end: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, played: PlayedEpisodes, scale: BudgetScale, centre: np.ndarray, spread: np.ndarray) -> TeachingSteps:
        """All that was played."""
        H, step = played.horizon, played.step_numbers()
        at = np.arange(played.steps) + np.repeat(np.arange(played.n), played.lengths)
        x = network_input(played.features[at], H - step, H, centre, spread)
        shift = (played.rewards - scale.origin) / scale.unit
        end = scale.low + scale.origin * (H - step - 1) / scale.unit
        return cls(x, played.actions, shift, end, played.lengths)

    def drawn(self, most: int, rng: np.random.Generator) -> TeachingSteps:
        """All of them, or episodes drawn at random with about `most` steps."""
        if self.actions.size <= most:
            return self
        order = rng.permutation(self.lengths.size)
        kept = order[: max(int(np.searchsorted(np.cumsum(self.lengths[order]), most)), 1)]
        begin = np.cumsum(self.lengths) - self.lengths
        rows = np.concatenate([np.arange(begin[e], begin[e] + self.lengths[e]) for e in kept])
        return TeachingSteps(self.x[rows], self.actions[rows], self.shift[rows], self.end[rows], self.lengths[kept])

    def targets(self, slopes: np.ndarray, trust: float) -> np.ndarray:
        """Slopes [T, C - 1] of the targets; slopes [T, A, C - 1]: what the networks say of the steps now."""
        from tailrank.learning.shortfall._kernels import traced_targets

        result = np.empty((self.actions.size, slopes.shape[2]), dtype=np.float32)
        traced_targets(slopes, self.actions, self.shift, self.end, self.lengths, float(trust), ELSEWHERE, result)
        return result
