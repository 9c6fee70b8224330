"""Maps of a policy on observations: its action, and the shortfall that its model expects, over state and budget.

    V_h(x, c) = min_a E(c - R)^+,  R what is still to come from step h and observation x on, c the budget left to earn

Two coordinates of x lie across and up, a third one is cut in slices. Where more of them vary, the two are drawn that
change action and V most when they are shuffled among the observations that were met, and the others are those of one
observation that was met, the one nearest to the medians. Steps are spread over an episode of median length. At a step
there are five budgets: the median of those met about then, and a quarter and a half of what lies between the worst and
the best episode more and less (a twentieth and a tenth of the budget where all earned the same).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.policies.images import ImagePolicy
from tailrank.policies.recall import RecallPolicy
from tailrank.policies.subset import SubsetPolicy
from tailrank.policies.tables import ChargedBudget, Memoryless
from tailrank.report._levels import pack
from tailrank.runs.beside import FEATURES, Beside

CELLS, FEWER = 32, 24
"""Cells of a side of a map, and where there are slices."""
STEPS, SLICES = 4, 4
OFFSETS = (-1.0, -0.5, 0.0, 0.5, 1.0)
SHUFFLED = 200
"""Observations in which coordinates are shuffled, to see which of them matter."""
NEAR = 0.05
"""The share of all observations, those nearest to a step, of which the usual budget is taken."""
BATCH = 2000
PATH = 150
"""Points of the way of an episode, at most."""


def state_maps(policy: Any, beside: Beside | None) -> dict[str, Any] | str:
    """The maps for the page, or why there are none."""
    if policy is None or beside is None or not beside.seen.size:
        return "There is nothing that the policy was seen to do, and so nothing to draw a map of."
    core = _core(policy)
    if isinstance(core, ImagePolicy):
        return "The policy sees images through an encoder: what it does is no map of a few numbers that were shown."
    if isinstance(core, RecallPolicy):
        return f"The policy recalls {core.recall.words}: what it does is no map of the present observation alone."
    if not isinstance(core, ChargedBudget | Memoryless) or not hasattr(policy, "n_features"):
        return "The policy remembers more than a budget, so that its actions are no map of observations."
    if policy.n_features != beside.seen.shape[1]:
        return f"Observations have {policy.n_features} numbers, maps are drawn for up to {FEATURES}."
    charted = Charted(policy, beside)
    varying = np.flatnonzero(np.ptp(beside.seen, axis=0) > 0)
    if varying.size == 0:
        return "All observations that were met are the same."
    order = charted.by_relevance(varying)
    drawn = order if varying.size <= 3 else order[:2]
    return charted.data([int(j) for j in drawn], [int(j) for j in varying if j not in drawn])


@dataclass(frozen=True)
class Charted:
    """A policy and what it met."""

    policy: Any
    beside: Beside

    @property
    def steps(self) -> list[int]:
        """The steps that are drawn."""
        last = max(int(np.median(self.beside.lengths)) - 1, 0)
        return [int(h) for h in np.unique(np.linspace(0, last, STEPS).astype(np.int64))]

    @property
    def budgeted(self) -> bool:
        """Whether it has a budget."""
        return isinstance(_core(self.policy), ChargedBudget)

    def budgets(self, h: int) -> list[float]:
        """The budgets that are drawn at step h, increasing; one for a policy without budgets."""
        if not self.budgeted:
            return [0.0]
        few = max(int(NEAR * self.beside.at.size), 1)
        about_then = np.argsort(np.abs(self.beside.at - h), kind="stable")[:few]
        usual = float(self.policy.start(1)[0]) - float(np.median(self.beside.paid[about_then]))
        earned = self.beside.rewards.sum(axis=1)
        half = 0.5 * float(np.ptp(earned)) or 0.1 * abs(usual) or 1.0
        return sorted({usual + share * half for share in OFFSETS})

    def by_relevance(self, varying: np.ndarray) -> np.ndarray:
        """The coordinates `varying`, those first that change action and value most when they are shuffled."""
        rng = np.random.default_rng(0)
        some = rng.choice(len(self.beside.seen), size=min(SHUFFLED, len(self.beside.seen)), replace=False)
        seen, score = self.beside.seen[some], np.zeros(varying.size)
        for h in self.steps:
            budgets = self.budgets(h)
            usual = np.full(len(seen), budgets[len(budgets) // 2])
            actions, values = self.look(h, seen, usual)
            spread = float(values.std()) or 1.0
            for i, j in enumerate(varying):
                shuffled = seen.copy()
                shuffled[:, j] = rng.permutation(seen[:, j])
                there, worth = self.look(h, shuffled, usual)
                score[i] += float((there != actions).mean()) + float(np.abs(worth - values).mean()) / spread
        return varying[np.argsort(-score, kind="stable")]

    def look(self, h: int, states: np.ndarray, budgets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Actions [n] and shortfalls [n] (zeros where the policy does not know them) at observations [n, m]."""
        actions, values = np.empty(len(states), dtype=np.int64), np.zeros(len(states))
        for begin in range(0, len(states), BATCH):
            part = slice(begin, begin + BATCH)
            actions[part] = self.policy.act(h, states[part], budgets[part])
            if self.valued:
                values[part] = _core(self.policy).shortfall(h, states[part], budgets[part])
        return actions, values

    @property
    def valued(self) -> bool:
        """Whether it knows shortfalls."""
        return hasattr(_core(self.policy), "shortfall")

    def typical(self) -> np.ndarray:
        """The observation met that is nearest to the medians, [m]."""
        seen = self.beside.seen
        spread = np.where(seen.std(axis=0) > 0, seen.std(axis=0), 1.0)
        return np.asarray(seen[np.argmin((((seen - np.median(seen, axis=0)) / spread) ** 2).sum(axis=1))])

    def data(self, drawn: list[int], others: list[int]) -> dict[str, Any]:
        """For the page; arrays are [steps, budgets, slices, up, across]."""
        seen, sliced = self.beside.seen, len(drawn) == 3
        across, up = (
            _axis(seen[:, j], FEWER if sliced else CELLS) if j is not None else np.zeros(1)
            for j in (drawn[0], drawn[1] if len(drawn) > 1 else None)
        )
        cut = np.unique(np.quantile(seen[:, drawn[2]], (np.arange(SLICES) + 0.5) / SLICES)) if sliced else np.zeros(1)
        grid = np.stack(np.meshgrid(cut, up, across, indexing="ij"), axis=-1).reshape(-1, 3)
        states = np.tile(self.typical(), (len(grid), 1))
        for j, column in zip(drawn, (2, 1, 0), strict=False):
            states[:, j] = grid[:, column]
        steps, levels = self.steps, [self.budgets(h) for h in self.steps]
        if sliced:
            steps, levels = steps[::2], levels[::2]
        found = [
            self.look(h, states, np.full(len(states), budget))
            for h, budgets in zip(steps, levels, strict=True)
            for budget in budgets
        ]
        typical = self.typical()
        return {
            "features": drawn,
            "across": pack(across),
            "up": pack(up),
            "slices": [float(x) for x in cut] if sliced else None,
            "steps": steps,
            "budgets": levels if self.budgeted else None,
            "actions": _packed((actions for actions, _ in found), "u2"),
            "values": _packed((values for _, values in found), "f4") if self.valued else None,
            "met": _packed([self._met(drawn, (cut, up, across))], "u1"),
            "others": [[j, float(typical[j])] for j in others],
            "ways": [self._way(e, drawn) for e in range(len(self.beside.seeds))],
        }

    def _met(self, drawn: list[int], axes: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
        """Whether an observation fell into each cell or one beside it, flat."""
        places = [_nearest(self.beside.seen[:, j], axis) for j, axis in zip(drawn, reversed(axes), strict=False)]
        places += [np.zeros(len(self.beside.seen), dtype=np.int64)] * (3 - len(places))
        near = np.zeros(tuple(axis.size + 2 for axis in axes), dtype=np.uint8)
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                near[places[2] + 1, places[1] + 1 + dy, places[0] + 1 + dx] = 1
        return near[1:-1, 1:-1, 1:-1].ravel()

    def _way(self, episode: int, drawn: list[int]) -> list[list[float]]:
        """The way of an episode over the map: points (across, up), some of them where it is long."""
        last = int(self.beside.lengths[episode])
        some = np.unique(np.linspace(0, last, min(last + 1, PATH)).astype(np.int64))
        seen = self.beside.observations[episode, some]
        return [[float(row[drawn[0]]), float(row[drawn[1]]) if len(drawn) > 1 else 0.0] for row in seen]


def _core(policy: Any) -> Any:
    """The policy itself, where it plays some of the actions only."""
    return policy.inner if isinstance(policy, SubsetPolicy) else policy


def _axis(values: np.ndarray, cells: int) -> np.ndarray:
    """Where cells lie: at the values themselves if they are few, else evenly from the least to the largest."""
    own = np.unique(values)
    return own if own.size <= cells else np.linspace(own[0], own[-1], cells)


def _nearest(values: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """The cell of each value."""
    return np.asarray(np.searchsorted((axis[1:] + axis[:-1]) / 2, values))


def _packed(parts: Iterable[np.ndarray], kind: str) -> dict[str, str]:
    """Arrays one after the other, as the bytes of small numbers."""
    whole = np.concatenate([np.asarray(part).ravel() for part in parts])
    return {kind: base64.b64encode(whole.astype(f"<{kind}").tobytes()).decode("ascii")}
