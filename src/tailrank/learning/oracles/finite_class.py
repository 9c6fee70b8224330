"""A finite class of candidates, as in the paper: the most likely one by enumeration, exactly.

P^ = argmax over F of sum N(g, a, g') log P(g' | g, a); of equally likely candidates the first wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tailrank.checks import InputError
from tailrank.learning.oracles.fit import Fit, sparse
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel


class FiniteClass:
    """Enumerates candidates that all have the same shapes; keeps |F| G A G' logarithms."""

    def __init__(self, models: Sequence[StepModel]) -> None:
        if len(models) == 0:
            raise InputError("models: at least one candidate is needed, found none")
        first = models[0]
        for i, model in enumerate(models):
            if model.phi.ndim != 3 or model.psi.ndim != 2:
                raise InputError(
                    f"models[{i}]: must be phi [G, A, d] and psi [d, G'], found {model.phi.shape}, {model.psi.shape}"
                )
            if (model.phi.shape, model.psi.shape) != (first.phi.shape, first.psi.shape):
                raise InputError(
                    f"models[{i}]: phi {model.phi.shape} and psi {model.psi.shape} differ in shape from models[0], "
                    f"{first.phi.shape} and {first.psi.shape}"
                )
            model.check(f"models[{i}]")
        self._models = tuple(models)
        # a candidate may be a law up to rounding, so that a product can be a hair below zero
        with np.errstate(divide="ignore"):
            self._log = np.stack([np.log(np.maximum(model.kernel, 0.0)).ravel() for model in models])

    @property
    def models(self) -> tuple[StepModel, ...]:
        """The candidates."""
        return self._models

    @property
    def class_size(self) -> float:
        """|F|."""
        return float(len(self._models))

    @property
    def rank(self) -> int:
        """d, that of every candidate."""
        return int(self._models[0].psi.shape[0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(G, A, G') of every candidate."""
        model = self._models[0]
        return model.phi.shape[0], model.phi.shape[1], model.psi.shape[1]

    def dimension(self, shape: tuple[int, int, int]) -> int:
        """d."""
        return self.rank

    def log_class_size(self, n: float, shape: tuple[int, int, int]) -> float:
        """log |F|, whatever the data."""
        return math.log(self.class_size)

    def scores(self, counts: np.ndarray | SparseCounts) -> np.ndarray:
        """Log-likelihood of each candidate, [F]; -inf when it excludes what was seen."""
        data = self._data(counts)
        cell = data.pair * data.shape[2] + data.after
        return np.array([float(row[cell] @ data.count) for row in self._log])

    def fit(self, counts: np.ndarray | SparseCounts, *, rng: np.random.Generator, warm: StepModel | None = None) -> Fit:
        """The first of the most likely candidates. Neither chance nor a warm start plays a part."""
        data = self._data(counts)
        scores = self.scores(data)
        best = int(np.argmax(scores))
        if scores[best] == -np.inf:
            raise InputError(self._excluded(data))
        value = float(scores[best])
        return Fit(self._models[best], value, np.array([value]), True)

    def _data(self, counts: np.ndarray | SparseCounts) -> SparseCounts:
        data = sparse(counts)
        if data.shape != self.shape:
            raise InputError(f"counts: must have the candidates' shape {self.shape}, found {data.shape}")
        return data

    def _excluded(self, data: SparseCounts) -> str:
        """Why no candidate can have produced the data."""
        impossible = self._log[:, data.pair * data.shape[2] + data.after] == -np.inf
        by_all = np.flatnonzero(impossible.all(axis=0))
        if by_all.size:
            place = data.place(int(by_all[0]))
            return f"models: not realizable, all {len(self._models)} candidates exclude (g, a, g') = {place}"
        place = data.place(int(np.flatnonzero(impossible[0])[0]))
        return (
            f"models: not realizable, each of the {len(self._models)} candidates excludes some transition seen, "
            f"models[0] excludes (g, a, g') = {place}"
        )
