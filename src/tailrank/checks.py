"""Input errors in one place.

Every message is one line that names the thing, the rule, the value found and the place. Code that
meets bad input raises `InputError`; the command line prints its message and exits with code 2.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np

LONGEST_MESSAGE = 2000
Label = TypeVar("Label")


class InputError(ValueError):
    """Bad input from the user: a message of one printable line, never a traceback on the command line."""

    def __init__(self, message: object = "") -> None:
        line = printable(" ".join(str(message).split()))
        super().__init__(line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}...")


SMALLEST_LEVEL = 1e-300
LARGEST_RETURN = 1e100
"""Levels and returns beyond these are refused: products with them would not be floats, or lose their digits."""


class ImportFailed(InputError):
    """A package that the user named cannot be imported."""


class NotConverged(UserWarning):
    """A result is valid but wider than was asked for (a limit was reached)."""


def tail_level(tau: float, name: str = "tau") -> float:
    """`tau` as a float in (0, 1]; 1 is the mean."""
    value = number(tau, name)
    if not 0.0 < value <= 1.0:
        raise InputError(f"{name} = {tau}: must lie in (0, 1] (the tail fraction of the return; 1 is the mean)")
    if value < SMALLEST_LEVEL:
        raise InputError(f"{name} = {tau}: must be at least {SMALLEST_LEVEL:g}, less cannot be told from zero")
    return value


def tail_levels(tau: float | Sequence[float]) -> tuple[float, ...]:
    """One or several tail levels as a non-empty tuple."""
    import numpy as np

    levels = (tau,) if np.ndim(tau) == 0 else tuple(np.asarray(tau, dtype=object).ravel())
    if not levels:
        raise InputError("tau: at least one tail level is needed, found none")
    return tuple(tail_level(level) for level in levels)


def number(value: object, name: str) -> float:
    """`value` as a finite float."""
    try:
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r:.60}: must be a number") from None
    if not math.isfinite(result):
        raise InputError(f"{name} = {value!r}: must be finite")
    return result


def numbers(column: object, name: str) -> np.ndarray:
    """`column` as a flat array of floats (not yet checked to be finite)."""
    import numpy as np

    try:
        return np.array(column, dtype=np.float64).ravel()
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}: must be a column of numbers, found {column!r:.60}") from None


def returns(values: object, name: str) -> np.ndarray:
    """`values` as a flat, non-empty array of returns: finite floats that can be computed with."""
    import numpy as np

    result = numbers(values, name)
    if result.size == 0:
        raise InputError(f"{name}: at least one is needed, found none")
    bad = np.flatnonzero(~(np.abs(result) <= LARGEST_RETURN))
    if bad.size:
        rule = "must be finite" if not np.isfinite(result[bad[0]]) else f"must be at most {LARGEST_RETURN:g} in size"
        raise InputError(f"{name}[{bad[0]}] = {result[bad[0]]}: {rule}")
    return result


def whole(value: object, name: str, least: int = 1) -> int:
    """`value` as an int that is at least `least`."""
    result = number(value, name)
    if result != int(result) or result < least:
        raise InputError(f"{name} = {value}: must be a whole number of at least {least}")
    return int(result)


def positive(value: object, name: str) -> float:
    """`value` as a finite float above 0."""
    result = number(value, name)
    if result <= 0.0:
        raise InputError(f"{name} = {value}: must be positive")
    return result


def not_negative(value: object, name: str) -> float:
    """`value` as a finite float that is 0 or above."""
    result = number(value, name)
    if result < 0.0:
        raise InputError(f"{name} = {value}: must not be negative")
    return result


def inside(value: object, name: str, interval: str) -> float:
    """`value` as a float in an interval such as "[0, 1)"; a round bracket leaves out its end."""
    result = number(value, name)
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = result > low if interval.startswith("(") else result >= low
    below = result < high if interval.endswith(")") else result <= high
    if not (above and below):
        raise InputError(f"{name} = {value}: must lie in {interval}")
    return result


MOST_NUMBERS = 2 * 10**8
"""What a process or an environment may keep, by its sizes alone: 1.6 GB of floats."""
LONGEST = 10**6
"""Steps of an episode."""


def affordable(numbers: int, sizes: str) -> None:
    """Raise where a thing of these sizes would keep too many numbers: settings and files come from others, too."""
    if numbers > MOST_NUMBERS:
        raise InputError(f"{sizes}: would keep {numbers} numbers, must be at most {MOST_NUMBERS}; choose smaller ones")


def steps(value: object, least: int = 1) -> int:
    """A horizon: a whole number of at least `least`, and not beyond all patience."""
    result = whole(value, "horizon", least)
    if result > LONGEST:
        raise InputError(f"horizon = {result}: must be at most {LONGEST}")
    return result


def discount_factor(value: object) -> float:
    """A discount in (0, 1]."""
    return inside(value, "discount", "(0, 1]")


def indices(values: np.ndarray, name: str, size: int, place: str) -> None:
    """Raise unless all values [n] lie in 0..size - 1."""
    import numpy as np

    if values.size and not 0 <= int(values.min()) <= int(values.max()) < size:
        i = int(np.flatnonzero((values < 0) | (values >= size))[0])
        raise InputError(f"{name}[{i}] = {values[i]} {place}: must lie in 0..{size - 1}")


def span(values: object, name: str) -> tuple[float, float]:
    """Two finite floats, the first at most the second."""
    if not isinstance(values, Iterable) or len(ends := tuple(values)) != 2:
        raise InputError(f"{name} = {values!r:.60}: must be two numbers, the least and the largest")
    low, high = (number(end, name) for end in ends)
    if low > high:
        raise InputError(f"{name} = {low:g} {high:g}: the first must not be above the second")
    return low, high


def different(labels: Iterable[Label], name: str) -> tuple[Label, ...]:
    """The labels as a tuple; raises where one is there twice."""
    if not isinstance(labels, Iterable):
        raise InputError(f"{name} = {labels!r:.60}: must be a list of numbers or names")
    places: dict[Label, int] = {}
    for i, label in enumerate(labels):
        if places.setdefault(label, i) < i:
            raise InputError(f"{name}: {label!r:.60} is there twice, in {name}[{places[label]}] and {name}[{i}]")
    return tuple(places)


def one_of(value: str, name: str, allowed: Iterable[str]) -> str:
    """`value` if it is allowed, otherwise an error that suggests the nearest allowed name."""
    allowed = list(allowed)
    if value in allowed:
        return value
    raise InputError(f"{name} = {value!r}: must be one of {', '.join(allowed)}{did_you_mean(value, allowed)}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion such as ` (did you mean 'cvar'?)`, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1) if isinstance(word, str) else []
    return f" (did you mean {near[0]!r}?)" if near else ""


def law(values: object, name: str, size: int) -> np.ndarray:
    """A probability vector [size] that sums to one, normalised to the last bit."""
    import numpy as np

    try:
        result = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: must be {size} probabilities, found {values!r:.80}") from None
    if result.shape != (size,):
        raise InputError(f"{name}: must be {size} probabilities, found shape {result.shape}")
    bad = np.flatnonzero(~(result >= 0))
    if bad.size:
        raise InputError(f"{name}[{bad[0]}] = {result[bad[0]]}: a probability must not be negative or NaN")
    total = float(result.sum())
    if not abs(total - 1.0) <= PROBABILITY_TOLERANCE:
        raise InputError(f"{name} sums to {total:.9g}, expected 1")
    return normalised(result, total, size)


def normalised(p: np.ndarray, total: np.ndarray | float, count: np.ndarray | int) -> np.ndarray:
    """`p` divided by `total`, unless that is one but for the rounding of `count` additions.

    So that a law that was normalised once is never changed again.
    """
    import numpy as np

    noise = np.abs(np.asarray(total) - 1.0) <= 2.0 * np.finfo(np.float64).eps * np.asarray(count)
    return np.asarray(np.where(noise, p, p / total))


PROBABILITY_TOLERANCE = 1e-6
"""How far probabilities given in decimals may be from summing to one; they are then normalised."""


def printable(text: str) -> str:
    r"""The text with everything that is no letter, sign or plain space written out: `\x1b`, `\n`, `\u202e`.

    On a terminal, control characters could move the cursor, hide a line or forge one.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
