"""Tabular counts on cells of the features: what it costs to discretise instead of learning a representation.

Each step has its own cells as states. After every batch of episodes the counted model (transitions and rewards as
seen) is planned in for every budget, with optimism in the way of UCB-VI (Azar et al. 2017):

    V_h(s, c) = min_a { -b tau n(s, a)^(-1/2) + sum over what was seen after (s, a) of V_{h+1}(s', c - r) / n(s, a) }

and an action that was never played in s earns `most` surely. The policy that is returned comes from the same model
with the bonus taken off instead of added, and without the actions that were never played.

Departures: one constant `bonus` in place of UCB-VI's logarithms, for the shortfall (c - R)^+ in place of the mean, and
tau to put it on the scale of the CVaR; cells stand in for states, so the model is not Markov and the bonus promises
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.rivals.observations.playing import Callback, PlayedBatch, Row, roll, trained
from tailrank.models.grid import BudgetGrid, exact_grid, rounded_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import induction
from tailrank.planning.exact.curve import Curve
from tailrank.policies.cells import CellPolicy, Cells
from tailrank.policies.tables import BudgetPolicy, Memoryless, Policy

MOST_LEVELS = 200
"""Rewards on an exact grid with more levels than this are rounded to a grid of `ROUNDED_LEVELS`."""
ROUNDED_LEVELS = 50


@dataclass(frozen=True)
class Bins:
    """The settings. projections, cells: see `Cells`. batch: episodes between two plans; the first is random.

    most: the largest return there can be. bonus: b, in units of `most`.
    """

    tau: float
    projections: int | None = 8
    cells: int = 2
    batch: int = 20
    bonus: float = 0.5
    most: float = 1.0

    def __post_init__(self) -> None:
        checks.tail_level(self.tau)
        if self.projections is not None:
            checks.whole(self.projections, "projections")
        checks.whole(self.cells, "cells", 2)
        checks.whole(self.batch, "batch")
        checks.not_negative(self.bonus, "bonus")
        checks.positive(self.most, "most")

    stored: ClassVar[bool] = True

    @property
    def each(self) -> int:
        """Episodes an update."""
        return self.batch

    def init(self, simulator: Simulator, seed: int, total: int) -> Counted:
        """Nothing seen."""
        return Counted(Streams(seed), simulator.n_actions, total)

    def step(self, progress: Counted, simulator: Simulator) -> Row:
        """A batch of episodes with the optimistic plan; the first with random actions, which lay out the cells."""
        k, streams = len(progress.seen), progress.streams
        n = min(self.batch, progress.total - progress.played)
        policy: Policy = Anything(progress.n_actions, streams.planner(0))
        if progress.cells is not None:
            policy = self._plan(progress.seen, progress.cells, progress.n_actions, optimistic=True)
        batch = roll(simulator, policy, streams.train_seeds(k, n))
        if progress.cells is None:
            shown = batch.features[:-1][batch.alive]
            progress.cells = Cells.of(shown, self.projections, self.cells, streams.oracle(0))
        progress.seen.append(CellCounts.of(batch, progress.cells))
        progress.played, progress.steps = progress.played + n, progress.steps + int(batch.alive.sum())
        return batch.row(progress.played, self.tau)

    def policy(self, progress: Counted) -> Policy:
        """The plan with the bonus taken off."""
        if progress.cells is None:
            return Anything(progress.n_actions, progress.streams.planner(0))
        return self._plan(progress.seen, progress.cells, progress.n_actions, optimistic=False)

    def restored(self, progress: Counted, arrays: dict[str, np.ndarray]) -> Counted:
        """The progress in a checkpoint."""
        played, steps, count = (int(x) for x in arrays["counters"])
        cells = Cells(
            arrays["cells.directions"], arrays["cells.low"], arrays["cells.width"], count, arrays["cells.mixers"]
        ).checked()
        keys, actions, rewards, alive = (arrays[f"seen.{name}"] for name in SEEN)
        if keys.ndim != 2 or not keys.shape == actions.shape == rewards.shape == alive.shape:
            raise checks.InputError("seen: must have an entry for each step and episode")
        kinds = [x.dtype.kind for x in (keys, actions, rewards, alive)]
        if kinds != ["u", "i", "f", "b"] or keys.itemsize != 8:
            raise checks.InputError("seen: must be hashes, actions, rewards and whether the episode went on")
        if not np.isfinite(rewards).all() or not ((actions >= 0) & (actions < progress.n_actions))[alive].all():
            raise checks.InputError(f"seen: rewards must be finite, actions lie in 0..{progress.n_actions - 1}")
        ends = np.cumsum(arrays["sizes"])[:-1]
        parts = zip(*(np.split(arrays[f"seen.{name}"], ends, axis=1) for name in SEEN), strict=True)
        seen = [CellCounts(*part) for part in parts]
        return Counted(progress.streams, progress.n_actions, progress.total, cells, seen, played, steps)

    def train(self, simulator: Simulator, episodes: int, seed: int, callback: Callback | None = None) -> Policy:
        """The policy after `episodes` episodes, a row after every batch."""
        return trained(self, simulator, episodes, seed, callback)

    def _plan(self, parts: list[CellCounts], cells: Cells, A: int, *, optimistic: bool) -> CellPolicy:
        seen = CellCounts.joined(parts)
        H = len(seen.actions)
        known = [np.unique(seen.keys[h][seen.alive[h]]) for h in range(H)]
        S = max(k.size for k in known)  # then come two more states: everything earned, and the end
        grid = self._grid(seen.rewards[seen.alive], H)
        columns: list[tuple[np.ndarray, ...]] = []
        bonus, scale = np.zeros((H, S + 2, A)), self.bonus * self.tau * self.most
        for h in range(H):
            rows, visits = _count(seen, known, h, S, A, grid)
            bonus[h, : known[h].size] = scale / np.sqrt(np.maximum(visits, 1.0))
            if optimistic:
                s, a = np.nonzero(visits == 0)
                new = (s, a, np.full(s.size, S), np.ones(s.size), np.full(s.size, self.most))
                rows = tuple(np.concatenate(c) for c in zip(rows, new, strict=True))
                bonus[h, s, a] = 0.0
            end = (np.array([S + 1]), np.array([0]), np.array([S + 1]), np.ones(1), np.zeros(1))
            rows = tuple(np.concatenate(c) for c in zip(rows, end, strict=True))  # so that no step is without rows
            columns.append((*rows, np.full(rows[0].size, h)))
        state, action, after, probability, reward, step = (np.concatenate(c) for c in zip(*columns, strict=True))
        first = np.searchsorted(known[0], seen.keys[0])
        start = np.bincount(first, minlength=S + 2) / first.size
        mdp = FiniteMDP.from_rows(
            state, action, after, probability, reward, step=step, start=start, n_states=S + 2, n_actions=A
        )
        sign = 1.0 if optimistic else -1.0
        return CellPolicy(cells, known, best_budget_policy(mdp, grid, self.tau, sign * bonus / float(grid.unit)), A)

    def _grid(self, rewards: np.ndarray, H: int) -> BudgetGrid:
        values = np.unique(np.append(rewards, [0.0, self.most]))
        spread = float(values[-1] - values[0])
        grid = exact_grid([values], H, 1.0) if values.size <= MOST_LEVELS else None
        if grid is None or spread / float(grid.unit) > MOST_LEVELS:
            return rounded_grid(spread / ROUNDED_LEVELS, np.zeros(H), 1.0, "nearest")
        return grid


@dataclass(frozen=True)
class CellCounts:
    """What is kept of episodes, [H, n] each: hashes of cells, actions, rewards, and whether the step was played."""

    keys: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    alive: np.ndarray

    @classmethod
    def of(cls, batch: PlayedBatch, cells: Cells) -> CellCounts:
        """Of a batch of episodes."""
        keys = np.stack([cells.keys(x) for x in batch.features[:-1]])
        return cls(keys, batch.actions, batch.rewards, batch.alive)

    @classmethod
    def joined(cls, parts: list[CellCounts]) -> CellCounts:
        """All parts in one."""
        return cls(*(np.concatenate([getattr(p, name) for p in parts], axis=1) for name in SEEN))


SEEN = ("keys", "actions", "rewards", "alive")


@dataclass
class Counted:
    """Where the counting stands; total: the episodes that will be played."""

    streams: Streams
    n_actions: int
    total: int
    cells: Cells | None = None
    seen: list[CellCounts] = field(default_factory=list)
    played: int = 0
    steps: int = 0

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        if self.cells is None:
            return {}
        joined = CellCounts.joined(self.seen)
        arrays = {f"seen.{name}": getattr(joined, name) for name in SEEN}
        arrays |= {f"cells.{name}": getattr(self.cells, name) for name in ("directions", "low", "width", "mixers")}
        arrays["sizes"] = np.array([part.keys.shape[1] for part in self.seen])
        return arrays | {"counters": np.array([self.played, self.steps, self.cells.count])}


def _count(
    seen: CellCounts, known: list[np.ndarray], h: int, S: int, A: int, grid: BudgetGrid
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The rows of step h (state, action, next state, probability, reward), and the visits [states, A]."""
    live = seen.alive[h]
    s = np.searchsorted(known[h], seen.keys[h][live])
    after = np.full(s.size, S + 1)
    if h + 1 < len(known):
        goes_on = seen.alive[h + 1][live]
        after[goes_on] = np.searchsorted(known[h + 1], seen.keys[h + 1][live][goes_on])
    units = grid.units(h, seen.rewards[h][live])
    low = int(units.min(initial=0))
    levels = int(units.max(initial=0)) - low + 1
    code = ((s * A + seen.actions[h][live]) * (S + 2) + after) * levels + units - low
    code, counts = np.unique(code, return_counts=True)
    code, unit = np.divmod(code, levels)
    pair, after = np.divmod(code, S + 2)
    visits = np.bincount(pair, weights=counts, minlength=known[h].size * A)
    reward = float(grid.origin[h]) + (unit + low) * float(grid.unit)
    return (*np.divmod(pair, A), after, counts / visits[pair], reward), visits.reshape(-1, A)


def best_budget_policy(mdp: FiniteMDP, grid: BudgetGrid, tau: float, bonus: np.ndarray) -> BudgetPolicy:
    """The best policy and starting budget for the tail; bonus [H, S, A] is taken off the shortfall, in units."""
    layout = induction.layout(mdp, grid, induction.reachable(mdp))
    result = induction.induct(mdp, grid, layout, keep_actions=True, bonus=bonus)
    index, units = result.curve(mdp.start)
    curve = Curve.of(grid, index, units)
    tables = layout.tables[:-1]
    return BudgetPolicy(
        grid=grid,
        budget=int(curve.index[curve.best(tau)]),
        first=np.stack([t.first for t in tables]),
        offset=np.stack([t.offset + b for t, b in zip(tables, layout.begins[:-1], strict=True)]),
        actions=result.actions,
        elsewhere=np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64),
    )


@dataclass(frozen=True)
class Anything(Memoryless):
    """Uniform actions."""

    n_actions: int
    rng: np.random.Generator

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Any actions [n]."""
        return self.rng.integers(self.n_actions, size=len(states))
