"""Loops over rows of numbers as LLVM's own vectors: what the innermost kernels spend their time on.

Numba would take a second to compile what is written here in a few instructions, and its loops would end in scalar
ones. Here a few vectors of a row are held in registers while all rows are gone through, so every number is read once
and every result is written once. What each function computes is said, in plain Python, where it is named:
`planning/_row_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils

REAL, WHOLE = ir.DoubleType(), ir.IntType(64)
SUMMED = ((8, 4), (8, 2), (8, 1), (1, 1))
"""Lanes of a vector and vectors held at a time: many as long as there are so many numbers, then fewer, then single
ones."""
COMPARED = ((8, 1), (1, 1))
"""The same where three numbers are held for each: more would not fit into registers."""
FLAGS = ("contract", "nsz", "arcp")


class Loops:
    """Emits the loops of one instruction."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self.arguments = [
            context.make_array(kind)(context, builder, value).data if isinstance(kind, numba.types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        ]

    def over_vectors(self, n: Any, shapes: tuple[tuple[int, int], ...]) -> Iterator[tuple[list[Any], ir.Type]]:
        """For each shape, inside its loop over 0..n-1: where its vectors begin, and their type."""
        b, begin = self.builder, ir.Constant(WHOLE, 0)
        for lanes, vectors in shapes:
            step = lanes * vectors
            kind = ir.VectorType(REAL, lanes) if lanes > 1 else REAL
            rest = b.urem(b.sub(n, begin), ir.Constant(WHOLE, step))
            end = b.sub(n, rest)
            with cgutils.for_range_slice(b, begin, end, ir.Constant(WHOLE, step)) as (i, _):
                yield [b.add(i, ir.Constant(WHOLE, j * lanes)) for j in range(vectors)], kind
            begin = end

    def over_rows(self, begin: Any, end: Any) -> Any:
        """The loop over rows begin..end-1."""
        return cgutils.for_range_slice(self.builder, begin, end, ir.Constant(WHOLE, 1))

    def held(self, kind: ir.Type, value: Any) -> Any:
        """A register of this type that holds a value."""
        place = cgutils.alloca_once(self.builder, kind)
        self.builder.store(value, place)
        return place

    def item(self, array: Any, index: Any) -> Any:
        """array[index]."""
        return self.builder.load(self.builder.gep(array, [index]))

    def vector(self, array: Any, index: Any, kind: ir.Type) -> Any:
        """The vector array[index], array[index + 1], .."""
        return self.builder.load(self._at(array, index, kind), align=8)

    def put(self, value: Any, array: Any, index: Any) -> None:
        """Write a vector to array[index], array[index + 1], .."""
        self.builder.store(value, self._at(array, index, value.type), align=8)

    def all_lanes(self, value: Any, kind: ir.Type) -> Any:
        """The vector that has a number in every lane."""
        if kind == REAL:
            return value
        b, lanes = self.builder, ir.VectorType(ir.IntType(32), kind.count)
        one = b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        return b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(lanes, None))

    def _at(self, array: Any, index: Any, kind: ir.Type) -> Any:
        return self.builder.bitcast(self.builder.gep(array, [index]), kind.as_pointer())


def _sum_rows(loops: Loops) -> None:
    b = loops.builder
    x, to, n, at, weight, begin, end, shift, v, base, more = loops.arguments
    for places, kind in loops.over_vectors(n, SUMMED):
        fresh = loops.all_lanes(base, kind)
        targets = [b.add(to, i) for i in places]
        sums = [loops.held(kind, b.select(more, loops.vector(x, i, kind), fresh)) for i in targets]
        with loops.over_rows(begin, end) as (r, _):
            p = loops.all_lanes(loops.item(weight, r), kind)
            row = b.add(loops.item(at, r), shift)
            for i, total in zip(places, sums, strict=True):
                term = b.fmul(p, loops.vector(v, b.add(row, i), kind), flags=FLAGS)
                b.store(b.fadd(b.load(total), term, flags=FLAGS), total)
        for i, total in zip(targets, sums, strict=True):
            loops.put(b.load(total), x, i)


def _lowest(loops: Loops) -> None:
    b = loops.builder
    x, at, bonus, name, m, n, tie, best, chosen, label = loops.arguments
    zero = ir.Constant(WHOLE, 0)
    for places, kind in loops.over_vectors(n, COMPARED):
        suffix = "f64" if kind == REAL else f"v{kind.count}f64"
        size = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind]), f"llvm.fabs.{suffix}")
        near, far = loops.all_lanes(tie, kind), loops.all_lanes(ir.Constant(REAL, float("inf")), kind)

        def value(r: Any, i: Any, kind: ir.Type = kind) -> Any:
            row = loops.vector(x, b.add(loops.item(at, r), i), kind)
            return b.fsub(row, loops.all_lanes(loops.item(bonus, r), kind), flags=FLAGS)

        least = [loops.held(kind, value(zero, i)) for i in places]
        other = [loops.held(kind, far) for _ in places]
        which = [loops.held(kind, loops.all_lanes(loops.item(name, zero), kind)) for _ in places]
        with loops.over_rows(ir.Constant(WHOLE, 1), m) as (r, _):
            own = loops.all_lanes(loops.item(name, r), kind)
            for i, low, rival, who in zip(places, least, other, which, strict=True):
                q, before = value(r, i), b.load(low)
                bar = b.fsub(before, b.fmul(near, b.call(size, [before]), flags=FLAGS), flags=FLAGS)
                b.store(b.select(b.fcmp_ordered("<", q, bar), own, b.load(who)), who)
                less = b.fcmp_ordered("<", q, before)
                larger, second_least = b.select(less, before, q), b.load(rival)
                b.store(b.select(b.fcmp_ordered("<", larger, second_least), larger, second_least), rival)
                b.store(b.select(less, q, before), low)
        several = loops.all_lanes(ir.Constant(REAL, -1.0), kind)
        for i, low, rival, who in zip(places, least, other, which, strict=True):
            value_of_best, winner = b.load(low), b.load(who)
            bar = b.fadd(value_of_best, b.fmul(near, b.call(size, [value_of_best]), flags=FLAGS), flags=FLAGS)
            tied = b.fcmp_ordered("<=", b.load(rival), bar)
            for array, found in ((best, value_of_best), (chosen, winner), (label, b.select(tied, several, winner))):
                loops.put(found, array, i)


def _typed(emit: Callable[[Loops], None], given: tuple[Any, ...]) -> Any:
    """What Numba asks of an instruction: its signature for arguments of these types, and its code."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit(Loops(context, builder, signature, arguments))
        return context.get_dummy_value()

    whole = numba.types.Integer
    return numba.types.none(*(numba.types.int64 if isinstance(kind, whole) else kind for kind in given)), generate


@numba.extending.intrinsic
def sum_rows(
    typing: Any,
    x: Any,
    to: Any,
    n: Any,
    at: Any,
    weight: Any,
    begin: Any,
    end: Any,
    shift: Any,
    v: Any,
    base: Any,
    more: Any,
) -> Any:
    """See `planning/_row_kernels.py`."""
    return _typed(_sum_rows, (x, to, n, at, weight, begin, end, shift, v, base, more))


@numba.extending.intrinsic
def lowest(
    typing: Any, x: Any, at: Any, bonus: Any, name: Any, m: Any, n: Any, tie: Any, best: Any, chosen: Any, label: Any
) -> Any:
    """See `planning/_row_kernels.py`."""
    return _typed(_lowest, (x, at, bonus, name, m, n, tie, best, chosen, label))
