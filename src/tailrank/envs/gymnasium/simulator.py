"""Any Gymnasium simulator as a `Simulator`: the entry is `open_simulator`.

An episode is begun by `reset(seed=...)` and is over when the environment terminates or truncates it, or after H steps.
Observations are encoded by `envs/gymnasium/spaces.py`, actions are numbered by `envs/gymnasium/actions.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.action_grid import ActionGrid
from tailrank.envs.gymnasium._cluster import DaskCluster
from tailrank.envs.gymnasium._masks import MaskReader
from tailrank.envs.gymnasium._players import Copies, Player, Vector
from tailrank.envs.gymnasium._rows import RowsHere
from tailrank.envs.gymnasium._workers import InWorkers, recipe
from tailrank.envs.gymnasium.actions import Actions, finer_levels
from tailrank.envs.gymnasium.making import is_vector, limit_of, maker, name_of, spaces_of
from tailrank.envs.gymnasium.spaces import Encoder
from tailrank.envs.gymnasium.tables import foreign

SIDE_BY_SIDE = 16
"""Episodes side by side where there are workers and nobody says how many: the same for every number of workers."""


class GymSimulator:
    """A Gymnasium environment as a simulator of H steps, up to `width` episodes side by side.

    encoder, actions: how observations and actions are numbered. notes: one line for each thing that was assumed.
    """

    def __init__(
        self, player: Player, name: str, horizon: int, encoder: Encoder, actions: Actions, notes: Sequence[str] = ()
    ) -> None:
        self._player, self._name, self._horizon = player, name, checks.whole(horizon, "horizon")
        self.encoder, self.actions, self.notes = encoder, actions, tuple(notes)
        self._h = 0
        self._over = np.ones(0, dtype=bool)
        self._features = np.zeros((0, encoder.n_features))
        self._closed = False
        self.recipe: dict[str, Any] | str = f"{name} was handed in as it is, so that no other process can make it"
        """What another process makes it from, or why none can."""
        self.grid: ActionGrid | None = None
        """Of continuous actions that may be refined."""

    @property
    def name(self) -> str:
        """The id of the environment, or the name of its class."""
        return self._name

    @property
    def horizon(self) -> int:
        """H: no episode is longer."""
        return self._horizon

    @property
    def n_actions(self) -> int:
        """A."""
        return self.actions.n

    @property
    def n_features(self) -> int:
        """m, the length of an encoded observation."""
        return self.encoder.n_features

    @property
    def width(self) -> int:
        """How many episodes `reset` can begin at once."""
        return self._player.width

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Begin an episode for each seed [n], n at most `width`; the features of the first observations, [n, m]."""
        given = np.asarray(seeds)
        if self._closed:
            raise InputError(f"{self._name}: is closed")
        if given.ndim != 1 or not 1 <= given.size <= self.width or given.dtype.kind not in "iu" or given.min() < 0:
            raise InputError(f"seeds = {given!r:.60}: must be 1..{self.width} whole numbers of at least 0")
        self._over = np.ones(0, dtype=bool)
        self._features = self._player.begin([int(seed) for seed in given])
        self._h, self._over = 0, np.zeros(given.size, dtype=bool)
        return self._features.copy()

    @property
    def allowed(self) -> np.ndarray | None:
        """The actions that the environment allows now, [n, A] of bool; None where it says nothing (`_masks.py`).

        `step` plays others too, as the environment will have it; `play_simulator` does not.
        """
        found = self._player.allowed
        return None if found is None else found | self._over[:, None]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards [n] (undiscounted), features [n, m] and whether each episode is over, [n] of bool.

        An episode that was over before pays 0, keeps its features and stays over; its action is ignored.
        """
        played = np.asarray(actions)
        n = self._over.size
        if n == 0:
            raise InputError(f"{self._name}: step needs episodes, begin them with reset")
        if played.shape != (n,) or played.dtype.kind not in "iu":
            raise InputError(f"actions: must be {n} whole numbers, found {played.dtype} of shape {played.shape}")
        rewards = np.zeros(n)
        rows = np.flatnonzero(~self._over)
        if rows.size:
            chosen = played[rows]
            if chosen.min() < 0 or chosen.max() >= self.n_actions:
                bad = chosen[(chosen < 0) | (chosen >= self.n_actions)][0]
                raise InputError(f"action = {bad}: must lie in 0..{self.n_actions - 1} ({self._name})")
            rewards[rows], self._features[rows], ended = self._player.advance(rows, chosen, self._h)
            self._h += 1
            self._over[rows] = ended | (self._h >= self._horizon)
        return rewards, self._features.copy(), self._over.copy()

    @property
    def bad(self) -> dict[int, str]:
        """Rows of the episodes begun last that went wrong and are left out (`skip_bad`), and what happened."""
        return dict(getattr(self._player, "bad", {}))

    @property
    def counts(self) -> dict[str, int]:
        """So far: episodes that were `skipped`, and worker processes that were `replaced`."""
        return {name: int(getattr(self._player, name, 0)) for name in ("skipped", "replaced")}

    @property
    def first_bad(self) -> str:
        """What happened in the first episode that was skipped."""
        return str(getattr(self._player, "first", ""))

    def misfortunes(self, before: int = 0) -> list[str]:
        """What went wrong and was survived, a line each. before: episodes that were skipped by an earlier process."""
        lines, counts = [], self.counts
        if skipped := before + counts["skipped"]:
            first = f"; one of them: {self.first_bad}" if self.first_bad else ""
            lines.append(f"{skipped} episodes went wrong and were left out, those that judge too{first}")
        if counts["replaced"]:
            lines.append(f"{counts['replaced']} worker processes were lost and replaced, their episodes played again")
        return lines

    def about(self) -> dict[str, Any]:
        """What a policy file keeps to play in this environment again: plain data."""
        return {
            "environment": self._name,
            "horizon": self._horizon,
            "encoder": self.encoder.to_json(),
            "actions": self.actions.to_json(),
        }

    def close(self) -> None:
        """Close the environments that were made here; one that was handed in stays open."""
        if not self._closed:
            self._closed, self._over = True, np.ones(0, dtype=bool)
            self._player.close()

    def __enter__(self) -> GymSimulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_simulator(
    source: Any,
    *,
    horizon: int | None = None,
    width: int | None = None,
    imports: Sequence[str] = (),
    levels: int | Sequence[int] | None = None,
    workers: int | None = None,
    step_timeout: float | None = None,
    skip_bad: bool = False,
    cluster: str | None = None,
    refine: int | None = None,
    masks: bool | None = None,
    **settings: Any,
) -> GymSimulator:
    """The simulator of a Gymnasium environment.

    source: an id (`CartPole-v1`, `module:Id-v0`), a function or class that makes an environment, an environment, or a
    vector environment. horizon: H (default: the environment's own limit). width: copies to make of an id or a function
    (default 1). imports: packages that register environments. levels: values in every dimension of Box actions.
    workers: processes that play the copies (16 of them if nobody says). step_timeout: seconds that a call of reset or
    step may take, with workers (one if nobody says). skip_bad: episodes that go wrong are left out. cluster: the Dask
    scheduler (tcp://HOST:PORT) on whose workers the processes run, one on each if nobody says how many. refine: how
    many times finer (2, 4, 8) a grid of Box actions may become while it is learned. masks: whether what `info` says
    about allowed actions counts (if nobody says: where no wrapper changed the action space). settings: keyword
    arguments of the environment; one called like an option here goes through `simulator_with`.
    """
    return simulator_with(
        source,
        settings,
        horizon=horizon,
        width=width,
        imports=imports,
        levels=levels,
        workers=workers,
        step_timeout=step_timeout,
        skip_bad=skip_bad,
        cluster=cluster,
        refine=refine,
        masks=masks,
    )


def simulator_with(
    source: Any,
    settings: Mapping[str, Any],
    *,
    horizon: int | None = None,
    width: int | None = None,
    imports: Sequence[str] = (),
    levels: int | Sequence[int] | None = None,
    workers: int | None = None,
    step_timeout: float | None = None,
    skip_bad: bool = False,
    cluster: str | None = None,
    refine: int | None = None,
    masks: bool | None = None,
) -> GymSimulator:
    """`open_simulator` with the settings of the environment in a mapping."""
    make = maker(source, settings, imports)
    limit_each = None if step_timeout is None else checks.positive(step_timeout, "step_timeout")
    processes = None if workers is None else checks.whole(workers, "workers")
    apart = processes is not None or limit_each is not None or cluster is not None
    copies = None if width is None else checks.whole(width, "width")
    first = source if make is None else make()
    name = name_of(first, source)
    opened = [] if make is None else [first]
    try:
        vector = is_vector(first)
        own = int(first.num_envs) if vector else 1
        if make is None or vector:
            asked = {"workers": (processes or 1) if apart and cluster is None else None, "cluster": cluster}
            _as_it_is(name, own, width=copies if copies != own else None, skip_bad=skip_bad or None, **asked)
        space, moves = spaces_of(first)
        levels = levels if refine is None else finer_levels(moves, levels, refine)
        encoder, actions = Encoder.of(space), Actions.of(moves, levels)
        limit = limit_of(first)
        if horizon is None and limit is None:
            raise InputError(f"horizon: {name} has no limit on the steps of an episode; give horizon=...")
        notes = _notes(moves, actions, horizon, limit, refine)
        steps = checks.whole(limit if horizon is None else horizon, "horizon")
        reader = MaskReader.of(first, moves, actions, masks)
        player: Player
        if vector:
            player = Vector(first, name, encoder, actions, make is not None, reader)
        elif apart:
            about = {"name": name, "masks": masks, **recipe(source, settings, imports, levels, first)}
            shape = (copies or SIDE_BY_SIDE, encoder.n_features)
            there = None if cluster is None else DaskCluster(cluster)
            count = processes or (1 if there is None else max(len(there.workers), 1))
            player = InWorkers(about, name, shape, count, limit_each, skip_bad, there)
            with foreign(f"{name}, close"):
                first.close()
        else:
            while make is not None and len(opened) < (copies or 1):
                opened.append(make())
                _same_spaces(opened[-1], encoder, actions, levels, name)
            if skip_bad:
                player = RowsHere(opened, name, encoder, actions, True, reader)
            else:
                player = Copies(opened or [first], name, encoder, actions, make is not None, reader)
        made = GymSimulator(player, name, steps, encoder, actions, notes)
        if refine is not None:
            made.grid = ActionGrid(tuple(levels), refine)  # type: ignore[arg-type]
        if make is not None and not vector:
            made.recipe = _recipe_or_reason(name, source, settings, imports, levels, first)
        return made
    except InputError:
        for env in opened:
            with contextlib.suppress(InputError), foreign(f"{name}, close"):
                env.close()
        raise


def _recipe_or_reason(name: str, *parts: Any) -> dict[str, Any] | str:
    try:
        return {"name": name, **recipe(*parts)}
    except InputError as error:
        return str(error)


def _as_it_is(name: str, own: int, **asked: Any) -> None:
    """Raise where an environment that was handed in cannot be played as it was asked for."""
    for option, value in asked.items():
        if value is not None:
            raise InputError(
                f"{option} = {value}: {name} was given as it is, it plays {own} at once; "
                "give its id or a function that makes it"
            )


def _same_spaces(env: Any, encoder: Encoder, actions: Actions, levels: int | Sequence[int] | None, name: str) -> None:
    space, moves = spaces_of(env)
    if Encoder.of(space) != encoder or Actions.of(moves, levels) != actions:
        raise InputError(f"{name}: copies have different spaces ({space!s:.60}); give width = 1 or fix its settings")


def _notes(moves: Any, actions: Actions, horizon: int | None, limit: int | None, refine: int | None) -> list[str]:
    notes = []
    if horizon is None:
        notes.append(f"horizon {limit}, the environment's own limit (change with horizon=...)")
    elif limit is not None and checks.whole(horizon, "horizon") > limit:
        notes.append(f"horizon {horizon} is beyond the environment's own limit of {limit} steps, which ends episodes")
    if type(moves).__name__ == "Box":
        some = f", every {refine}th in each dimension at first" if refine else ""
        notes.append(f"actions: {actions.n} points of {moves}{some} (change with levels=...)")
    return notes
