"""The kernels that are measured: how a problem of a size is made, what it costs, and what one would write in NumPy.

`build(**size)` gives what runs, and its work: (products and sums, bytes that must be read and written at least once).
`plain(**size)` gives the same result by NumPy alone. `axes` are sizes to vary, with the exponent that the arithmetic
predicts. Budgets grow with the horizon, so the inductions grow with its square.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tailrank.envs.built_in.rich_lock import rich_lock
from tailrank.episodes.replay import Replay
from tailrank.episodes.rollout import play
from tailrank.learning.decoding import _mixture_kernels
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.oracles.latent_em import LatentEM
from tailrank.models.counts import SparseCounts
from tailrank.models.grid import BudgetGrid, exact_grid
from tailrank.models.lowrank import Model, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import RewardLaw
from tailrank.planning.exact import induction
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.latent.planner import plan_latent
from tailrank.planning.lsvi.algorithm2 import CvarLsvi
from tailrank.planning.lsvi.model import GroupModel
from tailrank.policies.tables import MarkovPolicy

Run = Callable[[], Any]
Work = tuple[float, float]


@dataclass(frozen=True)
class Case:
    """One kernel. `plain_name` says what the plain version is."""

    name: str
    small: dict[str, int]
    large: dict[str, int]
    build: Callable[..., tuple[Run, Work]]
    axes: dict[str, tuple[tuple[int, ...], float]]
    base: dict[str, int]
    plain: Callable[..., Run] | None = None
    plain_name: str = "NumPy"


def local_mdp(S: int, A: int, K: int, H: int, top: int, near: int = 20) -> FiniteMDP:
    """Next states within `near` of the present one (0: anywhere), K outcomes a pair, rewards 0..top."""
    rng, n = np.random.default_rng(0), S * A * K
    s, a = np.repeat(np.arange(S), A * K), np.tile(np.repeat(np.arange(A), K), S)
    t = (s + rng.integers(-near, near + 1, n)) % S if near else rng.integers(0, S, n)
    p, r = rng.dirichlet(np.ones(K), size=S * A).ravel(), rng.integers(0, top + 1, n)
    return FiniteMDP.from_rows(s, a, t, p, r, horizon=H, n_states=S, n_actions=A, start=np.full(S, 1 / S))


def sparse(S: int, A: int, K: int, H: int, top: int, near: int = 20) -> tuple[Run, Work]:
    mdp = local_mdp(S, A, K, H, top, near)
    grid = exact_grid([np.unique(mdp.reward)], H, 1.0)
    plan = induction.layout(mdp, grid, induction.reachable(mdp))
    tables = sum(8 * (a.size + b.size) for a, b in zip(plan.tables, plan.tables[1:], strict=False)) + plan.entries
    rows = H * mdp.prob.size * (8 + 8 + 4)
    if not near:  # no cache holds tables that are read anywhere: every outcome reads its own
        tables = 8 * plan.products + sum(8 * t.size for t in plan.tables) + plan.entries
    return lambda: induction.induct(mdp, grid, plan, keep_actions=True), (2.0 * plan.products, float(tables + rows))


def sparse_plain(S: int, A: int, K: int, H: int, top: int, near: int = 20) -> Run:
    mdp = local_mdp(S, A, K, H, top, near)
    C = H * top + 1
    t = mdp.next_state.reshape(S, A, K)
    after = np.maximum(np.arange(C) - mdp.reward.reshape(S, A, K, 1).astype(np.int64), 0)
    p = mdp.prob.reshape(S, A, K, 1)

    def run() -> Any:
        V, actions = np.tile(np.arange(C, dtype=np.float64), (S, 1)), np.empty((H, S, C), np.uint8)
        for h in reversed(range(H)):
            Q = sum(p[:, :, k] * V[t[:, :, k, None], after[:, :, k]] for k in range(K))
            actions[h], V = Q.argmin(axis=1), Q.min(axis=1)
        return V

    return run


def low_rank(S: int, A: int, d: int, H: int, top: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    step = StepModel(rng.dirichlet(np.ones(d), size=(S, A)), rng.dirichlet(np.ones(S), size=d))
    laws, which = rng.dirichlet(np.ones(top + 1), size=8), rng.integers(0, 8, size=(S, A))
    model = Model((step,) * (H - 1), (np.arange(S),) * H)
    grid = BudgetGrid(Fraction(1, top), (Fraction(0),) * H, "exact")
    return model, RewardLaw(grid, laws, np.broadcast_to(which, (H, S, A))), (which,) * H, [np.zeros((S, A))] * H


def latent(S: int, A: int, d: int, H: int, top: int) -> tuple[Run, Work]:
    parts = low_rank(S, A, d, H, top)
    budgets = sum((H - h) * top + 1 for h in range(H))
    flops = 2.0 * S * d * (A + 1) * (budgets - (top + 1))  # the last step has no transition
    return lambda: plan_latent(*parts, 0.1, 0), (flops, float(S * (8 * A * d * (H - 1) + budgets)))


def latent_plain(S: int, A: int, d: int, H: int, top: int) -> Run:
    model, rewards, which, _ = low_rank(S, A, d, H, top)
    C, step, laws = H * top + 1, model.steps[0], rewards.laws
    back = np.maximum(np.arange(C)[:, None] - np.arange(top + 1), 0)
    pairs = [np.flatnonzero(which[0].ravel() == law) for law in range(len(laws))]

    def run() -> Any:
        table, actions = np.arange(C, dtype=np.float64)[None], np.empty((H, S, C), np.uint8)
        phi, V = np.ones((S * A, 1)), None
        for h in reversed(range(H)):
            if V is not None:
                phi, table = step.phi.reshape(-1, d), step.psi @ V
            Q = np.empty((S * A, C))
            for law, rows in zip(laws, pairs, strict=True):
                Q[rows] = phi[rows] @ (table[:, back] @ law)
            Q = Q.reshape(S, A, C)
            actions[h], V = Q.argmin(axis=1), Q.min(axis=1)
        return V[0]

    return run


def forward(S: int, K: int, H: int, top: int) -> tuple[Run, Work]:
    mdp = local_mdp(S, 2, K, H, top)
    policy = MarkovPolicy(np.zeros((H, S), dtype=np.int64))
    grid = exact_grid([np.unique(mdp.reward)], H, 1.0)
    cells = sum(S * ((h + 1) * top + 1) for h in range(H))
    return lambda: return_law(policy, mdp, grid), (2.0 * K * cells, 24.0 * cells)


def forward_plain(S: int, K: int, H: int, top: int) -> Run:
    mdp = local_mdp(S, 2, K, H, top)
    rows = mdp.ptr[:-1:2, None] + np.arange(K)
    t, p, r = mdp.next_state[rows].astype(np.int64), mdp.prob[rows], mdp.reward[rows].astype(np.int64)
    C = H * top + 1

    def run() -> Any:
        mass = np.zeros((S, C))
        mass[:, 0] = mdp.start
        for h in range(H):
            live, after = h * top + 1, np.zeros(S * C)
            for k in range(K):
                where = (t[:, k] * C + r[:, k])[:, None] + np.arange(live)
                after += np.bincount(where.ravel(), (p[:, k, None] * mass[:, :live]).ravel(), S * C)
            mass = after.reshape(S, C)
        return mass.sum(axis=0)

    return run


def group_model(S: int, A: int, d: int, H: int, top: int) -> GroupModel:
    model, rewards, which, bonus = low_rank(S, A, d, H, top)
    return GroupModel(model, list(which), rewards.laws, bonus, 0)


def lsvi(S: int, A: int, d: int, H: int, top: int, n: int, variant: str = "factored") -> tuple[Run, Work]:
    model = group_model(S, A, d, H, top)
    settings = CvarLsvi(n, 20, 1.0, cap=1.0, variant=variant)
    return lambda: settings.run(model, H * top // 2, np.random.default_rng(0)), (0.0, 0.0)


def lsvi_plain(**size: int) -> Run:
    return lsvi(**size, variant="literal")[0]


def counts(n: int, S: int, d: int) -> tuple[SparseCounts, StepModel]:
    rng = np.random.default_rng(0)
    seen = SparseCounts.of(rng.integers(0, S, n), rng.integers(0, 4, n), rng.integers(0, S, n), (S, 4, S))
    return seen, StepModel(rng.dirichlet(np.ones(d), (S, 4)), rng.dirichlet(np.ones(S), d))


PASSES = 5


def em(n: int, S: int, d: int) -> tuple[Run, Work]:
    seen, start = counts(n, S, d)
    oracle = LatentEM(d, tolerance=0.0, max_iterations=PASSES)
    cells = (PASSES + 1) * seen.count.size
    rng = np.random.default_rng(0)
    return lambda: oracle.fit(seen, rng=rng, warm=start), (6.0 * d * cells, (16.0 + 16.0 * d) * cells)


def em_plain(n: int, S: int, d: int) -> Run:
    seen, start = counts(n, S, d)

    def run() -> Any:
        phi, psi = start.phi.reshape(-1, d), start.psi.T
        for _ in range(PASSES + 1):
            share = phi[seen.pair] * psi[seen.after]
            likely = share.sum(axis=1)
            share *= (seen.count / likely)[:, None]
            mass = np.stack([np.bincount(seen.pair, share[:, j], len(phi)) for j in range(d)], axis=1)
            phi = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
            mass = np.stack([np.bincount(seen.after, share[:, j], S) for j in range(d)], axis=1)
            psi = mass / mass.sum(axis=0)
        return float(seen.count @ np.log(likely))

    return run


def clouds(n: int, d: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 6, (d, m))
    return (
        centres[rng.integers(0, d, n)] + rng.normal(size=(n, m)),
        centres + rng.normal(size=(d, m)),
        np.full(d, 1 / d),
    )


def mixture(n: int, d: int, m: int) -> tuple[Run, Work]:
    points, centres, weights = clouds(n, d, m)
    run = lambda: _mixture_kernels.em(points, centres.copy(), weights.copy(), 1)  # noqa: E731
    return run, (5.0 * n * d * m, 8.0 * n * m)


def mixture_plain(n: int, d: int, m: int) -> Run:
    points, centres, weights = clouds(n, d, m)

    def run() -> Any:
        log = np.log(weights) - 0.5 * ((points**2).sum(axis=1, keepdims=True) - 2 * points @ centres.T)
        log -= 0.5 * (centres**2).sum(axis=1)
        top = log.max(axis=1, keepdims=True)
        share = np.exp(log - top)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        return (share.T @ points) / share.sum(axis=0)[:, None], share.mean(axis=0), (top + np.log(total)).sum()

    return run


def discriminative(n: int, H: int) -> tuple[Run, Work]:
    lock = rich_lock(horizon=H, n_actions=4)
    rng = np.random.default_rng(0)
    actions, units = rng.integers(0, 4, (n, H)), np.zeros((n, H), dtype=np.int64)
    features = [lock.reset(np.arange(n))]
    for h in range(H):
        reward, seen, _ = lock.step(actions[:, h])
        units[:, h] = np.rint(10 * reward)
        features.append(seen)
    replay = Replay(H, lock.n_features)
    replay.add(np.stack(features[:H], axis=1), actions, units, np.full(n, H))
    oracle = Discriminative(rank=3)
    return lambda: oracle.fit(replay, 4, 10, rng=np.random.default_rng(0)), (0.0, 0.0)


def rollout(n: int, H: int) -> tuple[Run, Work]:
    mdp = local_mdp(1000, 4, 5, H, 10)
    policy = MarkovPolicy(np.zeros((H, 1000), dtype=np.int64))
    return lambda: play(policy, mdp, n, rng=np.random.default_rng(0)), (0.0, 8.0 * 6 * n * H)


def rollout_plain(n: int, H: int) -> Run:
    mdp = local_mdp(1000, 4, 5, H, 10)

    def run() -> Any:
        rng, total = np.random.default_rng(0), np.zeros(n)
        for i in range(n):
            s = rng.integers(0, 1000)
            for _ in range(H):
                first = mdp.ptr[s * 4]
                k = first + min(int(np.searchsorted(np.cumsum(mdp.prob[first : first + 5]), rng.random())), 4)
                total[i] += mdp.reward[k]
                s = mdp.next_state[k]
        return total

    return run


CASES = (
    Case(
        "sparse induction",
        {"S": 10, "A": 2, "K": 3, "H": 10, "top": 2},
        {"S": 20_000, "A": 4, "K": 5, "H": 20, "top": 10},
        sparse,
        {
            "S": ((1000, 2000, 4000, 8000), 1),
            "A": ((2, 4, 8, 16), 1),
            "K": ((8, 16, 32, 64), 1),
            "H": ((10, 20, 40, 80), 2),
            "top": ((10, 20, 40, 80), 1),
        },
        {"S": 1000, "A": 4, "K": 8, "H": 20, "top": 10},
        sparse_plain,
    ),
    Case(
        "sparse induction, anywhere",
        {},
        {"S": 200_000, "A": 4, "K": 5, "H": 10, "top": 20, "near": 0},
        sparse,
        {},
        {},
    ),
    Case(
        "latent induction",
        {"S": 10, "A": 2, "d": 3, "H": 5, "top": 2},
        {"S": 20_000, "A": 10, "d": 20, "H": 20, "top": 20},
        latent,
        {
            "S": ((500, 1000, 2000, 4000), 1),
            "A": ((4, 8, 16, 32), 1),
            "d": ((16, 32, 64, 128), 1),
            "H": ((5, 10, 20, 40), 2),
            "top": ((10, 20, 40, 80), 1),
        },
        {"S": 1000, "A": 8, "d": 20, "H": 10, "top": 20},
        latent_plain,
    ),
    Case(
        "return law, forward",
        {"S": 10, "K": 3, "H": 10, "top": 2},
        {"S": 20_000, "K": 5, "H": 20, "top": 10},
        forward,
        {
            "S": ((2000, 4000, 8000, 16_000), 1),
            "K": ((4, 8, 16, 32), 1),
            "H": ((10, 20, 40, 80), 2),
            "top": ((10, 20, 40, 80), 1),
        },
        {"S": 2000, "K": 5, "H": 20, "top": 10},
        forward_plain,
    ),
    Case(
        "CVaR-LSVI, factored",
        {"S": 10, "A": 2, "d": 2, "H": 3, "top": 2, "n": 10},
        {"S": 200, "A": 4, "d": 5, "H": 5, "top": 5, "n": 200},
        lsvi,
        {"n": ((1000, 2000, 4000, 8000), 1), "d": ((4, 8, 16, 32), 2)},
        {"S": 500, "A": 4, "d": 8, "H": 5, "top": 5, "n": 1000},
        lsvi_plain,
        "as printed",
    ),
    Case(
        "EM, latent model",
        {"n": 200, "S": 10, "d": 3},
        {"n": 1_000_000, "S": 1000, "d": 10},
        em,
        {"n": ((50_000, 100_000, 200_000, 400_000), 1), "d": ((4, 8, 16, 32), 1)},
        {"n": 200_000, "S": 2000, "d": 8},
        em_plain,
    ),
    Case(
        "EM, mixture",
        {"n": 50, "d": 3, "m": 4},
        {"n": 100_000, "d": 8, "m": 16},
        mixture,
        {"n": ((20_000, 40_000, 80_000, 160_000), 1), "d": ((4, 8, 16, 32), 1)},
        {"n": 50_000, "d": 8, "m": 16},
        mixture_plain,
    ),
    Case(
        "discriminative fit",
        {},
        {"n": 1000, "H": 5},
        discriminative,
        {"n": ((50, 100, 200, 400), 1), "H": ((5, 10, 20, 40), 1)},
        {"n": 400, "H": 5},
    ),
    Case(
        "rollout",
        {"n": 10, "H": 5},
        {"n": 20_000, "H": 20},
        rollout,
        {"n": ((10_000, 20_000, 40_000, 80_000), 1), "H": ((10, 20, 40, 80), 1)},
        {"n": 10_000, "H": 20},
        rollout_plain,
        "a Python loop",
    ),
)
