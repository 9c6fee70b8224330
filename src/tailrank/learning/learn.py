"""`learn(env, ...)`: from an environment to a policy in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import COUNTABLE, SIMULATOR, promised
from tailrank.learning.registry import make_learner
from tailrank.policies.tables import Policy


@dataclass(frozen=True)
class Learned:
    """What was learned: the policy without bonus, the CVaR that its model promises, and returns [n] on the way.

    promise: nan, and returns: none, where the learner has no such thing. state: of the learner, for going on.
    encoder and actions: of a Gymnasium environment, for acting in it.
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
    env: Any,
    learner: Any = None,
    *,
    episodes: int,
    seed: int = 0,
    horizon: int | None = None,
    callback: Callable[[Any, Any], None] | None = None,
    **settings: Any,
) -> Learned:
    """Play at least so many episodes and return the policy that the learner then believes to be best.

    env: a `CountableEnv`, a `Simulator`, or an environment of Gymnasium, which is opened as a simulator with this
    horizon. learner: of the kind that the environment asks for; without one it is ELA, with `settings` (tau, rank, ...)
    as on the command line. callback: sees the state and what happened after every iteration.

    >>> from tailrank import make_episodic, make_simulator
    >>> learn(make_simulator("rich-lock", horizon=3), tau=0.2, episodes=40).episodes >= 40
    True
    """
    least, streams = checks.whole(episodes, "episodes"), Streams(seed)
    countable = hasattr(env, "truth")
    if not countable and not hasattr(env, "n_features"):
        from tailrank.envs.gymnasium.simulator import open_simulator

        env = open_simulator(env, horizon=horizon)
    elif horizon is not None:
        raise InputError("horizon: is for an environment of Gymnasium; this one has its own")
    kind = COUNTABLE if countable else SIMULATOR
    if learner is None:
        learner = make_learner("ela", kind, **settings)
    elif settings:
        raise InputError(f"{next(iter(settings))}: is a setting of the learner, which is given; set it there")
    if learner.kind != kind:
        need = "states that can be counted" if learner.kind == COUNTABLE else "observations"
        raise InputError(f"learner: {type(learner).__name__} learns from {need}, {env.name} has others")
    learner = learner.prepared(env, streams, least)
    state, returns = learner.init(env, streams), list[np.ndarray]()
    while state.episodes < least:
        state, info = learner.step(state, env, streams)
        returns.append(getattr(info, "returns", np.zeros(0)))
        if callback is not None:
            callback(state, info)
    if countable:
        plan = learner.greedy(state, env, streams)
        policy, promise = plan.policy(env.rewards), promised(plan, env)
    else:
        policy, promise = (
            learner.policy(state, env, streams),
            getattr(learner, "promise", lambda *_: np.nan)(state, env),
        )
    played = np.concatenate(returns) if returns else np.zeros(0)
    about = getattr(env, "encoder", None), getattr(env, "actions", None)
    return Learned(policy, promise, state.episodes, played, state, *about)
