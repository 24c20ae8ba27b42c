"""From call to launches: products of what operators give, for fused functions. The operators are
done as the product reads its factor (`kernels/headed.py`), or in a launch of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xtarget import spec

from ..operators.rules import FLOATS_OF_8_BITS
from .elementwise import shape_of
from .layouts import broadcast_strides, merge
from .made import Made, as_bits, computed_first
from .matmul import multiply
from .matrices import Beside, Head, Tail, problem_of
from .tails import beside_of, shape_for, turned_last

__all__ = ["MOST_OF_8_BITS", "with_heads"]

#: Rows or columns up to which a factor is made of floats of 8 bits as it is read: these are taken
#: apart by each tile, which takes 0.79 x the speed of two launches for 128 (H100, 4096 x 4096).
MOST_OF_8_BITS = 64


def with_heads(
    heads: Sequence[tuple[Made, Callable[[spec.Call], spec.Plan]]],
    product: Callable[[spec.Call], spec.Plan],
    steps: str,
    result: str,
    dtype: str,
    turned: bool,
    vector: int | None,
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a product of which one factor is made of arguments, or both.

    Args:
        heads: what makes them, each with the plan of these operators alone. What belongs to one
            stands behind the factors, and what belongs to the next behind that.
        product: the plan of the product of both factors, with what stands beside it behind them.
        steps, result, dtype, turned, vector: as of `tails.with_tail`.
    """
    begins = [2 + sum(made.count for made, _ in heads[:number]) for number in range(len(heads))]
    behind = 2 + sum(made.count for made, _ in heads)

    def plan(call: spec.Call) -> spec.Plan:
        found = _read(call)
        if found is not None:
            return found
        # the smaller one by itself: the product reads the larger one less often
        sizes = [call.array(made.place).size for made, _ in heads]
        number = sizes.index(min(sizes))
        made, first = heads[number]
        left = (*heads[:number], *heads[number + 1 :])
        others = product
        if left:
            others = with_heads(left, product, steps, result, dtype, turned, vector)
        return computed_first(call, made, begins[number], first, others)

    def _read(call: spec.Call) -> spec.Plan | None:
        """The plan in which the product makes its factors; None: it does not."""
        shapes: dict[int, tuple[int, ...]] = {}
        for (made, _), begin in zip(heads, begins, strict=True):
            given = (call.args[made.place], *call.args[begin : begin + made.count])
            shapes[made.place] = shape_of(call, *(arg.shape for arg in given))
            if call.array(made.place).shape != shapes[made.place]:
                return None
        a, b = call.array(0), call.array(1)
        if a.ndim < 2 or b.ndim < 2:
            return None
        if 1 in shapes and b.ndim > 2:
            return None
        right = turned_last(b) if turned else b
        batch, rows, columns = shape_for(call, a, right, vector and vector + behind - 2)
        whole = batch + rows + columns
        others = (arg.shape for arg in call.args[behind:])
        out = call.output(shape_of(call, whole, *others), result)
        if out.shape != whole or not out.size or not a.shape[-1]:
            return None
        # as the first factor of the turned product, where that is the one that is read less often
        height, width = math.prod((*batch, *rows)), math.prod(columns)
        swapped = 0 not in shapes or (1 in shapes and height < width)
        readers = height if swapped else width
        narrow = any(call.array(place).dtype in FLOATS_OF_8_BITS for place in shapes)
        if narrow and readers > MOST_OF_8_BITS:
            return None
        made_of: dict[int, Head] = {}
        for (made, _), begin in zip(heads, begins, strict=True):
            shape = shapes[made.place][-2:] if made.place else (*batch, *shapes[0][-2:])
            beside = [_beside(call, i, shape) for i in range(begin, begin + made.count)]
            made_of[made.place] = Head(made.steps, tuple(beside))
        tail = tuple(beside_of(call, i, whole) for i in range(behind, len(call.args)))
        goal = out
        if batch and 1 in shapes:  # one second factor for all: these are only more rows
            of_rows = made_of[0].beside if 0 in made_of else ()
            layouts = a.strides, out.strides, *(one.strides for one in (*tail, *of_rows))
            lengths, steps_of = merge(
                (*batch, *rows), [own[:-1] for own in layouts], keep_order=True
            )
            if len(lengths) > 1:
                return None
            rows = lengths or (1,)
            flat = [
                ((over or (0,))[0], own[-1]) for over, own in zip(steps_of, layouts, strict=True)
            ]
            a = spec.ArrayType(a.dtype, (*rows, a.shape[-1]), flat[0])
            goal = spec.ArrayType(out.dtype, (*rows, out.shape[-1]), flat[1])
            moved = [
                one._replace(strides=own)
                for one, own in zip((*tail, *of_rows), flat[2:], strict=True)
            ]
            tail = tuple(moved[: len(tail)])
            if 0 in made_of:
                made_of[0] = made_of[0]._replace(beside=tuple(moved[len(tail) :]))
            batch = ()
        for place, head in made_of.items():
            if swapped != bool(turned and place):
                made_of[place] = head._replace(beside=tuple(map(_turned, head.beside)))
        if swapped:
            tail = tuple(_turned(one) for one in tail)
            a, right, goal = turned_last(right), turned_last(a), turned_last(goal)
            rows, columns = columns, rows
        last = Tail(steps, tail) if steps else None
        first, second = made_of.get(int(swapped)), made_of.get(int(not swapped))
        problem = problem_of(a, right, goal, batch, rows, columns, last, first, second)
        if swapped:
            problem = problem._replace(operands=(spec.Input(1), spec.Input(0)))
        temporaries: list[spec.ArrayType] = []
        launches = multiply(call, dtype, problem, spec.Output(), goal, temporaries)
        if not launches:
            return None
        dtypes = [arg.dtype for arg in call.args]
        launches = [as_bits(launch, dtypes) for launch in launches]
        return spec.Plan((out,), tuple(launches), tuple(temporaries))

    return plan


def _beside(call: spec.Call, index: int, shape: tuple[int, ...]) -> Beside:
    arg = call.args[index]
    if isinstance(arg, spec.ArrayType):
        return Beside(spec.Input(index), "", broadcast_strides(arg, shape))
    return Beside(spec.Input(index), arg.dtype, (0,) * len(shape))


def _turned(beside: Beside) -> Beside:
    *batch, row, column = beside.strides
    return beside._replace(strides=(*batch, column, row))
