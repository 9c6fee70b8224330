"""CVaR-UCBVI (Wang, Kallus and Sun 2023): optimistic value iteration on counts in the budget-augmented MDP.

One episode of the last plan is played, its transitions are counted for single states, and the plan is that of the
empirical model with a bonus for what was seldom seen:

    Hoeffding   R sqrt(x)
    Bernstein   sqrt(2 x Var W) + sqrt(2 x E(W^ - W)^2) + x R      (`planners.optimistic`)

x = c^2 L / N, where N counts visits of (state, action) at the step, L = log(S A H k / delta), and c is `alpha_scale`
(1 in the paper).

As in the paper: rewards are known, values are clipped to what is possible, the budget's own dynamics need no
exploration, the best budget is chosen anew for every episode, rewards lie on a grid, pairs never tried promise the
most. Departures: k, the episodes so
far, stands for their final number K in L (so the algorithm need not know it); R is the most that the known rewards
allow after the step (the paper scales returns to [0, 1]), which makes the bonus smaller where rewards come early.
"""

from __future__ import annotations

from tailrank.learning.ela.bonus import hoeffding, per_visit
from tailrank.learning.ela.ela import ELA
from tailrank.learning.oracles.choices import SingleStates
from tailrank.learning.schedule import Schedule
from tailrank.planning.latent.optimistic import plan_bernstein, plan_clipped


def cvar_ucbvi(tau: float, *, scale: float = 1.0, bernstein: bool = False, batch: int = 1, growth: float = 0.0) -> ELA:
    """The learner; `scale` is c."""
    return ELA(
        tau,
        SingleStates(),
        Schedule(alpha_scale=scale),
        plan_bernstein if bernstein else plan_clipped,
        collect="plan",
        bonus=per_visit if bernstein else hoeffding,
        batch=batch,
        growth=growth,
    )
