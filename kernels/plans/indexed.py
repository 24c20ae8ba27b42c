"""From call to launches: NumPy's indexing by arrays, `x[i, j]` and `x[i, :, j] = values`."""

from __future__ import annotations

from typing import NamedTuple

from xtarget import spec

from .gathers import MODES, indices, rounded, sums_of
from .gathers_nd import take_launch
from .layouts import broadcast_strides, collapse
from .movement import copy_launch, flat_launch

__all__ = ["index", "index_put"]

_Ints = tuple[int, ...]


class _Places(NamedTuple):
    """The elements of an array that the indices name.

    Attributes:
        axes: those that are indexed.
        shape: of all indices together.
        before: axes of the result that are in front of them.
        stacked: one row of int64 for each axis, as a temporary.
        copies: the launches that make it.
    """

    axes: _Ints
    shape: _Ints
    before: int
    stacked: spec.ArrayType
    copies: tuple[spec.Launch, ...]

    def spread(self, own: _Ints, kept: _Ints) -> _Ints:
        """Numbers of the indices' axes and of those that are not indexed, as in the result."""
        return (*kept[: self.before], *own, *kept[self.before :])

    def kept(self, numbers: _Ints) -> _Ints:
        """Of numbers of all axes, those of the axes that are not indexed."""
        return tuple(n for axis, n in enumerate(numbers) if axis not in self.axes)

    def launch_parts(self, x: spec.ArrayType, strides: _Ints) -> dict[str, spec.Argument]:
        return {
            "index": spec.Temporary(0),
            "lengths": tuple(x.shape[axis] for axis in self.axes),
            "steps": tuple(strides[axis] for axis in self.axes),
            "last": self.stacked.strides[0],
        }


def _places(call: spec.Call, x: spec.ArrayType, count: int) -> _Places:
    """Of the arguments behind the array, `count` are indices; one that is left out is all of its
    axis, and of no axis after the last one.
    """
    given = [at for at in range(1, count + 1) if call.args[at] is not spec.ABSENT]
    count = given[-1] if given else count
    if count > x.ndim or not given:
        raise spec.ArgumentError(
            f"{call.kernel}: {count} indices for an array of {x.ndim} dimensions; it takes one to "
            "as many, and one of them has to be an array."
        )
    arrays = []
    for at in given:
        if call.array(at).dtype == "bool":
            raise spec.ArgumentError(
                f"{call.kernel}: argument {at + 1} is bool; indices have to be integers. Use "
                "masked_select or masked_fill, or the indices that nonzero gives."
            )
        arrays.append(indices(call, at))
    shape = spec.broadcast_shapes(*(array.shape for array in arrays))
    axes = tuple(at - 1 for at in given)
    together = axes[-1] - axes[0] == len(axes) - 1
    stacked_shape = (len(axes), *shape)
    stacked = spec.ArrayType("int64", stacked_shape, spec.contiguous_strides(stacked_shape))
    copies: list[spec.Launch] = []
    for row, (at, array) in enumerate(zip(given, arrays, strict=True)):
        copies += copy_launch(
            call,
            spec.Input(at),
            shape,
            broadcast_strides(array, shape),
            stacked.strides[1:],
            out=spec.Temporary(0),
            from_out=row * stacked.strides[0],
        )
    return _Places(axes, shape, axes[0] if together else 0, stacked, tuple(copies))


def index(call: spec.Call) -> spec.Plan:
    """The plan of x[i0, i1, ...]; an index that is left out is `:`."""
    x = call.array(0)
    places = _places(call, x, len(call.args) - 1)
    mode = call.options["mode"]
    if mode not in MODES:
        raise spec.ArgumentError(f"{call.kernel}: mode is {mode!r}; it has to be one of {MODES}.")
    shape = places.spread(places.shape, places.kept(x.shape))
    out = call.output(shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if 0 in x.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: nothing can be taken from an array of shape {x.shape}."
        )
    sx = places.spread((0,) * len(places.shape), places.kept(x.strides))
    si = places.spread(places.stacked.strides[1:], (0,) * (x.ndim - len(places.axes)))
    space = collapse(shape, out.strides, sx, si)
    launch = take_launch(call, out, space, places.launch_parts(x, x.strides), mode)
    return spec.Plan((out,), (*places.copies, launch), (places.stacked,))


def index_put(call: spec.Call) -> spec.Plan:
    """The plan of x with x[i0, i1, ...] = source, which is the last argument; or += source."""
    x, last = call.array(0), len(call.args) - 1
    if last < 2 or call.args[last] is spec.ABSENT:
        raise spec.ArgumentError(
            f"{call.kernel}: the last argument is what goes to the places that the ones before it "
            "say. Give x, an index at least, and that."
        )
    source = call.array(last)
    places = _places(call, x, last - 1)
    shape = places.spread(places.shape, places.kept(x.shape))
    if source.dtype != x.dtype or spec.broadcast_shapes(source.shape, shape) != shape:
        raise spec.ArgumentError(
            f"{call.kernel}: the last argument has shape {source.shape} of {source.dtype}; for "
            f"these indices it has to broadcast to {shape}, of {x.dtype}."
        )
    how = "add" if call.options["accumulate"] else "set"
    if how == "add" and x.dtype == "bool":
        raise spec.ArgumentError(
            f"{call.kernel}: x is bool, of which there are no sums. Convert it."
        )
    out = call.output(x.shape, x.dtype)
    some = bool(out.size) and 0 not in shape
    made, there, wide = sums_of(out, how if some else "set")
    if wide:
        there = spec.Temporary(1)
    first = copy_launch(call, spec.Input(0), x.shape, x.strides, made.strides, out=there)
    if not some:
        return spec.Plan((out,), first)
    given = broadcast_strides(source, shape)
    across = places.before, places.before + len(places.shape)
    each = collapse(
        places.kept(x.shape), places.kept(made.strides), given[: across[0]] + given[across[1] :]
    )
    over = collapse(
        places.shape, places.stacked.strides[1:], given[across[0] : across[1]], keep_order=True
    )
    launch = flat_launch(
        call,
        "scatter_nd",
        each.size,
        {
            "source": spec.Input(last),
            "out": there,
            "n": each.size,
            "count": over.size,
            **places.launch_parts(x, made.strides),
            "rows": over.lengths,
            "ri": over.strides[0],
            "rs": over.strides[1],
            **each.named("so", "ss"),
        },
        {"OP": how},
    )
    after = rounded(call, out, (made, there, wide))
    return spec.Plan((out,), (*first, *places.copies, launch, *after), (places.stacked, *wide))
