"""The report of a result: of `learn`, `learn_logs` or `load`, beside uniform actions, so that a reader can tell what
its numbers are worth."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.episodes.rollout import environment_of, play
from tailrank.episodes.streams import Streams
from tailrank.learning.learned import Learned
from tailrank.learning.offline.learned import LearnedFromLogs
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.evaluate import estimated, fitting_mdp, return_range
from tailrank.planning.exact.return_law import return_law
from tailrank.policies.result import Result
from tailrank.policies.tables import UniformPolicy, policy_of
from tailrank.report._about import versions
from tailrank.report._domain import labels_of
from tailrank.report.problem import Offered
from tailrank.report.records import of_log_runs
from tailrank.report.subject import NO_RECIPE, Shown, Subject
from tailrank.runs.beside import Beside
from tailrank.runs.log_runs import write_log_run

EPISODES = 1000
"""Fresh episodes where the law of the return has to be sampled."""
CONFIDENCE = 0.95


def of_result(result: Result, env: Any = None, *, episodes: int = EPISODES, seed: int = 0) -> Subject:
    """The subject of a policy in its own environment, or in the one that is given."""
    if isinstance(result, LearnedFromLogs) and env is None:
        return _of_records(result)
    where = result.home if env is None else env
    if where is None:
        raise InputError("env: must be given to report a policy from a file, which does not bring its environment")
    tau = 0.1 if result.level is None else result.level
    place, _ = environment_of(result.policy, where, None)
    name = str(getattr(place, "name", result.title))
    facts = (("This policy", tuple(result.facts.items())), versions())
    if isinstance(place, FiniteMDP):
        mdp = fitting_mdp(result.policy, place)
        problem = Offered.solve(name, mdp, tau)
        labels = tuple(labels_of(mdp, name, ()))
        law = return_law(result.policy, mdp)
        own = Shown("this policy", tau, result.policy, law, problem=0, mdp=mdp, labels=labels, seed=seed)
        others = (_uniform(mdp, mdp.n_actions, mdp.horizon, tau, episodes, seed, problem=0),)
        return Subject(name, result.title, tau, (own, *others), (problem,), about=facts)
    own = _sampled("this policy", result.policy, place, tau, episodes, seed)
    names = tuple(getattr(getattr(place, "actions", None), "labels", ()))
    recipe = getattr(place, "recipe", NO_RECIPE)
    beside = _beside(result, place, episodes, seed)
    own = replace(own, policy=policy_of(result.policy), beside=beside, actions=names, recipe=recipe)
    return Subject(name, result.title, tau, (own,), about=facts)


def _beside(result: Result, env: Any, episodes: int, seed: int) -> Beside:
    """What stands beside a policy on observations; the plan for the mean where the learner is at hand."""
    learned = isinstance(result, Learned) and env is result.env
    neutral = result.learner.neutral(result.state, env) if learned else None  # type: ignore[attr-defined]
    seeds = Streams(seed).evaluation_seeds(0, episodes)
    return Beside.of(policy_of(result.policy), neutral, env, seeds, np.random.default_rng([seed, 1]))


def _uniform(env: Any, A: int, H: int, tau: float, episodes: int, seed: int, problem: int | None = None) -> Shown:
    uniform = UniformPolicy(A, H, np.random.default_rng([seed, 1]))
    return _sampled("uniform actions", uniform, env, tau, episodes, seed, problem)


def _sampled(
    name: str, policy: Any, env: Any, tau: float, episodes: int, seed: int, problem: int | None = None
) -> Shown:
    """A policy by the returns of fresh episodes, with an interval."""
    rng = np.random.default_rng(seed)
    returns = play(policy, env, episodes, rng=rng).returns
    found = estimated(returns, tau, CONFIDENCE, return_range(env), rng=rng)
    interval = {"tau": tau, "low": found.lower, "high": found.upper}
    finite = all(np.isfinite([found.lower, found.upper]))
    return Shown(name, tau, returns=returns, problem=problem, seed=seed, interval=interval if finite else None)


def _of_records(result: LearnedFromLogs) -> Subject:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "records"
        write_log_run(out, result, "records", {})
        subject = of_log_runs([out])
    if subject is None:
        raise InputError("report: the records could not be shown")
    return subject
