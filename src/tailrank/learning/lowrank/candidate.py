"""The low-rank model as a candidate: where episodes are short, and an observation does not tell the hidden state.

It is the oracle, the bonus and the plan of ELA (`oracle.py`, `planning.py`). A fit is made of the episodes of all
candidates. In between the plan is made anew after every few of its own episodes (`pace.py`): what it has seen is not
worth a visit any more. What the model leaves to every outcome adds up over the steps, so it takes part where there are
few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tailrank._system.settings import Checked, setting
from tailrank._system.telling import doing
from tailrank.episodes.replay import Replay
from tailrank.learning.lowrank.kept import check_fit_arrays, fit_from_arrays, fit_to_arrays
from tailrank.learning.lowrank.oracle import LowRankFit, LowRankOracle
from tailrank.learning.lowrank.pace import share_between_plans
from tailrank.learning.lowrank.planning import ObservedSupport, exploration_of, policy_for, support_of
from tailrank.learning.schedule import PRACTICAL
from tailrank.learning.simulators.candidates import CandidateOutput, FitData
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.tables import Policy, UniformPolicy

MOST_FEATURES, MOST_ACTIONS = 64, 16
"""Observations with more numbers and more actions have no low-rank model here: its fit and its plan would take long."""
MOST_STEPS = 30_000
"""Steps that a fit is made from, at most: those of the last episodes."""
LEAST = 40
"""Episodes, and steps that led to an observation, without which nothing is fitted."""


@dataclass(frozen=True)
class FittedLowRank:
    """A model of the episodes in `replay` and its support, for tail tau; without either where too little was played."""

    fit: LowRankFit | None
    support: ObservedSupport | None
    replay: Replay
    n_actions: int
    tau: float

    @cached_property
    def plan(self) -> LowRankPolicy | None:
        """The plan in the model, without bonus."""
        if self.fit is None or self.support is None:
            return None
        return policy_for(self.fit, self.support, self.replay.horizon, self.tau)

    def explorer(self, rng: np.random.Generator) -> Policy:
        """The plan with the elliptical bonus."""
        if self.fit is None or self.support is None:
            return UniformPolicy(self.n_actions, self.replay.horizon, rng)
        bonus = exploration_of(self.fit, self.replay, PRACTICAL, self.replay.n)
        return policy_for(self.fit, self.support, self.replay.horizon, self.tau, bonus)

    @property
    def portion(self) -> int:
        """Episodes between two plans."""
        if self.fit is None:
            return 0
        return max(round(share_between_plans(self.replay, self.tau) * self.replay.n), 1)

    def practised(self, played: PlayedEpisodes, rng: np.random.Generator) -> FittedLowRank:
        """With these episodes of its own, of which phi learns a little."""
        if self.fit is None:
            return self
        replay = replay_of(played, self.replay)
        return replace(self, fit=LowRankOracle().updated(self.fit, replay, rng=rng), replay=replay)

    @property
    def promise(self) -> float:
        """The CVaR of the plan in the model."""
        return np.nan if self.plan is None else self.plan.plan.objective

    def outputs(self) -> list[CandidateOutput]:
        """The plan, where there is a model."""
        return [] if self.plan is None else [CandidateOutput("low-rank model", self.plan, self.promise)]

    @property
    def supersedes(self) -> bool:
        """A later model may explain less."""
        return False

    def about(self) -> str:
        """Rank and how well it explains what it did not see."""
        if self.fit is None:
            return "no low-rank model yet"
        setting = self.fit.setting
        shared = "" if setting.shared_heads and setting.shared_psi else " by step"
        return f"low rank {setting.rank}{shared}, held out {self.fit.held_out:.3g}"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The model and its support: each fit goes on from the last one."""
        return {} if self.fit is None or self.support is None else fit_to_arrays(self.fit, self.support)


@dataclass(frozen=True)
class LowRankCandidate(Checked):
    """The low-rank model as a candidate."""

    longest: int = setting(
        10,
        kind=int,
        least=0,
        name="lowrank_horizon",
        metavar="H",
        help="Steps of an episode, at most, for a low-rank model to take part.",
    )

    def suits(self, horizon: int, n_features: int, n_actions: int) -> bool:
        """Whether episodes are short, and observations and actions not too many."""
        return 2 <= horizon <= self.longest and n_features <= MOST_FEATURES and n_actions <= MOST_ACTIONS

    def fit(self, data: FitData, rng: np.random.Generator, before: FittedLowRank | None = None) -> FittedLowRank:
        """The model of what was played, from the last one on."""
        replay, fit, support = replay_of(data.played), None, None
        if replay.n >= LEAST and int((replay.lengths - 1).sum()) >= LEAST:
            last = None if before is None else before.fit
            with doing(f"fitting a low-rank model to {replay.n} episodes"):
                fit = LowRankOracle().fit(replay, data.n_actions, rng=rng, last=last)
                support = support_of(fit, replay, rng)
        return FittedLowRank(fit, support, replay, data.n_actions, data.tau)

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedLowRank:
        """The fit in a checkpoint."""
        replay = replay_of(data.played)
        if not arrays:
            return FittedLowRank(None, None, replay, data.n_actions, data.tau)
        check_fit_arrays(arrays, replay.horizon, data.n_actions, replay.n_features, "low-rank model: ")
        return FittedLowRank(*fit_from_arrays(arrays), replay, data.n_actions, data.tau)


def replay_of(played: PlayedEpisodes, before: Replay | None = None) -> Replay:
    """The last episodes, with about `MOST_STEPS` steps at most, as the oracle takes them, after those of `before`."""
    ends, H = np.cumsum(played.lengths), played.horizon
    first = int(np.searchsorted(ends, ends[-1] - MOST_STEPS)) if played.steps > MOST_STEPS else 0
    lengths = played.lengths[first:]
    taken, begin = np.arange(H) < lengths[:, None], int(ends[first] - played.lengths[first])
    shown = played.observations[played.seen[np.repeat(np.arange(played.n), played.lengths) + np.arange(played.steps)]]
    features = np.zeros((*taken.shape, played.n_features), dtype=np.float32)
    actions, rewards = np.full(taken.shape, -1, dtype=np.int32), np.zeros(taken.shape)
    features[taken], actions[taken], rewards[taken] = shown[begin:], played.actions[begin:], played.rewards[begin:]
    replay = Replay(H, played.n_features)
    if before is not None:
        replay.add(before.features, before.actions, before.units, before.lengths, before.rewards)
    replay.add(features, actions, np.zeros(taken.shape, dtype=np.int32), lengths, rewards)
    return replay
