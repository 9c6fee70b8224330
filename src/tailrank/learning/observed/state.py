"""Where a learner of observations stands, and the same as arrays.

A checkpoint holds what the next iteration depends on; the policy's tables and its plan follow from the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank.episodes.replay import Replay
from tailrank.learning.decoding.choose import Fitted
from tailrank.learning.observed.reward_grid import DECLARED, RewardGrid
from tailrank.models.latent_counts import LatentCounts
from tailrank.planning.observed.problem import Support
from tailrank.policies.decoders.base import Decoder
from tailrank.policies.decoders.registry import decoder_from
from tailrank.policies.observed import ObservationPolicy, ObservedPlan


@dataclass(frozen=True)
class ObservedState:
    """Everything that the next iteration depends on; `replay` and `counts` grow in place.

    fitted_at: episodes at the last fit; usual [H]: the usual reward of each step then, in units.
    """

    k: int
    replay: Replay
    grid: RewardGrid
    fitted: Fitted
    counts: LatentCounts
    support: list[Support | None]
    policy: ObservationPolicy
    fitted_at: int
    usual: np.ndarray

    @property
    def episodes(self) -> int:
        """Episodes played."""
        return self.replay.n

    @property
    def converged(self) -> bool:
        """Whether the last fit was."""
        return self.fitted.converged

    @property
    def chosen(self) -> str:
        """The model, in words."""
        return self.fitted.chosen

    @property
    def rewards_said(self) -> str:
        """How rewards are seen, in words."""
        grid = self.grid
        return f"rewards: {grid.source}, {grid.top + 1} values from {grid.low:g} in steps of {grid.unit:g}"

    @property
    def steps(self) -> int:
        """Steps played."""
        return int(self.replay.lengths.sum())

    @property
    def most(self) -> float:
        """What a return can be at most, as far as rewards are known: the largest one, or 0, at every step."""
        grid, seen = self.grid, float(self.replay.rewards.max())
        largest = grid.low + grid.top * grid.unit if grid.source == DECLARED else seen
        return self.replay.horizon * max(largest, 0.0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint; episodes are kept elsewhere."""
        fitted, grid, counts = self.fitted, self.grid, self.counts
        arrays = {
            "episodes": np.array([self.replay.n]),
            "counters": np.array([self.k, self.fitted_at]),
            "usual": self.usual,
            "grid": np.array([grid.low, grid.unit, grid.top, grid.zero]),
            "grid.source": _bytes(grid.source),
            "fitted": np.array([fitted.held_out, float(fitted.converged)]),
            "fitted.chosen": _bytes(fitted.chosen),
            "decoder.kind": _bytes(fitted.decoder.kind),
            "codes": counts.codes,
            "counts": counts.counts,
            "sizes": np.array([counts.steps, counts.n_latents, counts.n_actions, counts.top]),
        }
        arrays |= {f"decoder.array.{name}": array for name, array in fitted.decoder.to_arrays().items()}
        for h, support in enumerate(self.support):
            if support is not None:
                arrays |= {f"support.{h}.{name}": getattr(support, name) for name in ("mix", "weights", "sure")}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], replay: Replay) -> ObservedState:
        """From a checkpoint and the episodes; the plan is still to be made."""
        k, fitted_at = (int(x) for x in arrays["counters"])
        low, unit, top, zero = arrays["grid"]
        grid = RewardGrid(float(low), float(unit), int(top), int(zero), _text(arrays["grid.source"]))
        prefix = "decoder.array."
        parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        decoder = decoder_from(_text(arrays["decoder.kind"]), parts, replay.horizon)
        held_out, converged = arrays["fitted"]
        labels = np.zeros((0, replay.horizon), dtype=np.int64)
        fitted = Fitted(decoder, labels, float(held_out), _text(arrays["fitted.chosen"]), bool(converged))
        counts = LatentCounts(*(int(x) for x in arrays["sizes"]))
        counts.codes, counts.counts = arrays["codes"].copy(), arrays["counts"].copy()
        support: list[Support | None] = [
            Support(*(arrays[f"support.{h}.{name}"] for name in ("mix", "weights", "sure")))
            if f"support.{h}.mix" in arrays
            else None
            for h in range(replay.horizon)
        ]
        policy = policy_of(decoder, counts, grid, replay.horizon, support)
        replay.measure(grid.units(replay.rewards, replay.lengths))  # files may hold those of a narrower grid
        return cls(k, replay, grid, fitted, counts, support, policy, fitted_at, arrays["usual"])


def policy_of(
    decoder: Decoder, counts: LatentCounts, grid: RewardGrid, horizon: int, support: list[Support | None]
) -> ObservationPolicy:
    """The policy of a counted model, still without a plan."""
    met = counts.visits().sum(axis=2)
    base = met / np.maximum(met.sum(axis=1, keepdims=True), 1.0)
    # What is not known is expected as often as it is met: then the filter says nothing.
    after = np.roll(base, -1, axis=0)
    after = np.where(after.sum(axis=1, keepdims=True) > 0, after, 1.0 / counts.n_latents)[:, None, None, :]
    unsure = any(s is not None for s in support)
    if unsure:
        table = counts.transitions()[..., :-1]
        total = table.sum(axis=-1, keepdims=True)
        moves = np.where(total > 0, table / np.maximum(total, 1.0), after)
    else:  # no filter: a view takes no room, however many latents there are
        moves = np.broadcast_to(after, (counts.steps, counts.n_latents, counts.n_actions, counts.n_latents))
    return ObservationPolicy(decoder, EMPTY, grid.budget_grid(horizon), base, moves, unsure)


EMPTY = ObservedPlan((), 0, 0.0, np.zeros(1))


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _text(array: np.ndarray) -> str:
    return array.tobytes().decode()
