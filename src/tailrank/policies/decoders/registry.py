"""Decoders by the names they have in files: a new kind is one class (`base.Decoder`) and one row here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tailrank._system.arrays import check_arrays
from tailrank.checks import InputError
from tailrank.policies.decoders.base import Decoder
from tailrank.policies.decoders.mixture import MixtureDecoder
from tailrank.policies.decoders.network import NeuralDecoder
from tailrank.policies.decoders.table import TableDecoder

DECODERS: dict[str, type[Decoder]] = {
    MixtureDecoder.kind: MixtureDecoder,
    TableDecoder.kind: TableDecoder,
    NeuralDecoder.kind: NeuralDecoder,
}


def decoder_from(kind: object, arrays: Mapping[str, np.ndarray], horizon: int) -> Decoder:
    """The decoder of this kind with these arrays for H steps; what does not fit together is refused."""
    if not isinstance(kind, str) or kind not in DECODERS:
        raise InputError(f"decoder = {kind!r:.40}: must be {', '.join(DECODERS)}")
    check_arrays(arrays, DECODERS[kind].describe_arrays(arrays), "decoder.", H=horizon)
    return DECODERS[kind].from_arrays(arrays)
