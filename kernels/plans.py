"""From call to launches: elementwise kernels, and what all plans share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xtarget.spec import (
    ArgumentError,
    ArrayType,
    Call,
    DtypeRules,
    Input,
    Launch,
    Output,
    Plan,
    broadcast_shapes,
    cdiv,
    dtype_constant,
)

from . import tuning
from .layouts import Space, broadcast_strides, collapse

__all__ = ["compute_dtype", "elementwise", "normal_axes", "shape_of"]

Rule = Callable[[DtypeRules, Sequence[str]], str]


def compute_dtype(dtype: str) -> str:
    """The type that a kernel computes in to give `dtype`."""
    return {"float16": "float32", "bfloat16": "float32", "bool": "int8"}.get(dtype, dtype)


def normal_axes(call: Call, axis: Any, ndim: int) -> tuple[int, ...]:
    """`axis` (None: all, an int, or a tuple) as sorted axes from 0 to ndim - 1, by NumPy's rules.

    Raises:
        ArgumentError: an axis is no integer, out of range, or given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = []
    for one in given:
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise ArgumentError(
                f"{call.kernel}: axis is {axis!r}; it has to be an integer, a tuple of integers, "
                "or None."
            )
        value = one.__index__()
        if not -ndim <= value < ndim:
            allowed = f"from {-ndim} to {ndim - 1}" if ndim else "() or None"
            raise ArgumentError(
                f"{call.kernel}: axis {value} is out of range for an array of {ndim} "
                f"dimensions; it may be {allowed}."
            )
        axes.append(value % ndim)
    if len(set(axes)) != len(axes):
        raise ArgumentError(f"{call.kernel}: axis {axis!r} names an axis twice.")
    return tuple(sorted(axes))


def shape_of(call: Call, *shapes: Sequence[int]) -> tuple[int, ...]:
    """`broadcast_shapes` with the kernel's name in the error."""
    try:
        return broadcast_shapes(*shapes)
    except ArgumentError as error:
        raise ArgumentError(f"{call.kernel}: {error}") from None


def _rows(space: Space) -> Space:
    """The space in the form of `indexing.offset` within rows."""
    axes = len(space.lengths) + 1
    strides = tuple((*own, 0) if len(own) == axes and not own[-1] else own for own in space.strides)
    return space._replace(strides=strides)


def elementwise(
    source: str,
    result: Rule,
    dtypes: Sequence[str],
    *,
    operands: Rule | None = None,
    constants: Callable[[Call], Mapping[str, Any]] | None = None,
) -> Callable[[Call], Plan]:
    """The plan of an elementwise kernel with parameters `a`, `b`, `c`..., `out`, `n`, `shape`,
    `sa`, `sb`..., `so`, `T`, `BLOCK`, `STEPS`, `ROWS`, `STREAM`.

    Args:
        source: function in `elementwise.py`.
        result: from the inputs' dtypes to the output's.
        dtypes: those that a scalar may have, too: one without arrays beside it keeps its own.
        operands: from the inputs' dtypes to the one they are computed in; `result` when None.
        constants: further constants of the kernel, from the call's options.
    """

    def plan(call: Call) -> Plan:
        given = [arg.dtype for arg in call.args]
        for dtype in given:
            if dtype not in dtypes:
                raise ArgumentError(
                    f"{call.kernel} does not take {dtype}; it takes {', '.join(dtypes)}. Convert "
                    "the argument first."
                )
        dtype = result(call.rules, given)
        computed = compute_dtype(operands(call.rules, given) if operands else dtype)
        out = call.output(shape_of(call, *(arg.shape for arg in call.args)), dtype)
        more = constants(call) if constants else {}
        if not out.size:
            return Plan((out,), ())
        names = "abcdefgh"[: len(call.args)]
        arrays = {
            n: arg for n, arg in zip(names, call.args, strict=True) if isinstance(arg, ArrayType)
        }
        space = collapse(
            out.shape, out.strides, *(broadcast_strides(arg, out.shape) for arg in arrays.values())
        )
        if space.size == 1:  # what is compiled for longer arrays does for one element too
            space = space._replace(strides=((),) * len(space.strides))
        sizes = tuning.flat(call.vendor)
        by_row = 0 < sizes.row <= (space.lengths or (0,))[-1]
        if by_row:
            space = _rows(space)
        strides = dict(zip(arrays, space.strides[1:], strict=True))
        scalars = {
            f"s{name}": dtype_constant(arg.dtype)
            for name, arg in zip(names, call.args, strict=True)
            if name not in arrays
        }
        block = sizes.strided if any(space.strides) else sizes.block
        steps = max(1, sizes.chunk // block)
        parts = cdiv(space.size, block)
        if by_row:
            parts = space.size // space.lengths[-1] * cdiv(space.lengths[-1], block)
        stream = 0 < sizes.stream <= out.size * out.itemsize and out.contiguous
        along = f"shape.{len(space.lengths) - 1}" if space.lengths else "n"
        launch = Launch(
            f"elementwise:{source}",
            {
                **{name: Input(index) for index, name in enumerate(names)},
                "out": Output(),
                "n": space.size,
                "shape": space.lengths,
                **{f"s{name}": own for name, own in strides.items()},
                "so": space.strides[0],
            },
            {
                **more,
                **scalars,
                "T": dtype_constant(computed),
                "BLOCK": block,
                "STEPS": steps,
                "ROWS": by_row,
                "STREAM": stream,
            },
            (cdiv(parts, steps), 1, 1),
            num_warps=sizes.num_warps,
            # what goes past the caches goes there in whole vectors
            aligned_by=("n",) if stream else tuning.aligned_by(call.vendor, along),
            # elements apart from each other are taken one by one, wherever they are
            loose=tuple(
                f"s{name}"
                for name, own in zip(("o", *arrays), space.strides, strict=True)
                if len(own) > len(space.lengths)
            ),
        )
        return Plan((out,), (launch,))

    return plan
