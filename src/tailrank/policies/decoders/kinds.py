"""Decoders by the names they have in files."""

from __future__ import annotations

import numpy as np

from tailrank.checks import InputError
from tailrank.policies.decoders.base import Decoder


def decoder_from(kind: str, arrays: dict[str, np.ndarray]) -> Decoder:
    """The decoder of this kind with these arrays."""
    from tailrank.policies.decoders.mixture import MixtureDecoder
    from tailrank.policies.decoders.network import NeuralDecoder
    from tailrank.policies.decoders.table import TableDecoder

    known = {"mixture": MixtureDecoder, "table": TableDecoder, "neural": NeuralDecoder}
    if kind not in known:
        raise InputError(f"decoder of kind {kind!r:.40}: is not known; known are {', '.join(known)}")
    return known[kind].from_arrays(arrays)  # type: ignore[attr-defined]
