"""The learners by name: each is ELA's skeleton with other parts, or has the same `init` and `step`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tailrank.envs.protocols import CountableEnv
from tailrank.learning.ela.ela import ELA
from tailrank.learning.oracles.choices import ModelChoice
from tailrank.learning.protocol import Learner
from tailrank.learning.schedule import PRACTICAL, Schedule


@dataclass(frozen=True)
class Recipe:
    """What a run says about its learner; None leaves the choice to the learner."""

    algorithm: str
    tau: float
    model: str | None = None
    rank: int | None = None
    collect: str | None = None
    share: bool = False
    batch: int = 1
    growth: float = 0.0
    alpha_scale: float | None = None
    lam_scale: float | None = None
    cap: str | float = "corrected"
    log: str = "corrected"
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def schedule(self) -> Schedule:
        """The schedule of ELA's bonus."""
        lam = PRACTICAL.lam_scale if self.lam_scale is None else self.lam_scale
        return Schedule(self.scale(PRACTICAL.alpha_scale), lam, self.cap, self.log)  # type: ignore[arg-type]

    def choice(self, env: CountableEnv) -> ModelChoice:
        """The class of models."""
        return ModelChoice(self.model or ("class" if env.candidates else "counts"), self.rank)

    def scale(self, default: float) -> float:
        """The bonus scale of a rival."""
        return default if self.alpha_scale is None else self.alpha_scale


@dataclass(frozen=True)
class Algorithm:
    """A learner's name in words, how it is made, which settings of a run it has, and its own (`extra`)."""

    summary: str
    make: Callable[[Recipe, CountableEnv], Learner]
    settings: tuple[str, ...] = ("batch", "growth", "alpha_scale")
    extra: tuple[str, ...] = ()
    episodes_each: Callable[[Recipe, int], int] = lambda recipe, horizon: 1
    """Episodes of a collection."""


LINEAR = ("batch", "alpha_scale", "lam_scale")
LOW_RANK = ("model", "rank", "collect", "share", "batch", "growth", "alpha_scale", "lam_scale", "cap", "log")


def _low_rank(recipe: Recipe, env: CountableEnv, make: Callable[..., ELA] = ELA, **more: Any) -> ELA:
    """ELA (or what `make` makes of its parts) with the settings of the recipe; `more` are its other parts."""
    given: dict[str, Any] = {
        "collect": recipe.collect or "rollins",
        "share": recipe.share,
        "batch": recipe.batch,
        "growth": recipe.growth,
    }
    return make(recipe.tau, recipe.choice(env), recipe.schedule, **(given | more))


def _bernstein(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.ela.bernstein import ela_bernstein

    return _low_rank(recipe, env, ela_bernstein)


def _ella(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.ela.ella import lsvi_planner

    return _low_rank(recipe, env, planner=lsvi_planner(**recipe.extra))


def _greedy(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.ela.bonus import none

    return _low_rank(recipe, env, bonus=none)


def _uniform(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.ela.bonus import none

    return _low_rank(recipe, env, bonus=none, collect="uniform")


def _ucbvi(recipe: Recipe, env: CountableEnv, bernstein: bool = False) -> Learner:
    from tailrank.learning.rivals.states.cvar_ucbvi import cvar_ucbvi

    return cvar_ucbvi(
        recipe.tau, scale=recipe.scale(1.0), bernstein=bernstein, batch=recipe.batch, growth=recipe.growth
    )


def _bastani(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.bastani import bastani

    return bastani(recipe.tau, scale=recipe.scale(1.0), batch=recipe.batch, growth=recipe.growth)


def _lsvi(recipe: Recipe, env: CountableEnv, mean: bool = False) -> Learner:
    from tailrank.learning.rivals.states.lsvi_ucb import cvar_lsvi_ucb, lsvi_ucb

    return (lsvi_ucb if mean else cvar_lsvi_ucb)(recipe.tau, **_linear(recipe))


def _icvar_rm(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.icvar import icvar_rm

    return icvar_rm(recipe.tau, scale=recipe.scale(1.0), share=recipe.share, batch=recipe.batch, growth=recipe.growth)


def _icvar_linear(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.icvar import icvar_linear

    return icvar_linear(recipe.tau, **_linear(recipe))


def _linear(recipe: Recipe) -> dict[str, Any]:
    """Settings of the learners on known features."""
    lam = 1.0 if recipe.lam_scale is None else recipe.lam_scale
    return {"scale": recipe.scale(0.01), "lam": lam, "batch": recipe.batch} | recipe.extra


def _cvar_q(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.cvar_q import CvarQ

    return CvarQ(recipe.tau, batch=recipe.batch, **recipe.extra)


def _gradient(recipe: Recipe, env: CountableEnv, **more: Any) -> Learner:
    from tailrank.learning.rivals.states.policy_gradient import CvarGradient

    return CvarGradient(recipe.tau, **(more | recipe.extra))


def _pcid(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.pcid import PCID

    return PCID(recipe.tau, **recipe.extra)


def _augmented(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.rep_ucb_augmented import rep_ucb_augmented

    return rep_ucb_augmented(
        recipe.tau,
        recipe.choice(env).name,
        recipe.schedule,
        collect=recipe.collect or "rollins",
        batch=recipe.batch,
        growth=recipe.growth,
    )


def _flambe(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.flambe import flambe

    given: dict[str, Any] = {"share": recipe.share, "batch": recipe.batch, "growth": recipe.growth}
    return flambe(recipe.tau, recipe.choice(env), collect=recipe.collect or "rollins", **given, **recipe.extra)  # type: ignore[arg-type]


def _olive(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.olive import olive

    return olive(recipe.tau, **recipe.extra)


def _witness(recipe: Recipe, env: CountableEnv) -> Learner:
    from tailrank.learning.rivals.states.witness import witness

    return witness(recipe.tau, **recipe.extra)


def _estimates(recipe: Recipe, horizon: int) -> int:
    return 2 * int(recipe.extra.get("episodes", 200))


def _collections(recipe: Recipe, horizon: int) -> int:
    return 1 if recipe.collect in ("episode", "plan", "uniform") else horizon


ALGORITHMS: dict[str, Algorithm] = {
    "ela": Algorithm("ELA (Algorithm 1)", _low_rank, LOW_RANK, episodes_each=_collections),
    "ella": Algorithm(
        "ELLA (Algorithm 3): ELA that plans by CVaR-LSVI",
        _ella,
        LOW_RANK,
        ("iterations", "evaluations", "beta", "variant", "clip"),
        _collections,
    ),
    "ela-bernstein": Algorithm(
        "ELA with a Bernstein-type bonus", _bernstein, tuple(s for s in LOW_RANK if s != "cap"), (), _collections
    ),
    "rep-ucb": Algorithm(
        "Rep-UCB (Uehara et al. 2022): ELA for the mean",
        lambda r, env: _low_rank(r, env, aim=1.0),
        LOW_RANK,
        episodes_each=_collections,
    ),
    "rep-ucb-augmented": Algorithm(
        "Rep-UCB on the budget-augmented MDP, for the tail",
        _augmented,
        tuple(s for s in LOW_RANK if s not in ("rank", "share")),
        episodes_each=_collections,
    ),
    "flambe": Algorithm(
        "FLAMBE (Agarwal et al. 2020): explores without rewards",
        _flambe,
        ("model", "rank", "collect", "share", "batch", "growth"),
        ("beta",),
        _collections,
    ),
    "olive": Algorithm(
        "OLIVE (Jiang et al. 2017): eliminates value functions, tiny classes only",
        _olive,
        (),
        ("epsilon", "episodes", "delta"),
        _estimates,
    ),
    "witness": Algorithm(
        "the witness-rank algorithm (Sun et al. 2019): eliminates models, tiny classes only",
        _witness,
        (),
        ("epsilon", "episodes", "delta"),
        _estimates,
    ),
    "greedy": Algorithm("ELA without bonus", _greedy, LOW_RANK, episodes_each=_collections),
    "uniform": Algorithm(
        "uniform actions, then ELA's plan without bonus", _uniform, tuple(s for s in LOW_RANK if s != "collect")
    ),
    "cvar-ucbvi": Algorithm("CVaR-UCBVI (Wang et al. 2023), Hoeffding bonus", _ucbvi),
    "cvar-ucbvi-bernstein": Algorithm(
        "CVaR-UCBVI (Wang et al. 2023), Bernstein bonus", lambda r, env: _ucbvi(r, env, bernstein=True)
    ),
    "lsvi-ucb": Algorithm(
        "LSVI-UCB (Jin et al. 2020): known features, for the mean",
        lambda r, env: _lsvi(r, env, mean=True),
        LINEAR,
        ("switch",),
    ),
    "cvar-lsvi-ucb": Algorithm("LSVI-UCB for the tail: CVaR-LSVI online, known features", _lsvi, LINEAR, ("switch",)),
    "icvar-rm": Algorithm(
        "ICVaR-RM (Du et al. 2022): tabular, nested CVaR", _icvar_rm, ("share", "batch", "growth", "alpha_scale")
    ),
    "icvar-linear": Algorithm(
        "ICVaR-L (Chen et al. 2023) in linear MDPs: known features, nested CVaR",
        _icvar_linear,
        LINEAR,
        ("switch", "points"),
    ),
    "bastani": Algorithm("the optimistic learner of Bastani et al. (2022)", _bastani),
    "cvar-q": Algorithm("CVaR Q-learning (Stanko and Macek 2019)", _cvar_q, ("batch",), ("epsilon", "optimistic")),
    "policy-gradient": Algorithm(
        "CVaR policy gradient (Tamar et al. 2015) on tables",
        _gradient,
        (),
        ("per_update", "rate", "budgets", "soft", "track", "track_rate", "sampling", "variance_reduction"),
        lambda recipe, horizon: int(recipe.extra.get("per_update", 200)),
    ),
    "actor-critic": Algorithm(
        "CVaR actor-critic (Chow and Ghavamzadeh 2014) on tables",
        lambda r, env: _gradient(r, env, critic_rate=0.1),
        (),
        ("per_update", "rate", "budgets", "soft", "critic_rate", "track_rate"),
        lambda recipe, horizon: int(recipe.extra.get("per_update", 200)),
    ),
    "pcid": Algorithm(
        "PCID (Du et al. 2019): block MDPs decoded step by step",
        _pcid,
        (),
        ("samples", "radius", "latents"),
        lambda recipe, horizon: horizon * int(recipe.extra.get("samples", 100)),
    ),
}


def make_learner(recipe: Recipe, env: CountableEnv) -> Learner:
    """The learner of a recipe."""
    return ALGORITHMS[recipe.algorithm].make(recipe, env)
