"""From call to launches: arrays put together, cut, rolled, repeated and padded.

One kernel copies; here are only the places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xtarget import spec

from . import tuning
from .elementwise import normal_axes, one_axis
from .gates import walk
from .lanes import lanes
from .layouts import collapse
from .options import one_of
from .transposes import transposed_launch

__all__ = [
    "pad",
    "repeat",
    "roll",
    "split",
    "tile",
    "triangle",
]

_Ints = tuple[int, ...]


def copy_launch(
    call: spec.Call,
    x: spec.Argument,
    shape: Sequence[int],
    sx: Sequence[int],
    so: Sequence[int],
    *,
    out: spec.Output | spec.Temporary = spec.Output(),  # noqa: B008  it is frozen
    from_x: int = 0,
    from_out: int = 0,
) -> tuple[spec.Launch, ...]:
    """The launch that copies elements of `shape`, strides `sx` apart from `from_x` on, to `out`,
    strides `so` apart from `from_out` on. There is none where there are no elements.
    """
    if 0 in shape:
        return ()
    swapped = transposed_launch(call, x, shape, sx, so, out, from_x, from_out)
    if swapped is not None:
        return (swapped,)
    launch = walk(
        call,
        "movement:copy",
        {"x": x, "out": out},
        {"from_x": from_x, "from_out": from_out},
        shape,
        {"so": so, "sx": sx},
        {},
    )
    return (launch,)


def copied_view(
    call: spec.Call, shape: Sequence[int], strides: Sequence[int], start: int = 0
) -> spec.Plan:
    """A copy of a view of the first argument."""
    out = call.output(tuple(shape), call.array(0).dtype)
    return spec.Plan(
        (out,), copy_launch(call, spec.Input(0), out.shape, strides, out.strides, from_x=start)
    )


def flat_launch(
    call: spec.Call,
    source: str,
    size: int,
    args: dict[str, spec.Argument | None],
    constants: dict[str, Any] | None = None,
) -> spec.Launch:
    """One launch of a kernel of `movement.py` that takes BLOCK elements of `size` a block."""
    sizes = tuning.flat(call.vendor)
    block = sizes.strided
    if source == "scatter" and tuning.outer_products(call.vendor):
        # a lane walks its whole line, and those that have none cost as much
        block = min(block, spec.next_power_of_2(size))
    return lanes(
        f"movement:{source}", size, block, args, constants or {}, num_warps=sizes.num_warps
    )


def by_index(
    call: spec.Call,
    launched: Callable[..., spec.Launch],
    source: str,
    args: Mapping[str, spec.Argument],
    constants: Mapping[str, spec.Constant],
) -> spec.Plan:
    """The plan of elements that are made of those of `x` and of their places in it.

    Args:
        launched: `flat_launch`, or another function that takes the same.
    """
    x = call.array(0)
    out = call.output(x.shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    # merged in order, so that a number says where an element is
    space = collapse(x.shape, out.strides, x.strides, keep_order=True)
    own = {"x": spec.Input(0), "out": spec.Output(), "n": out.size}
    given = {**own, **args, **space.named("so", "sx")}
    return spec.Plan((out,), (launched(call, source, out.size, given, dict(constants)),))


def integers(call: spec.Call, name: str, *, count: int | None = None) -> _Ints:
    """An option that is an integer or several, as a tuple.

    Raises:
        ArgumentError: it is not, or not `count` of them.
    """
    value = call.options[name]
    several = tuple(value) if isinstance(value, tuple | list) else (value,)
    wrong = any(isinstance(one, bool) or not hasattr(one, "__index__") for one in several)
    if wrong or (count is not None and len(several) != count):
        wanted = "an integer, or a tuple of them"
        if count is not None:
            wanted = "an integer" if count == 1 else f"{count} integers"
        raise spec.ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be {wanted}.")
    return tuple(one.__index__() for one in several)


def split(call: spec.Call) -> spec.Plan:
    """The plan of split: an array in `sections` equal parts, or in parts of these lengths."""
    x = call.array(0)
    axis = one_axis(call, x.ndim)
    length, sections = x.shape[axis], integers(call, "sections")
    lengths = sections
    if not isinstance(call.options["sections"], tuple | list):
        if sections[0] < 1 or length % sections[0]:
            raise spec.ArgumentError(
                f"{call.kernel}: {sections[0]} sections of axis {axis}, which has {length} "
                "elements, are not equal. Give their lengths, as a tuple."
            )
        lengths = (length // sections[0],) * sections[0]
    if min(lengths, default=0) < 0 or sum(lengths) != length:
        raise spec.ArgumentError(
            f"{call.kernel}: sections {lengths} of axis {axis} are not its {length} elements."
        )
    if call.out is not None:
        raise spec.ArgumentError(f"{call.kernel} gives several arrays. Leave out= out.")
    outs, launches, place = [], [], 0
    for number, own in enumerate(lengths):
        shape = tuple(own if i == axis else n for i, n in enumerate(x.shape))
        out = spec.ArrayType(x.dtype, shape, spec.contiguous_strides(shape))
        outs.append(out)
        launches += copy_launch(
            call,
            spec.Input(0),
            shape,
            x.strides,
            out.strides,
            out=spec.Output(number),
            from_x=place,
        )
        place += own * x.strides[axis]
    return spec.Plan(tuple(outs), tuple(launches))


def tile(call: spec.Call) -> spec.Plan:
    """The plan of tile: the array `reps` times along each axis, as NumPy's."""
    x, reps = call.array(0), integers(call, "reps")
    if min(reps, default=0) < 0:
        raise spec.ArgumentError(f"{call.kernel}: reps is {reps}; none may be below 0.")
    ndim = max(x.ndim, len(reps))
    reps = (1,) * (ndim - len(reps)) + reps
    shape = (1,) * (ndim - x.ndim) + x.shape
    strides = (0,) * (ndim - x.ndim) + x.strides
    out = call.output([n * r for n, r in zip(shape, reps, strict=True)], x.dtype)
    inner: list[int] = []
    sx: list[int] = []
    so: list[int] = []
    for n, r, s, o in zip(shape, reps, strides, out.strides, strict=True):
        inner += [r, n]
        sx += [0, s]
        so += [o * n, o]
    return spec.Plan((out,), copy_launch(call, spec.Input(0), inner, sx, so))


def repeat(call: spec.Call) -> spec.Plan:
    """The plan of repeat: each element `repeats` times along `axis` (None: of the flat array)."""
    x = call.array(0)
    (times,) = integers(call, "repeats")
    if times < 0:
        raise spec.ArgumentError(f"{call.kernel}: repeats is {times}; it may not be below 0.")
    if call.options["axis"] is None:
        out = call.output((x.size * times,), x.dtype)
        # in the order of the elements, whatever the array's layout is
        steps = tuple(s * times * out.strides[0] for s in spec.contiguous_strides(x.shape))
        return spec.Plan(
            (out,),
            copy_launch(
                call,
                spec.Input(0),
                (*x.shape, times),
                (*x.strides, 0),
                (*steps, out.strides[0]),
            ),
        )
    axis = one_axis(call, x.ndim)
    shape = [n * times if i == axis else n for i, n in enumerate(x.shape)]
    out = call.output(shape, x.dtype)
    so = [s * times if i == axis else s for i, s in enumerate(out.strides)]
    return spec.Plan(
        (out,),
        copy_launch(
            call, spec.Input(0), (*x.shape, times), (*x.strides, 0), (*so, out.strides[axis])
        ),
    )


def roll(call: spec.Call) -> spec.Plan:
    """The plan of roll: along each of `axis` by `shift`; in pieces, two for each axis. None: of all
    elements in their order, in which they are put first where they lie otherwise.
    """
    x = call.array(0)
    out = call.output(x.shape, x.dtype)
    if call.options["axis"] is not None:
        shifts = _shifts(call, integers(call, "axis"), x.ndim)
        found = _rolled(call, x.shape, x.strides, out.strides, shifts)
        return spec.Plan((out,), tuple(found))
    source: spec.Input | spec.Temporary = spec.Input(0)
    goal: spec.Output | spec.Temporary = spec.Output()
    temporaries: list[spec.ArrayType] = []
    before, after = [], []
    ordered = spec.ArrayType(x.dtype, x.shape, spec.contiguous_strides(x.shape))
    if not x.contiguous:
        source = spec.Temporary(len(temporaries))
        temporaries.append(ordered)
        before += copy_launch(call, spec.Input(0), x.shape, x.strides, ordered.strides, out=source)
    if not out.contiguous:
        goal = spec.Temporary(len(temporaries))
        temporaries.append(ordered)
        after += copy_launch(call, goal, x.shape, ordered.strides, out.strides)
    shifts = _shifts(call, (0,), 1)
    between = _rolled(call, (x.size,), (1,), (1,), shifts, source, goal)
    return spec.Plan((out,), (*before, *between, *after), tuple(temporaries))


def _shifts(call: spec.Call, axes: _Ints, ndim: int) -> dict[int, int]:
    """By axis, by how much it is rolled: by all of its shifts, one after another."""
    shifts = integers(call, "shift")
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise spec.ArgumentError(f"{call.kernel}: {len(shifts)} shifts for {len(axes)} axes.")
    found: dict[int, int] = {}
    for axis, shift in zip(axes, shifts, strict=True):
        (own,) = normal_axes(call, axis, ndim)
        found[own] = found.get(own, 0) + shift
    return found


def _rolled(
    call: spec.Call,
    whole: _Ints,
    sx: _Ints,
    so: _Ints,
    shifts: dict[int, int],
    x: spec.Input | spec.Temporary = spec.Input(0),  # noqa: B008  it is frozen
    out: spec.Output | spec.Temporary = spec.Output(),  # noqa: B008  it is frozen
) -> list[spec.Launch]:
    pieces: list[tuple[list[int], int, int]] = [(list(whole), 0, 0)]
    for axis, shift in shifts.items():
        n = whole[axis]
        by = shift % n if n else 0
        cut: list[tuple[list[int], int, int]] = []
        for shape, start, goal in pieces:
            for length, source, to in ((n - by, 0, by), (by, n - by, 0)):
                own = [length if i == axis else m for i, m in enumerate(shape)]
                from_x = start + source * sx[axis]
                cut.append((own, from_x, goal + to * so[axis]))
        pieces = cut
    launches: list[spec.Launch] = []
    for shape, start, goal in pieces:
        launches += copy_launch(call, x, shape, sx, so, out=out, from_x=start, from_out=goal)
    return launches


_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(call: spec.Call) -> spec.Plan:
    """The plan of pad: `width` elements before and after each axis: a number, a pair for all, or a
    pair for each axis, in one row or as NumPy's pairs.
    """
    x, given = call.array(0), call.options["width"]
    if isinstance(given, tuple) and all(isinstance(one, tuple | list) for one in given):
        each = tuple(number for pair in given for number in pair)
        call = replace(call, options={**call.options, "width": each})
    mode, width = one_of(call, "mode", _MODES), integers(call, "width")
    pairs = width * 2 if len(width) == 1 else width
    if len(pairs) == 2:
        pairs = pairs * x.ndim
    if len(pairs) != 2 * x.ndim or min(pairs, default=0) < 0:
        raise spec.ArgumentError(
            f"{call.kernel}: width is {call.options['width']!r} for an array of {x.ndim} "
            "dimensions; it has to be one number, a pair, or as many pairs in one row, from 0 on."
        )
    before = pairs[::2]
    shape = [n + b + a for n, b, a in zip(x.shape, before, pairs[1::2], strict=True)]
    out = call.output(shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if mode != "constant" and 0 in x.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: an array of shape {x.shape} has no elements to pad with. Use "
            "mode='constant'."
        )
    if not x.ndim:
        return copied_view(call, (), ())
    value = call.options["value"] if mode == "constant" else 0
    launch = flat_launch(
        call,
        "pad",
        out.size,
        {
            "x": spec.Input(0),
            "out": spec.Output(),
            "n": out.size,
            "value": _number(call, value, x.dtype),
            "shape": tuple(out.shape[1:]),
            "sx": x.strides,
            "so": out.strides,
            "lengths": x.shape,
            "before": before,
        },
        {"MODE": mode},
    )
    return spec.Plan((out,), (launch,))


def _number(call: spec.Call, value: Any, dtype: str) -> spec.Scalar:
    """An option as an element of a dtype.

    Raises:
        ArgumentError: it is none.
    """
    floating = dtype.startswith(("float", "bfloat"))
    if not isinstance(value, int | float) or (isinstance(value, float) and not floating):
        raise spec.ArgumentError(f"{call.kernel}: the value {value!r} does not fit into {dtype}.")
    return spec.Scalar(value, "int8" if dtype == "bool" else dtype)


def triangle(upper: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of triu (`upper`) and tril: the last two axes are those of matrices."""

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        if x.ndim < 2:
            raise spec.ArgumentError(f"{call.kernel}: x has {x.ndim} dimensions; it needs two.")
        (k,) = integers(call, "k")
        sizes = {"k": k, "rows": x.shape[-2], "columns": x.shape[-1]}
        return by_index(call, flat_launch, "triangle", sizes, {"UPPER": upper})

    return plan
