"""How an encoder is trained: on pieces of the episodes played so far, until held-out ones say that it is enough.

Every fifth episode is held out. The last training is gone on from, with a fresh memory of Adam, when there are half
as many steps again as it had. Of more than `MOST` steps whole episodes are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailrank._system.arrays import check_arrays
from tailrank._system.telling import tell
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.convolution import KERNEL
from tailrank.policies.images import ImageEncoder, ImageLayout, described, embedded, layers_of

NUMBERS = 8
"""d, the numbers that images become."""
WIDTH, INNER = 64, 32
"""Of the hidden layer of the encoder, and of what foresees the next image and the reward."""
PIECES, STEPS = 32, 4
"""Pieces of episodes in a batch, and steps of each."""
PRECISE = 0.3
"""The weight of every precision at first, which makes it 20. An image is near to the one before it, and a step of its
numbers must tell it from the others in the batch: with a precision of 1 images are folded into all numbers until that
works, and the same step is another move of the numbers at every place."""
CHUNK, AT_FIRST, LATER, PATIENCE = 25, 32, 12, 3
"""Gradient steps between two looks at the held-out episodes; looks at most, in the first training and in later ones;
looks without gain before it ends."""
RATE, LAST = 2e-3, 0.1
"""Adam's rate, and the share of it that is left at the end."""
HELD = 5
"""One episode of so many is held out."""
MOST = 50_000
"""Steps that a training is made from, at most."""
AGAIN = 1.5
"""It is gone on with when there are so many times as many steps."""
MOMENTS = 1000
"""Images of which mean and deviation are taken."""


@dataclass(frozen=True, eq=False)
class EncoderTraining:
    """weights: by name, those of the encoder and of what foresees (float32); steps: those played when it was trained;
    score: minus the log-likelihood of held-out transitions."""

    layout: ImageLayout
    weights: dict[str, np.ndarray]
    steps: int
    score: float

    @cached_property
    def encoder(self) -> ImageEncoder:
        """What a policy needs of it."""
        return ImageEncoder(self.layout, {name: self.weights[name] for name in described(self.layout)})

    def viewed(self, played: PlayedEpisodes) -> PlayedEpisodes:
        """The episodes (rows of bytes) with what the encoder sees of them."""
        return replace(played, observations=self.encoder.seen(played.observations))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        return {f"weights.{name}": x for name, x in self.weights.items()} | {
            "trained": np.array([self.steps, self.score])
        }

    @classmethod
    def from_arrays(cls, layout: ImageLayout, arrays: dict[str, np.ndarray], n_actions: int) -> EncoderTraining:
        """The training in a checkpoint."""
        weights = {n.removeprefix("weights."): x for n, x in arrays.items() if n.startswith("weights.")}
        check_arrays(weights, described(layout) | _foreseeing(layout, n_actions), "encoder.")
        steps, score = arrays["trained"]
        return cls(layout, weights, int(steps), float(score))


def _foreseeing(layout: ImageLayout, n_actions: int) -> dict[str, str]:
    """The weights beside those of the encoder, as `check_arrays` takes them."""
    A, k = n_actions, layout.others.size
    return {
        "next": f"float32 [2*d+{k}, f]",
        "next.action": f"float32 [{A}, f]",
        "next.out": f"float32 [{A}, f, d]",
        "precision": "float32 [d]",
        "paid": f"float32 [3*d+{k}, f]",
        "paid.action": f"float32 [{A}, f]",
        "paid.out": "float32 [f, 2]",
        "paid.bias": f"float32 [{A}, 2]",
        "variance": "float32 []",
        "rest.centre": f"float32 [{k}]",
        "rest.spread": f"float32 [{k}]",
        "reward.centre": "float32 []",
        "reward.spread": "float32 []",
    }


FIXED = ("centre", "spread", "rest.centre", "rest.spread", "reward.centre", "reward.spread")
"""Weights that are measured and not trained, beside the means and scales of pixels."""


def begun(layout: ImageLayout, n_actions: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random weights."""

    def drawn(*shape: int, gain: float = 2.0) -> np.ndarray:
        return rng.normal(size=shape) * np.sqrt(gain / shape[-2])

    found: dict[str, np.ndarray] = {}
    flat, d, k, A = 0, NUMBERS, layout.others.size, n_actions
    for i, image in enumerate(layout.images):
        c = image.kept[2]
        for j, channels in enumerate(layers_of(image)):
            found[f"conv{i}.{j}"], found[f"conv{i}.{j}.bias"] = drawn(KERNEL**2 * c, channels), np.zeros(channels)
            found[f"sharp{i}.{j}"], c = np.ones(channels), channels
            flat += 3 * c
    found |= {"hidden": drawn(flat, WIDTH), "hidden.bias": np.zeros(WIDTH)}
    found |= {
        "out": drawn(flat + WIDTH, d, gain=1.0),
        "out.bias": np.zeros(d),
        "precision": np.full(d, PRECISE),
    }
    found |= {"next": drawn(2 * d + k, INNER, gain=1.0), "next.action": np.zeros((A, INNER))}
    found |= {"next.out": 0.1 * drawn(A, INNER, d), "variance": np.array(0.0)}
    found |= {"paid": drawn(3 * d + k, INNER, gain=1.0), "paid.action": np.zeros((A, INNER))}
    found |= {"paid.out": 0.1 * drawn(INNER, 2), "paid.bias": np.zeros((A, 2))}
    return {name: x.astype(np.float32) for name, x in found.items()}


@dataclass(frozen=True)
class Pieces:
    """Episodes as rows of bytes, and where their steps are: at [T] the row in `seen` of each, left [T] steps after it,
    before [T] 1 where there is an earlier observation."""

    played: PlayedEpisodes
    layout: ImageLayout
    reward: np.ndarray
    ended: np.ndarray
    at: np.ndarray
    left: np.ndarray
    episode: np.ndarray

    @classmethod
    def of(cls, played: PlayedEpisodes, layout: ImageLayout, centre: float, spread: float) -> Pieces:
        """All steps."""
        episode, step = np.repeat(np.arange(played.n), played.lengths), played.step_numbers()
        left = played.lengths[episode] - step - 1
        ended = (left == 0) & (step + 1 < played.horizon)
        reward = ((played.rewards - centre) / spread).astype(np.float32)
        return cls(played, layout, reward, ended.astype(np.float32), np.arange(played.steps) + episode, left, episode)

    def batch(self, begin: np.ndarray, rest: tuple[np.ndarray, np.ndarray]) -> Any:
        """The pieces that begin at steps [..., B]; rest: centre and spread of the other numbers."""
        from tailrank.learning.images._training_jax import SegmentBatch

        forward = np.minimum(np.arange(STEPS), self.left[begin][..., None])
        steps = begin[..., None] + forward
        first = self.at[begin][..., None]
        inside = self.played.begin[self.episode[begin]][..., None]
        frames = np.clip(first + np.arange(-1, STEPS + 1), inside, first + self.left[begin][..., None] + 1)
        rows = self.played.observations[self.played.seen[frames]]
        others = (self.layout.rest(rows) - rest[0]) / rest[1]
        played = np.arange(STEPS) <= self.left[begin][..., None]
        labels = (self.played.actions[steps], self.reward[steps], self.ended[steps], played)
        return SegmentBatch(self.layout.pixels(rows), others, *labels)


def needs_training(before: EncoderTraining | None, played: PlayedEpisodes) -> bool:
    """Whether there is so much more to learn from."""
    return before is None or played.steps >= AGAIN * before.steps


def train_encoder(
    played: PlayedEpisodes,
    layout: ImageLayout,
    n_actions: int,
    rng: np.random.Generator,
    before: EncoderTraining | None = None,
) -> EncoderTraining:
    """The encoder of episodes (rows of bytes), gone on from the last one."""
    import jax
    import jax.numpy as jnp

    from tailrank.learning.images._training_jax import RULE, advance, mean_loss

    fixed = _measured(played, layout, rng)
    weights: Any = begun(layout, n_actions, rng)
    if before is not None:
        weights = {name: before.weights[name] for name in weights}
    pieces = Pieces.of(played, layout, float(fixed["reward.centre"]), float(fixed["reward.spread"]))
    rest = fixed["rest.centre"], fixed["rest.spread"]
    held = pieces.episode % HELD == HELD - 1
    train = np.flatnonzero(~held)
    train = train[np.isin(pieces.episode[train], _some_episodes(played, rng))]
    seen = {name: x for name, x in fixed.items() if name not in FIXED}
    judged = rng.choice(np.flatnonzero(held) if held.any() else train, size=(4, PIECES))
    judge = pieces.batch(judged, rest)
    best, least, since = weights, float(mean_loss(weights, seen, judge)) if before is not None else np.inf, 0
    memory = RULE.init(jax.tree.map(jnp.asarray, weights))
    most = AT_FIRST if before is None else LATER
    for i in range(most):
        tell(i, most, "parts of the training of an encoder")
        begin = train[rng.integers(0, train.size, size=(CHUNK, PIECES))]
        share = (i * CHUNK + np.arange(CHUNK)) / (most * CHUNK)
        rates = (RATE * (1.0 - (1.0 - LAST) * share)).astype(np.float32)
        weights, memory, _ = advance(weights, memory, seen, pieces.batch(begin, rest), rates)
        found = float(mean_loss(weights, seen, judge))
        best, least, since = (weights, found, 0) if found < least else (best, least, since + 1)
        if since >= PATIENCE:
            break
    kept = {name: np.asarray(x, dtype=np.float32) for name, x in best.items()} | fixed
    return EncoderTraining(layout, kept | _spread(kept, layout, played, rng), played.steps, least)


def _some_episodes(played: PlayedEpisodes, rng: np.random.Generator) -> np.ndarray:
    """Episodes drawn at random with `MOST` steps together, or all."""
    drawn = rng.permutation(played.n)
    return drawn[: max(int(np.searchsorted(np.cumsum(played.lengths[drawn]), MOST)), 1)]


def _measured(played: PlayedEpisodes, layout: ImageLayout, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Means of pixels and their deviation, one for each image; centre and spread of rewards and other numbers."""
    rows = played.observations[rng.permutation(len(played.observations))[:MOMENTS]]
    found: dict[str, Any] = {}
    for i, image in enumerate(layout.pixels(rows)):
        mean = image.mean(axis=0)
        found |= {f"mean{i}": mean, f"scale{i}": 1.0 / max(float((image - mean).std()), 1.0)}
    rest = layout.rest(rows)
    found |= {"rest.centre": rest.mean(axis=0), "rest.spread": np.where(rest.std(axis=0) > 1e-6, rest.std(axis=0), 1.0)}
    spread = float(played.rewards.std())
    found |= {"reward.centre": played.rewards.mean(), "reward.spread": spread if spread > 0 else 1.0}
    return {name: np.asarray(x, dtype=np.float32) for name, x in found.items()}


def _spread(
    weights: dict[str, np.ndarray], layout: ImageLayout, played: PlayedEpisodes, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Centre and spread of what the network makes of images."""
    rows = played.observations[rng.permutation(len(played.observations))[:MOMENTS]]
    raw = embedded(np, weights, tuple(x.astype(np.float32) for x in layout.pixels(rows)))
    return {"centre": raw.mean(axis=0), "spread": np.sqrt(raw.var(axis=0) + 1e-6)}
