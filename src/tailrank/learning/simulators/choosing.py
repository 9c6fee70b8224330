"""The choice of what a learner with candidates hands out, by fresh episodes.

The last `choice` of all episodes is for the choice alone: what the candidates would hand out is played on the same
fresh seeds, the better half stays, and in the last round the best of the finalists is returned, by what they earned in
all rounds; few fresh episodes are helped by imagined ones (`search/judging.py`). The bound on its CVaR uses the fresh
ones of the last round only, with the confidence divided among the finalists, so it holds although the policy was
chosen.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailrank._system.telling import doing
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.promise import FEWEST, broken_in
from tailrank.learning.protocol import ReturnedPolicy
from tailrank.learning.search.judging import imagined_weight, weighed_cvar
from tailrank.learning.simulators.pacing import PacedLearner
from tailrank.learning.simulators.sharing import on_same_seeds
from tailrank.learning.simulators.state import CandidatesInfo, CandidatesState, all_outputs
from tailrank.policies.tables import Policy, UniformPolicy
from tailrank.risk.intervals import cvar_interval
from tailrank.risk.law import cvar

EARLIER, ROUND = 3, 4
"""Fits before the last whose outputs may be handed out, if each output has so many tail episodes in the first round."""
DELTA = 0.1
"""The bound on what is handed out fails with at most this probability."""


@dataclass(frozen=True)
class ChoosingLearner(PacedLearner):
    """A learner that chooses among the outputs of its candidates."""

    @abstractmethod
    def _imagined(self, state: CandidatesState, env: Simulator, streams: Streams) -> np.ndarray:
        """Returns [outputs, n] in a model of the simulator; n = 0 where there is none."""

    def _compare(
        self, state: CandidatesState, env: Simulator, streams: Streams
    ) -> tuple[CandidatesState, CandidatesInfo]:
        """A round: the finalists on the same seeds; half of the episodes that are left, or all of them in the last."""
        left = self._left(state, env.horizon, 1.0)
        if not state.choosing:
            mine = len(all_outputs(state))
            fits = EARLIER if math.isinf(left) else max(int(left * self.tau / (2 * ROUND * mine)) - 1, 0)
            fits = 0 if all(fit.supersedes for fit in state.fitted) else fits
            state = replace(state, earlier=state.earlier[:fits], choosing=True)
            with doing("playing candidates in a model"):
                state = replace(state, imagined=self._imagined(state, env, streams))
        outputs = all_outputs(state)
        now = self.survivors(state)
        last = len(now) <= 2
        n = max(int(left / (len(now) if last else 2 * len(now))), 1)
        rest = max(int(left) - n * len(now), 0) if last else 0
        seeds = streams.train_seeds(state.k + 1, n + rest)
        # What does not divide evenly is played too, so that a run has the episodes that it was asked for.
        batches = []
        for i in now:
            with doing(f"judging candidate {i + 1} of {len(outputs)}"):
                batches.append(play_simulator(outputs[i].policy, env, seeds[: n + rest * (i == now[0])]))
        returns = on_same_seeds(batches, n)
        steps = sum(int(batch.lengths.sum()) for batch in batches)
        state = replace(
            state,
            k=state.k + 1,
            before=state.rounds_of(now),
            finalists=now,
            returns=returns,
            choice_episodes=state.choice_episodes + n * len(now) + rest,
            choice_steps=state.choice_steps + steps,
            chosen=last,
        )
        best = self._best(state)
        about = f"choice among {len(now)}: {outputs[best].name} ahead"
        return state, CandidatesInfo(returns[now.index(best)], self.tau, outputs[best].promise, about)

    def survivors(self, state: CandidatesState) -> tuple[int, ...]:
        """The outputs that play in the next round: all at first, then the better half."""
        if not state.finalists:
            return tuple(range(len(all_outputs(state))))
        scores = self._scores(state)
        order = np.argsort(-scores, kind="stable")[: (len(scores) + 1) // 2]
        return tuple(sorted(state.finalists[i] for i in order))

    def _best(self, state: CandidatesState) -> int:
        if not state.finalists:
            return 0
        return state.finalists[int(np.argmax(self._scores(state)))]

    def _scores(self, state: CandidatesState) -> np.ndarray:
        """CVaR of the finalists in all rounds, with what they earn in a model of trees."""
        rows = zip(state.finalists, state.all_rounds, strict=True)
        return np.array([weighed_cvar(row, state.imagined[i], self.tau) for i, row in rows])

    def policy(self, state: CandidatesState, env: Simulator, streams: Streams) -> Policy:
        """The output that is ahead; before the first fit, uniform actions."""
        if not state.fitted:
            return UniformPolicy(env.n_actions, env.horizon, streams.planner(0))
        return all_outputs(state)[self._best(state)].policy

    def promise(self, state: CandidatesState, env: Simulator) -> float:
        """The CVaR that the output which is ahead promises of itself."""
        return all_outputs(state)[self._best(state)].promise

    def doubt(self, state: CandidatesState, env: Simulator, streams: Streams) -> str:
        """What to say where the fresh episodes of the last round do not keep the promise; empty where they do."""
        best = self._best(state)
        if not state.finalists:
            return ""
        mine = state.returns[state.finalists.index(best)]
        return broken_in(mine, self.tau, all_outputs(state)[best].promise, streams.evaluation(state.k, 2))

    def choose(
        self, state: CandidatesState, env: Simulator, streams: Streams, rule: str = "", episodes: int = 0
    ) -> ReturnedPolicy:
        """What is handed out and why: CVaR in the last round, and a lower bound that accounts for the choice."""
        outputs = all_outputs(state)
        best = self._best(state)
        policy, name, about = outputs[best].policy, outputs[best].name, {"promise": outputs[best].promise}
        if not state.finalists:
            return ReturnedPolicy(policy, name, "the first output; no episodes were kept for a choice", about)
        rows = zip(state.finalists, state.all_rounds, strict=True)
        scores = {outputs[i].name: cvar(row, self.tau) for i, row in rows}
        mine, F = state.returns[state.finalists.index(best)], len(state.finalists)
        n = state.all_rounds.shape[1]
        why = f"the best of {F} finalists among {len(outputs)} outputs in {n} fresh episodes each"
        weight = imagined_weight(n, self.tau) if state.imagined.size else 0.0
        why += f" and {state.imagined.shape[1]} in a model, which count as {weight:g}" if weight else ""
        if mine.size * self.tau < FEWEST:
            return ReturnedPolicy(policy, name, f"{why}, too few for a bound", about | {"scores": scores})
        found = cvar_interval(mine, self.tau, 1 - DELTA / F, side="lower", rng=streams.evaluation(state.k, 2))
        about_that = "about " if found.approximate else ""
        why += (
            f"; CVaR at least {found.lower:.4g} with {about_that}confidence {1 - DELTA:g} over the finalists "
            f"({found.method}, the last {mine.size} of them)"
        )
        more: dict[str, Any] = {"scores": scores, "bound": found.lower, "bound_method": found.method}
        return ReturnedPolicy(policy, name, why, about | more)
