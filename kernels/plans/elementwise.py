"""From call to launches: elementwise kernels, and what all plans share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from xtarget import spec

from . import tuned, tuning
from .layouts import Space, broadcast_strides, collapse, is_huge, widened

__all__ = [
    "Elementwise",
    "Walk",
    "compute_dtype",
    "normal_axes",
    "one_axis",
    "shape_of",
]

#: From the arguments' dtypes and the options to the dtypes of the results, and those that the
#: operands are computed in (the last one is that of further operands, too).
DtypeRule = Callable[
    [spec.DtypeRules, Sequence[str], Mapping[str, Any]], tuple[Sequence[str], Sequence[str]]
]


def compute_dtype(dtype: str) -> str:
    """The type that a kernel computes in to give `dtype`."""
    return {"float16": "float32", "bfloat16": "float32", "bool": "int8"}.get(dtype, dtype)


def normal_axes(call: spec.Call, axis: Any, ndim: int, *, several: bool = True) -> tuple[int, ...]:
    """`axis` (None: all, an int, or a tuple) as sorted axes from 0 to ndim - 1, by NumPy's rules.

    Args:
        several: the kernel takes any number of axes, none of them included; else it needs one.

    Raises:
        ArgumentError: an axis is not an integer, out of range, or given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = []
    for one in given:
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise spec.ArgumentError(
                f"{call.kernel}: axis is {axis!r}; it has to be an integer, a tuple of integers, "
                "or None."
            )
        value = one.__index__()
        if not -ndim <= value < ndim:
            if not ndim and not several:
                raise spec.ArgumentError(
                    f"{call.kernel}: an array without dimensions has no axis {value}. Give it "
                    "one: x.reshape(1)."
                )
            allowed = f"from {-ndim} to {ndim - 1}" if ndim else "() or None"
            raise spec.ArgumentError(
                f"{call.kernel}: axis {value} is out of range for an array of {ndim} "
                f"dimensions; it may be {allowed}."
            )
        axes.append(value % ndim)
    if len(set(axes)) != len(axes):
        raise spec.ArgumentError(f"{call.kernel}: axis {axis!r} names an axis twice.")
    return tuple(sorted(axes))


def one_axis(call: spec.Call, ndim: int) -> int:
    """The option `axis`, which has to be one.

    Raises:
        ArgumentError: it is not, or the array has none.
    """
    axes = normal_axes(call, call.options["axis"], ndim, several=False)
    if len(axes) != 1 or isinstance(call.options["axis"], tuple | list):
        raise spec.ArgumentError(
            f"{call.kernel}: axis is {call.options['axis']!r} for an array of {ndim} dimensions; "
            "it has to be one axis. Reshape the array where several are meant."
        )
    return axes[0]


def shape_of(call: spec.Call, *shapes: Sequence[int]) -> tuple[int, ...]:
    """`broadcast_shapes` with the kernel's name in the error."""
    try:
        return spec.broadcast_shapes(*shapes)
    except spec.ArgumentError as error:
        raise spec.ArgumentError(f"{call.kernel}: {error}") from None


class Walk(NamedTuple):
    """How the blocks of a grid go over an index space (`indexing.part`).

    Attributes:
        space: in the form that the kernel takes.
        constants: BLOCK, STEPS and ROWS.
    """

    space: Space
    constants: Mapping[str, int]
    grid: tuple[int, int, int]

    @classmethod
    def of(cls, space: Space, sizes: tuning.Flat, *, general: bool = False) -> Walk:
        """The walk over a space.

        Args:
            general: by one of the few kernels that serve all (`tuning.is_general`).
        """
        if space.size == 1:  # what is compiled for longer arrays does for one element too
            space = space._replace(strides=((),) * len(space.strides))
        if general and is_huge(space.size):
            space = widened(space, (4, 8), full=True)
        elif general and any(space.strides):
            space = widened(space, full=len(space.lengths) > 1)
        by_row = 0 < sizes.row <= (space.lengths or (0,))[-1]
        if by_row:
            space = _rows(space)
        block = sizes.strided if any(space.strides) else sizes.block
        steps = max(1, sizes.chunk // block)
        parts = spec.cdiv(space.size, block)
        if by_row:
            parts = space.size // space.lengths[-1] * spec.cdiv(space.lengths[-1], block)
        constants = {"BLOCK": block, "STEPS": steps, "ROWS": by_row}
        return cls(space, constants, (spec.cdiv(parts, steps), 1, 1))


def _rows(space: Space) -> Space:
    """The space in the form of `indexing.offset` within rows."""
    axes = len(space.lengths) + 1
    strides = tuple((*own, 0) if len(own) == axes and not own[-1] else own for own in space.strides)
    return space._replace(strides=strides)


#: Kernels of `elementwise.py` by numbers of operands and of results.
_KERNELS = {
    (1, 1): "unary",
    (2, 1): "binary",
    (3, 1): "ternary",
    (4, 1): "quaternary",
    (1, 2): "unary_two",
    (2, 2): "binary_two",
    (3, 2): "ternary_two",
    (4, 2): "quaternary_two",
}


@dataclass(frozen=True)
class Elementwise:
    """The plan of an elementwise operator.

    Attributes:
        function: from the call to its device function, `file:function`, which takes those of the
            arguments that are given.
        rule: the dtypes of results and operands.
        dtypes: those that a scalar may have, too: one without arrays beside it keeps its own.
        numbers: options that are operands of the function too, behind the arguments.
        seen: from the arguments to the dtypes that the rule is asked with; None: their own.
    """

    function: Callable[[spec.Call], str]
    rule: DtypeRule
    dtypes: Sequence[str]
    numbers: Sequence[str] = ()
    seen: Callable[[Sequence[spec.ArrayType | spec.ScalarType]], Sequence[str]] | None = None

    def __call__(self, call: spec.Call) -> spec.Plan:
        args = {place: arg for place, arg in enumerate(call.args) if arg is not spec.ABSENT}
        given: Sequence[str] = [arg.dtype for arg in args.values()]
        for dtype in given:
            if dtype not in self.dtypes:
                raise spec.ArgumentError(
                    f"{call.kernel} does not take {dtype}; it takes {', '.join(self.dtypes)}. "
                    "Convert the argument first."
                )
        given = given if self.seen is None else self.seen([*args.values()])
        try:
            results, computed = self.rule(call.rules, given, call.options)
        except spec.ArgumentError as error:
            raise spec.ArgumentError(f"{call.kernel}: {error}") from None
        shape = shape_of(call, *(arg.shape for arg in args.values()))
        source, outs = self.function(call), _outputs(call, shape, results)
        if not outs[0].size:
            return spec.Plan(outs, ())
        return spec.Plan(outs, (_launch(call, args, source, outs, computed, self.numbers),))


def _outputs(
    call: spec.Call, shape: tuple[int, ...], dtypes: Sequence[str]
) -> tuple[spec.ArrayType, ...]:
    if len(dtypes) == 1:
        return (call.output(shape, dtypes[0]),)
    if call.out is not None:
        raise spec.ArgumentError(
            f"{call.kernel} gives {len(dtypes)} results, and out= has room for one. Leave it out."
        )
    return tuple(call.output(shape, dtype, number) for number, dtype in enumerate(dtypes))


def _launch(
    call: spec.Call,
    args: Mapping[int, spec.ArrayType | spec.ScalarType],
    function: str,
    outs: tuple[spec.ArrayType, ...],
    computed: Sequence[str],
    numbers: Sequence[str],
) -> spec.Launch:
    out = outs[0]
    letters = "abcdefgh"[: len(args) + len(numbers)]
    names, others = letters[: len(args)], letters[len(args) :]
    operands = dict(zip(names, args.values(), strict=True))
    arrays = {n: a for n, a in operands.items() if isinstance(a, spec.ArrayType)}
    space = collapse(
        out.shape,
        *(own.strides for own in outs),
        *(broadcast_strides(arg, out.shape) for arg in arrays.values()),
    )
    sizes = tuned.flat(call, function, space, len(arrays), out.itemsize)
    general = tuning.is_general(call)
    walk = Walk.of(space, sizes, general=general)
    space = walk.space
    strides = dict(zip(arrays, space.strides[len(outs) :], strict=True))
    scalars = {
        f"s{name}": spec.dtype_constant(arg.dtype)
        for name, arg in operands.items()
        if name not in arrays
    }
    # numbers among the options are in the type that their operand is computed in
    types = (*computed, *(compute_dtype(computed[-1]),) * (len(letters) - len(computed)))
    given = dict(zip(others, numbers, strict=True))
    values = {
        n: _number(call, given[n], t) for n, t in zip(letters, types, strict=True) if n in given
    }
    scalars |= {f"s{name}": spec.dtype_constant(value.dtype) for name, value in values.items()}
    stream = 0 < sizes.stream <= out.size * out.itemsize and all(own.contiguous for own in outs)
    along = f"shape.{len(space.lengths) - 1}" if space.lengths else "n"
    results = ("out", "out2", "out3", "out4")[: len(outs)]
    kernel = _KERNELS.get((len(letters), len(outs)))
    return spec.Launch(
        # a fused section of more operands is generated whole
        function
        if function.startswith("each.")
        else f"elementwise:{kernel}({function})"
        if kernel
        else f"each.|{function}",
        {
            **{name: spec.Input(place) for name, place in zip(names, args, strict=True)},
            **values,
            **{name: spec.Output(index) for index, name in enumerate(results)},
            "n": space.size,
            "shape": space.lengths,
            **{f"s{name}": own for name, own in strides.items()},
            **{
                name.replace("out", "so"): own
                for name, own in zip(results, space.strides, strict=False)
            },
        },
        {
            **scalars,
            **{
                f"T{n.upper()}": spec.dtype_constant(t) for n, t in zip(letters, types, strict=True)
            },
            **walk.constants,
            "STREAM": stream,
        },
        walk.grid,
        num_warps=sizes.num_warps,
        options=tuning.flat_options(call.vendor),
        # what goes past the caches goes there in whole vectors
        aligned_by=("n",)
        if stream
        else ()
        if general and any(len(own) > len(space.lengths) for own in space.strides)
        else tuning.aligned_by(call.vendor, along),
        # elements apart from each other are taken one by one, wherever they are
        loose=tuple(
            f"s{name}"
            for name, own in zip(
                (*(name.replace("out", "o") for name in results), *arrays),
                space.strides,
                strict=True,
            )
            if len(own) > len(space.lengths)
        ),
        bits=tuple(
            name
            for name, array in (*arrays.items(), *zip(results, outs, strict=True))
            if array.dtype.startswith("float8")
        ),
    )


def _number(call: spec.Call, option: str, dtype: str) -> spec.Scalar:
    value = call.options[option]
    if value is None:  # for the function nan is not a number
        return spec.Scalar(float("nan"), dtype)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise spec.ArgumentError(f"{call.kernel}: {option} is {value!r}; it has to be a number.")
    return spec.Scalar(float(value) if dtype.startswith("float") else value, dtype)
