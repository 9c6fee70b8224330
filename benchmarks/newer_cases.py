"""More kernels that are measured: plans on observed support, of the kernel model, from logs, and of entropic risk.

As in `kernel_cases`; each plain version gives the numbers of the kernel, and `python newer_cases.py` compares them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from kernel_cases import Case, Run, Work, local_mdp

from tailrank.learning.simulators.model import merged
from tailrank.models.grid import BudgetGrid
from tailrank.planning.kernel.induction import plan_kernel
from tailrank.planning.objectives.markov import entropic
from tailrank.planning.observed.support import RewardKinds, SupportStep, plan_support
from tailrank.planning.pessimistic.induction import plan_pessimistic
from tailrank.planning.pessimistic.model import RecordedModel, RecordedStep, StartRecord
from tailrank.policies.kernel import BudgetScale


def low_rank_support(N: int, A: int, d: int, C: int) -> tuple[np.ndarray, np.ndarray]:
    """phi [N, A, 2 d] (a step pays 0 or 1 with each kind) and psi [d, N]."""
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(2 * d), size=(N, A)), rng.dirichlet(np.ones(N), size=d)


def support(N: int, A: int, d: int, H: int, C: int) -> tuple[Run, Work]:
    """C: budgets a reward of one is worth."""
    phi, psi = low_rank_support(N, A, d, C)
    step = SupportStep(phi, psi)
    rewards = RewardKinds((np.array([0.0]), np.array([1.0])), 1.0 / C, True)
    budgets = sum((H - h) * C + 1 for h in range(H))
    work = 2.0 * N * A * 2 * d * budgets + 2.0 * N * d * budgets, 8.0 * N * A * 2 * d * H
    return lambda: plan_support(lambda h: step, phi[:1], rewards, H, 0.1).objective, work


def support_plain(N: int, A: int, d: int, H: int, C: int) -> Run:
    phi, psi = low_rank_support(N, A, d, C)
    top = H * C
    budgets = np.arange(top + 1)
    flat = phi.reshape(N * A, d, 2)

    def run() -> Any:
        after = np.maximum(budgets, 0.0)[None].repeat(d, axis=0)
        for h in reversed(range(H)):
            paid = after[:, np.maximum(budgets - C, 0)]
            rows = flat if h else flat[:A]
            q = rows[..., 0] @ after + rows[..., 1] @ paid
            if h:
                after = psi @ q.reshape(N, A, -1).min(axis=1)
        return float((budgets - q.min(axis=0) / 0.1).max() / C)

    return run


def entropic_case(S: int, A: int, K: int, H: int) -> tuple[Run, Work]:
    mdp = local_mdp(S, A, K, H, 10)
    return lambda: entropic(mdp, 0.05)[1], (4.0 * S * A * K * H, 20.0 * S * A * K * H)


def entropic_plain(S: int, A: int, K: int, H: int) -> Run:
    mdp = local_mdp(S, A, K, H, 10)
    t, p, r = (x.reshape(S, A, K) for x in (mdp.next_state, mdp.prob, mdp.reward))

    def run() -> Any:
        V = np.zeros(S)
        for _ in range(H):
            x = -0.05 * (r + V[t])
            top = x.max(axis=2, keepdims=True)
            V = (-(np.log((p * np.exp(x - top)).sum(axis=2)) + top[..., 0]) / 0.05).max(axis=1)
        return float(-np.log(np.mean(np.exp(-0.05 * V))) / 0.05)

    return run


def kernel_rows(M: int, A: int, E: int) -> tuple[np.ndarray, ...]:
    """Next representatives, shifts and weights, [M, A, E]."""
    rng = np.random.default_rng(0)
    after, shift = rng.integers(0, M, (M, A, E)), rng.integers(-3, 4, (M, A, E))
    return after, shift, rng.dirichlet(np.ones(E), size=(M, A))


def kernel_model(N: int, A: int, K: int, H: int, C: int) -> tuple[Run, Work]:
    """N representatives, K outcomes a pair, C budgets."""
    after, shift, weight = kernel_rows(N, A, K)
    pair = np.repeat(np.arange(N * A), K)
    rows = merged(pair, after.ravel(), shift.ravel().astype(float), weight.ravel(), N, A)
    scale, start = BudgetScale(1.0, -C / 2, C, 0.0), np.full(N, 1.0 / N)
    none, all_ = np.zeros((N, A)), np.ones((N, A), dtype=bool)
    work = 2.0 * N * A * K * C * H, 8.0 * H * (N * C * 2 + 3 * N * A * K)
    return lambda: plan_kernel(rows, scale, H, start, 0.1, none, all_).promise, work


def kernel_plain(N: int, A: int, K: int, H: int, C: int) -> Run:
    after, shift, weight = kernel_rows(N, A, K)
    place = np.arange(C) - shift[..., None]
    inside, over = np.clip(place, 0, C - 1), np.maximum(place - (C - 1), 0)

    def run() -> Any:
        V = np.maximum(np.arange(C) - C / 2, 0.0)[None].repeat(N, axis=0)
        for _ in range(H):
            Q = sum(
                weight[:, :, k, None] * (V[after[:, :, k, None], inside[:, :, k]] + over[:, :, k]) for k in range(K)
            )
            V = Q.min(axis=1)
        return float((np.arange(C) - C / 2 - V.mean(axis=0) / 0.1).max())

    return run


def recorded(S: int, A: int, K: int, H: int, top: int) -> RecordedModel:
    """K outcomes of every pair, all the same at every step, a log-likelihood ball around each law."""
    rng, n = np.random.default_rng(0), S * A * K
    share = rng.dirichlet(np.ones(K), size=S * A).ravel()
    step = RecordedStep(
        np.arange(S * A + 1) * K,
        rng.integers(0, S, n).astype(np.int32),
        rng.integers(0, top + 1, n),
        share,
        np.full(S * A, 0.1),
    )
    widths, grid = top * np.arange(H, -1, -1), BudgetGrid(Fraction(1), (Fraction(0),) * H, "exact")
    start = StartRecord(np.arange(S), np.full(S, 1.0 / S), 0.01)
    return RecordedModel(grid, (step,) * H, start, S, A, widths, widths, True, False)


def pessimistic(S: int, A: int, K: int, H: int, top: int) -> tuple[Run, Work]:
    model = recorded(S, A, K, H, top)
    allowed, usual = (np.ones(S * A, dtype=bool),) * H, np.zeros((H, S), dtype=np.int64)
    return lambda: plan_pessimistic(model, allowed, usual).saved[0], (0.0, 0.0)


def pessimistic_plain(S: int, A: int, K: int, H: int, top: int) -> Run:
    model = recorded(S, A, K, H, top)
    step = model.steps[0]
    t, u, p = (x.reshape(S, A, K, 1) for x in (step.next_state, step.units, step.share))

    def least(x: np.ndarray) -> np.ndarray:
        """max over z of exp(sum p log(e^z + x) - radius) - e^z, by halving where its slope changes sign."""
        low, high = np.full(x.shape[:2] + x.shape[3:], -30.0), np.full(x.shape[:2] + x.shape[3:], 14.0)
        for _ in range(48):
            z = 0.5 * (low + high)
            with np.errstate(divide="ignore"):
                y = np.exp(z)[:, :, None] + x
                rising = np.exp((p * np.log(y)).sum(axis=2) - 0.1) * (p / y).sum(axis=2) > 1.0
            low, high = np.where(rising, z, low), np.where(rising, high, z)
        top = np.exp(low)
        return np.maximum(np.exp((p * np.log(top[:, :, None] + x)).sum(axis=2) - 0.1) - top, 0.0)

    def run() -> Any:
        V = np.zeros((S, 1))
        for h in reversed(range(H)):
            b = np.arange(top * (H - h) + 1)
            left = b - u
            ahead = V[t, np.clip(left, 0, V.shape[1] - 1)]
            x, floor = np.where(left <= 0, b, u + ahead), V.min(axis=0)[np.minimum(b, V.shape[1] - 1)]
            V = floor + least(np.maximum(x - floor, 0.0)).max(axis=1)
        return V

    return run


NEWER = (
    Case(
        "plan on observed support",
        {"N": 20, "A": 2, "d": 2, "H": 3, "C": 4},
        {"N": 2000, "A": 8, "d": 8, "H": 20, "C": 20},
        support,
        {
            "N": ((1000, 2000, 4000, 8000), 1),
            "A": ((4, 8, 16, 32), 1),
            "d": ((8, 16, 32, 64), 1),
            "H": ((5, 10, 20, 40), 2),
            "C": ((10, 20, 40, 80), 1),
        },
        {"N": 1000, "A": 4, "d": 8, "H": 10, "C": 20},
        support_plain,
    ),
    Case(
        "kernel model induction",
        {"N": 10, "A": 2, "K": 3, "H": 5, "C": 20},
        {"N": 1000, "A": 4, "K": 16, "H": 50, "C": 200},
        kernel_model,
        {
            "N": ((500, 1000, 2000, 4000), 1),
            "A": ((2, 4, 8, 16), 1),
            "K": ((8, 16, 32, 64), 1),
            "H": ((10, 20, 40, 80), 1),
            "C": ((100, 200, 400, 800), 1),
        },
        {"N": 500, "A": 4, "K": 8, "H": 20, "C": 200},
        kernel_plain,
    ),
    Case(
        "pessimistic induction",
        {"S": 5, "A": 2, "K": 3, "H": 3, "top": 2},
        {"S": 300, "A": 4, "K": 5, "H": 10, "top": 5},
        pessimistic,
        {
            "S": ((50, 100, 200, 400), 1),
            "A": ((2, 4, 8, 16), 1),
            "K": ((4, 8, 16, 32), 1),
            "H": ((5, 10, 20, 40), 2),
        },
        {"S": 50, "A": 4, "K": 5, "H": 10, "top": 5},
        pessimistic_plain,
    ),
    Case(
        "entropic induction",
        {"S": 10, "A": 2, "K": 3, "H": 10},
        {"S": 100_000, "A": 4, "K": 5, "H": 20},
        entropic_case,
        {"S": ((10_000, 20_000, 40_000, 80_000), 1), "A": ((2, 4, 8, 16), 1), "H": ((10, 20, 40, 80), 1)},
        {"S": 10_000, "A": 4, "K": 5, "H": 20},
        entropic_plain,
    ),
)


def main() -> None:
    """Say how far the plain versions are from the kernels."""
    for case in NEWER:
        fast, slow = np.asarray(case.build(**case.small)[0]()), np.asarray(case.plain(**case.small)())  # type: ignore[misc]
        size = tuple(slice(0, n) for n in slow.shape)
        print(f"{case.name}: {np.abs(fast[size] - slow).max():.1e}")


if __name__ == "__main__":
    main()
