"""Random streams by purpose and iteration: one seed fixes everything, and any iteration can be resumed.

Streams are keyed, not advanced: the numbers of iteration k depend on (seed, purpose, k) alone, so adding
an evaluation changes nothing in training, and a resumed run needs no generator state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank import checks

PURPOSES = ("environment", "oracle", "planner", "evaluation", "output")


@dataclass(frozen=True)
class Streams:
    """Generators for one run."""

    seed: int

    def __post_init__(self) -> None:
        checks.whole(self.seed, "seed", least=0)

    def _stream(self, purpose: str, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(PURPOSES.index(purpose), *key)))

    def environment(self, *key: int) -> np.random.Generator:
        """For playing episodes."""
        return self._stream("environment", *key)

    def oracle(self, *key: int) -> np.random.Generator:
        """For fits."""
        return self._stream("oracle", *key)

    def planner(self, *key: int) -> np.random.Generator:
        """For simulation in the model."""
        return self._stream("planner", *key)

    def evaluation(self, *key: int) -> np.random.Generator:
        """For fresh episodes that judge a policy."""
        return self._stream("evaluation", *key)

    def output(self, *key: int) -> np.random.Generator:
        """For the draw of the iterate that is returned."""
        return self._stream("output", *key)

    def train_seeds(self, k: int, n: int) -> np.ndarray:
        """Seeds [n] of the episodes of iteration k: even, so that no evaluation ever plays one of them."""
        return 2 * self._stream("environment", k).integers(0, 2**30, size=n)

    def evaluation_seeds(self, k: int, n: int) -> np.ndarray:
        """Seeds [n] of fresh episodes that judge a policy: odd."""
        return 2 * self._stream("evaluation", k).integers(0, 2**30, size=n) + 1
