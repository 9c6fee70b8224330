"""Decoders by the names they have in files."""

from __future__ import annotations

import numpy as np

from tailrank.checks import InputError
from tailrank.decoder import Decoder


def decoder_from(kind: str, arrays: dict[str, np.ndarray]) -> Decoder:
    """The decoder of this kind with these arrays."""
    from tailrank.oracles.mixture import MixtureDecoder
    from tailrank.oracles.networks import NeuralDecoder
    from tailrank.oracles.table import TableDecoder

    known = {"mixture": MixtureDecoder, "table": TableDecoder, "neural": NeuralDecoder}
    if kind not in known:
        raise InputError(f"decoder of kind {kind!r:.40}: is not known; known are {', '.join(known)}")
    return known[kind].from_arrays(arrays)  # type: ignore[attr-defined]
