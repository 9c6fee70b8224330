"""Treating sepsis: fast recovery or a sure minimum? ICU-Sepsis (716 states, learned from MIMIC-III) at two taus.

ICU-Sepsis pays 1 if the patient survives. Then CVaR is max(0, 1 - P(death) / tau): every tau wants the policy with the
best mean, and at tau = 0.1 all policies earn 0, because even the best one loses more than a tenth. That is computed
exactly from the table that comes with the simulator.

A return that tells patients apart is quality-adjusted time: of ten four-hour blocks a block at home counts 1, a block
in intensive care 1/2, and nothing is counted after death. Treatments that get patients home sooner can be those of
which more patients die early. The simulator says in `info` which of the 25 treatments are admissible in a state, about
three; no others are played. The learner is shown that, the number of the state and the reward, no table.

    python examples/sepsis.py [PICTURE]
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from shared import Task, compare, draw, sized, target

from tailrank import FiniteMDP, solve

DEATH, HOME, BLOCKS, WARD = 713, 714, 10, 0.5


@cache
def assets() -> Any:
    """The parameters of the simulator: 200 MB that all copies share."""
    import icu_sepsis
    from icu_sepsis.utils.io import MDPParameters

    return MDPParameters(Path(icu_sepsis.__file__).parent / "envs" / "assets")


class TimeLived(gymnasium.Wrapper):
    """Quality-adjusted time; patients at home go on living."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.state = 0

    def reset(self, **options: Any) -> tuple[int, dict]:
        self.state, info = self.env.reset(**options)
        return self.state, info

    def step(self, action: np.ndarray) -> tuple[int, float, bool, bool, dict]:
        if self.state == HOME:
            return HOME, 1.0, False, False, {}
        self.state, _, _, _, info = self.env.step(action)
        reward = {DEATH: 0.0, HOME: 1.0}.get(int(self.state), WARD)
        return self.state, reward, self.state == DEATH, False, info


def ward() -> gymnasium.Env:
    from icu_sepsis.envs.sepsis import ICUSepsisEnv

    return TimeLived(ICUSepsisEnv(params=assets()))


TASK = Task(ward, BLOCKS, episodes=63_000, fresh=20_000)


def table(timed: bool, horizon: int) -> FiniteMDP:
    """Exactly: survival within the horizon (the simulator's own reward), or quality-adjusted time."""
    params = assets()
    moves = np.zeros((716, 25, 716))
    for patient, doses in enumerate(params.admissible_actions[:DEATH]):
        moves[patient, doses] = params.tx_mat[patient, doses]
    for end in (DEATH, HOME, 715):
        moves[end, :, end] = 1.0
    state, action, after = np.nonzero(moves)
    ill = state < DEATH
    reward = np.where(ill, (after == HOME) * 1.0, 0.0)
    if timed:
        reward = np.where(ill & (after < DEATH), WARD, np.where(after == HOME, 1.0, 0.0))
    return FiniteMDP.from_rows(
        state, action, after, moves[state, action, after], reward, horizon=horizon, start=params.d_0, n_states=716
    )


if __name__ == "__main__":
    for plan in solve(table(timed=False, horizon=20), tau=(0.1, 0.25)):
        print(
            f"survival within 20 blocks, tau = {plan.tau:g}: best CVaR {plan.cvar:.4f}, of the best mean "
            f"{plan.risk_neutral.cvar:.4f} (it sends {100 * plan.risk_neutral.mean:.1f}% home)"
        )
    best = solve(table(timed=True, horizon=BLOCKS), tau=0.1)
    print(
        f"quality-adjusted time, exact: worst tenth at best {best.cvar:.3f}, of the best mean "
        f"{best.risk_neutral.cvar:.3f} (means {best.mean:.3f} and {best.risk_neutral.mean:.3f})"
    )
    returns = compare(f"quality-adjusted time, {TASK.episodes:,} patients", sized(TASK), "blocks")
    draw(target("sepsis.png"), returns, "four-hour blocks, quality-adjusted")
