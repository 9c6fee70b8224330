"""What a policy is told about a step, for its memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Moved(NamedTuple):
    """What happened in a step, one entry an episode: states [n] or observations [n, m], actions [n], undiscounted
    rewards [n], and what came next, like the states.
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_states: np.ndarray
