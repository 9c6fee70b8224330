"""The driver: run a learner on an environment, iteration by iteration, with exact regret where it can be.

for state, row in train(ELA(tau=0.1, oracle=ModelChoice("class")), env, iterations=200, seed=0):
    print(row["episodes"], row["cvar"])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.blas import on_one_blas_thread
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import ExactJudge
from tailrank.learning.protocol import CountableLearner

Row = dict[str, Any]


def train(
    learner: CountableLearner,
    env: CountableEnv,
    *,
    iterations: int,
    seed: int | None = None,
    rng: np.random.Generator | None = None,
    state: Any = None,
    judge: ExactJudge | None = None,
) -> Iterator[tuple[Any, Row]]:
    """States and rows after each iteration, from the first one (or from `state` on) to `iterations`.

    Give a `seed`, or an `rng` from which one is drawn. `judge` evaluates the plans (made here if left out).

    >>> from tailrank import ELA, ModelChoice, make_episodic
    >>> lock = make_episodic("risky-lock", horizon=3, n_actions=3)
    >>> *_, (state, row) = train(ELA(tau=0.1, oracle=ModelChoice("class")), lock, iterations=20, seed=0)
    >>> row["episodes"], round(row["cvar"], 9)
    (60, 0.8)
    """
    if (seed is None) == (rng is None):
        raise checks.InputError("seed, rng: exactly one of them must be given")
    streams = Streams(int(rng.integers(2**63)) if seed is None else seed)  # type: ignore[union-attr]
    last = checks.whole(iterations, "iterations")
    if state is None:
        with on_one_blas_thread():
            state = learner.init(env, streams)
    judge = ExactJudge.of(learner, env) if judge is None else judge
    while state.k < last:
        state, row = iterate(learner, state, env, streams, judge)
        yield state, row


def iterate(learner: Any, state: Any, env: Any, streams: Streams, judge: Any) -> tuple[Any, Row]:
    """The state after one more iteration of any learner, and its row."""
    with on_one_blas_thread():
        state, info = learner.step(state, env, streams)
    row: Row = {"k": state.k, "episodes": state.episodes, "steps": state.steps, "cvar": None}
    return state, row | info.row() | judge.row(learner, state, streams)
