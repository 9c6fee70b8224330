"""Policies in the shape of Stable-Baselines3: predict(observation, state, episode_start) -> (actions, state).

A policy needs the step, and a budget that moves with every reward. Loops such as Stable-Baselines3's
`evaluate_policy` hand back the state, but no rewards, so there are two ways:

- in a loop of your own, tell the rewards: `state = predictor.reward(state, rewards)` after every step;
- wrap the environment in `tailrank.envs.gymnasium.budget.BudgetObservation`: its observations hold step and budget, the
  decision process is Markov in them, and `predict` needs no state at all.

Episodes of a batch may stand at different steps: `episode_start` says which of them begin anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.policies.moved import Moved
from tailrank.policies.shapes import horizon_of, on_states, table_shape
from tailrank.policies.tables import MarkovPolicy, Policy

AUGMENTED = ("observation", "step", "budget")
"""What an observation of `BudgetObservation` holds."""


class PredictorState(NamedTuple):
    """Where n episodes stand: steps [n] and memory [n] of the next call, and what the last one saw and did.

    rewards [n]: of the last actions; NaN until they are told.
    """

    step: np.ndarray
    memory: np.ndarray
    seen: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray


class Predictor:
    """A policy with `predict`.

    encoder: how an observation becomes a state number or features: a `tailrank.envs.gymnasium.spaces.Encoder`, or a
    function of n observations stacked into an array. shape: that of one observation, to tell one from a batch
    (default: (), a state number, for policies of finite MDPs, else one axis). actions: an `Actions` of
    `tailrank.envs.gymnasium.actions`, where the environment's own actions are not 0..A-1.
    horizon: H, if the policy does not say.

    >>> from tailrank import FiniteMDP, solve
    >>> rows = [(0, 0, 0, 1, 1), (0, 1, 0, 0.8, 3), (0, 1, 0, 0.2, 0)]  # s, a, s', p, r
    >>> player = Predictor(solve(FiniteMDP.from_rows(*zip(*rows), horizon=2), tau=0.2).policy)
    >>> first, state = player.predict(0)
    >>> second, state = player.predict(0, player.reward(state, [0.0]))
    >>> int(first), int(second)
    (1, 1)
    """

    def __init__(
        self,
        policy: Policy,
        encoder: Any = None,
        horizon: int | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        actions: Any = None,
    ) -> None:
        self.policy, self.encoder, self.actions = policy, encoder, actions
        known = horizon_of(policy)
        self.horizon = known if horizon is None else checks.whole(horizon, "horizon")
        finite = on_states(policy)
        self._axes = len(shape) if shape is not None else 0 if finite else 1
        table = table_shape(policy)
        self._states = None if table is None else table[1]

    def predict(
        self,
        observation: Any,
        state: PredictorState | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, PredictorState | None]:
        """The action for one observation, or actions [n] for a batch, and the state for the next call.

        state: None before the first call. episode_start [n]: whose observation is the first of an episode; a vector
        environment that resets in the step after the end needs it in both. deterministic is ignored: policies are.
        """
        if isinstance(observation, Mapping) and all(name in observation for name in AUGMENTED):
            return self._predict_with_budget(observation), None
        seen, single = self._encode(observation)
        n = len(seen)
        begins = np.broadcast_to(np.asarray(False if episode_start is None else episode_start, dtype=bool), (n,))
        if state is None:
            step, memory = np.zeros(n, dtype=np.int64), self.policy.start(n)
        else:
            step, memory = self._advance(_known(state), seen, begins)
        late = np.flatnonzero(step >= self.horizon) if self.horizon is not None else np.empty(0)
        if late.size:
            raise InputError(
                f"step = {step[late[0]]} of episode {late[0]}: the policy is for {self.horizon} steps; end episodes "
                "there, and mark the first observation of the next one in episode_start"
            )
        actions = self._act(step, seen, memory)
        after = PredictorState(step + 1, memory, seen, actions, np.full(n, np.nan))
        return self._decode_actions(actions, single), after

    def reward(self, state: PredictorState, rewards: Any) -> PredictorState:
        """The state after the (undiscounted) rewards [n] of the actions that were predicted last."""
        told = np.asarray(rewards, dtype=np.float64).reshape(-1)
        if told.shape != state.step.shape:
            raise InputError(f"rewards: must be {state.step.size} numbers, found {told.size}")
        bad = np.flatnonzero(~np.isfinite(told))
        if bad.size:
            raise InputError(f"rewards[{bad[0]}] = {told[bad[0]]}: must be finite")
        return state._replace(rewards=told)

    def _advance(self, state: PredictorState, seen: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps and memory at the observations `seen`, which follow those in the state or begin episodes."""
        n = len(seen)
        if state.step.shape != (n,):
            raise InputError(f"state: is of {state.step.size} episodes, the observations are of {n}")
        step, memory = np.where(begins, 0, state.step), self.policy.start(n)
        goes = np.flatnonzero(~begins)
        untold = goes[np.isnan(state.rewards[goes])]
        if isinstance(self.policy, MarkovPolicy):
            return step, memory
        if untold.size:
            raise InputError(
                f"state: the reward of step {step[untold[0]] - 1} of episode {untold[0]} was not told; call "
                "reward(state, rewards) after every step, or wrap the environment in BudgetObservation"
            )
        for h in np.unique(step[goes]):
            i = goes[step[goes] == h]
            moved = Moved(state.seen[i], state.actions[i], state.rewards[i], seen[i])
            memory[i] = self.policy.update(int(h) - 1, moved, state.memory[i])
        return step, memory

    def _predict_with_budget(self, observation: Mapping[str, Any]) -> Any:
        seen, single = self._encode(observation["observation"])
        # The last observation of an episode has step H; nobody plays the action that is asked for there.
        step = np.asarray(observation["step"], dtype=np.int64).reshape(-1)
        step = step if self.horizon is None else np.minimum(step, self.horizon - 1)
        memory = np.asarray(observation["budget"])
        actions = self._act(step, seen, memory[None] if single else memory)
        return self._decode_actions(actions, single)

    def _act(self, step: np.ndarray, seen: np.ndarray, memory: np.ndarray) -> np.ndarray:
        actions = np.empty(len(seen), dtype=np.int64)
        for h in np.unique(step):
            i = np.flatnonzero(step == h)
            actions[i] = self.policy.act(int(h), seen[i], memory[i])
        return actions

    def _decode_actions(self, actions: np.ndarray, single: bool) -> Any:
        if self.actions is not None:
            return self.actions.decode(int(actions[0])) if single else self.actions.decode_batch(actions)
        return actions[0] if single else actions

    def _encode(self, observation: Any) -> tuple[np.ndarray, bool]:
        """What the policy sees, [n] or [n, m], and whether it is one observation, not a batch."""
        if hasattr(self.encoder, "encode_batch"):
            leaf = self.encoder.leaves[0]
            value = observation
            try:
                for key in leaf.path:
                    value = value[key]
            except (KeyError, IndexError, TypeError):
                raise InputError(f"{leaf.place}: the observation {observation!r:.60} has no such entry") from None
            if np.ndim(value) == len(leaf.shape):
                return self.encoder.encode([observation]), True
            if np.ndim(value) != len(leaf.shape) + 1:
                raise InputError(f"{leaf.place}: must have shape {leaf.shape}, found {observation!r:.60}")
            n = len(value)
            return self.encoder.encode_batch(observation, n, np.arange(n)), False
        array = np.asarray(observation)
        single = array.ndim == self._axes
        if not single and array.ndim != self._axes + 1:
            raise InputError(
                f"observation: has shape {array.shape}, expected {self._axes} axes, or {self._axes + 1} for a batch"
            )
        array = array[None] if single else array
        encode: Callable[[np.ndarray], np.ndarray] | None = self.encoder
        found = array if encode is None else np.asarray(encode(array))
        if self._axes == 0 and found.ndim == 1 and found.dtype.kind not in "iu":
            raise InputError(f"observation: must be a whole number (a state), found {found[0]!r}")
        if self._states is not None:
            checks.indices(found, "observation", self._states, "(a state)")
        return found, single


def _known(state: Any) -> PredictorState:
    """The state that an earlier call gave, maybe as a plain tuple."""
    try:
        return PredictorState(*state)
    except TypeError:
        raise InputError(f"state = {state!r:.60}: must be what predict or reward gave, or None") from None
