"""From call to launches: products of what operators give, for fused functions. The operators are
done as the product reads its factor (`kernels/headed.py`), or in a launch of their own."""

from __future__ import annotations

import math
from collections.abc import Callable

from xtarget import spec

from ..operators.rules import FLOATS_OF_8_BITS
from .elementwise import shape_of
from .layouts import broadcast_strides
from .made import Made, as_bits, computed_first
from .matmul import multiply
from .matrices import Beside, Head, Tail, problem_of
from .tails import beside_of, shape_for, turned_last

__all__ = ["with_head"]

#: Rows or columns up to which a factor is made of floats of 8 bits as it is read: these are taken
#: apart by each tile, which takes 0.79 x the speed of two launches for 128 (H100, 4096 x 4096).
_MOST_OF_8_BITS = 64


def with_head(
    made: Made,
    first: Callable[[spec.Call], spec.Plan],
    product: Callable[[spec.Call], spec.Plan],
    steps: str,
    result: str,
    dtype: str,
    turned: bool,
    vector: int | None,
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a product of which one factor is made of arguments.

    Args:
        first: the plan of the operators that make it, alone.
        product: that of the product of both factors, with what stands beside it behind them.
        steps, result, dtype, turned, vector: as of `tails.with_tail`.
    """
    behind = 2 + made.count

    def plan(call: spec.Call) -> spec.Plan:
        return _read(call) or computed_first(call, made, 2, first, product)

    def _read(call: spec.Call) -> spec.Plan | None:
        """The plan in which the product makes its factor; None: it does not."""
        given = (call.args[made.place], *call.args[2:behind])
        shape = shape_of(call, *(arg.shape for arg in given))
        a, b = call.array(0), call.array(1)
        if call.array(made.place).shape != shape or a.ndim < 2 or b.ndim < 2:
            return None
        if made.place and (a.ndim > 2 or b.ndim > 2):
            return None
        right = turned_last(b) if turned else b
        batch, rows, columns = shape_for(call, a, right, vector and vector + made.count)
        whole = batch + rows + columns
        others = (arg.shape for arg in call.args[behind:])
        out = call.output(shape_of(call, whole, *others), result)
        if out.shape != whole or not out.size or not a.shape[-1]:
            return None
        narrow = call.array(made.place).dtype in FLOATS_OF_8_BITS
        if narrow and math.prod(rows if made.place else columns) > _MOST_OF_8_BITS:
            return None
        beside = [_beside(call, i, (*batch, *shape[-2:])) for i in range(2, behind)]
        tail = tuple(beside_of(call, i, whole) for i in range(behind, len(call.args)))
        if made.place:  # as the first factor of the turned product
            own = b if turned else turned_last(b)
            beside = beside if turned else [_turned(one) for one in beside]
            tail = tuple(_turned(one) for one in tail)
            a, right, goal, rows, columns = own, turned_last(a), turned_last(out), columns, rows
        else:
            goal = out
        head = Head(made.steps, tuple(beside))
        last = Tail(steps, tail) if steps else None
        problem = problem_of(a, right, goal, batch, rows, columns, last, head)
        if made.place:
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
