"""Fits the decoder of finite observation spaces."""

from __future__ import annotations

import numpy as np

from tailrank.checks import InputError
from tailrank.episodes.replay import Replay
from tailrank.policies.decoders.table import TableDecoder, single

LARGEST_TABLE = 5000


def fit_table(replay: Replay) -> TableDecoder:
    """The observations seen so far as a table, with room for half as many more."""
    rows = replay.features[np.arange(replay.horizon) < replay.lengths[:, None]]
    values = np.unique(single(rows), axis=0).astype(np.float64)
    if len(values) > LARGEST_TABLE:
        raise InputError(
            f"model = 'table': {len(values)} distinct observations were seen, at most {LARGEST_TABLE} are handled; "
            "use model mixture or neural"
        )
    room = np.zeros((len(values) // 2 + 8, replay.n_features))
    return TableDecoder(np.vstack([values, room]), len(values))
