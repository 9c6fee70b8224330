"""A Gymnasium environment whose observations hold the step and the budget that is left.

CVaR is a matter of the whole return, so a policy for it acts on (step, observation, remaining budget). With these in
the observation the decision process is Markov, and loops that know nothing of budgets can drive the policy:

    env = BudgetObservation(gymnasium.make("FrozenLake-v1"), plan.policy)
    mean, std = evaluate_policy(Predictor(plan.policy), env, n_eval_episodes=100)  # Stable-Baselines3's own

Observations are {"observation": what the environment shows, "step": h, "budget": what the policy remembers}. For a
`BudgetPolicy` that is the remaining budget as an index on its grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from tailrank import checks
from tailrank.checks import InputError
from tailrank.policies.moved import Moved
from tailrank.policies.shapes import horizon_of
from tailrank.policies.tables import Policy


class BudgetObservation(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Adds step and budget to the observations of `env`, and truncates episodes after the policy's last step.

    encoder: how an observation becomes what the policy sees: a `tailrank.envs.gymnasium.spaces.Encoder`, a function of
    observations stacked into an array, or nothing. horizon: H, if the policy does not say.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], policy: Policy, encoder: Any = None, horizon: int | None = None
    ) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, policy=policy, encoder=encoder, horizon=horizon)
        gymnasium.Wrapper.__init__(self, env)
        steps = horizon_of(policy) if horizon is None else checks.whole(horizon, "horizon")
        if steps is None:
            raise InputError("horizon: the policy states no number of steps; give one")
        self._policy, self._encoder, self._horizon = policy, encoder, steps
        self._memory, self._h = policy.start(1), 0
        self._seen = np.empty(0)
        self.observation_space = spaces.Dict(
            {
                "observation": env.observation_space,
                "step": spaces.Discrete(steps + 1),
                "budget": _space(self._memory[0]),
            }
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation, step 0 and the starting budget."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._memory, self._h, self._seen = self._policy.start(1), 0, self._see(observation)
        return self._with_budget(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """The next observation with its step and budget; truncated after H steps."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        after = self._see(observation)
        if not (terminated or truncated):
            earned = np.array([checks.number(reward, f"reward of step {self._h}")])
            played = np.asarray(action).reshape(-1)[:1]
            self._memory = self._policy.update(self._h, Moved(self._seen, played, earned, after), self._memory)
        self._h, self._seen = self._h + 1, after
        truncated = bool(truncated or (self._h >= self._horizon and not terminated))
        return self._with_budget(observation), reward, bool(terminated), truncated, info

    def _with_budget(self, observation: Any) -> dict[str, Any]:
        return {"observation": observation, "step": np.int64(self._h), "budget": np.array(self._memory[0])}

    def _see(self, observation: Any) -> np.ndarray:
        if hasattr(self._encoder, "encode_batch"):
            return np.asarray(self._encoder.encode([observation]))
        array = np.asarray(observation)[None]
        encode: Callable[[np.ndarray], np.ndarray] | None = self._encoder
        return array if encode is None else np.asarray(encode(array))


def _space(memory: Any) -> spaces.Space[Any]:
    """The space of one entry of a policy's memory: any numbers of its type."""
    value = np.asarray(memory)
    if value.dtype.kind in "iu":
        ends = np.iinfo(value.dtype)
        return spaces.Box(ends.min, ends.max, value.shape, value.dtype.type)
    return spaces.Box(-np.inf, np.inf, value.shape, value.dtype.type)
