"""From call to launches: losses of pairs of elements, each, or their sum or mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import Elementwise, compute_dtype, shape_of
from .entropy import reduction_option
from .folds import Sum
from .layouts import Space, broadcast_strides, collapse
from .reduction import Work

__all__ = ["loss"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _rule(
    rules: spec.DtypeRules, given: Sequence[str], options: Mapping[str, Any]
) -> tuple[Sequence[str], Sequence[str]]:
    dtype = rules.promote(*given)
    return (dtype,), (compute_dtype(dtype),) * 2


def loss(
    function: Callable[[spec.Call], str], number: str = ""
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a loss of two arrays with the option `reduction`.

    Args:
        function: from the call to its device function, `file:function`.
        number: an option that is an operand of the function too.
    """
    numbers = (number,) if number else ()

    each = Elementwise(function, _rule, _FLOATS, numbers)

    def plan(call: spec.Call) -> spec.Plan:
        how = reduction_option(call)
        dtype = call.rules.promote(*(arg.dtype for arg in call.args))
        if how == "none":
            return each(call)
        out = call.output((), dtype)
        x, y = call.array(0), call.array(1)
        shape = shape_of(call, x.shape, y.shape)
        space = collapse(shape, *(broadcast_strides(array, shape) for array in (x, y)))
        if 0 in shape:
            return spec.Plan((out,), (), (), (float("nan") if how == "mean" else 0,))
        work = Work(call, Space(1, (), ((0,), ())), Space(1, (), ((0,),)))
        computed = compute_dtype(dtype)
        _partial(call, work, function(call), number, space, computed)
        if how == "mean":
            last = Sum(computed, FINISH="mean", count=space.size).step()
            work.reduce(spec.Output(), last, Sum(computed).step(), last)
        else:
            work.reduce(spec.Output(), *[Sum(computed).step()] * 3)
        return work.plan(out)

    return plan


def _partial(
    call: spec.Call, work: Work, function: str, number: str, space: Space, dtype: str
) -> None:
    """The sums of pieces of all elements, which the work goes on with."""
    sizes = tuning.reduction(call.vendor)
    wanted = call.compute_units * sizes.blocks_per_unit
    chunk = (
        spec.cdiv(max(spec.cdiv(space.size, wanted), sizes.shortest // 4), sizes.tile) * sizes.tile
    )
    blocks = spec.cdiv(space.size, chunk)
    place = work.temporary(dtype, blocks)
    numbers: dict[str, spec.Argument] = {}
    if number:
        numbers["c"] = spec.Scalar(float(call.options[number]), dtype)
    work.launches.append(
        spec.Launch(
            f"losses:of_pairs({function})",
            {
                "a": spec.Input(0),
                "b": spec.Input(1),
                "out": place,
                "n": space.size,
                "chunk": chunk,
                **numbers,
                **space.named("sa", "sb"),
            },
            {
                **({} if number else {"c": None}),
                "TA": spec.dtype_constant(dtype),
                "BLOCK": sizes.tile,
            },
            (blocks, 1, 1),
            num_warps=min(sizes.num_warps, max(1, sizes.tile // 512)),
        )
    )
    work.read(place, work.kept, collapse((blocks,), (1,)))
