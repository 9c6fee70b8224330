"""`learn(source, ...)`: from an environment to a policy in one call. `train` does the same iteration by iteration."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.blas import on_one_blas_thread
from tailrank._system.settings import settings_of
from tailrank.checks import InputError
from tailrank.envs import ENVIRONMENTS, sources
from tailrank.episodes.streams import Streams
from tailrank.learning.aim import aim_settings
from tailrank.learning.decoding.settings import MODELS as DECODERS
from tailrank.learning.learned import Learned
from tailrank.learning.oracles.choices import MODELS as COUNTED
from tailrank.learning.output import OutputRule
from tailrank.learning.protocol import COUNTABLE, SIMULATOR, promised
from tailrank.learning.registry import COUNTABLE as ON_STATES
from tailrank.learning.registry import SIMULATED, learner_class, make_learner
from tailrank.risk.measures.base import Measure, a_measure

SMOOTH = "auto"
"""The learner for simulators of Gymnasium, whose observations are mostly near each other where they mean the same."""
MOST_PLAYED = 1000
"""The same where states can be counted."""
MOST_JUDGED = 200
"""Fresh episodes for each candidate among which the last policy is chosen, at most."""
HOOKS = ("on_training_start", "on_rollout_end", "on_training_end")


def learn(
    source: Any,
    learner: Any = None,
    *,
    tau: float | None = None,
    objective: Measure | None = None,
    episodes: int = 2000,
    model: str = "auto",
    algorithm: str | None = None,
    seed: int = 0,
    horizon: int | None = None,
    callback: Any = None,
    **settings: Any,
) -> Learned:
    """A policy with a high CVaR at `tau`, learned by playing at least so many episodes.

    source: the id of a Gymnasium environment, an environment or a function that makes one, the name of an environment
    of this package (`risky-lock`, `rich-lock`), or a finite MDP in any form that `solve` takes. tau: tail fraction in
    (0, 1], 0.1 if nobody says. objective: a measure in place of the CVaR, one that is an OCE, a utility or a target
    (`MeanCVaR(0.1, weight=0.5)`, `Entropic(0.5)`, `Target(10)`, ...). model: what is fitted, "auto" or a
    word of `tailrank train --model`; those from "mixture" on learn from observations. algorithm: a learner of
    `tailrank list`; if nobody says, ELA, or `auto` for a simulator of Gymnasium where no model is given.
    learner: one that was made before, instead of model and algorithm. seed: of everything that is random. horizon:
    number of steps, where the source does not say. settings: of the learner (rank=3, batch=10, ...) and of the
    environment, by name.
    callback: called with (state, info) after every iteration; or an object with some of the methods
    on_training_start(learner, env), on_rollout_end(state, info) and on_training_end(learned). One that returns False
    after an iteration ends learning there.
    What is returned is the best of a few in fresh episodes, which come on top: a quarter of `episodes` for each, where
    states can be counted from 100 to 1,000.

    >>> learned = learn("risky-lock", tau=0.1, episodes=60, horizon=3, n_actions=3)
    >>> learned.episodes, round(learned.evaluate().cvar, 9)
    (60, 0.8)
    """
    least, streams, hooks = checks.whole(episodes, "episodes"), Streams(seed), _hooks(callback)
    checks.one_of(model, "model", (*COUNTED, *DECODERS))
    if learner is not None:
        given = {"tau": tau, "objective": objective, "model": None if model == "auto" else model} | settings
        said = next((name for name, value in given.items() if value is not None), None)
        if said:
            raise InputError(f"{said}: is a setting of the learner, which is given; set it there")
    settings, tau = _with_objective(settings, tau, objective)
    names = (algorithm,) if algorithm else ("ela", SMOOTH)
    own = _learner_settings(names, settings) if learner is None else {}
    place = {name: value for name, value in settings.items() if name not in own}
    env = _environment(source, _kind(learner, model, algorithm or "ela"), horizon=horizon, **place)
    if learner is None and algorithm is None and model == "auto" and (why := _many(source, env)):
        env = _environment(source, ("observations", ""), horizon=horizon, **place)
        env.notes = (*env.notes, why)
    kind = COUNTABLE if hasattr(env, "truth") else SIMULATOR
    if learner is None:
        own |= {name: value for name, value in (("tau", tau), ("model", model)) if value not in (None, "auto")}
        smooth = kind == SIMULATOR and model == "auto" and hasattr(env, "encoder")
        smooth = smooth and set(own) <= set(settings_of(learner_class(SMOOTH, SIMULATOR)))
        learner = make_learner(algorithm or (SMOOTH if smooth else "ela"), kind, **own)
    if learner.kind != kind:
        need = "states that can be counted" if learner.kind == COUNTABLE else "observations"
        raise InputError(f"learner: {type(learner).__name__} learns from {need}, {env.name} has others")
    with on_one_blas_thread():
        learner = learner.prepared(env, streams, least)
        hooks["on_training_start"](learner, env)
        state, returns = learner.init(env, streams), list[np.ndarray]()
        while state.episodes < least:
            state, info = learner.step(state, env, streams)
            returns.append(getattr(info, "returns", np.zeros(0)))
            if hooks["on_rollout_end"](state, info) is False:
                break
        policy, promise = _returned(learner, state, env, streams, least)
        doubt = str(getattr(learner, "doubt", lambda *_: "")(state, env, streams))
    played = np.concatenate(returns) if returns else np.zeros(0)
    if doubt:
        warnings.warn(doubt, stacklevel=2)
    learned = Learned(policy, learner.tau, promise, state.episodes, played, state, learner, env, doubt)
    hooks["on_training_end"](learned)
    return learned


def _with_objective(
    settings: dict[str, Any], tau: float | None, objective: Measure | None
) -> tuple[dict[str, Any], float | None]:
    """The settings with those of the objective, and its tau, which must be the one that is given."""
    if objective is None:
        return settings, tau
    own = aim_settings(a_measure(objective))
    level = own.pop("tau", tau)
    if tau is not None and level != tau:
        raise InputError(f"tau = {tau:g}: the objective {objective} has another")
    return settings | own, level


def _kind(learner: Any, model: str, algorithm: str) -> tuple[str, str]:
    """What the environment must show, as far as what was asked for says it, and what that was."""
    if learner is not None:
        return "states" if learner.kind == COUNTABLE else "observations", f"learner = {type(learner).__name__}"
    if ":" not in str(algorithm) and checks.one_of(algorithm, "algorithm", (*ON_STATES, *SIMULATED)) not in ON_STATES:
        return "observations", f"algorithm = {algorithm!r}"
    if model == "auto":
        return "auto", ""
    kind = "observations" if model in DECODERS else "states"
    return kind, f"model = {model!r}"


def _many(source: Any, env: Any) -> str:
    """Why a Gymnasium environment with a table is to be learned from what is observed; empty where it is not."""
    named = isinstance(source, str) and source not in ENVIRONMENTS and sources.is_id(source)
    return sources.many_states(env.truth) if named and hasattr(env, "truth") else ""


def _environment(source: Any, wanted: tuple[str, str], **settings: Any) -> Any:
    """The environment; where it shows something else than was asked for, an error that says what asked for it."""
    kind, why = wanted
    try:
        return sources.make(source, kind=kind, **settings)
    except InputError as error:
        text = str(error)
        raise InputError(text.replace(f"kind = {kind!r}", f"{why} needs {kind}")) from None


def _learner_settings(algorithms: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Those of the settings that are the learner's own, on either kind of environment."""
    known: set[str] = set()
    for algorithm, kind in product(algorithms, (COUNTABLE, SIMULATOR)):
        try:
            known |= set(settings_of(learner_class(algorithm, kind)))
        except InputError:
            continue  # this learner is for the other kind
    return {name: value for name, value in settings.items() if name in known}


def _returned(learner: Any, state: Any, env: Any, streams: Streams, episodes: int) -> tuple[Any, float]:
    """The policy that is returned, and the CVaR that its model promises (nan where there is no such thing)."""
    if learner.kind == COUNTABLE:
        rule = OutputRule(episodes=min(MOST_PLAYED, max(100, episodes // 4)))
        plan = rule.choose(learner, env, state, {}, streams).policy
        return plan.policy(env.rewards), promised(plan, env)
    promise = float(getattr(learner, "promise", lambda *_: np.nan)(state, env))
    if "best" in learner.outputs:
        fresh = min(MOST_JUDGED, max(20, episodes // 4))
        return learner.choose(state, env, streams, "best", fresh).policy, promise
    return learner.policy(state, env, streams), promise


def _hooks(callback: Any) -> dict[str, Callable[..., Any]]:
    """The functions that are called, by the names that Stable-Baselines3 has for them."""
    nothing: Callable[..., Any] = lambda *_: None  # noqa: E731
    if callback is None:
        return dict.fromkeys(HOOKS, nothing)
    if inspect.isroutine(callback) or not any(hasattr(callback, name) for name in HOOKS):
        if not callable(callback):
            raise InputError(f"callback = {callback!r:.60}: must be a function or have one of {', '.join(HOOKS)}")
        return dict.fromkeys(HOOKS, nothing) | {"on_rollout_end": callback}
    return {name: getattr(callback, name, nothing) for name in HOOKS}
