"""Transitions of a replay as the oracle sees them.

Every played step is one: (x, a) at step h, the reward, and what came next: an observation, the end of the episode, or
nothing, where the horizon cut the episode off (the reward was seen all the same). Held out are whole episodes, always
the same ones (every fifth), so that no later fit has learned from what judges it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.episodes.replay import Replay

HELD = 5


@dataclass(frozen=True)
class SeenTransitions:
    """[n]: episode, step h, action, reward; x and after [n, m] (x again where nothing came next); ended, cut.

    in_d: those whose phi make the covariance of the bonus.
    """

    episode: np.ndarray
    h: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    x: np.ndarray
    after: np.ndarray
    ended: np.ndarray
    cut: np.ndarray
    in_d: np.ndarray

    @classmethod
    def of(cls, replay: Replay) -> SeenTransitions:
        """Those that are learned from, episode by episode."""
        played = np.arange(replay.horizon) < replay.lengths[:, None]
        used, in_d = (played, played) if replay.roll_ins is None else replay.roll_ins.uses(replay.n, replay.horizon)
        episode, h = np.nonzero(played & used)
        last = h + 1 >= replay.lengths[episode]
        cut = last & (h + 1 == replay.horizon)
        after = np.where(last, h, h + 1)
        return cls(
            episode,
            h,
            replay.actions[episode, h].astype(np.int64),
            replay.rewards[episode, h],
            replay.features[episode, h].astype(np.float64),
            replay.features[episode, after].astype(np.float64),
            last & ~cut,
            cut,
            in_d[episode, h],
        )

    @property
    def held(self) -> np.ndarray:
        """Which are held out."""
        return self.episode % HELD == 0

    @property
    def followed(self) -> np.ndarray:
        """Which lead to an observation."""
        return ~(self.ended | self.cut)
