"""Arrays of any dimensions as vectors of their elements, in the order of their indices."""

from __future__ import annotations

from typing import Any

from xtarget import spec

from .elementwise import one_axis
from .movement import copy_launch

__all__ = ["array_and_axis", "flat"]


def flat(call: spec.Call, x: spec.ArrayType, source: spec.Argument, goal: spec.Temporary) -> Any:
    """An array as a vector of its elements in the order of their indices: its layout, where it is,
    and what has to be launched and kept to have it there.
    """
    one = spec.ArrayType(x.dtype, (x.size,), (1,))
    if x.contiguous:
        return one, source, (), ()
    copies = copy_launch(
        call, source, x.shape, x.strides, spec.contiguous_strides(x.shape), out=goal
    )
    return one, goal, copies, (one,)


def array_and_axis(
    call: spec.Call, axis: int | None = None
) -> tuple[spec.ArrayType, int, spec.Argument, Any, Any]:
    """The first argument (the option `axis` is None: as a vector), the axis, and the rest of what
    `flat` gives.
    """
    x = call.array(0)
    if axis is not None:
        if not x.ndim:
            raise spec.ArgumentError(f"{call.kernel}: x has no dimensions; it needs one.")
        return x, axis, spec.Input(0), (), ()
    if call.options["axis"] is None:
        one, source, launches, temporaries = flat(call, x, spec.Input(0), spec.Temporary(0))
        return one, 0, source, tuple(launches), temporaries
    return x, one_axis(call, x.ndim), spec.Input(0), (), ()
