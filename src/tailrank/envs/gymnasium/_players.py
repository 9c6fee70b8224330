"""Episodes side by side in Gymnasium environments: several copies of one, or a vector environment.

A player begins episodes by their seeds and advances those that are still running. Copies are stepped one after the
other and share nothing. A vector environment steps all its parts, also those whose episode is over: what they return
then belongs to an episode that nobody asked for, and is dropped. The last observation of an episode is, by the mode in
which the vector environment resets its parts,

    NEXT_STEP    what `step` returns; the part is reset in the step after
    SAME_STEP    infos["final_obs"]; what `step` returns is already the first one of the next episode
    DISABLED     what `step` returns; the part must be reset with a mask before the next step
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium._masks import MaskReader, RowMasks, part_of
from tailrank.envs.gymnasium.actions import Actions
from tailrank.envs.gymnasium.spaces import Encoder, Misfit
from tailrank.envs.mdp_files.text import reason


class Player(Protocol):
    """Plays episodes; rows are the places of the seeds given to `begin`."""

    @property
    def width(self) -> int:
        """How many episodes run side by side."""
        ...

    @property
    def allowed(self) -> np.ndarray | None:
        """What is allowed now in each row, [n, A]; None where nobody says."""
        ...

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """Begin an episode for each seed, n <= width; features [n, m]."""
        ...

    def advance(self, rows: np.ndarray, actions: np.ndarray, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Play step h in these rows [k]: rewards [k], features [k, m], whether the environment ended it [k]."""
        ...

    def close(self) -> None:
        """Close what was opened."""
        ...


class _Base:
    """What both players hold; owned: it was made here. masks: None if what `info` says of actions is ignored."""

    def __init__(
        self, name: str, encoder: Encoder, actions: Actions, owned: bool, masks: MaskReader | None = None
    ) -> None:
        self._name, self._encoder, self._actions, self._owned, self._masks = name, encoder, actions, owned, masks
        self._seeds: Sequence[int] = ()
        self._rows = RowMasks()

    @property
    def allowed(self) -> np.ndarray | None:
        """What is allowed now in each row, [n, A]; None where nobody says."""
        return self._rows.allowed

    def _take_mask(self, row: int, info: Any, where: str, over: bool = False) -> None:
        """Keep what `info` allows; where the episode is over that does not matter."""
        if self._masks is not None:
            self._rows.put(row, None if over else self._masks.read(info, where))

    def place(self, row: int, h: int | None) -> str:
        """An episode and a step (None: its reset) in messages."""
        return f"{self._name}, seed {self._seeds[row]}, {'reset' if h is None else f'step {h}'}"

    def _copy_leaves(self, observation: Any, where: str) -> list[np.ndarray]:
        """What is kept of an observation until it is encoded."""
        try:
            return self._encoder.copy_leaves(observation)
        except Misfit as error:
            raise InputError(f"{where}: {error}") from None

    def _encode(self, taken: Sequence[list[np.ndarray]], rows: Sequence[int] | np.ndarray, h: int | None) -> np.ndarray:
        try:
            return self._encoder.encode_leaves(taken)
        except Misfit as error:
            raise InputError(f"{self.place(rows[error.row], h)}: {error}") from None


class Copies(_Base):
    """Copies of one environment."""

    def __init__(
        self,
        envs: Sequence[Any],
        name: str,
        encoder: Encoder,
        actions: Actions,
        owned: bool,
        masks: MaskReader | None = None,
    ) -> None:
        super().__init__(name, encoder, actions, owned, masks)
        self._envs = envs

    @property
    def width(self) -> int:
        """The number of copies."""
        return len(self._envs)

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset a copy for each seed."""
        self._seeds = seeds
        self._rows.begin(len(seeds))
        seen = []
        for row, seed in enumerate(seeds):
            where = self.place(row, None)
            observation, info = first(_call(where, self._envs[row].reset, seed=seed), where)
            self._take_mask(row, info, where)
            seen.append(self._copy_leaves(observation, where))
        return self._encode(seen, range(len(seeds)), None)

    def advance(self, rows: np.ndarray, actions: np.ndarray, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Step the copies of these rows."""
        rewards, over, seen = np.empty(rows.size), np.empty(rows.size, dtype=bool), []
        for i, (row, action) in enumerate(zip(rows, actions, strict=True)):
            where = self.place(row, h)
            result = _call(where, self._envs[row].step, self._actions.decode(action))
            observation, rewards[i], terminated, truncated = outcome(result, where)
            over[i] = terminated or truncated
            self._take_mask(row, result[4], where, over[i])
            seen.append(self._copy_leaves(observation, where))
        return rewards, self._encode(seen, rows, h), over

    def picture(self) -> np.ndarray:
        """What the first copy draws of itself, bytes [y, x, 3]."""
        where = f"{self._name}, render"
        found = np.asarray(_call(where, self._envs[0].render))
        if found.ndim != 3 or found.shape[2] != 3 or found.dtype != np.uint8 or not found.size:
            raise InputError(f"{where}: returned {found.dtype} of shape {list(found.shape)}, must be uint8 [y, x, 3]")
        return found

    def close(self) -> None:
        """Close the copies, unless the environment was handed in."""
        for env in self._envs if self._owned else ():
            _call(f"{self._name}, close", env.close)


class Vector(_Base):
    """A vector environment in any of its reset modes."""

    def __init__(
        self,
        env: Any,
        name: str,
        encoder: Encoder,
        actions: Actions,
        owned: bool,
        masks: MaskReader | None = None,
    ) -> None:
        super().__init__(name, encoder, actions, owned, masks)
        self._env, self._mode = env, reset_mode(env, name)
        self._ended = np.zeros(self.width, dtype=bool)

    @property
    def width(self) -> int:
        """The number of its parts."""
        return int(self._env.num_envs)

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset all parts; those beyond the seeds play along for nothing."""
        self._seeds, n = seeds, len(seeds)
        where = self._everywhere(None)
        try:
            result = _call(where, self._env.reset, seed=[*seeds, *[seeds[-1]] * (self.width - n)])
        except InputError as error:
            raise InputError(
                f"{error}; the parts of a vector environment must be seeded one by one (a list of seeds): "
                "if they cannot be, give the id of the environment or a function that makes it"
            ) from error
        self._ended[:] = False
        observations, infos = first(result, where)
        self._rows.begin(n)
        for row in range(n):
            self._take_mask(row, part_of(infos, row), self.place(row, None))
        return self._encode_batch(observations, np.arange(n), None)

    def advance(self, rows: np.ndarray, actions: np.ndarray, h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Step all parts; those of other rows play action 0."""
        where = self._everywhere(h)
        if self._mode == "DISABLED" and self._ended.any():
            _call(where, self._env.reset, options={"reset_mask": self._ended.copy()})
        played = np.zeros(self.width, dtype=np.int64)
        played[rows] = actions
        result = _call(where, self._env.step, self._actions.decode_batch(played))
        if not isinstance(result, tuple) or len(result) != 5:
            raise InputError(f"{where}: step returned {_what(result)}, must be 5 values")
        observations, rewards, terminated, truncated, infos = result
        for name, flags in (("terminated", terminated), ("truncated", truncated)):
            if np.shape(flags) != (self.width,) or not _are_flags(flags):
                raise InputError(f"{where}: {name} = {flags!r:.60}, must be {self.width} times True or False")
        self._ended = np.asarray(terminated, dtype=bool) | np.asarray(truncated, dtype=bool)
        over = self._ended[rows]
        paid = np.array([number(rewards[row], self.place(row, h)) for row in rows])
        for row in rows:
            self._take_mask(row, part_of(infos, row), self.place(row, h), self._ended[row])
        if self._mode != "SAME_STEP" or not over.any():
            return paid, self._encode_batch(observations, rows, h), over
        features = np.empty((rows.size, self._encoder.n_features))
        features[~over] = self._encode_batch(observations, rows[~over], h)
        features[over] = self._encode(self._last(infos, rows[over], h), rows[over], h)
        return paid, features, over

    def _last(self, infos: Any, rows: np.ndarray, h: int) -> list[list[np.ndarray]]:
        """The last observations of the episodes that ended in these rows."""
        found = infos.get("final_obs") if isinstance(infos, dict) else None
        for row in rows:
            if found is None or found[row] is None:
                where = self.place(row, h)
                raise InputError(f"{where}: its last observation is missing (infos['final_obs'] in mode SAME_STEP)")
        return [self._copy_leaves(found[row], self.place(row, h)) for row in rows]  # type: ignore[index]

    def _encode_batch(self, observations: Any, rows: np.ndarray, h: int | None) -> np.ndarray:
        """The features of these rows alone; what the others observe does not matter."""
        try:
            return self._encoder.encode_batch(observations, self.width, rows)
        except Misfit as error:
            raise InputError(f"{self.place(rows[error.row], h)}: {error}") from None

    def _everywhere(self, h: int | None) -> str:
        """All episodes and a step in messages."""
        first, last, n = self._seeds[0], self._seeds[-1], len(self._seeds)
        seeds = f"seed {first}" if n == 1 else f"seeds {first}..{last} ({n} of them)"
        return f"{self._name}, {seeds}, {'reset' if h is None else f'step {h}'}"

    def close(self) -> None:
        """Close it, unless it was handed in."""
        if self._owned:
            _call(f"{self._name}, close", self._env.close)


def reset_mode(env: Any, name: str) -> str:
    """The name of the reset mode that a vector environment declares, if it can be played."""
    mode = (env.metadata or {}).get("autoreset_mode")
    mode = str(getattr(mode, "name", mode)).upper()
    if mode not in ("NEXT_STEP", "SAME_STEP", "DISABLED"):
        raise InputError(
            f"{name}: metadata['autoreset_mode'] of this vector environment is {mode}, must be an AutoresetMode"
        )
    base = getattr(env, "unwrapped", env)
    if mode == "NEXT_STEP" and type(base).__name__ == "AsyncVectorEnv" and not getattr(base, "shared_memory", True):
        raise InputError(
            f"{name}: an AsyncVectorEnv without shared memory in mode NEXT_STEP resets an episode that was just begun "
            "(a reset does not cancel the one that was due); use shared_memory=True or mode SAME_STEP"
        )
    return mode


def outcome(result: Any, where: str) -> tuple[Any, float, bool, bool]:
    """(observation, reward, terminated, truncated) of what `step` returned."""
    if not isinstance(result, tuple) or len(result) != 5:
        old = " (the old Gym interface: wrap it)" if isinstance(result, tuple) and len(result) == 4 else ""
        raise InputError(
            f"{where}: step returned {_what(result)}, must be (observation, reward, terminated, truncated, info){old}"
        )
    observation, reward, terminated, truncated, _ = result
    return observation, number(reward, where), flag(terminated, where), flag(truncated, where)


def number(reward: Any, where: str) -> float:
    """A reward as a finite float: a number, or an array of size one."""
    try:
        value = reward if isinstance(reward, float | int) else np.asarray(reward)
        if isinstance(value, np.ndarray):
            if value.size != 1 or value.dtype.kind not in "biuf":
                raise TypeError
            value = value.item()
    except (TypeError, ValueError):
        raise InputError(f"{where}: reward = {reward!r:.60}, must be one number") from None
    if not math.isfinite(value):
        raise InputError(f"{where}: reward = {value}, must be finite")
    return float(value)


def flag(value: Any, where: str) -> bool:
    """Whether an episode is over, as a bool; one entry of any type may say so, if it is true, false, 0 or 1."""
    if isinstance(value, bool):
        return value
    if np.size(value) != 1 or not _are_flags(value):
        raise InputError(f"{where}: terminated or truncated = {value!r:.60}, must be True or False")
    return bool(np.asarray(value).item())


def _are_flags(values: Any) -> bool:
    """Whether an array, or what can become one, holds nothing but true and false, or 1 and 0."""
    array = np.asarray(values)
    return array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())


def first(result: Any, where: str) -> tuple[Any, Any]:
    """The observation and the info that `reset` returned."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise InputError(f"{where}: returned {_what(result)}, must be (observation, info)")
    return result


def _call(where: str, function: Any, *args: Any, **options: Any) -> Any:
    """Run code of the environment; whatever it raises becomes an `InputError`."""
    try:
        return function(*args, **options)
    except KeyboardInterrupt:
        raise
    # An environment may raise anything at all, and call sys.exit.
    except BaseException as error:
        raise InputError(f"{where}: failed with {type(error).__name__}: {reason(error)}") from error


def _what(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple | list) else f"a {type(result).__name__}"
