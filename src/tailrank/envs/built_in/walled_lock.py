"""The walled lock: a lock that may have no way through, so that only a bonus gets a learner to the end.

Latents, right actions and the payoffs of the last step are those of the risky lock (`locks.py`). Two things differ.

- The class F holds, for each good latent of a step, every right action *and a wall*: a model in which all actions lead
  to the bad latent. Walls come first, so as long as nobody has seen a right action the likeliest model is the wall.
- Leaving the chain at step h pays (H - h) `bait` surely: the sooner, the more.

So a learner that plans in its likeliest model leaves at once, and never sees more of the lock than its uniform actions
show by luck: (2 / A)^h of them reach step h. The bonus makes it go to the farthest step that it knows the way to, where
uniform actions find the next right one. In the risky lock every member of F has a way through, and the bonus does not
matter.
"""

from __future__ import annotations

import numpy as np

from tailrank import checks
from tailrank.envs.built_in.episodic import Episodic, product_mdp
from tailrank.envs.built_in.locks import BAD, GOOD, check_payoffs, cvar_star, lock_step, reward_table
from tailrank.models.lowrank import LowRankModel
from tailrank.models.rewards import RewardLaw


def walled_lock(
    horizon: int = 8,
    n_actions: int = 4,
    n_states: int = 3,
    *,
    safe: float = 0.8,
    risky: float = 1.0,
    crash: float = 0.1,
    bait: float = 0.01,
    seed: int = 0,
) -> Episodic:
    """The lock with `n_states` observations a step, shared out evenly over the latents at random by `seed`.

    Its class F knows the decoder and holds (A + 1)^2 models a step. `optimum(tau)` is that of the risky lock.
    """
    H, A = checks.steps(horizon, 2), checks.whole(n_actions, "n_actions", 2)
    S = checks.whole(n_states, "n_states", 3)
    checks.affordable(H * S + 24 * H * A + 9 * (A + 1) ** 3, f"horizon = {H}, n_actions = {A}, n_states = {S}")
    check_payoffs(safe, risky, crash, H * bait)
    rng = np.random.default_rng(seed)
    right = rng.integers(A, size=(H, 2))
    group = tuple(rng.permutation(np.arange(S) % 3) for _ in range(H))
    doors = (None, *range(A))
    models = tuple(lock_step(A, (a, b)) for a in doors for b in doors)
    steps = tuple(models[(a + 1) * (A + 1) + b + 1] for a, b in right[:-1])
    rewards = _rewards(right, A, {safe: 1.0}, {0.0: crash, risky: 1.0 - crash}, bait)
    return Episodic(
        name="walled-lock",
        truth=product_mdp(steps, rewards, start=0),
        rewards=rewards,
        model=LowRankModel(steps, group),
        start=int(np.flatnonzero(group[0] == 0)[0]),
        candidates=(models,) * (H - 1),
        optimum=lambda tau: cvar_star(tau, safe=safe, risky=risky, crash=crash, bait=H * bait),
    )


def _rewards(right: np.ndarray, A: int, sure: dict[float, float], gamble: dict[float, float], bait: float) -> RewardLaw:
    """Laws 0 nothing, 1 sure, 2 gamble, 3 + h the bait of step h."""
    H = len(right)
    falling = [{round((H - h) * bait, 12): 1.0} for h in range(H)]
    grid, laws = reward_table([{0.0: 1.0}, sure, gamble, *falling], H)
    which = np.zeros((H, 3, A), dtype=np.int64)
    for g in GOOD:
        which[:, g] = 3 + np.arange(H)[:, None]
        which[np.arange(H), g, right[:, g]] = 0
        which[-1, g, right[-1, g]] = 1
        which[-1, g, (right[-1, g] + 1) % A] = 2
    which[:, BAD] = 0
    return RewardLaw(grid, laws, which)
