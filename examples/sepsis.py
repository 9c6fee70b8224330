"""Treating sepsis: why the worst tenth of patients says nothing about 0 or 1, and what it says about time lived.

ICU-Sepsis (716 states) pays 1 if the patient survives. Then CVaR is max(0, 1 - P(death) / tau): every tau wants the
policy with the best mean, and at tau = 0.1 all policies earn 0, because even the best one loses more than a tenth.
That is computed exactly from the table that comes with the simulator.

What differs in the tail is time. Here each of ten four-hour blocks that is lived pays 1 (also at home), less 0.05 for
every level of vasopressor and fluid that is given; doses are none, middle or the highest. The learner is shown the
number of the state and the reward, no table.

    python examples/sepsis.py [PICTURE]
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from compare import Task, compare, draw, target

from tailrank import FiniteMDP, solve

DEATH, HOME, BLOCKS, BURDEN = 713, 714, 10, 0.05
DOSES = tuple((vasopressor, fluid) for vasopressor in (0, 2, 4) for fluid in (0, 2, 4))


@cache
def assets() -> Any:
    """The parameters of the simulator: 200 MB that all copies share."""
    import icu_sepsis
    from icu_sepsis.utils.io import MDPParameters

    return MDPParameters(Path(icu_sepsis.__file__).parent / "envs" / "assets")


class TimeLived(gymnasium.Wrapper):
    """Time lived less the burden of treatment; patients at home go on living."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.action_space = gymnasium.spaces.Discrete(len(DOSES))
        self.observation_space = gymnasium.spaces.Box(0.0, 715.0, (1,), np.float64)
        self.state = 0

    def reset(self, **options: Any) -> tuple[np.ndarray, dict]:
        self.state, info = self.env.reset(**options)
        return np.array([float(self.state)]), info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        dose = DOSES[action]
        if self.state == HOME:
            return np.array([float(HOME)]), 1.0, False, False, {}
        self.state, _, _, _, info = self.env.step(np.array(dose))
        reward = round((self.state != DEATH) - BURDEN * sum(dose), 2)
        return np.array([float(self.state)]), reward, self.state == DEATH, False, info


def ward() -> gymnasium.Env:
    from icu_sepsis.envs.sepsis import ICUSepsisEnv

    return TimeLived(ICUSepsisEnv(params=assets()))


TASK = Task(
    ward, BLOCKS, (-0.4, 1.0), 7, episodes=8000, model="table", alpha=3e-6, batch=400, pilot=400, trial=1500,
    fresh=8000,
)  # fmt: skip


def table(timed: bool, horizon: int) -> FiniteMDP:
    """Exactly: survival (all 25 doses), or time lived as above."""
    params = assets()
    moves = np.array(params._tx_mat)
    for end in (DEATH, HOME, 715):
        moves[end] = 0.0
        moves[end, :, end] = 1.0
    doses = np.array(DOSES if timed else [divmod(a, 5) for a in range(25)])
    moves = moves[:, doses @ (5, 1)]
    state, action, after = np.nonzero(moves)
    ill = state < DEATH
    if timed:
        reward = np.where(ill, (after != DEATH) - BURDEN * doses.sum(axis=1)[action], (state == HOME) * 1.0)
    else:
        reward = (ill & (after == HOME)) * 1.0
    return FiniteMDP.from_rows(
        state, action, after, moves[state, action, after], np.round(reward, 2), horizon=horizon, start=params._d_0,
        n_states=len(moves),
    )  # fmt: skip


if __name__ == "__main__":
    for plan in solve(table(timed=False, horizon=20), tau=(0.1, 0.25)):
        print(
            f"survival within 20 blocks, tau = {plan.tau:g}: best CVaR {plan.cvar:.4f}, of the best mean "
            f"{plan.risk_neutral.cvar:.4f} (it saves {100 * plan.risk_neutral.mean:.1f}%)"
        )
    best = solve(table(timed=True, horizon=BLOCKS), tau=0.1)
    print(
        f"time lived, exact: worst tenth at best {best.cvar:.3f}, of the best mean {best.risk_neutral.cvar:.3f} "
        f"(means {best.mean:.3f} and {best.risk_neutral.mean:.3f})"
    )
    returns = compare("time lived, 8,000 patients", TASK, "blocks")
    draw(target("sepsis.png"), returns, "four-hour blocks lived, less the burden of treatment")
