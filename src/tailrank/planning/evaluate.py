"""`evaluate`: how good a policy is, exactly in a known MDP or from played episodes with intervals.

The intervals for CVaR, VaR and the mean are those of `bounds`: each holds with probability `confidence` by itself,
at every number of episodes, as long as the range of the returns is known (for an MDP it is computed).

With `width` as many episodes are played as the interval for CVaR needs to become so narrow. It is looked at after
n_1, 2 n_1, 4 n_1, .. episodes, n_1 = 64 / tau, the k-th time with confidence 1 - delta / (k (k + 1)). As
sum_k 1 / (k (k + 1)) = 1, all these intervals hold at once with probability 1 - delta, and so does the last one,
whenever it was decided to stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.built_in.equivalent import equivalent
from tailrank.envs.protocols import CountableEnv, Simulator
from tailrank.episodes.rollout import environment_of, odd_seeds, play, play_simulator
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import induction
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.policies.result import Result
from tailrank.policies.shapes import table_shape
from tailrank.policies.tables import Policy, PolicyHolder, policy_of
from tailrank.risk.intervals import METHODS, ConfidenceInterval, cvar_interval, mean_interval, var_interval
from tailrank.risk.law import ReturnLaw

if TYPE_CHECKING:
    import gymnasium

Environment: TypeAlias = "FiniteMDP | CountableEnv | Simulator | gymnasium.Env[Any, Any]"
Range = tuple[float | None, float | None]
FIRST = 64
"""Episodes in the tail before an interval is looked at for the first time."""
MANY = 200_000
"""Episodes from which the band for the mean takes longer to find than it is worth."""
MOST = 100_000
"""Episodes after which `width` is given up."""


@dataclass(frozen=True, repr=False)
class Estimate:
    """CVaR, VaR and mean of a policy, each with an interval that holds with probability `confidence` (1: certain).

    lower, upper, method: the interval for CVaR. method: "exact", "certified" (bounds from rounding), or one of
    `bounds.METHODS`, of which "bca" and "percentile" are approximate. episodes: 0 when nothing was played. status:
    "exact", "played", or after `width` "narrow enough" or "out of episodes".
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
    var_interval: ConfidenceInterval
    mean_interval: ConfidenceInterval
    status: str = "played"

    def __repr__(self) -> str:
        played = f"{self.episodes} episodes" if self.episodes else self.status
        parts = (("CVaR", self.cvar, self.cvar_interval), ("VaR", self.var, self.var_interval))
        lines = [f"Estimate at tau = {self.tau:g} ({played}; each interval with confidence {self.confidence:g})"]
        for name, value, span in (*parts, ("mean", self.mean, self.mean_interval)):
            lines.append(f"  {name:<4}  {value:.6g}  in {span.lower:.6g} .. {span.upper:.6g}  ({span.method})")
        return "\n".join(lines)

    @property
    def cvar_interval(self) -> ConfidenceInterval:
        """The interval for CVaR."""
        return ConfidenceInterval(self.lower, self.upper, self.confidence, self.method)


def evaluate(
    policy: Policy | PolicyHolder,
    env: Environment,
    tau: float | None = None,
    *,
    episodes: int | None = None,
    width: float | None = None,
    max_episodes: int = MOST,
    seed: int | None = None,
    rng: np.random.Generator | None = None,
    seeds: np.ndarray | None = None,
    confidence: float = 0.95,
    bounds: Range | None = None,
    method: str = "auto",
    horizon: int | None = None,
    discount: float | None = None,
) -> Estimate:
    """CVaR_tau of `policy` (a policy, or what `solve`, `learn` or `load` returned) in `env`.

    env: a `FiniteMDP`, an environment, or anything that `tailrank.make` takes.
    In a FiniteMDP without `episodes` or `width`: exact, by pushing the return law forward. Otherwise `episodes` are
    played with `seed` (or a generator `rng`), or, with `width`, until the interval for CVaR is no wider than that, at
    most `max_episodes`. A simulator takes `seeds` [n], one an episode (by convention odd ones judge, even ones train),
    or draws odd ones. bounds: the range of the return, where it is not known; without it there is only a bootstrap.
    method: of the interval for CVaR. horizon, discount: for environments that have none. tau may be left out for a
    `Plan`, which has its own.
    """
    tau = policy.level if tau is None and isinstance(policy, Result) else tau
    if tau is None:
        raise InputError("tau: must be given for a policy (a plan has its own)")
    env, horizon = environment_of(policy_of(policy), env, horizon)
    return evaluate_all(
        policy,
        env,
        (tau,),
        episodes=episodes,
        width=width,
        max_episodes=max_episodes,
        rng=np.random.default_rng(checks.whole(seed, "seed", least=0)) if rng is None and seed is not None else rng,
        seeds=seeds,
        confidence=confidence,
        bounds=bounds,
        method=method,
        horizon=horizon,
        discount=discount,
    )[0]


def evaluate_all(
    policy: Policy | PolicyHolder,
    env: Environment,
    taus: Sequence[float],
    *,
    episodes: int | None = None,
    width: float | None = None,
    max_episodes: int = MOST,
    rng: np.random.Generator | None = None,
    seeds: np.ndarray | None = None,
    confidence: float = 0.95,
    bounds: Range | None = None,
    method: str = "auto",
    horizon: int | None = None,
    discount: float | None = None,
) -> tuple[Estimate, ...]:
    """What `policy` earns in `env`: as `evaluate`, an estimate for each tau from the same episodes.

    With `width` all intervals for CVaR must be that narrow; each holds with `confidence` by itself.
    """
    levels, policy = checks.tail_levels(taus), policy_of(policy)
    env = fitting_mdp(policy, env) if isinstance(env, FiniteMDP) else env
    checks.one_of(method, "method", ("auto", *METHODS))
    if not 0.0 < checks.number(confidence, "confidence") < 1.0:
        raise InputError(f"confidence = {confidence}: must lie in (0, 1)")
    if episodes is None and width is None and seeds is None:
        if not isinstance(env, FiniteMDP):
            raise InputError("episodes: must be given to evaluate in an environment that is not a FiniteMDP")
        found = return_law(policy, env)
        return tuple(_known(found, tau, env) for tau in levels)
    bounds = return_range(env) if bounds is None else bounds
    if rng is None and seeds is None:
        raise InputError("rng: a numpy Generator must be given to play episodes")
    sample = _sampler(policy, env, rng, seeds, horizon, discount)
    if width is None:
        count = checks.whole(len(seeds) if episodes is None and seeds is not None else episodes, "episodes")
        returns = sample(count)
        return tuple(estimated(returns, tau, confidence, bounds, method, rng) for tau in levels)
    if episodes is not None:
        raise InputError("episodes, width: give one of them; max_episodes limits what width may play")
    most = checks.whole(max_episodes, "max_episodes") if seeds is None else min(int(max_episodes), len(seeds))
    return until_narrow(sample, levels, width, most, confidence, bounds, method)


def fitting_mdp(policy: Policy, mdp: FiniteMDP) -> FiniteMDP:
    """The MDP, or the equivalent one that learners play in its place if the tables of the policy are for that."""
    shape = table_shape(policy)
    if shape not in (None, (mdp.horizon, mdp.n_states)):
        played, _ = equivalent(mdp)
        if shape == (played.horizon, played.n_states):
            return played
    return mdp


def estimated(
    returns: np.ndarray,
    tau: float,
    confidence: float,
    bounds: Range | None,
    method: str = "auto",
    rng: np.random.Generator | None = None,
) -> Estimate:
    """CVaR, VaR and mean from independent returns [n]; the method for the mean is that for CVaR where there is one."""
    law = ReturnLaw.of(returns)
    found = cvar_interval(returns, tau, confidence, bounds, method, rng=rng)
    for_mean = {"thomas": "anderson", "dkw": "anderson", "brown": "hoeffding"}.get(found.method, found.method)
    if for_mean == "beta" and returns.size > MANY:
        for_mean = "bernstein"
    mean = mean_interval(returns, confidence, bounds, for_mean, rng=rng)
    var = var_interval(returns, tau, confidence, bounds)
    return Estimate(
        tau,
        law.cvar(tau),
        found.lower,
        found.upper,
        law.var(tau),
        law.mean,
        found.confidence,
        returns.size,
        found.method,
        law,
        var,
        mean,
    )


def until_narrow(
    sample: Callable[[int], np.ndarray],
    taus: Sequence[float],
    width: float,
    max_episodes: int,
    confidence: float,
    bounds: Range | None,
    method: str = "auto",
) -> tuple[Estimate, ...]:
    """Estimates from as many returns as it takes; sample(n) gives n new ones, [n]."""
    if checks.number(width, "width") <= 0.0:
        raise InputError(f"width = {width}: must be positive")
    if bounds is None or method in ("bca", "percentile"):
        raise InputError("width: needs bounds on the return and a method that holds at every n, not a bootstrap")
    returns, level, status = np.empty(0), confidence, "out of episodes"
    for k, n in enumerate(stages(min(taus), max_episodes), start=1):
        returns = np.concatenate([returns, sample(n - returns.size)])
        level = 1.0 - (1.0 - confidence) / (k * (k + 1))
        if all(cvar_interval(returns, tau, level, bounds, method).width <= width for tau in taus):
            status = "narrow enough"
            break
    return tuple(_stopped(estimated(returns, tau, level, bounds, method), confidence, status) for tau in taus)


def stages(tau: float, max_episodes: int) -> Iterator[int]:
    """Numbers of episodes after which the intervals are looked at."""
    n = math.ceil(FIRST / tau)
    while n < max_episodes:
        yield n
        n *= 2
    yield max_episodes


def _stopped(one: Estimate, confidence: float, status: str) -> Estimate:
    var, mean = (replace(x, confidence=confidence) for x in (one.var_interval, one.mean_interval))
    return replace(one, confidence=confidence, status=status, var_interval=var, mean_interval=mean)


def _sampler(
    policy: Policy,
    env: Environment,
    rng: np.random.Generator | None,
    seeds: np.ndarray | None,
    horizon: int | None,
    discount: float | None,
) -> Callable[[int], np.ndarray]:
    """A function that plays n more episodes and gives their returns [n]."""
    if not hasattr(env, "n_features"):
        if rng is None:
            raise InputError("seeds: are for simulators; other environments are played with rng")
        return lambda n: play(policy, env, n, rng=rng, horizon=horizon, discount=discount).returns
    simulator: Any = env
    used = 0

    def more(n: int) -> np.ndarray:
        nonlocal used
        if seeds is not None:
            if used + n > len(seeds):
                raise InputError(f"seeds: {used + n} are needed, found {len(seeds)}")
            chosen = np.asarray(seeds)[used : used + n]
        else:
            chosen = odd_seeds(n, rng)  # type: ignore[arg-type]
        used += n
        return play_simulator(policy, simulator, chosen, discount=1.0 if discount is None else discount).returns

    return more


def return_range(env: Environment) -> Range | None:
    """What the return must lie in, where the environment says so (`return_range`) or has an MDP."""
    said: Range | None = getattr(env, "return_range", None)
    if said is not None:
        return said
    truth: FiniteMDP | None = env if isinstance(env, FiniteMDP) else getattr(env, "truth", None)
    if truth is None:
        return None
    slack = 0.0
    if getattr(env, "sampler", None) is not None:
        # The truth has the rewards rounded up to the grid, by less than a unit each.
        slack = truth.horizon * float(env.rewards.grid.unit)  # type: ignore[union-attr]
    low, high = induction.return_ranges(truth.merged())
    return float(low[0][truth.start > 0].min()) - slack, float(high[0][truth.start > 0].max())


def _known(found: Evaluation, tau: float, mdp: FiniteMDP) -> Estimate:
    """The estimate from a return law that is known, or known but for rounding."""
    value, upper, method = found.cvar(tau), found.cvar_upper(tau), "exact" if found.exact else "certified"
    var, mean = found.var(tau), found.mean
    between = (var, var) if found.exact else _var_between(found, tau, mdp)
    return Estimate(
        tau,
        value,
        value,
        upper,
        var,
        mean,
        1.0,
        0,
        method,
        found.law,
        ConfidenceInterval(*between, 1.0, method),
        ConfidenceInterval(mean, mean, 1.0, "exact"),
        "exact" if found.exact else "certified",
    )


def _var_between(found: Evaluation, tau: float, mdp: FiniteMDP) -> tuple[float, float]:
    """Bounds on VaR_tau from bounds on CVaR.

    t CVaR_t is the integral of VaR from 0 to t, and VaR grows: its mean over a piece beside tau is a bound.
    """
    low, high = (float(end) for end in return_range(mdp) or (-np.inf, np.inf))  # type: ignore[arg-type]
    own = tau * found.cvar(tau)
    for share in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005):
        below, above = tau * (1.0 - share), min(tau * (1.0 + share), 1.0)
        low = max(low, (own - below * found.cvar_upper(below)) / (tau - below))
        if above > tau:
            high = min(high, (above * found.cvar_upper(above) - own) / (above - tau))
    return low, high
