"""From call to launch: fused sections that begin with elements taken where indices say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype, shape_of
from .gates import walk
from .gathers import PLACES
from .layouts import broadcast_strides

__all__ = ["Picks", "picked"]

#: Operator and axis of each gather. Its array and its indices are two of the first arguments.
Picks: TypeAlias = Sequence[tuple[str, int]]
_LETTERS = "abcdefgh"


def picked(steps: str, result: str, picks: Picks) -> Callable[[spec.Call], spec.Plan]:
    """The plan of elementwise steps on elements that are taken, and on others.

    Args:
        steps: of the section. The letter of an array stands for what is taken of it.
        result: dtype of what they give.
    """

    def plan(call: spec.Call) -> spec.Plan:
        args = list(call.args)
        numbers: dict[str, spec.Argument] = {}
        for number, (operator, axis) in enumerate(picks):
            first, second = 2 * number, 2 * number + 1
            own = replace(call, args=tuple(args[first : second + 1]), out=None, outs=())
            x = own.array(0)
            shape, sx, si = PLACES[operator](own, axis)
            if not x.shape[axis] and 0 not in shape:
                raise spec.ArgumentError(
                    f"{call.kernel}: nothing can be taken from an axis of length 0 (shape "
                    f"{x.shape})."
                )
            numbers[f"l{_LETTERS[first]}"] = x.shape[axis]
            numbers[f"p{_LETTERS[first]}"] = x.strides[axis]
            args[first] = spec.ArrayType(x.dtype, shape, sx)
            args[second] = spec.ArrayType(own.array(1).dtype, shape, si)
        out = call.output(shape_of(call, *(arg.shape for arg in args)), result)
        if not out.size:
            return spec.Plan((out,), ())
        return spec.Plan((out,), (_launch(call, steps, args, numbers, out, len(picks)),))

    return plan


def _launch(
    call: spec.Call,
    steps: str,
    args: Sequence[spec.ArrayType | spec.ScalarType],
    numbers: Mapping[str, spec.Argument],
    out: spec.ArrayType,
    picks: int,
) -> spec.Launch:
    given = dict(zip(_LETTERS, args, strict=False))
    indices = _LETTERS[1 : 2 * picks : 2]
    arrays = {a: arg for a, arg in given.items() if isinstance(arg, spec.ArrayType)}
    constants: dict[str, Any] = {
        f"T{a.upper()}": spec.dtype_constant(compute_dtype(arg.dtype))
        for a, arg in given.items()
        if a not in indices
    }
    constants |= {
        f"s{a}": spec.dtype_constant(arg.dtype) for a, arg in given.items() if a not in arrays
    }
    launch = walk(
        call,
        f"picks.{_LETTERS[: 2 * picks]}|{steps}",
        {**{a: spec.Input(index) for index, a in enumerate(given)}, "out": spec.Output()},
        numbers,
        out.shape,
        {
            "so": out.strides,
            **{f"s{a}": broadcast_strides(arg, out.shape) for a, arg in arrays.items()},
        },
        {**constants, "STREAM": False},
    )
    return replace(launch, options=tuning.flat_options(call.vendor))
