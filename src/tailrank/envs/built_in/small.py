"""Two small environments: a risky shortcut, and an MDP on which the printed bonus cap never explores.

The decoy. H = 20, A = 8, d = 6, tau = .75, one unit of reward a step in `rich`, nothing elsewhere:

    start --coin (action 0)--> rich or poor, 1/2 each       19 or 0:  CVaR = 19 (.75 - .5) / .75 = 6.33
    start --gate (action 1)--> gate --action 1--> door --action 1--> rich       17 surely: CVaR* = 17
    any other action leads to poor; rich and poor stay what they are.

The six latents are gate, door, rich, poor, coin (psi = rich or poor) and vault; phi(door, 1) = vault. The two
models of F share phi and differ in psi of the vault alone: rich in truth, poor in the decoy, which comes first.
The pair (door, 1) lies two uniform actions beyond what a policy that tosses the coin at the start reaches, so
after the first, uniform iteration (which meets it with probability at most 2 / A^3) both models have the same
likelihood for ever, and the oracle may return the decoy. The decoy gives the gate a return of 0, and the two
pairs never visited, (gate, 1) and (door, 1), have bonuses of at most the cap: 2 cap / tau in the objective. With
the printed cap of 2 that is 5.33 < 6.33, and Algorithm 1 never goes there, whatever alpha, lambda and k: at k = 1e9
the optimism lemma would read 12.5 <= .009. With cap = H the planner leaves the coin once the bonuses of rich and poor
have decayed (k = 1400 with constants 1, k = 16 with alpha x .12 and lambda x .05), earns 17, and one visit to
(door, 1) refutes the decoy. That needs alpha / sqrt(lambda) > 19 / 8, or the bonus is too small under any cap.
"""

from __future__ import annotations

import numpy as np

from tailrank import checks
from tailrank.envs.built_in.episodic import Episodic, product_mdp
from tailrank.envs.built_in.from_mdp import from_mdp
from tailrank.envs.built_in.locks import reward_table
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.rewards import RewardLaw

START, GATE, DOOR, RICH, POOR = range(5)


def risky_shortcut(horizon: int = 5) -> Episodic:
    """A safe road and two shortcuts that can crash (no reward from then on) to a goal that pays .8 or 1 a step.

    States: start, road, last stretch, crashed, goal. The risk-neutral optimum (2.88 in five steps) has CVaR 0 at
    tau = .1, where 1.7 can be had.
    """
    H = checks.steps(horizon)
    start, road, stretch, crashed, goal = range(5)
    ways: dict[tuple[int, int], dict[int, float]] = {
        (start, 0): {road: 1.0},
        (start, 1): {stretch: 0.9, crashed: 0.1},
        (start, 2): {crashed: 0.2, goal: 0.8},
        (road, 0): {stretch: 1.0},
        (road, 1): {crashed: 0.05, goal: 0.95},
        (road, 2): {crashed: 0.05, goal: 0.95},
    }
    for a in range(3):
        ways |= {(stretch, a): {goal: 1.0}, (crashed, a): {crashed: 1.0}, (goal, a): {goal: 1.0}}
    rows = []
    for (s, a), law in ways.items():
        pay = {0.8: 0.5, 1.0: 0.5} if s == goal else {0.1: 1.0} if (s, a) == (road, 0) else {0.0: 1.0}
        rows += [(s, a, t, p * q, r) for t, p in law.items() for r, q in pay.items()]
    mdp = FiniteMDP.from_rows(
        *zip(*rows, strict=True), horizon=H, labels=("start", "road", "last stretch", "crashed", "goal")
    )
    return from_mdp(mdp, name="risky-shortcut")


def decoy(horizon: int = 20, n_actions: int = 8) -> Episodic:
    """An MDP on which the printed bonus cap never explores (see the module); F = (decoy, truth) at every step."""
    H, A = checks.steps(horizon, 4), checks.whole(n_actions, "n_actions", 2)
    checks.affordable(50 * H * A, f"horizon = {H}, n_actions = {A}")
    gate, door, rich, poor, coin, vault = range(6)
    phi = np.zeros((5, A, 6))
    phi[..., poor] = 1.0
    phi[RICH] = np.eye(6)[rich]
    for pair, latent in (((START, 0), coin), ((START, 1), gate), ((GATE, 1), door), ((DOOR, 1), vault)):
        phi[pair] = np.eye(6)[latent]
    psi = np.zeros((6, 5))
    psi[[gate, door, rich, poor, vault], [GATE, DOOR, RICH, POOR, RICH]] = 1.0
    psi[coin, [RICH, POOR]] = 0.5
    false = psi.copy()
    false[vault] = psi[poor]
    truth, other = StepModel(phi, psi), StepModel(phi, false)
    grid, laws = reward_table([{0.0: 1.0}, {1.0: 1.0}], H)
    which = np.zeros((H, 5, A), dtype=np.int64)
    which[:, RICH] = 1
    rewards = RewardLaw(grid, laws, which)
    steps = (truth,) * (H - 1)

    def optimum(tau: float) -> float:
        level = checks.tail_level(tau)
        return max(H - 3.0, (H - 1.0) * max(1.0 - 0.5 / level, 0.0))

    return Episodic(
        name="decoy",
        truth=product_mdp(steps, rewards, START),
        rewards=rewards,
        model=LowRankModel(steps, (np.arange(5),) * H),
        start=START,
        candidates=((other, truth),) * (H - 1),
        optimum=optimum,
        labels=("start", "gate", "door", "rich", "poor"),
    )
