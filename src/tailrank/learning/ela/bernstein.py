"""ELA with a Bernstein-type bonus: the paper's open question, tried.

Algorithm 1 pays alpha ||phi|| with alpha proportional to H, the largest value there can be, and from that its regret
has a factor 1 / tau. For tables, CVaR-UCBVI does better with the variance of the value in place of its range, because
under the right budget the shortfall is zero but in the worst tau-fraction. The same bonus here, with the elliptical
norm of the learned features in place of 1 / sqrt(N):

    x = c_a^2 (A + d^2) L ||phi_h(s, a)||^2_{Sigma_h^{-1}}           (so that alpha ||phi|| = H sqrt(x))
    b_h(s, c, a) = sqrt(2 x Var W) + sqrt(2 x E (W^ - W)^2) + y R       (`planning/latent/optimistic.py`)
    y = max { x, f log(1 + k) ||phi_h(s, a)||^2_{Sigma_h^{-1}} }

Bernstein's inequality has y = x. But x is quadratic in c_a: with a scale that is practical y R, all that is paid where
the learned model has no spread, is so small that a way which once looked bad is never tried again. `floor` = f > 0
gives this term a scale of its own: it falls with the visits and grows with the logarithm of the rounds k, so that
exploring never ends.

Nothing is proved about it: the variance is that of the learned model, and the one-step-back argument that lets
Algorithm 1 pay for the error of step h + 1 at step h is not used, so that all steps but the last carry a bonus.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tailrank import checks
from tailrank._system.settings import part, setting
from tailrank.learning.ela.bonus import BonusRule, elliptical_norms
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.parts import Planner
from tailrank.learning.schedule import PRACTICAL, Schedule
from tailrank.models.problem import PlanningProblem
from tailrank.planning.latent.optimistic import plan_bernstein


def elliptical_squares(problem: PlanningProblem, schedule: Schedule, floor: float = 0.0) -> list[np.ndarray]:
    """x and y of every pair, [H] of [2, G, A]; zero at the last step."""
    H, A, d = problem.horizon, problem.n_actions, problem.dimension
    k, log_class = problem.rounds, problem.log_class
    weight = schedule.alpha_scale**2 * (A + d * d) * schedule.confidence(k, H, log_class)
    norms = elliptical_norms(problem.model, problem.visits, schedule.lam(k, H, d, log_class))
    least = max(weight, floor * np.log1p(k))
    return [*(np.stack([weight * norm**2, least * norm**2]) for norm in norms), np.zeros(problem.law_of[-1].shape)]


@dataclass(frozen=True)
class ELABernstein(ELA):
    """ELA with a Bernstein-type bonus; `alpha_scale` is c_a.

    floor: f, the scale of the part that does not depend on the spread.
    """

    schedule: Schedule = part(PRACTICAL, only=("alpha_scale", "lam_scale", "log"))
    planner: Planner = plan_bernstein
    bonus: BonusRule = elliptical_squares
    floor: float = setting(
        0.0,
        kind=float,
        check=checks.not_negative,
        metavar="F",
        kw_only=True,
        help="Scale of the bonus by visits alone (0: exploring may end).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bonus", partial(elliptical_squares, floor=self.floor))
