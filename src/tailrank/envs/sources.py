"""One way to name a problem: `read` for a finite MDP that is known, `make` for an environment to learn in.

Both take whatever people have: a path, the id of a Gymnasium environment, an environment, a function that makes one, a
data frame, rows, arrays, a `FiniteMDP`, or the name of an environment of this package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.built_in.episodic import Episodic
from tailrank.envs.built_in.from_mdp import from_mdp
from tailrank.envs.gymnasium.tables import NoTable, environment_draft, read_environment
from tailrank.envs.mdp_files.draft import Draft, Source, finish
from tailrank.envs.mdp_files.formats import suffixes
from tailrank.envs.mdp_files.in_memory import arrays_draft, frame_draft, is_frame, rows_draft, start_of
from tailrank.envs.mdp_files.read_write import read_mdp
from tailrank.envs.protocols import CountableEnv, Simulator
from tailrank.envs.registry import ENVIRONMENTS, SIMULATORS, make_episodic, make_simulator
from tailrank.models.mdp import FiniteMDP

KINDS = ("auto", "states", "observations")
READING = ("horizon", "discount", "start", "index_base", "axis_order", "imports")
MOST_ENTRIES = 2 * 10**7
"""Entries of the tables of counts of all steps, (H - 1) S^2 A, up to which an environment is learned state by state."""
FORMS = "a path, a Gymnasium id, an environment, a data frame, rows, arrays (P, R) or a FiniteMDP"


def read(
    source: Any,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: object = None,
    index_base: int | str = "auto",
    axis_order: str = "auto",
    imports: Sequence[str] = (),
    **settings: Any,
) -> Source:
    """The finite MDP of `source`, with its name and remarks on what was assumed.

    source: a path (.csv, .json, .npz), a Gymnasium id, an environment that has a transition table, a data frame
    with the columns state, action, next_state, probability, reward (or s, a, s', p, r), a list of such rows, a pair
    (P, R) or a mapping with the arrays P and R, a `FiniteMDP`, or the name of an environment of this package.
    horizon: number of steps. discount: in (0, 1]. start: a state or a law, in the source's own names. index_base: what
    states are counted from, 0, 1 or "auto". axis_order: of P, "state-first", "action-first" or "auto". imports:
    packages that register environments. settings: of the environment, by name.

    >>> rows = [("on", "keep", "on", 0.9, 1), ("on", "keep", "off", 0.1, 0), ("on", "mend", "on", 1, 0.5)]
    >>> read(rows, horizon=3).mdp.labels
    ('on', 'off')
    """
    said = {"horizon": horizon, "discount": discount, "start": start}
    if isinstance(source, Source | FiniteMDP):
        return _again(source, **said)
    if isinstance(source, str) and source in ENVIRONMENTS:
        source, settings = make_episodic(source, **settings), {}
    if settings and not is_id(source):
        raise InputError(f"{next(iter(settings))}: settings belong to an environment by name, not to {_name(source)}")
    if isinstance(source, Episodic):
        return _again(Source(source.truth, source.name, source.notes), **said)
    if settings:
        return finish(read_environment(source, imports, horizon, start, settings), source, **said)
    if isinstance(source, str | Path):
        return read_mdp(source, **said, index_base=index_base, axis_order=axis_order, imports=imports)  # type: ignore[arg-type]
    base = checks.one_of(str(index_base), "index_base", ("auto", "0", "1"))
    draft, name = _draft(source, None if base == "auto" else int(base), axis_order, horizon, start)
    return finish(draft, name, **said)


def make(
    source: Any,
    *,
    kind: str = "auto",
    horizon: int | None = None,
    discount: float | None = None,
    start: object = None,
    imports: Sequence[str] = (),
    upsilon: float | None = None,
    width: int | None = None,
    levels: int | Sequence[int] | None = None,
    workers: int | None = None,
    step_timeout: float | None = None,
    skip_bad: bool = False,
    cluster: str | None = None,
    refine: int | None = None,
    masks: bool | None = None,
    **settings: Any,
) -> CountableEnv | Simulator:
    """The environment of `source`, to learn and to play in.

    source: the name of an environment of this package (`risky-lock`, `rich-lock`), a Gymnasium id, an environment, a
    function that makes one, or a finite MDP in any form that `solve` takes. kind: "states" if states are to be counted
    (a finite MDP, or an environment whose transition table can be read), "observations" if only what is observed is to
    be used; "auto" is "states" for finite MDPs and for ids of environments that have a table.
    horizon, discount, start, imports: as in `solve`. upsilon: spacing of the grid that rewards are rounded up to.
    width: copies that play side by side. levels: values in every dimension of continuous actions. workers,
    step_timeout, skip_bad, cluster, refine, masks: as in `open_simulator`. settings: of the environment, by name.

    >>> make("risky-lock", horizon=5).n_actions, make("CartPole-v1").n_features
    (4, 4)
    """
    checks.one_of(kind, "kind", KINDS)
    if hasattr(source, "truth") or hasattr(source, "n_features"):
        return _fitting(source, kind)
    if isinstance(source, str) and source in (*ENVIRONMENTS, *SIMULATORS):
        return _built_in(source, kind, settings if horizon is None else settings | {"horizon": horizon})
    finite = not (_is_environment(source) or callable(source) or is_id(source))
    if finite or kind == "states" or (kind == "auto" and is_id(source)):
        if kind == "observations":
            raise InputError(f"kind = 'observations': {_name(source)} is a finite MDP, which has states")
        try:
            found = read(source, horizon=horizon, discount=discount, start=start, imports=imports, **settings)
            return from_mdp(found.mdp, upsilon, name=found.name)
        except NoTable:
            if kind == "states":
                raise
    from tailrank.envs.gymnasium.simulator import simulator_with

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


def many_states(mdp: FiniteMDP) -> str:
    """Why states that could be counted are better learned from what is observed; empty where they are few enough."""
    if (mdp.horizon - 1) * mdp.n_states**2 * mdp.n_actions <= MOST_ENTRIES:
        return ""
    return (
        f"{mdp.n_states} states are too many for a model of each of {mdp.horizon} steps: learned from what is observed"
    )


def _draft(source: Any, base: int | None, axis_order: str, horizon: object, start: object) -> tuple[Draft, str]:
    if _is_environment(source):
        return environment_draft(source, _name(source), horizon, start), _name(source)
    if isinstance(source, Mapping) and {"P", "R"} <= set(source):
        return arrays_draft(base=base, axis_order=axis_order, **source), "arrays"
    if isinstance(source, tuple) and len(source) == 2 and _depth(source[0]) >= 3:
        return arrays_draft(*source, base=base, axis_order=axis_order), "arrays"
    if is_frame(source):
        return frame_draft(source, base), "frame"
    if isinstance(source, list | tuple) or (isinstance(source, np.ndarray) and source.ndim == 2):
        return rows_draft(source, base), "rows"
    if isinstance(source, np.ndarray):
        raise InputError(f"source: is one array of shape {list(source.shape)}; give P and R as a pair (P, R)")
    raise InputError(f"source = {source!r:.60}: must be {FORMS}")


def _again(source: Source | FiniteMDP, *, horizon: object, discount: object, start: object) -> Source:
    """An MDP as it is, with another discount or start; the horizon only where all steps are alike."""
    given = source if isinstance(source, Source) else Source(source, "mdp")
    mdp = given.mdp
    if horizon is not None and checks.whole(horizon, "horizon") != mdp.horizon:
        if mdp.n_blocks > 1:
            raise InputError(f"horizon = {horizon}: the rows of the MDP are those of {mdp.horizon} steps")
        mdp = replace(mdp, horizon=checks.steps(horizon))
    if discount is not None:
        mdp = replace(mdp, discount=checks.discount_factor(discount))
    if start is not None:
        mdp = replace(mdp, start=start_of(start, mdp.labels))
    return replace(given, mdp=mdp)


def _built_in(name: str, kind: str, settings: dict[str, Any]) -> CountableEnv | Simulator:
    if name in ENVIRONMENTS and kind != "observations":
        return make_episodic(name, **settings)
    if name not in SIMULATORS:
        raise InputError(f"kind = 'observations': {name} has states; {next(iter(SIMULATORS))} shows observations")
    return _fitting(make_simulator(name, **settings), kind)


def _fitting(env: Any, kind: str) -> Any:
    own = "states" if hasattr(env, "truth") else "observations"
    if kind not in ("auto", own):
        raise InputError(f"kind = {kind!r}: {env.name} has {own}")
    return env


def is_id(source: Any) -> bool:
    """Whether it is the id of a Gymnasium environment (`read_mdp` knows files by their ending)."""
    return isinstance(source, str) and not source.lower().endswith(suffixes()) and not os.path.exists(source)


def _is_environment(source: Any) -> bool:
    return hasattr(source, "observation_space") and hasattr(source, "reset")


def _name(source: Any) -> str:
    spec = getattr(getattr(source, "spec", None), "id", None)
    return str(spec or (source if isinstance(source, str) else type(getattr(source, "unwrapped", source)).__name__))


def _depth(values: Any) -> int:
    """Axes of an array or of nested lists; a list of sparse matrices has three."""
    if hasattr(values, "toarray"):
        return 2
    if isinstance(values, list | tuple):
        return 1 + (_depth(values[0]) if len(values) else 0)
    return int(np.ndim(values))
