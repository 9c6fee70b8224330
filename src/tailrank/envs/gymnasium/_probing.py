"""Random episodes that watch how an environment behaves: what it returns, what it keeps, how long it takes.

The environment is played by hand, not through `GymSimulator`, because what is wrong with it must be noted and not
raised, and because only the raw observations show that an environment changes them afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.gymnasium._masks import MaskReader
from tailrank.envs.gymnasium._players import first, flag, number
from tailrank.envs.gymnasium.actions import Actions
from tailrank.envs.gymnasium.simulator import GymSimulator
from tailrank.envs.gymnasium.spaces import Encoder, Misfit
from tailrank.envs.mdp_files.text import reason

BEYOND = 1e-5
"""How far beyond its bounds (relative to 1 + |bound|) a number may be by rounding."""


@dataclass
class Episode:
    """One played episode of L steps: features [L + 1] of [m], rewards [L]; `ended` by the environment."""

    seed: int
    actions: list[int] = field(default_factory=list)
    features: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    ended: bool = False

    @property
    def total(self) -> float:
        """Its return."""
        return float(sum(self.rewards))


def blurred(played: Sequence[Episode]) -> np.ndarray:
    """The numbers of an observation that vary by little more than their rounding to float32, which learners keep."""
    features = np.array([seen for episode in played for seen in episode.features], dtype=np.float64)
    rounding = np.abs(features - features.astype(np.float32)).max(axis=0)
    return np.flatnonzero((rounding > 0.01 * features.std(axis=0)) & (np.ptp(features, axis=0) > 0.0))


@dataclass
class Trouble:
    """Something seen: what and where it was seen first, and how often."""

    text: str
    times: int = 1


class Probe:
    """Plays episodes in one environment; `troubles` by topic is what was seen, `seconds` what the environment took,
    `allowed` how many actions masks allowed at each step that had one."""

    def __init__(self, env: Any, space: Any, encoder: Encoder, actions: Actions) -> None:
        self.env, self.encoder, self.actions = env, encoder, actions
        self.boxes = [(leaf, _part(space, leaf.path)) for leaf in encoder.leaves if leaf.kind == "numbers"]
        self.troubles: dict[str, Trouble] = {}
        self.seconds, self.steps, self.broken = 0.0, 0, False
        self.after: str | None = None
        self._masks, self.allowed = MaskReader.of(env, env.action_space, actions), list[int]()

    def play(
        self, seed: int, cap: int, *, rng: np.random.Generator | None = None, actions: Sequence[int] = ()
    ) -> Episode:
        """An episode of at most `cap` steps with random actions, or with these as long as they last."""
        episode = Episode(seed)
        began = time.perf_counter()
        result = self._call("reset", f"seed {seed}, reset", self.env.reset, seed=seed)
        self.seconds += time.perf_counter() - began
        found = None if self.broken else self._check("reset", first, result, f"seed {seed}, reset")
        if found is None:
            return episode
        observation, info = found
        episode.features.append(self._features(observation, f"seed {seed}, reset"))
        for h in range(cap if rng is not None else min(cap, len(actions))):
            where = f"seed {seed}, step {h}"
            action = self._drawn(info, where, rng) if rng is not None else actions[h]
            before, last = observation, info
            result = self._step(action, where)
            if self.broken:
                break
            observation, reward, terminated, truncated, info = result
            episode.actions.append(action)
            episode.rewards.append(self._reward(reward, where))
            self._check_unchanged(before, episode.features[-1], where)
            if info is last:
                self._note("info", f"{where}: info is the same object as before")
            episode.features.append(self._features(observation, where))
            episode.ended = self._flag(terminated, where) or self._flag(truncated, where)
            if episode.ended:
                break
        return episode

    def _drawn(self, info: Any, where: str, rng: np.random.Generator) -> int:
        """A random action, among those that are allowed."""
        try:
            allowed = None if self._masks is None else self._masks.read(info, where)
        except InputError as error:
            self._note("masks", str(error))
            allowed = None
        if allowed is None:
            return int(rng.integers(self.actions.n))
        self.allowed.append(int(allowed.sum()))
        return int(rng.choice(np.flatnonzero(allowed)))

    def step_after_the_end(self) -> None:
        """Play a step after the end of the last episode, and keep in `after` what comes of it."""
        try:
            self.env.step(self.actions.decode(0))
        except KeyboardInterrupt:
            raise
        # The environment may object in any way it likes.
        except BaseException:
            self.after = "raises"
        else:
            self.after = "accepted"

    def _step(self, action: int, where: str) -> Any:
        began = time.perf_counter()
        result = self._call("step", where, self.env.step, self.actions.decode(action))
        self.seconds += time.perf_counter() - began
        self.steps += 1
        if not self.broken and (not isinstance(result, tuple) or len(result) != 5):
            found = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
            self._break("step", f"{where}: step returned {found}, must be 5 values")
        return result

    def _call(self, topic: str, where: str, function: Any, *args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except KeyboardInterrupt:
            raise
        # The environment may raise anything at all.
        except BaseException as error:
            self._break(topic, f"{where}: raised {type(error).__name__}: {reason(error)}")
            return None

    def _check(self, topic: str, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except InputError as error:
            self._break(topic, str(error))
            return None

    def _features(self, observation: Any, where: str) -> np.ndarray:
        """The features [m]; NaN where the observation cannot be encoded."""
        began = time.perf_counter()
        try:
            found = self.encoder.encode([observation])[0]
        except Misfit as error:
            self._note("observation", f"{where}: {error}")
            return np.full(self.encoder.n_features, np.nan)
        self.seconds += time.perf_counter() - began
        for leaf, box in self.boxes:
            value = leaf.values(observation, 0)
            slack = BEYOND * (1.0 + np.abs(np.stack([box.low, box.high]).astype(np.float64)))
            out = np.flatnonzero(((value < box.low - slack[0]) | (value > box.high + slack[1])).ravel())
            if out.size:
                low, high = box.low.ravel()[out[0]], box.high.ravel()[out[0]]
                self._note(
                    "bounds", f"{where}: {leaf.at(out[0])} = {value.ravel()[out[0]]}, the space says {low}..{high}"
                )
            if value.dtype != box.dtype:
                self._note("dtype", f"{where}: {leaf.place} is {value.dtype}, the space says {box.dtype}")
        return found

    def _check_unchanged(self, before: Any, features: np.ndarray, where: str) -> None:
        """Note if the observation returned earlier has changed since."""
        if not np.isnan(features).any():
            try:
                same = bool((self.encoder.encode([before])[0] == features).all())
            except Misfit:
                same = False
            if not same:
                self._note("shared", f"{where}: the observation before it was changed by the step")

    def _reward(self, reward: Any, where: str) -> float:
        try:
            return number(reward, where)
        except InputError as error:
            self._note("reward", str(error))
            return float("nan")

    def _flag(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool | np.bool_):
            self._note("flags", f"{where}: terminated or truncated is a {type(value).__name__}, must be a bool")
        try:
            return flag(value, where)
        except InputError as error:
            self._break("flags", str(error))
            return True

    def _break(self, topic: str, text: str) -> None:
        self.broken = True
        self._note(topic, text)

    def _note(self, topic: str, text: str) -> None:
        if topic in self.troubles:
            self.troubles[topic].times += 1
        else:
            self.troubles[topic] = Trouble(text)


def difference(one: Episode, other: Episode, steps: int) -> str | None:
    """Where the first `steps` steps of two episodes with the same actions part; None if they do not."""
    lengths = [min(len(episode.rewards), steps) for episode in (one, other)]
    for h in range(min(len(one.features), len(other.features), min(lengths) + 1)):
        where = "reset" if h == 0 else f"step {h - 1}"
        if h and not _equal(one.rewards[h - 1], other.rewards[h - 1]):
            return f"{where}: rewards {one.rewards[h - 1]:.9g} and {other.rewards[h - 1]:.9g}"
        if not _equal(one.features[h], other.features[h]):
            a, b = one.features[h], other.features[h]
            i = int(np.flatnonzero((a != b) & ~(np.isnan(a) & np.isnan(b)))[0])
            return f"{where}: feature {i} is {a[i]:.9g} and {b[i]:.9g}"
    return None if lengths[0] == lengths[1] else f"they last {lengths[0]} and {lengths[1]} steps"


def parts_wrong(simulator: GymSimulator, steps: int) -> str | None:
    """What is wrong with the seeding of the parts of a vector environment, if anything."""
    seeds = 2 * np.arange(simulator.width)
    one, again, back = (_run(simulator, order, steps) for order in (seeds, seeds, seeds[::-1]))
    if not _equal(one, again):
        return "the same seeds and actions gave different episodes"
    if not _equal(one, back[:, ::-1]):
        return "what a part plays depends on the seeds of the others"
    return None


def _run(simulator: GymSimulator, seeds: np.ndarray, steps: int) -> np.ndarray:
    """Features and rewards [T, width, m + 1] of steps with one random action for all parts."""
    rng = np.random.default_rng(0)
    rows = [np.column_stack([simulator.reset(seeds), np.zeros(seeds.size)])]
    for _ in range(min(simulator.horizon, steps)):
        paid, seen, over = simulator.step(np.full(seeds.size, rng.integers(simulator.n_actions)))
        rows.append(np.column_stack([seen, paid]))
        if over.all():
            break
    return np.array(rows)


def _equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))


def _part(space: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        space = space.spaces[key]
    return space
