"""A combination lock whose latents cannot be told apart: the way through is a chain of overlapping psi.

Three good psi lie two standard deviations apart, a bad one eight from all of them. At step h a direction v_h of the
plane of the good ones says which of two right actions is needed: the first where u = <v_h, y> is below 0, the second
above, either of them near 0. With probability

    stay = sigmoid(6 (y_0 + 4)) sigmoid(8 (.8 -+ u))

the next state comes from one of the good psi, mixed by a softmax of y that changes with the step; otherwise, and
after any other action, from the bad one, which is hardly ever left. v_h has nothing to do with where the good psi
lie, so no clustering of states shows what to do. Staying pays nothing until the last step, where action 0 pays `safe`
in good places and action 1 pays 1 or, with probability `crash`, nothing.

**Anti-shaping.** Leaving the chain pays `BAIT`, at step h with probability LURE (1 - h / (H - 1)). So whoever does not
know of the end leaves at once: every step longer on the chain costs some of the mean. The tail does not see it (for
tau <= 1 - LURE the CVaR of all who leave is 0), so a small bonus is enough to go on. Without one the end is found by
luck alone, and there is little: a uniform action stays with probability P(u < .8) 2 / A, about .29 where A = 5, which
makes 1.5 in 100,000 episodes for the nine steps of H = 10. After its first random episodes (at most 400) such a learner
plays what it knows to pay.
"""

from __future__ import annotations

import numpy as np

from tailrank import checks
from tailrank.envs.built_in.continuous import ContinuousLowRank, softmax

SAFE, BAIT, CRASH, LURE = 8, 1, 0.1, 0.8
"""Rewards in tenths; how often the last step's risky action pays nothing, and leaving at the first step pays."""
GOOD, BAD = 3, 3
FAR, EDGE, BOTH = 8.0, 4.0, 0.8


def lowrank_lock(horizon: int = 10, n_actions: int = 5, n_features: int = 8, instance: int = 0) -> ContinuousLowRank:
    """A lock of low rank without clusters, with these settings (see the module)."""
    H, A = checks.steps(horizon, 2), checks.whole(n_actions, "n_actions", 3)
    m = checks.whole(n_features, "n_features", 3)
    rng = np.random.default_rng([15, checks.whole(instance, "instance", 0)])
    right = np.stack([rng.choice(A, size=2, replace=False) for _ in range(H)])
    angle = rng.uniform(0.0, 2 * np.pi, size=H)
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mixing = rng.normal(size=(H, 2, GOOD))
    centres = np.zeros((GOOD + 1, m))
    corners = 2 * np.pi * np.arange(GOOD) / GOOD
    centres[:GOOD, 1], centres[:GOOD, 2] = np.cos(corners) * 2 / np.sqrt(3), np.sin(corners) * 2 / np.sqrt(3)
    centres[BAD, 0] = -FAR
    seen = np.linalg.qr(rng.normal(size=(m, m)))[0] * rng.uniform(0.5, 2.0, size=m)

    def good(y: np.ndarray) -> np.ndarray:
        return _sigmoid(6.0 * (y[:, 0] + EDGE))

    def stay(h: int, y: np.ndarray) -> np.ndarray:
        u, result = y[:, 1:3] @ directions[h], np.zeros((len(y), A))
        result[:, right[h, 0]] = good(y) * _sigmoid(8.0 * (BOTH - u))
        result[:, right[h, 1]] = good(y) * _sigmoid(8.0 * (BOTH + u))
        return result

    def phi(h: int, y: np.ndarray) -> np.ndarray:
        on, which = stay(h, y), softmax(y[:, 1:3] @ mixing[h])
        return np.concatenate([on[:, :, None] * which[:, None, :], 1.0 - on[:, :, None]], axis=2)

    def law(h: int, y: np.ndarray) -> np.ndarray:
        result, here = np.zeros((len(y), A, 11)), good(y)
        if h == H - 1:
            result[:, 0, SAFE] = here
            result[:, 1, 10] = here * (1.0 - CRASH)
        else:
            result[:, :, BAIT] = LURE * (1.0 - h / (H - 1)) * (here[:, None] - stay(h, y))
        result[:, :, 0] = 1.0 - result[:, :, 1:].sum(axis=2)
        return result

    start = np.append(np.full(GOOD, 1.0 / GOOD), 0.0)
    return ContinuousLowRank("lowrank-lock", H, A, centres, np.ones(GOOD + 1), seen, phi, law, 0.1, 11, start)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0))))
