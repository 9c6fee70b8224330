"""The benchmark problem: a random MDP, and the budget-augmented MDP that other packages need instead.

S states, A actions, K outcomes a pair with different next states and whole-number rewards 0..8. The
object that all contenders compute is the curve over budgets c = 0..C-1, C = 8 H + 1,

    V_0(s0, c) = min over policies of E (c - R)^+,      CVaR* = max_c c - V_0(s0, c) / tau.

Probabilities are multiples of 1/1024, so that they add up to one exactly (pymdptoolbox insists on it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOP_REWARD = 8
GRAIN = 1024
SIZES = {
    "full": {"S": 500, "A": 5, "K": 20, "H": 50},
    "quick": {"S": 50, "A": 5, "K": 6, "H": 20},
    "tiny": {"S": 4, "A": 2, "K": 3, "H": 3},
}


@dataclass(frozen=True)
class Problem:
    """next_state, prob, reward: [S, A, K]; the start is state 0 and nothing is discounted."""

    next_state: np.ndarray
    prob: np.ndarray
    reward: np.ndarray
    horizon: int
    tau: float = 0.1

    @property
    def shape(self) -> tuple[int, int, int]:
        """S, A, K."""
        return self.prob.shape

    @property
    def n_budgets(self) -> int:
        """C: budgets 0..8 H; above, the curve is a straight line."""
        return TOP_REWARD * self.horizon + 1

    def rows(self) -> dict[str, np.ndarray]:
        """The outcome rows as five columns [S A K]."""
        state, action, _ = np.indices(self.shape).reshape(3, -1)
        return {
            "state": state,
            "action": action,
            "next_state": self.next_state.ravel(),
            "probability": self.prob.ravel(),
            "reward": self.reward.ravel(),
        }


def random_problem(size: str, seed: int = 0) -> Problem:
    """The random MDP of this size."""
    S, A, K, H = (SIZES[size][k] for k in "SAKH")
    rng = np.random.default_rng(seed)
    next_state = np.argsort(rng.random((S, A, S)), axis=2)[:, :, :K].astype(np.int32)
    weights = 1 + rng.multinomial(GRAIN - K, rng.dirichlet(np.ones(K), size=(S, A)))
    reward = rng.integers(0, TOP_REWARD + 1, size=(S, A, K), dtype=np.int32)
    return Problem(next_state, weights / GRAIN, reward, H)


def augmented(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Next states [S C, A, K] and probabilities [S C, A, K] of the MDP with states s C + c.

    From (s, c) an outcome (s', r) leads to (s', max(c - r, 0)); the only cost is the terminal one, c.
    """
    (S, A, K), C = problem.shape, problem.n_budgets
    budget = np.arange(C, dtype=np.int32)[:, None, None]
    columns = np.maximum(budget - problem.reward[:, None], 0)
    columns += problem.next_state[:, None] * np.int32(C)
    probs = np.broadcast_to(problem.prob[:, None], columns.shape)
    return columns.reshape(S * C, A, K), probs.reshape(S * C, A, K)


def terminal_cost(problem: Problem) -> np.ndarray:
    """The cost c of ending in (s, c), [S C]."""
    return np.tile(np.arange(problem.n_budgets, dtype=np.float64), problem.shape[0])


def best_cvar(curve: np.ndarray, tau: float) -> float:
    """max_c c - V_0(s0, c) / tau."""
    return float(np.max(np.arange(len(curve)) - np.asarray(curve) / tau))
