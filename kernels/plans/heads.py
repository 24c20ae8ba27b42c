"""From call to launches: products of what operators give, for fused functions. The operators are
done as the product reads its factor (`kernels/headed.py`), or in a launch of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from xtarget import spec

from .elementwise import shape_of
from .layouts import broadcast_strides
from .matmul import multiply
from .matrices import Beside, Head, Tail, problem_of
from .tails import beside_of, shape_for, turned_last

__all__ = ["Made", "with_head"]


class Made(NamedTuple):
    """A factor that operators give.

    Attributes:
        steps: of the argument in the factor's place, `a`, and those behind both factors.
        dtype: of what they give.
        place: 0 or 1.
        count: of the arguments behind both factors that belong to it.
    """

    steps: str
    dtype: str
    place: int
    count: int


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
        return _read(call) or _computed_first(call, made, first, product)

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
        return spec.Plan((out,), tuple(launches), tuple(temporaries)) if launches else None

    return plan


def _beside(call: spec.Call, index: int, shape: tuple[int, ...]) -> Beside:
    arg = call.args[index]
    if isinstance(arg, spec.ArrayType):
        return Beside(spec.Input(index), "", broadcast_strides(arg, shape))
    return Beside(spec.Input(index), arg.dtype, (0,) * len(shape))


def _turned(beside: Beside) -> Beside:
    *batch, row, column = beside.strides
    return beside._replace(strides=(*batch, column, row))


def _computed_first(
    call: spec.Call,
    made: Made,
    first: Callable[[spec.Call], spec.Plan],
    product: Callable[[spec.Call], spec.Plan],
) -> spec.Plan:
    """The plan in which the factor is made by a launch of its own."""
    own = (made.place, *range(2, 2 + made.count))
    args = tuple(call.args[place] for place in own)
    made_first = first(
        replace(call, args=args, options={}, out=None, outs=(), aligned=_aligned(call, own))
    )
    (factor,) = made_first.outputs
    left = (0, 1, *range(2 + made.count, len(call.args)))
    args = tuple(factor if place == made.place else call.args[place] for place in left)
    aligned = (*_aligned(call, left, made.place), *call.aligned[len(call.args) :])
    whole = product(replace(call, args=args, aligned=aligned))
    between = spec.Temporary(len(whole.temporaries))

    def of_steps(argument: spec.Argument) -> spec.Argument:
        if isinstance(argument, spec.Input):
            return spec.Input(own[argument.index])
        return between if isinstance(argument, spec.Output) else argument

    def of_product(argument: spec.Argument) -> spec.Argument:
        if not isinstance(argument, spec.Input):
            return argument
        return between if argument.index == made.place else spec.Input(left[argument.index])

    return replace(
        whole,
        launches=(
            *(_with(launch, of_steps) for launch in made_first.launches),
            *(_with(launch, of_product) for launch in whole.launches),
        ),
        temporaries=(*whole.temporaries, factor),
    )


def _aligned(call: spec.Call, places: tuple[int, ...], known: int = -1) -> tuple[bool, ...]:
    """Which of some arguments begin at a multiple of 16 bytes.

    Args:
        known: the place of one that does.
    """
    if not call.aligned:
        return ()
    return tuple(place == known or call.aligned[place] for place in places)


def _with(launch: spec.Launch, change: Callable[[spec.Argument], spec.Argument]) -> spec.Launch:
    return replace(launch, args={name: change(own) for name, own in launch.args.items()})
