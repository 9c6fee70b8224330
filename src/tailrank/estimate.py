"""`evaluate`: how good a policy is, exactly in a known MDP or from played episodes with an interval.

From n episodes whose returns lie in [a, b], the Dvoretzky-Kiefer-Wolfowitz inequality (with Massart's
constant) bounds the whole distribution function: with probability 1 - delta it is nowhere further than
e = sqrt(log(2 / delta) / 2n) from the empirical one. Moving mass e from the best returns to a, or from the
worst to b, gives bounds on CVaR that hold at every n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank import bellman, checks
from tailrank.checks import InputError
from tailrank.evaluation import return_law
from tailrank.mdp import FiniteMDP
from tailrank.plan import Plan
from tailrank.policy import Policy
from tailrank.risk import ReturnLaw, dkw_bounds
from tailrank.rollout import play

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class Estimate:
    """CVaR of a policy with bounds that hold with probability `confidence` (1: certain).

    method: "exact", "certified" (bounds from rounding), "dkw", or "bootstrap" (approximate: used when the
    range of returns is not known). episodes is 0 when nothing was played.
    """

    tau: float
    cvar: float
    lower: float
    upper: float
    var: float
    mean: float
    confidence: float
    episodes: int
    method: str
    law: ReturnLaw


def evaluate(
    policy: Policy | Plan,
    env: FiniteMDP | gymnasium.Env[Any, Any],
    tau: float | None = None,
    *,
    episodes: int | None = None,
    rng: np.random.Generator | None = None,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Estimate:
    """CVaR_tau of `policy` in `env`.

    In a FiniteMDP without `episodes`: exact, by pushing the return law forward. Otherwise `episodes` are
    played with `rng`; `bounds` on the return (known for an MDP) make the interval valid at every n.
    tau may be left out for a `Plan`, which has its own.
    """
    if isinstance(policy, Plan):
        tau, policy = policy.tau if tau is None else tau, policy.policy
    if tau is None:
        raise InputError("tau: must be given for a policy (a plan has its own)")
    tau = checks.tail_level(tau)
    if episodes is None:
        if not isinstance(env, FiniteMDP):
            raise InputError("episodes: must be given to evaluate in an environment that is not a FiniteMDP")
        found = return_law(policy, env)
        value, upper = found.cvar(tau), found.cvar_upper(tau)
        method = "exact" if found.exact else "certified"
        return Estimate(tau, value, value, upper, found.var(tau), found.mean, 1.0, 0, method, found.law)
    if rng is None:
        raise InputError("rng: a numpy Generator must be given to play episodes")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence = {confidence}: must lie in (0, 1)")
    played = play(policy, env, episodes, rng=rng, horizon=horizon, discount=discount)
    if bounds is None and isinstance(env, FiniteMDP):
        low, high = bellman.return_ranges(env.merged())
        bounds = float(low[0][env.start > 0].min()), float(high[0][env.start > 0].max())
    return _from_sample(played.returns, tau, confidence, bounds, rng)


def _from_sample(
    returns: np.ndarray,
    tau: float,
    confidence: float,
    bounds: tuple[float, float] | None,
    rng: np.random.Generator,
) -> Estimate:
    law = ReturnLaw.of(returns)
    if bounds is None:
        resampled = rng.choice(returns, size=(2000, returns.size))
        values = [ReturnLaw.of(sample).cvar(tau) for sample in resampled]
        lower, upper = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
        method = "bootstrap"
    else:
        lower, upper = dkw_bounds(returns, tau, confidence, bounds)
        method = "dkw"
    return Estimate(
        tau,
        law.cvar(tau),
        float(lower),
        float(upper),
        law.var(tau),
        law.mean,
        confidence,
        returns.size,
        method,
        law,
    )
