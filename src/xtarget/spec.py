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
from typing import Any, Final, Protocol, TypeAlias

from ._values.authoring import (
    ArrayRule,
    Config,
    In,
    InOut,
    Out,
    Step,
    Stride,
    Workspace,
    step,
)
from ._values.choosing import Chooser, Question
from ._values.errors import ArgumentError
from ._values.examples import CInterface, CVariant, Example
from ._values.sizes import broadcast_shapes, cdiv, contiguous_strides, next_power_of_2
from ._values.types import DTYPES, Constant, DtypeConstant
from ._values.value_classes import value_class

__all__ = [
    "ABSENT",
    "Argument",
    "ArgumentError",
    "ArrayRule",
    "ArrayType",
    "Bounds",
    "CInterface",
    "CVariant",
    "Call",
    "Config",
    "Descriptor",
    "Example",
    "In",
    "InOut",
    "Input",
    "KernelSpec",
    "Launch",
    "Out",
    "Output",
    "Plan",
    "Question",
    "Scalar",
    "ScalarType",
    "Step",
    "Stride",
    "Temporary",
    "Workspace",
    "broadcast_shapes",
    "cdiv",
    "contiguous_strides",
    "dtype_constant",
    "next_power_of_2",
    "step",
]


# --------------------------------------------------------------------------------- what a plan sees


@dataclass(frozen=True, slots=True)  # hashed and compared in calls that are new
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


@value_class(frozen=True, slots=True)
class ScalarType:
    """A Python or NumPy scalar argument, passed by value as `dtype`; its value may change from call
    to call.
    """

    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return ()


#: In the place of an argument that was left out: None where an array may be given.
ABSENT: Final = ScalarType("none")


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


@value_class(frozen=True, slots=True)
class Call:
    """One call of a kernel as its plan sees it.

    Attributes:
        kernel: the kernel's name, for messages.
        args: layouts of the arguments, in the order of `KernelSpec.inputs`. A scalar among arrays
            already has the dtype that NumPy's promotion gives it.
        options: keyword options, defaults filled in.
        out: the layout of the caller's `out=` array, or None.
        outs: the layouts of the caller's arrays for all outputs of a kernel with several.
        vendor: `nvidia`, `amd`, `intel`, `cpu`, or another; for choosing tile sizes only, never for
            results.
        compute_units: multiprocessors of the device (CPU: threads).
        rules: NumPy's type rules.
        arch: second half of the target (`sm_90`); like `vendor`, for choosing tile sizes only.
        aligned: by argument, and then by array that the caller gave for a result, whether it begins
            at a multiple of 16 bytes; empty where that is not known.
        chooser: gives what was measured for a question of the plan; None: nothing was.
        general: the binaries are a bundle's, of which there are few: the plan leaves out
            specializations that gain little, so that each binary serves as many calls as it can.
        register_bytes: of all vector registers of a CPU's core; 0: not known, as of a bundle, or
            no CPU. Like `vendor`, for choosing tile sizes only.
        vectors: a CPU's vector instructions (`avx512`, `avx2`, `asimd`), for the same; empty: not
            known, or no CPU.
    """

    kernel: str
    args: tuple[ArrayType | ScalarType, ...]
    options: Mapping[str, Any]
    out: ArrayType | None
    vendor: str
    compute_units: int
    rules: DtypeRules
    arch: str = ""
    outs: tuple[ArrayType, ...] = ()
    aligned: tuple[bool, ...] = ()
    chooser: Chooser | None = None
    general: bool = False
    register_bytes: int = 0
    vectors: str = ""

    def choose(self, asked: Question) -> Any:
        """The choice that was measured to be the fastest for this call, else the default."""
        found = None if self.chooser is None else self.chooser(asked)
        return asked.default if found is None else found

    def array(self, index: int) -> ArrayType:
        """Argument `index`, which has to be an array for this kernel."""
        arg = self.args[index]
        if isinstance(arg, ArrayType):
            return arg
        what = "was left out" if arg is ABSENT else "is a scalar"
        raise ArgumentError(
            f"{self.kernel}: argument {index + 1} {what}; this kernel needs an array there."
        )

    def output(self, shape: Sequence[int], dtype: str, index: int = 0) -> ArrayType:
        """The layout of a result: the caller's `out` when it fits, else a new C-contiguous array.

        Args:
            index: of the output.

        Raises:
            ArgumentError: `out` has another shape or dtype.
        """
        shape = tuple(shape)
        given = self.outs[index] if self.outs else self.out
        if given is None:
            return ArrayType(dtype, shape, contiguous_strides(shape))
        name = f"out[{index}]" if self.outs else "out"
        if given.shape != shape:
            raise ArgumentError(
                f"{self.kernel}: {name} has shape {given.shape}, but the result has shape {shape}. "
                "Give an out of that shape, or leave it out."
            )
        if given.dtype != dtype:
            raise ArgumentError(
                f"{self.kernel}: {name} has dtype {given.dtype}, but the result has dtype {dtype}. "
                "Give an out of that dtype, or leave it out."
            )
        return given

    def results(self, layouts: Sequence[ArrayType]) -> None:
        """All results are known: who asks for nothing else ends the plan here."""


# ------------------------------------------------------------------------------ what a plan answers


@value_class(frozen=True, slots=True)
class Input:
    """The caller's argument `index`: its address, or its value if it is a scalar."""

    index: int


@value_class(frozen=True, slots=True)
class Output:
    """The plan's output `index`."""

    index: int = 0


@value_class(frozen=True, slots=True)
class Temporary:
    """The plan's temporary `index`: device memory that lives for this call only, uninitialised."""

    index: int = 0


@value_class(frozen=True, slots=True)
class Scalar:
    """A fixed value passed at run time as `dtype` (a plain int is an index, a plain float a
    float32).
    """

    value: int | float
    dtype: str


Argument: TypeAlias = Input | Output | Temporary | Scalar | int | float | tuple[int, ...]


@value_class(frozen=True, slots=True)
class Descriptor:
    """A parameter of a launch that is a tensor descriptor of an array, which the host makes: tiles
    of it are moved by a copy engine (NVIDIA's from sm_90 on). The array begins at a multiple of 16
    bytes, elements of its last dimension lie side by side, and all other strides are multiples of
    16 bytes.

    Attributes:
        lengths: of its dimensions, the outermost first: names of the launch's arguments.
        steps: elements from one to the next, of all dimensions but the last: as names too.
        tile: elements that are moved at once along each dimension.
    """

    lengths: tuple[str, ...]
    steps: tuple[str, ...]
    tile: tuple[int, ...]


@value_class(frozen=True, slots=True)
class Launch:
    """One launch of one Triton function.

    Attributes:
        source: `file:function` in the library's folder, without `.py` (`reduction:sum`). Or
            `file:kernel(file:function)`: the kernel whose global `operator` is that function
            (`elementwise:binary(functions.arithmetic:add)`); the entry has the function's name.
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
        bits: arrays that the kernel takes as uint8, whatever dtype of 8 bits they have.
        on_aligned: it is only right for arrays that begin at multiples of 16 bytes (`Call.aligned`
            says whether they do); for others the plan has another launch.
        descriptors: arrays that the kernel takes as tensor descriptors, by name.
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
    bits: tuple[str, ...] = ()
    on_aligned: bool = False
    descriptors: Mapping[str, Descriptor] = field(default_factory=dict)


@value_class(frozen=True, slots=True)
class Plan:
    """Outputs and launches of one call. Launches run one after another on the same stream.

    Attributes:
        outputs: layouts of the results.
        launches: in their order.
        temporaries: layouts of memory for this call only.
        init: by output, what each element of it is before the first launch; None, or none at all:
            nothing is written there.
        cleared: by temporary, the same.
    """

    outputs: tuple[ArrayType, ...]
    launches: tuple[Launch, ...]
    temporaries: tuple[ArrayType, ...] = ()
    init: tuple[bool | int | float | None, ...] = ()
    cleared: tuple[bool | int | float | None, ...] = ()


# ---------------------------------------------------------------------------------- the spec itself

Bounds: TypeAlias = Callable[
    [Sequence[tuple[int, ...]], Mapping[str, Any]], Mapping[int, tuple[int, ...] | range]
]


@value_class(frozen=True, slots=True)
class KernelSpec:
    """A kernel's interface.

    Attributes:
        name: what `xtarget.run` calls it.
        inputs: names of the array (or scalar) arguments; one that ends in `?` may be left out.
        plan: from call to plan. What it does not compare nobody does: it raises ArgumentError if an
            array is shorter than its kernel reads.
        scalars: those of `inputs` that are always numbers by value, with a type of their own
            (int32, int64, bool; float32, or float64 beside float64 arrays). Other scalars stand for
            arrays and take part in NumPy's promotion.
        floats: those of `scalars` that are floats, also where the caller gives a whole number.
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
        in_place: `out` may be an input of the same layout: each block loads all that it needs of
            the places that it stores to, and nothing of other blocks' places, before it stores.
        aliases: other names of it: those of NumPy, torch, ONNX, TensorFlow.
        exact: `reference` gets the arrays as they are: what it gives depends on their dtypes.
        tolerance: the error that a floating result may have beyond its own last rounding: in units
            of the last place of what it is computed in (float32 for the half types), and in units
            of the largest magnitude in the result. None: not said; a check then allows a few units
            of the dtype.
        by_name: `inputs` may be given by keyword, and those that end in `?` may be None.
        words: further keywords for its inputs and options, each with the name of the input or
            option that it means.
        outputs: names of the results, where a kernel has several.
        results: False: it has none, and writes in place alone; a call takes no `out=`.
        bounds: for arguments of indices that have to stay within an array: from the shapes of the
            arguments and the options, for each such place, one length, or one for each number along
            its last axis; or a range from 0 that its numbers have to be in, if they count. The
            option `check`, and `XTARGET_CHECK=1`, compare before each launch.
        along: `axis`: each element of the result needs those along the option `axis` only; `last`:
            those along the first input's last axis, and whole other inputs. So the other axes can
            be cut (`xtarget.split`). Empty: nothing is said.
        found: options that a call finds where it is not told (None): the place of an argument of
            integers, and what is added to the largest of them. What is traced or recorded has to
            be told.
        configs: the ways in which it can do the same; the option `config` takes one by its number.
        counts: by output, the output whose element says how many leading entries of it are the
            result; None: all.
        impl: it is another implementation of the operator `name`, which `impl=` asks for by this
            word; empty: it is the operator itself.
        targets: of another implementation, the vendors and targets that it serves (`cpu`,
            `nvidia:sm_90`); none: all.
        preferred: it serves its targets without being asked for. The operator and it are of one
            library, and have the same inputs and options.
        why: of another implementation, what it is good for, in one line.
    """

    name: str
    inputs: tuple[str, ...]
    plan: Callable[[Call], Plan]
    category: str = "user"
    summary: str = ""
    dtypes: tuple[str, ...] = tuple(DTYPES)
    options: Mapping[str, Any] = field(default_factory=dict)
    scalars: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    weak: Callable[[str], str] | None = None
    reference: Callable[..., Any] | None = None
    examples: Callable[[tuple[int, ...]], Sequence[tuple[int, ...]]] | None = None
    ahead: Callable[[bool], Iterable[Example]] | None = None
    c: CInterface | None = None
    updates: tuple[str, ...] = ()
    complete: bool = False
    elementwise: bool = False
    in_place: bool = False
    aliases: tuple[str, ...] = ()
    exact: bool = False
    tolerance: tuple[float, float] | None = None
    by_name: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    results: bool = True
    counts: tuple[int | None, ...] = ()
    bounds: Bounds | None = None
    along: str = ""
    found: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    configs: tuple[Config, ...] = ()
    impl: str = ""
    targets: tuple[str, ...] = ()
    preferred: bool = False
    why: str = ""

    @property
    def required(self) -> int:
        """The number of `inputs` that must be given."""
        return sum(not name.endswith("?") for name in self.inputs)

    @property
    def planned_with(self) -> Mapping[str, Any]:
        """The defaults of its options, and a number for each that a call finds: which one makes no
        difference to binaries.
        """
        return {**self.options, **dict.fromkeys(self.found, 1)}


def dtype_constant(dtype: str) -> DtypeConstant:
    """An element type as a `tl.constexpr` argument (the kernel sees `tl.float32`)."""
    return DtypeConstant(DTYPES[dtype].name)
