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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank._system.settings import setting
from tailrank.envs.protocols import Simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import PlayedInfo, SimulatorLearner
from tailrank.learning.rivals.observations.playing import PlayedBatch, roll
from tailrank.models.grid import BudgetGrid, exact_grid, rounded_grid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import induction
from tailrank.planning.exact.curve import Curve
from tailrank.policies.cells import CellPolicy, Cells
from tailrank.policies.tables import BudgetPolicy, Memoryless, Policy

MOST_LEVELS = 200
"""Rewards on an exact grid with more levels than this are rounded to a grid of `ROUNDED_LEVELS`."""
ROUNDED_LEVELS = 50


def _projections(value: object, name: str) -> int | str:
    return "all" if value is None else checks.whole(value, name)


@dataclass(frozen=True)
class Bins(SimulatorLearner):
    """Tabular counts on cells of the features, in the way of UCB-VI (Azar et al. 2017). See `Cells`."""

    foresees: ClassVar[bool] = True
    projections: int | str | None = setting(
        8, kind=int, words=("all",), check=_projections, help="Random directions; all: the features themselves."
    )
    cells: int = setting(2, kind=int, least=2, help="Cells along each of them.")
    batch: int = setting(20, kind=int, help="Episodes between two plans; the first are random.")
    bonus: float = setting(0.5, kind=float, check=checks.not_negative, help="b, in units of `most`.")
    most: float = setting(1.0, kind=float, check=checks.positive, help="The largest return there can be.")

    def episodes_each(self, horizon: int) -> int:
        """Episodes an update."""
        return self.batch

    def init(self, env: Simulator, streams: Streams) -> BinsState:
        """Nothing seen."""
        return BinsState()

    def step(self, state: BinsState, env: Simulator, streams: Streams) -> tuple[BinsState, PlayedInfo]:
        """A batch of episodes with the optimistic plan; the first with random actions, which lay out the cells."""
        n = self.batch if self.total is None else min(self.batch, self.total - state.episodes)
        policy: Policy = Anything(env.n_actions, streams.planner(0))
        if state.cells is not None:
            policy = self._plan(state.seen, state.cells, env.n_actions, optimistic=True)
        batch = roll(env, policy, streams.train_seeds(state.k, n))
        cells = state.cells
        if cells is None:
            directions = None if self.projections == "all" else int(self.projections or 0)
            cells = Cells.of(batch.features[:-1][batch.alive], directions, self.cells, streams.oracle(0))
        seen = (*state.seen, CellCounts.of(batch, cells))
        new = BinsState(state.k + 1, state.episodes + n, state.steps + int(batch.alive.sum()), cells, seen)
        return new, PlayedInfo.of(batch.returns, self.tau)

    def policy(self, state: BinsState, env: Simulator, streams: Streams) -> Policy:
        """The plan with the bonus taken off."""
        if state.cells is None:
            return Anything(env.n_actions, streams.planner(0))
        return self._plan(state.seen, state.cells, env.n_actions, optimistic=False)

    def restored(self, arrays: dict[str, np.ndarray], env: Simulator, streams: Streams) -> BinsState:
        """The state in a checkpoint."""
        k = checks.whole(arrays["job.k"][0], "job.k", least=0)
        if k == 0:
            return BinsState()
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
        if not np.isfinite(rewards).all() or not ((actions >= 0) & (actions < env.n_actions))[alive].all():
            raise checks.InputError(f"seen: rewards must be finite, actions lie in 0..{env.n_actions - 1}")
        ends = np.cumsum(arrays["sizes"])[:-1]
        parts = zip(*(np.split(arrays[f"seen.{name}"], ends, axis=1) for name in SEEN), strict=True)
        return BinsState(k, played, steps, cells, tuple(CellCounts(*part) for part in parts))

    def _plan(self, parts: tuple[CellCounts, ...], cells: Cells, A: int, *, optimistic: bool) -> CellPolicy:
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
    def joined(cls, parts: tuple[CellCounts, ...]) -> CellCounts:
        """All parts in one."""
        return cls(*(np.concatenate([getattr(p, name) for p in parts], axis=1) for name in SEEN))


SEEN = ("keys", "actions", "rewards", "alive")


@dataclass(frozen=True)
class BinsState:
    """Where the counting stands; seen: what is kept of each batch."""

    k: int = 0
    episodes: int = 0
    steps: int = 0
    cells: Cells | None = None
    seen: tuple[CellCounts, ...] = ()

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {"job.k": np.array([self.k])}
        if self.cells is None:
            return arrays
        joined = CellCounts.joined(self.seen)
        arrays |= {f"seen.{name}": getattr(joined, name) for name in SEEN}
        arrays |= {f"cells.{name}": getattr(self.cells, name) for name in ("directions", "low", "width", "mixers")}
        arrays["sizes"] = np.array([part.keys.shape[1] for part in self.seen])
        return arrays | {"counters": np.array([self.episodes, self.steps, self.cells.count])}


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
