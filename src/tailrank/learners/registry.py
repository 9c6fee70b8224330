"""The learners by name: each is ELA's skeleton with other parts, or has the same `init` and `step`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tailrank.learners.choices import ModelChoice
from tailrank.learners.ela import ELA
from tailrank.learners.protocol import Learner
from tailrank.protocols import Episodic
from tailrank.schedules import PRACTICAL, Schedule


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

    def choice(self, env: Episodic) -> ModelChoice:
        """The class of models."""
        return ModelChoice(self.model or ("class" if env.candidates else "counts"), self.rank)

    def scale(self, default: float) -> float:
        """The bonus scale of a rival."""
        return default if self.alpha_scale is None else self.alpha_scale


@dataclass(frozen=True)
class Algorithm:
    """A learner's name in words, how it is made, which settings of a run it has, and its own (`extra`)."""

    summary: str
    make: Callable[[Recipe, Episodic], Learner]
    settings: tuple[str, ...] = ("batch", "growth", "alpha_scale")
    extra: tuple[str, ...] = ()
    episodes_each: Callable[[Recipe, int], int] = lambda recipe, horizon: 1
    """Episodes of a collection."""


LINEAR = ("batch", "alpha_scale", "lam_scale")
LOW_RANK = ("model", "rank", "collect", "share", "batch", "growth", "alpha_scale", "lam_scale", "cap", "log")


def _low_rank(recipe: Recipe, env: Episodic, make: Callable[..., ELA] = ELA, **more: Any) -> ELA:
    """ELA (or what `make` makes of its parts) with the settings of the recipe; `more` are its other parts."""
    given: dict[str, Any] = {
        "collect": recipe.collect or "rollins", "share": recipe.share, "batch": recipe.batch, "growth": recipe.growth,
    }  # fmt: skip
    return make(recipe.tau, recipe.choice(env), recipe.schedule, **(given | more))


def _bernstein(recipe: Recipe, env: Episodic) -> Learner:
    from tailrank.learners.bernstein import ela_bernstein

    return _low_rank(recipe, env, ela_bernstein)


def _ella(recipe: Recipe, env: Episodic) -> Learner:
    from tailrank.learners.ella import lsvi_planner

    return _low_rank(recipe, env, planner=lsvi_planner(**recipe.extra))


def _greedy(recipe: Recipe, env: Episodic) -> Learner:
    from tailrank.bonus import none

    return _low_rank(recipe, env, bonus=none)


def _uniform(recipe: Recipe, env: Episodic) -> Learner:
    from tailrank.bonus import none

    return _low_rank(recipe, env, bonus=none, collect="uniform")


def _ucbvi(recipe: Recipe, env: Episodic, bernstein: bool = False) -> Learner:
    from tailrank.learners.cvar_ucbvi import cvar_ucbvi

    return cvar_ucbvi(
        recipe.tau, scale=recipe.scale(1.0), bernstein=bernstein, batch=recipe.batch, growth=recipe.growth
    )


def _bastani(recipe: Recipe, env: Episodic) -> Learner:
    from tailrank.learners.bastani import bastani

    return bastani(recipe.tau, scale=recipe.scale(1.0), batch=recipe.batch, growth=recipe.growth)


def _lsvi(recipe: Recipe, env: Episodic, mean: bool = False) -> Learner:
    from tailrank.learners.lsvi_ucb import cvar_lsvi_ucb, lsvi_ucb

    return (lsvi_ucb if mean else cvar_lsvi_ucb)(recipe.tau, **_linear(recipe))


def _icvar_rm(recipe: Recipe, env: Episodic) -> Learner:
    from tailrank.learners.icvar import icvar_rm

    return icvar_rm(recipe.tau, scale=recipe.scale(1.0), share=recipe.share, batch=recipe.batch, growth=recipe.growth)


def _icvar_linear(recipe: Recipe, env: Episodic) -> Learner:
    from tailrank.learners.icvar import icvar_linear

    return icvar_linear(recipe.tau, **_linear(recipe))


def _linear(recipe: Recipe) -> dict[str, Any]:
    """Settings of the learners on known features."""
    lam = 1.0 if recipe.lam_scale is None else recipe.lam_scale
    return {"scale": recipe.scale(0.01), "lam": lam, "batch": recipe.batch} | recipe.extra


def _collections(recipe: Recipe, horizon: int) -> int:
    return 1 if recipe.collect in ("episode", "plan", "uniform") else horizon


ALGORITHMS: dict[str, Algorithm] = {
    "ela": Algorithm("ELA (Algorithm 1)", _low_rank, LOW_RANK, episodes_each=_collections),
    "ella": Algorithm(
        "ELLA (Algorithm 3): ELA that plans by CVaR-LSVI", _ella, LOW_RANK,
        ("iterations", "evaluations", "beta", "variant", "clip"), _collections,
    ),
    "ela-bernstein": Algorithm(
        "ELA with a Bernstein-type bonus", _bernstein, tuple(s for s in LOW_RANK if s != "cap"), (), _collections
    ),
    "rep-ucb": Algorithm(
        "Rep-UCB (Uehara et al. 2022): ELA for the mean", lambda r, env: _low_rank(r, env, aim=1.0), LOW_RANK,
        episodes_each=_collections,
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
        "LSVI-UCB (Jin et al. 2020): known features, for the mean", lambda r, env: _lsvi(r, env, mean=True), LINEAR,
        ("switch",),
    ),
    "cvar-lsvi-ucb": Algorithm("LSVI-UCB for the tail: CVaR-LSVI online, known features", _lsvi, LINEAR, ("switch",)),
    "icvar-rm": Algorithm(
        "ICVaR-RM (Du et al. 2022): tabular, nested CVaR", _icvar_rm, ("share", "batch", "growth", "alpha_scale")
    ),
    "icvar-linear": Algorithm(
        "ICVaR-L (Chen et al. 2023) in linear MDPs: known features, nested CVaR", _icvar_linear, LINEAR,
        ("switch", "points"),
    ),
    "bastani": Algorithm("the optimistic learner of Bastani et al. (2022)", _bastani),
}  # fmt: skip


def make_learner(recipe: Recipe, env: Episodic) -> Learner:
    """The learner of a recipe."""
    return ALGORITHMS[recipe.algorithm].make(recipe, env)
