"""Named arrays checked against a table of descriptions, before compiled code uses them: it does not check indices.

A description says type, axes and range of an array in one line:

    {"base": "float [T=1|H, K] >= 0", "moves": "float [T, K, A, K] >= 0, sums to 1", "ptr": "whole [H+1] offsets of n"}

- type: `float` (32 or 64 bits), `whole` (integers of any width, below 2^53 in size), `number` (either) or a NumPy type
  (`uint64`, `bool`).
- axes: a number; a letter, which stands for one positive size in the whole table; sums and products of these; `a|b` for
  either; `x=` before any of them gives the size a name; `*` is any size, `n*` a named one that may be 0.
- range: comparisons with numbers or sizes, `increasing` or `ordered` (never decreasing) or `sums to 1` along the last
  axis, `offsets of n` (from 0 to n, ordered). Floats must be finite, unless `any` says that the caller looks at them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping

import numpy as np

from tailrank.checks import PROBABILITY_TOLERANCE, InputError

Arrays = Mapping[str, np.ndarray]
DESCRIPTION = re.compile(r"(\w+) \[(.*)\] ?(.*)")
COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
KINDS = {"whole": "iu", "number": "iuf"}
LARGEST_WHOLE = 2**53
"""Integers beyond it are not exact as floats."""


def check_arrays(arrays: Arrays, described: Mapping[str, str], where: str = "", **sizes: int) -> dict[str, int]:
    """The size of every letter; an `InputError` names the first array that is not as described.

    where: goes before the names in messages. sizes: letters that are known already.
    """
    if set(arrays) != set(described):
        wanted, held = sorted(set(described) - set(arrays)), sorted(set(arrays) - set(described))
        rule = f"must hold {wanted!s:.300}" if wanted else f"must not hold {held!s:.200}"
        raise InputError(f"{where.rstrip('.') or 'arrays'}: {rule}; found {sorted(arrays)!s:.200}")
    for name, text in described.items():
        check_array(arrays[name], f"{where}{name}", text, sizes)
    return sizes


def check_array(array: np.ndarray, name: str, description: str, sizes: dict[str, int]) -> None:
    """Raise unless the array is as described; letters that are met for the first time are added to `sizes`."""
    kind, axes, rules = DESCRIPTION.fullmatch(description).groups()  # type: ignore[union-attr]
    axes = [axis.strip() for axis in axes.split(",")] if axes else []
    before = dict(sizes)
    fits = array.ndim == len(axes) and all(_is_size(n, axis, sizes) for n, axis in zip(array.shape, axes, strict=True))
    if not fits or not _is_kind(array, kind):
        known = ", ".join(f"{k} = {v}" for k, v in before.items() if re.search(rf"\b{k}\b", " ".join(axes)))
        wanted = f"{kind} [{', '.join(axes)}]{f' with {known}' if known else ''}"
        raise InputError(f"{name}: must be {wanted}, found {array.dtype} of shape {list(array.shape)}")
    if kind == "whole" and array.size and max(int(array.max()), -int(array.min())) >= LARGEST_WHOLE:
        raise InputError(f"{name}: is out of range, must lie below 2^53 in size")
    if array.dtype.kind == "f" and "any" not in rules and not np.isfinite(array).all():
        raise InputError(f"{name}: must be finite")
    for rule in filter(None, rules.split(", ")):
        if not _holds(array, rule, sizes):
            raise InputError(f"{name}: must {_say(rule, array, sizes)}")


def _is_kind(array: np.ndarray, kind: str) -> bool:
    if kind == "float":
        return array.dtype in (np.float32, np.float64)
    return array.dtype.kind in KINDS[kind] if kind in KINDS else array.dtype == np.dtype(kind)


def _is_size(n: int, axis: str, sizes: dict[str, int]) -> bool:
    name, equals, choices = axis.rpartition("=")
    if equals:
        fits = any(_is_size(n, choice, sizes) for choice in choices.split("|"))
        return fits and sizes.setdefault(name, n) == n
    if "|" in axis:
        return any(_is_size(n, choice, sizes) for choice in axis.split("|"))
    if axis.endswith("*"):
        return axis == "*" or sizes.setdefault(axis[:-1], n) == n
    if axis.isidentifier() and axis not in sizes:
        sizes[axis] = n
        return n > 0
    return n == _value(axis, sizes)


def _value(text: str, sizes: Mapping[str, int]) -> int:
    """The value of a sum of products of numbers and letters."""
    products = ([x.strip() for x in term.split("*")] for term in text.split("+"))
    return sum(math.prod(sizes[x] if x in sizes else int(x) for x in factors) for factors in products)


def _holds(array: np.ndarray, rule: str, sizes: Mapping[str, int]) -> bool:
    sign, _, bound = rule.partition(" ")
    if sign in COMPARISONS:
        return bool(COMPARISONS[sign](array, _value(bound, sizes)).all())
    if rule == "sums to 1":
        return bool((np.abs(array.sum(axis=-1) - 1.0) < PROBABILITY_TOLERANCE).all())
    if rule in ("increasing", "ordered"):
        later, earlier = array[..., 1:], array[..., :-1]  # a difference of unsigned numbers would wrap
        return bool((later > earlier if rule == "increasing" else later >= earlier).all())
    if rule.startswith("offsets of "):
        ends = array.size > 0 and bool(
            (array[..., 0] == 0).all() and (array[..., -1] == _value(rule[11:], sizes)).all()
        )
        return ends and _holds(array, "ordered", sizes)
    return rule == "any"


def _say(rule: str, array: np.ndarray, sizes: Mapping[str, int]) -> str:
    """The rule that an array breaks, and the entry that breaks a comparison most."""
    sign, _, bound = rule.partition(" ")
    if sign in COMPARISONS:
        return f"be {sign} {_value(bound, sizes)}, holds {array.min() if sign.startswith('>') else array.max()}"
    if rule.startswith("offsets of "):
        return f"lead from 0 to {_value(rule[11:], sizes)} and never decrease"
    return "sum to 1" if rule == "sums to 1" else f"be {rule}"


def arrays_below(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
