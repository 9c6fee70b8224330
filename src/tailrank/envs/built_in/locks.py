"""The risky combination lock: long chains that only directed exploration gets through, and a choice of risk.

At every step there are two good latents (0, 1) and a bad one (2). In a good latent one action is right and
leads to latent 0 or 1 with probability 1/2 each; every other action leads to the bad latent, which nothing
leaves. Leaving the chain pays a little (`bait` with probability 1/2), staying pays nothing until the last
step, where the right action pays `safe` surely and the next action pays `risky` or, with probability
`crash`, nothing. The actions of the last step, like all rewards, are known to a learner; the way is not.

With `split` p other than 1/2 the right action changes the latent with probability p only, and the first step has a
second right action, the next one, which changes it with probability 1 - p. Then, unlike in the lock itself, the
latents differ in where they come from, which is what some decoders live on (`learners.pcid`).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.built_in.episodic import Episodic, product_mdp
from tailrank.models.grid import BudgetGrid, exact_grid
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.rewards import RewardLaw

GOOD, BAD = (0, 1), 2


def risky_lock(
    horizon: int = 5,
    n_actions: int = 4,
    n_states: int = 3,
    *,
    safe: float = 0.8,
    risky: float = 1.0,
    crash: float = 0.1,
    bait: float = 0.1,
    split: float = 0.5,
    seed: int = 0,
) -> Episodic:
    """The lock with `n_states` observations a step, shared out evenly over the latents at random by `seed`.

    Its class F knows the decoder and holds, at every step, all A^2 pairs of right actions. `optimum(tau)` is
    max(safe, CVaR_tau of the risky payoff).
    """
    H, A = checks.steps(horizon, 2), checks.whole(n_actions, "n_actions", 2)
    S = checks.whole(n_states, "n_states", 3)
    checks.affordable(H * S + 24 * H * A + 9 * A**3, f"horizon = {H}, n_actions = {A}, n_states = {S}")
    check_payoffs(safe, risky, crash, bait)
    checks.inside(split, "split", "(0, 1)")
    twin = split != 0.5
    rng = np.random.default_rng(seed)
    right = rng.integers(A, size=(H, 2))
    group = tuple(rng.permutation(np.arange(S) % 3) for _ in range(H))
    pairs = [(a, b) for a in range(A) for b in range(A)]
    shared = tuple(lock_step(A, pair, split) for pair in pairs)
    first = tuple(lock_step(A, pair, split, twin=True) for pair in pairs) if twin else shared
    candidates = (first, *(shared,) * (H - 2))
    steps = tuple(models[a * A + b] for models, (a, b) in zip(candidates, right[:-1], strict=True))
    rewards = _rewards(right, A, safe, risky, crash, bait, twin)
    return Episodic(
        name="risky-lock",
        truth=product_mdp(steps, rewards, start=0),
        rewards=rewards,
        model=LowRankModel(steps, group),
        start=int(np.flatnonzero(group[0] == 0)[0]),
        candidates=candidates,
        optimum=lambda tau: cvar_star(tau, safe=safe, risky=risky, crash=crash, bait=bait),
    )


def cvar_star(tau: float, *, safe: float = 0.8, risky: float = 1.0, crash: float = 0.1, bait: float = 0.1) -> float:
    """The best CVaR in closed form: of the payoffs that can be had, as mixing them never helps.

    tau = 1 gives the largest mean.
    """
    level = checks.tail_level(tau)
    return max(safe, risky * max(1.0 - crash / level, 0.0), bait * max(1.0 - 0.5 / level, 0.0))


def reward_table(laws: list[dict[float, float]], horizon: int) -> tuple[BudgetGrid, np.ndarray]:
    """The grid on which these laws {reward: probability} lie, and the laws over its units, [L, n]."""
    values = np.array(sorted({0.0} | {x for law in laws for x in law}))
    grid = exact_grid([values], horizon, 1.0)
    if grid is None:
        raise InputError(f"rewards = {values.tolist()}: share no unit; give numbers with few decimals")
    units = [grid.units(0, np.array(list(law))) for law in laws]
    checks.affordable(horizon * len(laws) * int(max(u.max() for u in units)), f"rewards {values}, horizon = {horizon}")
    table = np.zeros((len(laws), int(max(u.max() for u in units)) + 1))
    for row, u, law in zip(table, units, laws, strict=True):
        np.add.at(row, u, list(law.values()))
    return BudgetGrid(grid.unit, (Fraction(0),) * horizon, "exact"), table


def lock_step(A: int, right: tuple[int | None, int | None], split: float = 0.5, *, twin: bool = False) -> StepModel:
    """A step whose right action in each good latent is given (None: there is no way on).

    twin: the action after the right one is right, too.
    """
    phi = np.zeros((3, A, 3))
    phi[:, :, BAD] = 1.0
    for g, a in zip(GOOD, right, strict=True):
        if a is not None:
            phi[g, a] = _moves(g, split)
            if twin:
                phi[g, (a + 1) % A] = _moves(g, 1.0 - split)
    return StepModel(phi, np.eye(3))


def _moves(g: int, split: float) -> tuple[float, float, float]:
    """Where a right action leads from good latent g."""
    return (split, 1.0 - split, 0.0) if g else (1.0 - split, split, 0.0)


def _rewards(right: np.ndarray, A: int, safe: float, risky: float, crash: float, bait: float, twin: bool) -> RewardLaw:
    H = len(right)
    nothing, lure, sure, gamble = range(4)
    risk: dict[float, float] = {0.0: crash, risky: 1.0 - crash}
    grid, laws = reward_table([{0.0: 1.0}, {0.0: 0.5, bait: 0.5}, {safe: 1.0}, risk], H)
    which = np.full((H, 3, A), lure)
    which[:, BAD] = nothing
    for g in GOOD:
        which[np.arange(H), g, right[:, g]] = nothing
        if twin:
            which[0, g, (right[0, g] + 1) % A] = nothing
        which[-1, g, right[-1, g]] = sure
        which[-1, g, (right[-1, g] + 1) % A] = gamble
    return RewardLaw(grid, laws, which)


def check_payoffs(safe: float, risky: float, crash: float, bait: float) -> None:
    """Raise unless the payoffs are a choice between bait, a safe end and a risky one with a larger mean."""
    named = {"safe": safe, "risky": risky, "crash": crash, "bait": bait}
    for name, value in named.items():
        checks.inside(value, name, "(0, 1]")
    mean = risky * (1.0 - crash)
    if not bait < safe < mean:
        raise InputError(f"safe = {safe}: must lie between bait = {bait} and the mean of the risky payoff, {mean:.6g}")
