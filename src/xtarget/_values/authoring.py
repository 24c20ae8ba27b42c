"""The words in which authors describe their kernels: annotations of parameters, outputs,
configurations, and the launches of kernels that make several.

A kernel library imports these names from `xtarget.spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from .errors import ArgumentError
from .types import DTYPES, Constant
from .value_classes import value_class

__all__ = [
    "REQUIRED",
    "ArrayRule",
    "Config",
    "In",
    "InOut",
    "Out",
    "Step",
    "Stride",
    "StrideRule",
    "Workspace",
    "dtype_named",
    "step",
]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class _Required:
    """The default of a flag that the caller has to give."""

    def __repr__(self) -> str:
        return "..."


REQUIRED: Final = _Required()


def dtype_named(dtype: Any) -> str | None:
    """Our name of an element type of NumPy, Triton or torch, or of its name; None: it is none."""
    if isinstance(dtype, str):
        text = dtype
    else:
        text = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype)
        text = text.rpartition(".")[2]
    if text in DTYPES:
        return text
    known = {d.triton: d.name for d in DTYPES.values()}
    return {**known, "int1": "bool"}.get(text) if not isinstance(dtype, str) else None


@value_class(frozen=True, slots=True)
class ArrayRule:
    """An author's description of an array: `In["float16", "M", "K"]`.

    Attributes:
        role: `In`, `InOut`, `Out` or `Workspace`.
        dtype: a dtype's name, several with `|` between them, `floating`, `integer`, `any`, the name
            of another array, of a flag, or any other name: arrays of one name have one dtype.
        dims: lengths: whole numbers, names (`M`: all of this name are equal) and formulas of names
            (`2 * D`); `...` is any number of dimensions. None: any shape.
        optional: it may be left out, or None.
        init: what each element is before the kernel starts; None: nothing is written there.
        count: the output that says how many leading entries of this one are the result.
        tile: the function takes a tensor descriptor of the array, whose tiles have these lengths.
    """

    role: str
    dtype: str = "any"
    dims: tuple[Any, ...] | None = None
    optional: bool = False
    init: bool | int | float | None = None
    count: str | None = None
    tile: tuple[int | str, ...] | None = None

    def __or__(self, other: Any) -> ArrayRule:
        if other is not None:
            raise ArgumentError(f"{self!r} | {other!r}: an array is one or None.")
        return replace(self, optional=True)

    __ror__ = __or__

    def filled(self, value: float) -> ArrayRule:
        """The same array, each of whose elements is `value` before the kernel starts."""
        return replace(self, init=value)

    def counted_by(self, output: str) -> ArrayRule:
        """The same output, of which only the first entries are the result: as many as the single
        element of another output says."""
        return replace(self, count=output)

    def descriptor(self, *tile: int | str) -> ArrayRule:
        """The same array, which the function takes as a tensor descriptor: `x.load([i, j])` and
        `x.store([i, j], value)`, by the copy engine (TMA) where a GPU has one, else by addresses.

        Args:
            tile: lengths of what is loaded at once: numbers, or formulas of constants as text.
                Without any, a configuration's `pre_hook` says them.
        """
        if not all(isinstance(n, str) or (type(n) is int and n > 0) for n in tile):
            raise ArgumentError(
                f"{self!r}.descriptor({', '.join(map(repr, tile))}): give the tile's length in "
                "each dimension, a whole number or a formula of constants as text."
            )
        fixed = len(self.dims) if self.dims is not None and ... not in self.dims else len(tile)
        if tile and len(tile) != fixed:
            raise ArgumentError(
                f"{self!r}.descriptor({', '.join(map(repr, tile))}): {len(tile)} lengths for "
                f"{fixed} dimensions. Give one for each."
            )
        return replace(self, tile=tile)

    def __str__(self) -> str:  # Triton looks for words of its own in it
        return self.role

    def __repr__(self) -> str:
        dims = () if self.dims is None else self.dims
        inside = ", ".join(["..." if d is ... else repr(d) for d in (self.dtype, *dims)])
        return f"{self.role}[{inside}]{' | None' if self.optional else ''}"


def _rule(role: str, items: Any) -> ArrayRule:
    items = items if isinstance(items, tuple) else (items,)
    dtype = items[0] if isinstance(items[0], str) else dtype_named(items[0])
    if dtype is None:
        raise ArgumentError(
            f"{role}[{items[0]!r}, ...]: the first is the dtype, such as 'float32', "
            "'float16|bfloat16', 'any', or a name for any dtype that arrays share."
        )
    for dim in items[1:]:
        if not (dim is ... or isinstance(dim, str) or (type(dim) is int and dim >= 0)):
            raise ArgumentError(
                f"{role}[{dtype!r}, ... {dim!r} ...]: a dimension is a name, a formula of names as "
                "text, a whole number from 0, or `...`."
            )
    return ArrayRule(role, dtype, tuple(items[1:]) or None)


@value_class(frozen=True, slots=True, repr=False)
class StrideRule:
    array: str
    axis: int

    def __str__(self) -> str:
        return "Stride"

    def __repr__(self) -> str:
        return f'Stride["{self.array}", {self.axis}]'


if TYPE_CHECKING:

    class _Arrays(type):
        """The type of a word in brackets as a value; `__class_getitem__` makes it a type."""

        def __getitem__(cls, items: Any) -> ArrayRule: ...

    class _Strides(type):
        def __getitem__(cls, items: Any) -> StrideRule: ...

    class _Parameter(Any):  # type: ignore[misc]  # computed with in ways of Triton's
        pass

else:
    _Arrays = _Strides = type

    class _Parameter:
        __slots__ = ()


class _Word(_Parameter):
    """A word of annotations, which is never called."""

    def __new__(cls, *args: Any, **named: Any) -> Any:
        inside = '"x", 0' if cls is Stride else '"float32", "M", "N"'
        raise ArgumentError(f"{cls.__name__}(...): write {cls.__name__}[{inside}], with brackets.")


class In(_Word, metaclass=_Arrays):
    """An input array: `x: In["float16", "M", "K"]` (see `ArrayRule`)."""

    def __class_getitem__(cls, items: Any) -> ArrayRule:
        return _rule("In", items)


class InOut(_Word, metaclass=_Arrays):
    """An input that the kernel writes in place: `cache: InOut["float16", "SLOTS", "D"]`."""

    def __class_getitem__(cls, items: Any) -> ArrayRule:
        return _rule("InOut", items)


class Workspace(_Word, metaclass=_Arrays):
    """Memory for the launches of a call, which nobody else sees."""

    def __class_getitem__(cls, items: Any) -> ArrayRule:
        return _rule("Workspace", items)


@value_class(frozen=True, slots=True)
class Out(metaclass=_Arrays):
    """An output or a workspace of `@xtarget.kernel`, where more is to be said of it than its
    layout. As an annotation it says the layout itself: `out: Out["float16", "M", "N"]`.

    Attributes:
        like: its layout: the name of an input (or other output) to be like, or a function that
            gives (shape, dtype) from the call's layouts.
        init: what each element is before the kernel starts (`0` for sums by atomics), in a new
            array and in the caller's `out=`. None: nothing is written there; elements that the
            kernel does not write keep what they were in `out=`, and are anything in a new array.
        count: the output whose single element says how many leading entries of this one are the
            result. What a call returns is cut there, and the count is not returned; with `out=`,
            both are as the kernel has written them.
    """

    like: str | Callable[[Any], Any]
    init: bool | int | float | None = None
    count: str | None = None

    if TYPE_CHECKING:  # a parameter that it annotates is an address

        def __add__(self, other: Any) -> Any: ...

    def __class_getitem__(cls, items: Any) -> ArrayRule:
        return _rule("Out", items)


class Stride(_Word, metaclass=_Strides):
    """A parameter that is a stride of an array, in elements: `step: Stride["x", 0]`. An array whose
    strides are all parameters may be any view; one with some may have any stride there, and has
    that of a contiguous array in its other dimensions."""

    def __class_getitem__(cls, items: Any) -> StrideRule:
        fits = isinstance(items, tuple) and len(items) == 2
        if not fits or not isinstance(items[0], str) or type(items[1]) is not int:
            raise ArgumentError(f'Stride[{items!r}]: write Stride["x", 0], array and dimension.')
        return StrideRule(*items)


@value_class(frozen=True, slots=True)
class Config:
    """One of the ways in which a kernel can do the same: tile sizes and Triton's options.

    Attributes:
        constants: by name, over those of the kernel.
        num_warps, num_stages: Triton's options; None: the kernel's.
        options: further options of Triton's back ends.
        pre_hook: as triton.Config's: a function of the call's arguments by name, which may fill
            outputs (`nargs["out"].zero_()`) and say a descriptor's tile (`nargs["x"].block_shape =
            [64, 64]`). It is called when a call is planned.
    """

    constants: Mapping[str, Constant]
    num_warps: int | None = None
    num_stages: int | None = None
    options: Mapping[str, Constant] = field(default_factory=dict)
    pre_hook: Callable[[Any], Any] | None = None

    def __str__(self) -> str:
        parts = {**self.constants, "num_warps": self.num_warps, "num_stages": self.num_stages}
        parts.update(self.options)
        return ", ".join(f"{name}={value}" for name, value in parts.items() if value is not None)


@value_class(frozen=True, slots=True)
class Step:
    """A launch of a kernel that makes several. `step` makes it."""

    function: Any
    grid: Any
    values: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int | None = None
    num_stages: int | None = None
    options: Mapping[str, Constant] = field(default_factory=dict)


def step(
    function: Any,
    grid: Any,
    *,
    num_warps: int | None = None,
    num_stages: int | None = None,
    options: Mapping[str, Constant] = _NOTHING,
    **values: Any,
) -> Step:
    """One launch of a kernel that makes several.

    Args:
        function: a `@triton.jit` function. Each parameter that goes by the name of an array, a
            number, a size or a constant of the kernel is that.
        grid: number of blocks in one to three dimensions.
        num_warps, num_stages, options: over those of the kernel.
        values: what other parameters are: a number, a constant, or the array itself (`c.x`).
    """
    return Step(function, grid, dict(values), num_warps, num_stages, dict(options))
