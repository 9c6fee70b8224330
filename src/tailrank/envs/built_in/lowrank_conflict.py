"""Random low-rank MDPs in which the transitions decide, and in which mean and tail want different things.

In `random-lowrank` rewards are drawn anew for each pair and known to the learner, while every action leads to much the
same states. So what pays now is nearly all there is, and a plan made in a wrong model is within 5% of CVaR* in most
cases. Here rewards belong to states, and actions only say where to go.

- States are of three kinds: *steady* ones pay 1/2 surely, *wild* ones 1 or 0 with a mean of 1/2 + u / sqrt(H), u in
  .2 to .4, *poor* ones 0 or 1/4. All laws are known.
- Latents are of the same kinds, j mod 3. psi_j lies mostly on states of its kind and overlaps with all others: no
  state tells the latent.
- From every state one action leads mostly to a latent of each kind, the others to poor ones. Which action that is, is
  drawn for each state: it is what must be learned. phi is that latent mixed with a Dirichlet draw.

Wild states have the larger mean, by sqrt(H) u over an episode, and the smaller tail: their returns deviate by about
sqrt(H) / 2, and CVaR at tau = .25 lies 1.27 deviations below the mean. So the conflict is the same at every horizon.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tailrank import checks
from tailrank.envs.built_in.episodic import Episodic, product_mdp
from tailrank.models.grid import BudgetGrid
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.rewards import RewardLaw

STEADY, WILD, POOR = range(3)
UNITS = 4
"""Rewards are multiples of 1/4."""


def lowrank_conflict(
    horizon: int = 5,
    n_actions: int = 4,
    n_states: int = 20,
    *,
    d: int = 3,
    mixing: float = 0.1,
    n_models: int = 10,
    seed: int = 0,
) -> Episodic:
    """A random MDP of rank d. Its class F has n_models models a step, the true one at a random place.

    mixing: the share of phi, and of psi, that goes to no kind in particular.
    """
    H, A = checks.steps(horizon), checks.whole(n_actions, "n_actions", 3)
    d, m = checks.whole(d, "d", 3), checks.whole(n_models, "n_models")
    S = checks.whole(n_states, "n_states", 3)
    checks.inside(mixing, "mixing", "[0, 1)")
    checks.affordable(
        H * (m * d * S * (A + 1) + 3 * S * S * A),
        f"horizon = {H}, n_actions = {A}, n_states = {S}, d = {d}, n_models = {m}",
    )
    rng = np.random.default_rng(seed)
    kinds = np.stack([rng.permutation(np.arange(S) % 3) for _ in range(H)])
    classes = tuple(tuple(_step(kinds[h + 1], A, d, mixing, rng) for _ in range(m)) for h in range(H - 1))
    steps = tuple(models[int(rng.integers(m))] for models in classes)
    rewards = _rewards(kinds, A, rng)
    return Episodic(
        name="lowrank-conflict",
        truth=product_mdp(steps, rewards, start=0),
        rewards=rewards,
        model=LowRankModel(steps, (np.arange(S),) * H),
        candidates=classes,
    )


def _step(kinds: np.ndarray, A: int, d: int, mixing: float, rng: np.random.Generator) -> StepModel:
    """A step into states of these kinds [S]."""
    S, of_latent = kinds.size, np.arange(d) % 3
    own = rng.dirichlet(np.ones(S), size=d) * (kinds == of_latent[:, None])
    psi = (1.0 - mixing) * own / own.sum(axis=1, keepdims=True) + mixing * rng.dirichlet(np.ones(S), size=d)
    wanted = np.full((S, A), POOR)
    wanted[:, :3] = STEADY, WILD, POOR
    wanted = rng.permuted(wanted, axis=1)
    ties = rng.random((S, A, d)) * (of_latent == wanted[..., None])
    phi = (1.0 - mixing) * np.eye(d)[ties.argmax(axis=-1)] + mixing * rng.dirichlet(np.ones(d), size=(S, A))
    return StepModel(phi, psi)


def _rewards(kinds: np.ndarray, A: int, rng: np.random.Generator) -> RewardLaw:
    """Laws by state and step, for all actions the same: six of each kind, drawn at random."""
    H, S = kinds.shape
    n = 6
    laws = np.zeros((3 * n, UNITS + 1))
    laws[:n, UNITS // 2] = 1.0
    laws[n : 2 * n, UNITS] = 0.5 + rng.uniform(0.2, 0.4, n) / np.sqrt(max(H, 2))
    laws[n : 2 * n, 0] = 1.0 - laws[n : 2 * n, UNITS]
    laws[2 * n :, 1] = rng.uniform(0.0, 1.0, n)
    laws[2 * n :, 0] = 1.0 - laws[2 * n :, 1]
    which = np.repeat((kinds * n + rng.integers(n, size=(H, S)))[:, :, None], A, axis=2)
    return RewardLaw(BudgetGrid(Fraction(1, UNITS), (Fraction(0),) * H, "exact"), laws, which)
