"""What a learner has seen of a simulator: whole episodes, as features, actions and rewards, as they are and in units.

Episodes may end before H; `lengths` says after how many steps. Arrays grow by doubling, so that adding an
episode costs what the episode costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class RollIns:
    """Episodes from `since` on are those of Algorithm 1, H an iteration: the i-th follows the plan before step
    u = i mod H - 1 and plays uniform actions from there on. counted: steps before u are learned from too.
    """

    since: int
    counted: bool

    def uses(self, n: int, H: int) -> tuple[np.ndarray, np.ndarray]:
        """Which steps [n, H] of n episodes are learned from, and which of them are in D; episodes before are whole.

        Step u, and the roll-in where it is counted, is in D, step u + 1 in D~; the rest of the episode in neither.
        """
        first = np.where(np.arange(n) < self.since, H, (np.arange(n) - self.since) % H - 1)[:, None]
        step = np.arange(H)
        least = np.where(self.counted | (first == H), 0, first)
        return (step >= least) & (step <= first + 1), (step >= least) & (step <= first)


@dataclass
class Replay:
    """n episodes: features [n, H, m] (float32, what was seen before each action), actions, units and rewards [n, H].

    roll_ins: which steps a low-rank model learns from; all of them if None.
    """

    horizon: int
    n_features: int
    n: int = 0
    roll_ins: RollIns | None = None
    _features: np.ndarray = field(init=False, repr=False)
    _actions: np.ndarray = field(init=False, repr=False)
    _units: np.ndarray = field(init=False, repr=False)
    _rewards: np.ndarray = field(init=False, repr=False)
    _lengths: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        H, m = self.horizon, self.n_features
        self._features = np.zeros((0, H, m), dtype=np.float32)
        self._actions = np.zeros((0, H), dtype=np.int32)
        self._units = np.zeros((0, H), dtype=np.int32)
        self._rewards = np.zeros((0, H))
        self._lengths = np.zeros(0, dtype=np.int64)

    def add(
        self,
        features: np.ndarray,
        actions: np.ndarray,
        units: np.ndarray,
        lengths: np.ndarray,
        rewards: np.ndarray | None = None,
    ) -> None:
        """Append episodes: features [k, H, m], actions, units and rewards [k, H] (default: the units), lengths [k]."""
        k, room = len(lengths), len(self._lengths)
        if self.n + k > room:
            for name in ("_features", "_actions", "_units", "_rewards", "_lengths"):
                old = getattr(self, name)
                new = np.zeros((max(self.n + k, 2 * room), *old.shape[1:]), dtype=old.dtype)
                new[: self.n] = old[: self.n]
                setattr(self, name, new)
        here = slice(self.n, self.n + k)
        self._features[here], self._actions[here] = features, actions
        self._units[here], self._lengths[here] = units, lengths
        self._rewards[here] = units if rewards is None else rewards
        self.n += k

    def measure(self, units: np.ndarray) -> None:
        """Put units [n, H] of another grid in the place of those that are there."""
        self._units[: self.n] = units

    @property
    def features(self) -> np.ndarray:
        """[n, H, m]."""
        return self._features[: self.n]

    @property
    def actions(self) -> np.ndarray:
        """[n, H]."""
        return self._actions[: self.n]

    @property
    def units(self) -> np.ndarray:
        """Rewards in units of the grid, [n, H]."""
        return self._units[: self.n]

    @property
    def rewards(self) -> np.ndarray:
        """Rewards as they were, 0 after the end of an episode, [n, H]."""
        return self._rewards[: self.n]

    @property
    def lengths(self) -> np.ndarray:
        """Steps played, [n]."""
        return self._lengths[: self.n]

    def alive(self, h: int) -> np.ndarray:
        """Episodes [k] that reached step h."""
        return np.flatnonzero(self.lengths > h)
