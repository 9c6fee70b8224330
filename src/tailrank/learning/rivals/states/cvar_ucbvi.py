"""CVaR-UCBVI (Wang, Kallus and Sun 2023): optimistic value iteration on counts in the budget-augmented MDP.

One episode of the last plan is played, its transitions are counted for single states, and the plan is that of the
empirical model with a bonus for what was seldom seen:

    Hoeffding   R sqrt(x)
    Bernstein   sqrt(2 x Var W) + sqrt(2 x E(W^ - W)^2) + x R      (`planning/latent/optimistic.py`)

x = c^2 L / N, where N counts visits of (state, action) at the step, L = log(S A H k / delta), and c is `alpha_scale`
(1 in the paper).

As in the paper: rewards are known, values are clipped to what is possible, the budget's own dynamics need no
exploration, the best budget is chosen anew for every episode, rewards lie on a grid, pairs never tried promise the
most. Departures: k, the episodes so
far, stands for their final number K in L (so the algorithm need not know it); R is the most that the known rewards
allow after the step (the paper scales returns to [0, 1]), which makes the bonus smaller where rewards come early.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrank._system.settings import fixed, part
from tailrank.learning.ela.bonus import BonusRule, hoeffding, per_visit
from tailrank.learning.ela.ela import ELA
from tailrank.learning.ela.parts import Oracles, Planner
from tailrank.learning.ela.settings import Collect
from tailrank.learning.oracles.choices import SingleStates
from tailrank.learning.schedule import THEORY, Schedule
from tailrank.planning.latent.optimistic import plan_bernstein, plan_clipped


@dataclass(frozen=True)
class Tabular(ELA):
    """ELA's loop on counts of single states: one episode of the last plan a collection, a bonus by visits."""

    oracle: Oracles = SingleStates()  # noqa: RUF009 (frozen)
    schedule: Schedule = part(THEORY, only=("alpha_scale",))
    planner: Planner = plan_clipped
    bonus: BonusRule = hoeffding
    collect: Collect = fixed("plan")
    share: bool = fixed(False)


@dataclass(frozen=True)
class CvarUCBVI(Tabular):
    """CVaR-UCBVI (Wang et al. 2023), Hoeffding bonus."""


@dataclass(frozen=True)
class CvarUCBVIBernstein(Tabular):
    """CVaR-UCBVI (Wang et al. 2023), Bernstein bonus."""

    planner: Planner = plan_bernstein
    bonus: BonusRule = per_visit
