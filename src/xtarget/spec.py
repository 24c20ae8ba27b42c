"""Specifications of kernels: their arguments, their results, and their launches for given
arguments.

A catalog holds one `KernelSpec` per kernel. The spec's `plan` turns a `Call` (the layouts of the
actual arguments) into a `Plan` (the layouts of the outputs and the launches). Plans know neither
addresses nor devices nor Triton, so they are made once per combination of layouts and are replayed
after that.

A kernel library imports nothing else from xtarget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ._values.errors import ArgumentError
from ._values.examples import CInterface, CVariant, Example
from ._values.types import DTYPES, Constant, DtypeConstant

__all__ = [
    "Argument",
    "ArgumentError",
    "ArrayType",
    "CInterface",
    "CVariant",
    "Call",
    "Example",
    "Input",
    "KernelSpec",
    "Launch",
    "Out",
    "Output",
    "Plan",
    "Scalar",
    "ScalarType",
    "Temporary",
    "broadcast_shapes",
    "cdiv",
    "contiguous_strides",
    "dtype_constant",
    "next_power_of_2",
]


# --------------------------------------------------------------------------------- what a plan sees


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Layout of an array: NumPy's dtype name, shape, and strides in elements (not bytes)."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].itemsize

    @property
    def contiguous(self) -> bool:
        """C order without gaps (dimensions of length 1 have any stride)."""
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if stride != expected and length != 1 and self.size:
                return False
            expected *= length
        return True

    @property
    def span(self) -> tuple[int, int]:
        """Elements reached, relative to the first one: (lowest, one above the highest)."""
        if not self.size:
            return (0, 0)
        reach = [s * (n - 1) for n, s in zip(self.shape, self.strides, strict=True)]
        return (sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + 1)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A Python or NumPy scalar argument, passed by value as `dtype`; its value may change from call
    to call.
    """

    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return ()


class DtypeRules(Protocol):
    """NumPy's type rules, offered to plans (`Call.rules`)."""

    def promote(self, *dtypes: str) -> str:
        """The dtype NumPy's arithmetic gives for these."""
        ...

    def floating(self, dtype: str) -> str:
        """The dtype of NumPy's float functions (`exp`) for this: int8 to float16, int16 to float32,
        int32 to float64.
        """
        ...

    def accumulated(self, dtype: str) -> str:
        """The dtype of `numpy.sum`: bool and small integers widen to 64 bits."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel as its plan sees it.

    Attributes:
        kernel: the kernel's name, for messages.
        args: layouts of the arguments, in the order of `KernelSpec.inputs`. A scalar among arrays
            already has the dtype that NumPy's promotion gives it.
        options: keyword options, defaults filled in.
        out: the layout of the caller's `out=` array, or None.
        vendor: `nvidia`, `amd`, `intel`, `cpu`, or another; for choosing tile sizes only, never for
            results.
        compute_units: multiprocessors of the device (CPU: threads).
        rules: NumPy's type rules.
        arch: second half of the target (`sm_90`); like `vendor`, for choosing tile sizes only.
    """

    kernel: str
    args: tuple[ArrayType | ScalarType, ...]
    options: Mapping[str, Any]
    out: ArrayType | None
    vendor: str
    compute_units: int
    rules: DtypeRules
    arch: str = ""

    def array(self, index: int) -> ArrayType:
        """Argument `index`, which has to be an array for this kernel."""
        arg = self.args[index]
        if isinstance(arg, ArrayType):
            return arg
        raise ArgumentError(
            f"{self.kernel}: argument {index + 1} is a scalar; this kernel needs an array there."
        )

    def output(self, shape: Sequence[int], dtype: str) -> ArrayType:
        """The layout of the result: the caller's `out` when it fits, else a new C-contiguous array.

        Raises:
            ArgumentError: `out` has another shape or dtype.
        """
        shape = tuple(shape)
        if self.out is None:
            return ArrayType(dtype, shape, contiguous_strides(shape))
        if self.out.shape != shape:
            raise ArgumentError(
                f"{self.kernel}: out has shape {self.out.shape}, but the result has shape {shape}. "
                "Give an out of that shape, or leave it out."
            )
        if self.out.dtype != dtype:
            raise ArgumentError(
                f"{self.kernel}: out has dtype {self.out.dtype}, but the result has dtype {dtype}. "
                "Give an out of that dtype, or leave it out."
            )
        return self.out


# ------------------------------------------------------------------------------ what a plan answers


@dataclass(frozen=True, slots=True)
class Input:
    """The caller's argument `index`: its address, or its value if it is a scalar."""

    index: int


@dataclass(frozen=True, slots=True)
class Output:
    """The plan's output `index`."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Temporary:
    """The plan's temporary `index`: device memory that lives for this call only, uninitialised."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Scalar:
    """A fixed value passed at run time as `dtype` (a plain int is an index, a plain float a
    float32).
    """

    value: int | float
    dtype: str


Argument: TypeAlias = Input | Output | Temporary | Scalar | int | float | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of one Triton function.

    Attributes:
        source: `file:function` in the library's folder, without `.py` (`elementwise:add`).
        args: every parameter that is not a constant, by name. Plain ints and tuples of ints are
            sizes and strides in elements: all of a launch are passed as i32, or all as i64 when an
            array's extent needs it.
        constants: the `tl.constexpr` parameters by name; an element type is given by
            `dtype_constant("float32")`.
        grid: blocks in x, y, z.
        num_warps, num_stages: Triton's options.
        options: further options of Triton's back ends (`maxnreg`, `waves_per_eu`, `num_ctas`); each
            back end takes those that it knows.
        aligned_by: lengths that memory is walked along, by name (`n`, `shape.0`): only where one of
            them is a multiple of 16 does it help the code that arrays are aligned and that other
            integers are multiples of 16. Nothing is assumed elsewhere, so that one binary serves
            all. None: each of them may help by itself.
        loose: integers whose being a multiple of 16 helps nothing: names, also of tuples.
    """

    source: str
    args: Mapping[str, Argument]
    constants: Mapping[str, Constant]
    grid: tuple[int, int, int]
    num_warps: int = 4
    num_stages: int = 2
    options: Mapping[str, Constant] = field(default_factory=dict)
    aligned_by: tuple[str, ...] | None = None
    loose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Outputs and launches of one call. Launches run one after another on the same stream.

    Attributes:
        outputs: layouts of the results.
        launches: in their order.
        temporaries: layouts of memory for this call only.
        init: by output, what each element of it is before the first launch; None, or none at all:
            nothing is written there.
    """

    outputs: tuple[ArrayType, ...]
    launches: tuple[Launch, ...]
    temporaries: tuple[ArrayType, ...] = ()
    init: tuple[bool | int | float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Out:
    """An output of `@xtarget.kernel`, where more is to be said of it than its layout.

    Attributes:
        like: its layout: the name of an input (or earlier output) to be like, or a function that
            gives (shape, dtype) from the call's layouts.
        init: what each element is before the kernel starts (`0` for sums by atomics), in a new
            array and in the caller's `out=`. None: nothing is written there; elements that the
            kernel does not write keep what they were in `out=`, and are anything in a new array.
    """

    like: str | Callable[[Any], Any]
    init: bool | int | float | None = None


# ---------------------------------------------------------------------------------- the spec itself


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel's interface.

    Attributes:
        name: what `xtarget.run` calls it.
        inputs: names of the array (or scalar) arguments; one that ends in `?` may be left out.
        plan: from call to plan.
        scalars: those of `inputs` that are always numbers by value, with a type of their own
            (int32, int64, bool; float32, or float64 beside float64 arrays). Other scalars stand for
            arrays and take part in NumPy's promotion.
        apart: those of `inputs` whose dtype takes no part in the promotion (a condition).
        weak: the dtype that a Python number among arrays of a dtype is computed in; None is NumPy's
            rule for `+`: it yields to the arrays.
        category: `elementwise`, `reduction`, `normalization`, `linear algebra`, `user`...
        summary: one line for `xtarget kernels`, with the formula.
        dtypes: dtypes that an array argument may have.
        options: keyword options and their defaults.
        reference: the same computation on NumPy arrays (`fn(*arrays, **options)`), the oracle of
            `xtarget run --check` and of the tests. It gets float64 arrays for floating inputs.
        examples: shapes of the inputs as functions of a benchmark's `--shape`: `fn(shape) -> [shape
            of input, ...]`.
        ahead: calls that stand for all that is worth building ahead of time; fewer of them unless
            its argument `full` is True.
        c: the kernel as a C function; None where it has no such form.
        updates: those of `inputs` that the kernel reads and writes in place. It may write to no
            other input.
        complete: each launch writes every element of its outputs, and reads none before; so a new
            output is not set to zeros first, and an `out=` on the host is not copied to the device.
        elementwise: each element of the output is made of the inputs' elements at its own place,
            by the block that stores it, which loads all that it needs before. So `out` may be an
            input of the same layout.
    """

    name: str
    inputs: tuple[str, ...]
    plan: Callable[[Call], Plan]
    category: str = "user"
    summary: str = ""
    dtypes: tuple[str, ...] = tuple(DTYPES)
    options: Mapping[str, Any] = field(default_factory=dict)
    scalars: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    weak: Callable[[str], str] | None = None
    reference: Callable[..., Any] | None = None
    examples: Callable[[tuple[int, ...]], Sequence[tuple[int, ...]]] | None = None
    ahead: Callable[[bool], Iterable[Example]] | None = None
    c: CInterface | None = None
    updates: tuple[str, ...] = ()
    complete: bool = False
    elementwise: bool = False

    @property
    def required(self) -> int:
        """The number of `inputs` that must be given."""
        return sum(not name.endswith("?") for name in self.inputs)


# --------------------------------------------------------------------------------- small arithmetic


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below `n` (1 for 0)."""
    return 1 << max(0, n - 1).bit_length()


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous array."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """NumPy's broadcasting.

    Raises:
        ArgumentError: the shapes do not fit together.
    """
    result: list[int] = []
    for axis in range(1, max((len(s) for s in shapes), default=0) + 1):
        length = 1
        for shape in shapes:
            own = shape[-axis] if len(shape) >= axis else 1
            if own == length or own == 1:
                continue
            if length != 1:
                lengths = sorted({int(s[-axis]) for s in shapes if len(s) >= axis} - {1})
                raise ArgumentError(
                    f"shapes {', '.join(str(tuple(s)) for s in shapes)} do not broadcast: axis "
                    f"-{axis} has lengths {lengths}. Lengths must be equal or 1."
                )
            length = own
        result.append(length)
    return tuple(reversed(result))


def dtype_constant(dtype: str) -> DtypeConstant:
    """An element type as a `tl.constexpr` argument (the kernel sees `tl.float32`)."""
    return DtypeConstant(DTYPES[dtype].name)
