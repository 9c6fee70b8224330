"""From raw columns to an `EpisodeLog`: rows in order, every rule checked, the end of every episode understood."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.logs.columns import Place, Raw, RawTable, assigned, floats, labels, truths, vectors
from tailrank.envs.logs.log import EpisodeLog, Label

NEEDED = ("episode", "action", "reward")
LIST = re.compile(r"[\s,;|\[\]()]+")


def assemble(
    table: RawTable,
    *,
    columns: Mapping[str, str] | None = None,
    horizon: int | None = None,
    states: Sequence[Label] = (),
    actions: Sequence[Label] = (),
) -> EpisodeLog:
    """The log of a table. columns: our names to the table's; horizon: H, the longest episode if nobody says.

    states, actions: the labels that there are, where they are known; others are refused.
    """
    states, actions = checks.different(states, "states"), checks.different(actions, "actions")
    names = assigned(list(table.columns), columns or {})
    here, after = vectors(list(table.columns), list(names.values()))
    missing = [name for name in NEEDED if name not in names]
    if "state" not in names and not here:
        missing.insert(1, "state (or obs_0, obs_1, ..)")
    if missing:
        found = ", ".join(list(table.columns)[:12]) or "none"
        raise InputError(f"{table.name}: has no column {', '.join(missing)}; found {found}; name them: columns=...")
    if table.rows == 0:
        raise InputError(f"{table.name}: has no rows")
    raw = {ours: table.columns[theirs] for ours, theirs in names.items()}
    (episode,), _ = labels({names["episode"]: raw["episode"]}, table.place)
    step = None if "step" not in names else floats(raw["step"], names["step"], table.place)
    order, begin = _ordered(episode, step, names.get("step", "step"), table.place)
    place: Place = lambda i: table.place(int(order[i]))  # noqa: E731
    raw = {ours: _taken(column, order) for ours, column in raw.items()}
    steps = np.arange(order.size) - np.repeat(begin[:-1], np.diff(begin))
    longest = int(np.diff(begin).max())
    H = longest if horizon is None else checks.steps(horizon)
    if longest > H:
        i = int(np.flatnonzero(steps == H)[0])
        raise InputError(
            f"{place(i)}, column {names.get('step', 'step')!r}: an episode has more steps than horizon = {H}"
        )
    observed = bool(here) and "state" not in names
    notes = [] if step is not None else ["there is no step column: the rows of an episode are in order"]
    reward = floats(raw["reward"], names["reward"], place)
    (action,), action_labels = labels({names["action"]: raw["action"]}, place, actions)
    last = np.zeros(order.size, dtype=bool)
    last[begin[1:] - 1] = True
    ended, cut = _ends(raw, names, place, last, steps, H, notes)
    observation = next_observation = None
    if observed:
        observation = np.stack([floats(_taken(table.columns[c], order), c, place) for c in here], axis=1)
        next_observation = _next_rows(observation, last)
        if after and len(after) == len(here):
            next_observation = np.stack([floats(_taken(table.columns[c], order), c, place) for c in after], axis=1)
        state, next_state, state_labels = (
            np.zeros(order.size, dtype=np.int64),
            np.zeros(order.size, dtype=np.int64),
            tuple[Label, ...]((0,)),
        )
        unknown = np.isnan(next_observation).any(axis=1)
        next_state = np.where(unknown, -1, next_state)
    else:
        state, next_state, state_labels = _states(raw, names, place, last, ended, states)
    next_state = np.where(ended, len(state_labels), next_state)
    probability = None
    if "probability" in names:
        probability = floats(raw["probability"], names["probability"], place)
        bad = np.flatnonzero(~((probability > 0.0) & (probability <= 1.0 + checks.PROBABILITY_TOLERANCE)))
        if bad.size:
            rule = "must lie in (0, 1]: the action was taken"
            where = f"{place(int(bad[0]))}, column {names['probability']!r:.60}"
            raise InputError(f"{where}: {probability[bad[0]]} {rule}")
        probability = np.minimum(probability, 1.0)
    allowed = None
    if "admissible" in names and not observed:
        allowed = _admissible(
            raw["admissible"], names["admissible"], place, state, action, len(state_labels), action_labels
        )
    return EpisodeLog(
        begin=begin,
        state=state.astype(np.int32),
        action=action.astype(np.int32),
        next_state=next_state.astype(np.int32),
        reward=reward,
        states=state_labels,
        actions=action_labels,
        horizon=H,
        cut=cut,
        probability=probability,
        observation=observation,
        next_observation=next_observation,
        admissible=allowed,
        name=table.name,
        notes=tuple(notes),
    )


def _taken(column: Raw, order: np.ndarray) -> Raw:
    if isinstance(column, np.ndarray):
        return column[order]
    if np.array_equal(order, np.arange(order.size)):
        return column
    return [column[i] for i in order]


def _ordered(episode: np.ndarray, step: np.ndarray | None, name: str, place: Place) -> tuple[np.ndarray, np.ndarray]:
    """Rows [T] by episode (as they first appear) and step, and where episodes begin [n + 1]."""
    _, first, inverse = np.unique(episode, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    number = rank[inverse]
    order = np.argsort(number, kind="stable") if step is None else np.lexsort((step, number))
    begin = np.concatenate([[0], np.cumsum(np.bincount(number))])
    if step is not None:
        _check_steps(step[order], begin, lambda i: f"{place(int(order[i]))}, column {name!r:.60}")
    return order, begin


def _check_steps(step: np.ndarray, begin: np.ndarray, where: Place) -> None:
    """Raise unless every episode's steps are base, base + 1, .. with base 0 or 1, the same for all."""
    base = float(step[begin[:-1]].min())
    odd = np.flatnonzero(step != np.floor(step))
    if odd.size:
        raise InputError(f"{where(int(odd[0]))}: {step[odd[0]]} must be a whole number")
    if base not in (0.0, 1.0):
        i = int(begin[:-1][step[begin[:-1]].argmin()])
        raise InputError(f"{where(i)}: the first step is {base:g}, must be 0 or 1")
    late = np.flatnonzero(step[begin[:-1]] != base)
    if late.size:
        i = int(begin[late[0]])
        raise InputError(f"{where(i)}: the episode begins at step {step[i]:g}, others at {base:g} (a gap)")
    inner = np.ones(step.size, dtype=bool)
    inner[begin[:-1]] = False
    moved = np.flatnonzero(inner & (np.diff(step, prepend=step[0]) != 1.0))
    if moved.size:
        i = int(moved[0])
        what = "is there twice in its episode" if step[i] == step[i - 1] else f"follows step {step[i - 1]:g} (a gap)"
        raise InputError(f"{where(i)}: step {step[i]:g} {what}")


def _ends(
    raw: Mapping[str, Raw],
    names: Mapping[str, str],
    place: Place,
    last: np.ndarray,
    steps: np.ndarray,
    H: int,
    notes: list[str],
) -> tuple[np.ndarray, np.ndarray]:
    """Where episodes end for good [T], and which were cut off before [n]."""
    said = {name: truths(raw[name], names[name], place) for name in ("terminated", "truncated") if name in raw}
    for name, flags in said.items():
        early = np.flatnonzero(flags & ~last)
        if early.size:
            raise InputError(f"{place(int(early[0]))}, column {names[name]!r:.60}: the episode goes on after its end")
    full = last & (steps == H - 1)
    short = last & ~full
    if "terminated" in said:
        ended = said["terminated"]
    elif "truncated" in said:
        ended = last & ~said["truncated"] & short
    else:
        ended = short
        if short.any():
            notes.append(
                f"no column says how episodes end: {int(short.sum())} shorter than {H} steps are taken as ended"
            )
    cut = short & ~ended
    if cut.any():
        notes.append(
            f"{int(cut.sum())} of {int(last.sum())} episodes are cut off before {H} steps: their returns are not known"
        )
    return ended, cut[last]


def _states(
    raw: Mapping[str, Raw],
    names: Mapping[str, str],
    place: Place,
    last: np.ndarray,
    ended: np.ndarray,
    given: Sequence[Label],
) -> tuple[np.ndarray, np.ndarray, tuple[Label, ...]]:
    """state, next_state [T] (-1: not known) and their labels."""
    if "next_state" not in raw:
        (state,), found = labels({names["state"]: raw["state"]}, place, given)
        return state, np.where(last, -1, np.append(state[1:], -1)), found
    theirs = names["next_state"]
    blank = _filled(raw["next_state"], raw["state"], last, ended)
    (state, after), found = labels({names["state"]: raw["state"], theirs: blank}, place, given, empty=(theirs,))
    wrong = np.flatnonzero(~last & (after != np.append(state[1:], -1)))
    if wrong.size:
        i = int(wrong[0])
        text = f"{found[after[i]]!r:.40} is not the state of the next step, {found[state[i + 1]]!r:.40}"
        raise InputError(f"{place(i)}, column {theirs!r:.60}: {text}")
    return state, after, found


def _filled(column: Raw, state: Raw, last: np.ndarray, ended: np.ndarray) -> Raw:
    """next_state, empty where an episode ended (what stands there is no state to go on from), else what follows."""
    if isinstance(column, np.ndarray) and isinstance(state, np.ndarray):
        numbers = column.astype(np.float64)
        numbers[ended] = np.nan
        gaps = np.flatnonzero(~last & np.isnan(numbers))
        numbers[gaps] = state[gaps + 1]
        return numbers
    cells = list(column)
    for i in np.flatnonzero(ended):
        cells[i] = None
    for i in np.flatnonzero(~last):
        if cells[i] is None or cells[i] == "" or cells[i] != cells[i]:
            cells[i] = state[i + 1]
    return cells


def _next_rows(rows: np.ndarray, last: np.ndarray) -> np.ndarray:
    result = np.full_like(rows, np.nan)
    inner = np.flatnonzero(~last)
    result[inner] = rows[inner + 1]
    return result


def _admissible(
    column: Raw, name: str, place: Place, state: np.ndarray, action: np.ndarray, S: int, actions: tuple[Label, ...]
) -> np.ndarray:
    """Which actions may be taken in each state, [S, A]; lists in cells, as text divided by spaces, commas or |."""
    index = {str(label): i for i, label in enumerate(actions)}
    sets: dict[str, np.ndarray] = {}
    allowed, said = np.zeros((S, len(actions)), dtype=bool), np.zeros(S, dtype=bool)
    for i, cell in enumerate(column):
        key = " ".join(map(str, cell)) if isinstance(cell, list | tuple | np.ndarray) else str(cell)
        if key not in sets:
            words = [word for word in LIST.split(key) if word]
            sets[key] = np.isin(np.arange(len(actions)), [index[word] for word in words if word in index])
        if not sets[key][action[i]]:
            text = f"action {actions[action[i]]!r:.40} was taken and is not among them"
            raise InputError(f"{place(i)}, column {name!r:.60}: {text}")
        allowed[state[i]] |= sets[key]
        said[state[i]] = True
    allowed[~said] = True
    return allowed
