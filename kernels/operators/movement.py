"""Arrays put together, cut, turned, repeated and padded.

A view would do for many of these, if the library of the arrays has it: here the result is an array
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import diagonals, joined, views
from ..plans import movement as plans
from .row import alike, moving, row
from .rules import ALL

__all__ = ["ROWS"]

_Shape = tuple[int, ...]
#: The most arrays that concat and stack take.
_MANY = " ".join(f"x{number}{'?' if number else ''}" for number in range(32))


def _numpy(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A reference that calls a function of (numpy, arrays)."""

    def reference(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        return function(np, *arrays, **options)

    return reference


def _split(np: Any, x: Any, sections: Any = 1, axis: int = 0) -> Any:
    if isinstance(sections, tuple | list):
        sections = np.cumsum(sections)[:-1]
    parts = tuple(np.split(x, sections, axis))
    return parts if len(parts) > 1 else parts[0]


def _slice(np: Any, x: Any, starts: Any = (), stops: Any = None, steps: Any = None) -> Any:
    stops = stops or (None,) * len(starts)
    steps = steps or (1,) * len(starts)
    return x[tuple(map(slice, starts, stops, steps))]


def _pad(np: Any, x: Any, width: Any = 1, mode: str = "constant", value: float = 0.0) -> Any:
    if isinstance(width, tuple | list) and len(width) == 2 * x.ndim:
        width = tuple(zip(width[::2], width[1::2], strict=True))
    more = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, width, mode, **more)


def _flatten(np: Any, x: Any, start: int = 0, end: int = -1) -> Any:
    if not x.ndim:
        return np.reshape(x, 1)
    start, end = start % x.ndim, end % x.ndim
    length = int(np.prod(x.shape[start : end + 1]))
    return np.reshape(x, (*x.shape[:start], length, *x.shape[end + 1 :]))


def _unstack(np: Any, x: Any, axis: int = 0) -> Any:
    parts = tuple(np.moveaxis(x, axis, 0))
    return parts if len(parts) > 1 else parts[0]


def _diag_embed(np: Any, x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Any:
    n = x.shape[-1] + abs(offset)
    made = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    made[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(made, (-2, -1), (axis1, axis2))


def _diagonal_backward(
    np: Any, grad: Any, shape: Any = (1, 1), offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Any:
    made = np.zeros(shape, grad.dtype)
    at = np.diagonal(np.arange(made.size).reshape(shape), offset, axis1, axis2)
    made.reshape(-1)[at] = grad
    return made


_ALL: Any = {"category": "movement", "dtypes": ALL}


def _pairs(shape: _Shape) -> Sequence[_Shape]:
    return [shape, shape]


def _matrices(shape: _Shape) -> Sequence[_Shape]:
    return [shape if len(shape) > 1 else (1, *shape)]


def _planes(shape: _Shape) -> Sequence[_Shape]:
    return [(1,) * (2 - len(shape)) + shape]


_ROWS = (
    row("concat", _MANY, joined.concat, "arrays one after the other along axis",
        _numpy(lambda np, *x, axis=0: np.concatenate(x, axis)), _pairs,
        "concatenate cat concat_v2 parallel_concat", options={"axis": 0}, **_ALL),
    row("stack", _MANY, joined.stack, "arrays of one shape along a new axis",
        _numpy(lambda np, *x, axis=0: np.stack(x, axis)), _pairs, "pack parallel_stack",
        options={"axis": 0}, **_ALL),
    row("hstack", _MANY, joined.beside(1), "arrays side by side: along the second axis, vectors "
        "along their only one", _numpy(lambda np, *x: np.hstack(x)), _pairs, "column_concat",
        **_ALL),
    row("vstack", _MANY, joined.beside(0), "arrays one below the other; vectors are rows",
        _numpy(lambda np, *x: np.vstack(x)), _pairs, "row_stack", **_ALL),
    row("dstack", _MANY, joined.beside(2), "arrays behind each other: along the third axis",
        _numpy(lambda np, *x: np.dstack(x)), _pairs, **_ALL),
    row("split", "x", plans.split, "an array in equal parts along axis, or in parts of the given "
        "lengths", _numpy(_split), alike(1), "split_v split_with_sizes",
        options={"sections": 1, "axis": 0}, **_ALL),
    row("strided_slice", "x", views.strided_slice, "x[start:stop:step] for each axis from the "
        "first on", _numpy(_slice), alike(1), "slice",
        options={"starts": (0,), "stops": None, "steps": None}, **_ALL),
    row("flip", "x", views.flip, "backwards along axis (None: all)",
        _numpy(lambda np, x, axis=None: np.flip(x, axis)), alike(1), "reverse reverse_v2",
        options={"axis": None}, **_ALL),
    row("roll", "x", plans.roll, "along axis by shift places; what leaves comes in at the other "
        "end; None: of all elements in their order",
        _numpy(lambda np, x, shift=1, axis=None: np.roll(x, shift, axis)), alike(1),
        options={"shift": 1, "axis": None}, **_ALL),
    row("permute", "x", views.permute, "axes in another order (None: the reverse)",
        _numpy(lambda np, x, axes=None: np.transpose(x, axes)), alike(1), "transpose",
        options={"axes": None}, **_ALL),
    row("swapaxes", "x", views.swapaxes, "axis1 and axis2 in each other's place",
        _numpy(lambda np, x, axis1=-2, axis2=-1: np.swapaxes(x, axis1, axis2)), _planes,
        "swapdims matrix_transpose", options={"axis1": -2, "axis2": -1}, **_ALL),
    row("moveaxis", "x", views.moveaxis, "the axes source at the places destination, the others in "
        "their order", _numpy(lambda np, x, source=0, destination=-1: np.moveaxis(
            x, source, destination)), alike(1), "movedim",
        options={"source": 0, "destination": -1}, **_ALL),
    row("rot90", "x", views.rot90, "turned k times by 90 degrees, from the first of axes to the "
        "second", _numpy(lambda np, x, k=1, axes=(0, 1): np.rot90(x, k, axes)), _planes,
        options={"k": 1, "axes": (0, 1)}, **_ALL),
    row("broadcast_to", "x", views.broadcast_to, "repeated along axes of length 1, and in front",
        _numpy(lambda np, x, shape=(): np.array(np.broadcast_to(x, shape))),
        lambda shape: [()], "expand", options={"shape": ()}, **_ALL),
    row("reshape", "x", views.reshape, "the elements in C order in another shape, where one length "
        "may be -1: the rest", _numpy(lambda np, x, shape=(-1,): np.reshape(x, shape)), alike(1),
        "view", options={"shape": (-1,)}, **_ALL),
    row("reshapeas", "x like", views.reshape_as, "x in C order in the shape of like",
        _numpy(lambda np, x, like: np.reshape(x, like.shape)), _pairs, "reshape_as view_as",
        apart=("like",), **_ALL),
    row("flatten", "x", views.flatten, "the axes from start to end as one",
        _numpy(_flatten), alike(1), "ravel", options={"start": 0, "end": -1}, **_ALL),
    row("flatten_2d", "x", views.flatten_2d, "a matrix whose rows are the axes in front of axis "
        "(ONNX's Flatten)", _numpy(lambda np, x, axis=1: np.reshape(
            x, (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))), _matrices,
        "onnx_flatten onnx::Flatten ai.onnx.Flatten", options={"axis": 1}, **_ALL),
    row("squeeze", "x", views.squeeze, "without axes of length 1 (None: without all of them)",
        _numpy(lambda np, x, axis=None: np.squeeze(x, axis)), lambda shape: [(1, *shape)],
        options={"axis": None}, **_ALL),
    row("expand_dims", "x", views.expand_dims, "with axes of length 1 at axis of the result",
        _numpy(lambda np, x, axis=0: np.expand_dims(x, axis)), alike(1), "unsqueeze",
        options={"axis": 0}, **_ALL),
    row("unstack", "x", views.unstack, "the slices along axis, an array each",
        _numpy(_unstack), lambda shape: [(3, *shape)], "unbind unpack", options={"axis": 0},
        **_ALL),
    row("tile", "x", plans.tile, "the array reps times along each axis",
        _numpy(lambda np, x, reps=2: np.tile(x, reps)), alike(1), "torch.repeat",
        options={"reps": 2}, **_ALL),
    row("repeat", "x", plans.repeat, "each element so many times along axis (None: of all)",
        _numpy(lambda np, x, repeats=2, axis=None: np.repeat(x, repeats, axis)), alike(1),
        "repeat_interleave", options={"repeats": 2, "axis": None}, **_ALL),
    row("diagonal", "x", diagonals.diagonal, "the diagonal of two axes, which becomes the "
        "last axis",
        _numpy(lambda np, x, offset=0, axis1=0, axis2=1: np.diagonal(x, offset, axis1, axis2)),
        _matrices, options={"offset": 0, "axis1": 0, "axis2": 1}, **_ALL),
    row("diag", "x", diagonals.diag, "a matrix with the vector x on its diagonal k, or the "
        "diagonal k of a matrix", _numpy(lambda np, x, k=0: np.diag(x, k)),
        lambda shape: [shape[:2] or (1,)], options={"k": 0}, **_ALL),
    row("diag_embed", "x", diagonals.diag_embed, "matrices of two new axes, whose diagonal is "
        "the last axis of x, 0 elsewhere", _numpy(_diag_embed), lambda shape: [shape or (1,)],
        "matrix_diag", options={"offset": 0, "axis1": -2, "axis2": -1}, **_ALL),
    row("diagonal_backward", "grad", diagonals.diagonal_backward, "gradient of diagonal: zeros of "
        "the shape of its argument, with grad on the diagonal", _numpy(_diagonal_backward),
        lambda shape: [(1,)], options={"shape": (1, 1), "offset": 0, "axis1": 0, "axis2": 1},
        **_ALL),
    row("pad", "x", plans.pad, "elements before and after each axis: a constant, the last ones "
        "(edge), mirrored (reflect, symmetric), or those of the other end (wrap)", _numpy(_pad),
        alike(1), "mirror_pad constant_pad_nd pad_v2",
        options={"width": 1, "mode": "constant", "value": 0}, **_ALL),
    row("triu", "x", plans.triangle(True), "what is on or above the diagonal k of matrices, else 0",
        _numpy(lambda np, x, k=0: np.triu(x, k)), _matrices, options={"k": 0}, **_ALL),
    row("tril", "x", plans.triangle(False), "what is on or below the diagonal k of matrices, else "
        "0", _numpy(lambda np, x, k=0: np.tril(x, k)), _matrices, options={"k": 0}, **_ALL),
)  # fmt: skip

ROWS: tuple[KernelSpec, ...] = moving(_ROWS)
