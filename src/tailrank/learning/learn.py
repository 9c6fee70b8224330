"""`ELA(...).learn(env, episodes=...)`: from an environment to a policy in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrank import checks
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.observed.ela import ObservedELA
from tailrank.learning.protocol import promised
from tailrank.policies.tables import Policy

if TYPE_CHECKING:
    from tailrank.learning.ela.ela import ELA


@dataclass(frozen=True)
class Learned:
    """What was learned: the policy without bonus, the CVaR that its model promises, and returns [n] on the way.

    state: of the learner, for going on. encoder and actions: of a Gymnasium environment, for acting in it.
    """

    policy: Policy
    promise: float
    episodes: int
    returns: np.ndarray
    state: Any
    encoder: Any = None
    actions: Any = None

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """The action for an observation of the environment, in the shape of Stable-Baselines3 (see `Predictor`)."""
        from tailrank.policies.predictor import Predictor

        return Predictor(self.policy, self.encoder, actions=self.actions).predict(
            observation, state, episode_start, deterministic
        )


def learn(
    learner: ELA, env: Any, *, episodes: int, seed: int = 0, horizon: int | None = None, **settings: Any
) -> Learned:
    """Play at least so many episodes and return the policy that the last model believes to be best."""
    least = checks.whole(episodes, "episodes")
    streams = Streams(seed)
    if isinstance(learner.oracle, Discriminative):
        return _observed(learner, learner.oracle, env, least, streams, horizon, settings)
    if settings or horizon is not None:
        raise checks.InputError(f"{next(iter(settings), 'horizon')}: is for learning from observations")
    state = learner.init(env)
    while state.episodes < least:
        state, _ = learner.step(state, env, streams)
    plan = learner.greedy(state, env, streams)
    return Learned(plan.policy(env.rewards), promised(plan, env), state.episodes, np.zeros(0), state)


def _observed(
    learner: ELA,
    oracle: Discriminative,
    env: Any,
    least: int,
    streams: Streams,
    horizon: int | None,
    settings: dict[str, Any],
) -> Learned:
    from tailrank.envs.gymnasium.simulator import open_simulator

    simulator = env if hasattr(env, "n_features") else open_simulator(env, horizon=horizon)
    own = {"batch": learner.batch, "growth": learner.growth} | settings
    observed = ObservedELA(learner.tau, oracle, learner.schedule, **own)
    state, returns = observed.init(simulator, streams), []
    while state.episodes < least:
        state, info = observed.step(state, simulator, streams)
        returns.append(info.returns)
    found = np.concatenate(returns) if returns else np.zeros(0)
    return Learned(
        observed.greedy(state, simulator),
        observed.promise(state, simulator),
        state.episodes,
        found,
        state,
        getattr(simulator, "encoder", None),
        getattr(simulator, "actions", None),
    )
