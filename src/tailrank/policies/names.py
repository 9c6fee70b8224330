"""States and actions by name where they have names: a user says "red", tables say 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailrank.checks import InputError, did_you_mean


def is_named(observation: Any) -> bool:
    """Whether states are given by name, one or a batch of them."""
    return isinstance(observation, str) or (
        isinstance(observation, list | tuple | np.ndarray) and len(observation) > 0 and isinstance(observation[0], str)
    )


def numbered(observation: Any, states: Sequence[object]) -> Any:
    """The number of a state with this name, or the numbers [n] of a batch."""
    if isinstance(observation, str):
        return _number(observation, states)
    return np.array([_number(name, states) for name in observation], dtype=np.int64)


def named(numbers: Any, names: Sequence[object]) -> Any:
    """The names of these actions, or the numbers themselves where actions have no names."""
    if not names:
        return numbers
    return names[int(numbers)] if np.ndim(numbers) == 0 else [names[int(i)] for i in numbers]


def own_names(labels: Sequence[object]) -> list[object] | None:
    """Labels as a file can keep them, None where they are only the numbers from 0."""
    if all(isinstance(x, int | np.integer) and x == i for i, x in enumerate(labels)):
        return None
    return [int(x) if isinstance(x, int | np.integer) else str(x) for x in labels]


def _number(name: object, states: Sequence[object]) -> int:
    """The place of a name; one that is a number is asked for as text."""
    for i, known in enumerate(states):
        if str(known) == name:
            return i
    near = did_you_mean(str(name), map(str, states))
    few = ", ".join(map(str, states[:5])) + (", ..." if len(states) > 5 else "")
    raise InputError(
        f"state = {name!r:.60}: must be one of the states {few or 'of the policy, which have no names'}{near}"
    )
