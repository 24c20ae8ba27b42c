"""The specializations that the launches of a plan need, and where parameters' values are from;
sizes may be symbolic, as in `planning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._kernels.libraries import RegisteredKernel
from .._values.errors import ArgumentError, shortened
from .._values.symbols import SymInt
from .._values.types import DTYPES, CompileRequest, Constant, KernelSource, TypeText
from .._values.value_classes import value_class
from ..spec import (
    Argument,
    ArrayType,
    Descriptor,
    Input,
    KernelSpec,
    Launch,
    Output,
    Plan,
    Scalar,
    ScalarType,
    Temporary,
)
from ..targets.base import Value

__all__ = ["Slot", "requests"]

#: Sizes and strides are passed as i32 below this extent; the margin is for blocks that overshoot.
_I32_LIMIT = 2**31 - 2**20
_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)


def _check_grid(kernel_name: str, grid: tuple[int, int, int]) -> None:
    """The same limits on every device: CUDA's, which are the lowest, and the range of Triton's
    program ids."""
    for axis, blocks, most in zip("xyz", grid, _MOST_BLOCKS, strict=True):
        if blocks > most:
            raise ArgumentError(
                f"{kernel_name}: a grid of {shortened(blocks)} blocks in {axis} is not possible; "
                f"the most are {most}. Let each block do more, or split the call."
            )


def _fixed(scalar: Scalar) -> int | float:
    """The value of a scalar of a plan, as its dtype's kind.

    Raises:
        ArgumentError: it does not fit.
    """
    kind = DTYPES[scalar.dtype].kind
    symbolic: Any = scalar.value
    if type(symbolic) is SymInt and kind in "iu":
        limits = np.iinfo(scalar.dtype)
        if int(limits.min) <= symbolic <= int(limits.max):
            return cast(int, symbolic)
    try:
        if kind == "f":
            return float(scalar.value)
        value = int(scalar.value)
    except (OverflowError, ValueError, TypeError):
        pass
    else:
        if kind == "b":
            return value
        limits = np.iinfo(scalar.dtype)
        if limits.min <= value <= limits.max:
            return value
    raise ArgumentError(f"the number {shortened(scalar.value)} does not fit {scalar.dtype}.")


@value_class(frozen=True, slots=True)
class Slot:
    """The source of a parameter's value: fixed, or entry `index` of the call's values."""

    value: Value | None
    index: int | None = None


def _scalar_type(dtype: str) -> str:
    """Return the type that carries a scalar: fp32 for half precision, which it holds exactly."""
    return "fp32" if dtype in ("float16", "bfloat16") else DTYPES[dtype].triton


class _Layouts:
    """Types and 16-byte alignment of everything that a plan's launches can refer to."""

    def __init__(
        self,
        plan: Plan,
        inputs: Sequence[ArrayType | ScalarType],
        aligned_inputs: Sequence[bool],
        aligned_outputs: Sequence[bool],
    ) -> None:
        self.plan, self.inputs = plan, inputs
        self.aligned_inputs, self.aligned_outputs = aligned_inputs, aligned_outputs

    def of(self, argument: Argument) -> tuple[ArrayType | ScalarType, bool]:
        if isinstance(argument, Input):
            return self.inputs[argument.index], self.aligned_inputs[argument.index]
        if isinstance(argument, Output):
            known = self.aligned_outputs[argument.index : argument.index + 1]
            return self.plan.outputs[argument.index], all(known)
        assert isinstance(argument, Temporary)
        return self.plan.temporaries[argument.index], True

    def slot_index(self, argument: Argument) -> int:
        """Values of a call: arguments, then outputs, then temporaries."""
        if isinstance(argument, Input):
            return argument.index
        if isinstance(argument, Output):
            return len(self.inputs) + argument.index
        assert isinstance(argument, Temporary)
        return len(self.inputs) + len(self.plan.outputs) + argument.index


def _request(
    source: KernelSource, launch: Launch, layouts: _Layouts, spec: KernelSpec
) -> tuple[CompileRequest, dict[str, Slot]]:
    """The specialization of a launch, and where each parameter's value comes from."""
    index_type = _index_type(launch, layouts)
    signature: list[tuple[str, TypeText]] = []
    slots: dict[str, Slot] = {}
    aligned: list[tuple[str, str, int]] = []

    def integer(name: str, value: int, whole: str) -> str:
        if index_type == "i64" and not -(2**63) <= value < 2**63:
            raise ArgumentError(f"{source.name}: {name} is {shortened(value)}, more than 64 bits.")
        slots[name] = Slot(value)
        aligned.append((name, whole, value))
        return index_type

    for name, argument in launch.args.items():
        type_: TypeText
        if isinstance(argument, Input | Output | Temporary):
            layout, is_aligned = layouts.of(argument)
            slots[name] = Slot(None, layouts.slot_index(argument))
            described = launch.descriptors.get(name)
            if described is not None:
                assert isinstance(layout, ArrayType)
                type_ = _described(name, layout, described, launch, slots)
            elif isinstance(layout, ScalarType):
                type_ = _scalar_type(layout.dtype)
            else:
                type_ = "*" + DTYPES["uint8" if name in launch.bits else layout.dtype].triton
                if is_aligned:
                    aligned.append((name, "", 0))
        elif isinstance(argument, Scalar):
            type_, slots[name] = _scalar_type(argument.dtype), Slot(_fixed(argument))
        elif isinstance(argument, tuple):
            type_ = tuple(integer(f"{name}.{i}", v, name) for i, v in enumerate(argument))
        elif isinstance(argument, float):
            type_, slots[name] = "fp32", Slot(argument)
        else:
            type_ = integer(name, argument, name)
        signature.append((name, type_))
    constants: list[tuple[str, Constant]] = list(launch.constants.items())
    signature += [(name, "constexpr") for name, _ in constants]
    names = [name.rstrip("?") for name in spec.inputs]
    updates = [names.index(name) for name in spec.updates if name in names]
    writes = tuple(
        name
        for name, argument in launch.args.items()
        if isinstance(argument, Output | Temporary)
        or (isinstance(argument, Input) and argument.index in updates)
    )
    request = CompileRequest(
        source=source,
        signature=tuple(signature),
        constants=tuple(constants),
        aligned=_aligned(launch, aligned),
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        options=tuple(sorted(launch.options.items())),
        writes=writes,
        elementwise=spec.elementwise,
    )
    return request, slots


def _described(
    name: str, layout: ArrayType, own: Descriptor, launch: Launch, slots: dict[str, Slot]
) -> TypeText:
    """The type of an array that comes as a tensor descriptor; its lengths and strides are
    parameters of their own behind it, whose values this adds to `slots`.
    """
    numbers = [cast(int, launch.args[number]) for number in (*own.lengths, *own.steps)]
    rank = len(own.tile)
    for axis, value in enumerate((*numbers, 1)):
        kind, at = ("shape", axis) if axis < rank else ("stride", axis - rank)
        slots[f"{name}.{kind}.{at}"] = Slot(value)
    return f"tensordesc<{DTYPES[layout.dtype].triton}[{','.join(map(str, own.tile))}]>"


def _aligned(launch: Launch, values: Sequence[tuple[str, str, int]]) -> tuple[str, ...]:
    """The values that the binary may assume to be multiples of 16.

    Args:
        values: name, name of the argument that it is of, number; "" and 0 of an aligned array.
    """
    if launch.aligned_by is not None:
        along = [value for name, _, value in values if name in launch.aligned_by]
        if all(whole for _, whole, _ in values) or all(value % 16 for value in along):
            return ()
    return tuple(
        name for name, whole, value in values if whole not in launch.loose and value % 16 == 0
    )


def _index_type(launch: Launch, layouts: _Layouts) -> str:
    """i64 when an index or an offset of this launch can leave i32."""
    extents: list[int] = []
    for argument in launch.args.values():
        if isinstance(argument, Input | Output | Temporary):
            layout, _ = layouts.of(argument)
            if isinstance(layout, ArrayType):
                extents += [layout.size, *layout.span]
        elif isinstance(argument, int):
            extents.append(argument)
        elif isinstance(argument, tuple):
            extents += argument
    fits = all(-_I32_LIMIT <= extent <= _I32_LIMIT for extent in extents)
    return "i32" if fits else "i64"


def requests(
    kernel: RegisteredKernel,
    plan: Plan,
    types: Sequence[ArrayType | ScalarType],
    aligned_inputs: Sequence[bool],
    aligned_outputs: Sequence[bool] = (),
) -> list[tuple[Launch, CompileRequest, dict[str, Slot]]]:
    """The specializations that a plan's launches need.

    Args:
        aligned_outputs: of the caller's arrays for the results; new ones are aligned.

    Raises:
        ArgumentError: a grid has more blocks than any device takes.
    """
    for launch in plan.launches:
        _check_grid(kernel.spec.name, launch.grid)
    layouts = _Layouts(plan, types, aligned_inputs, aligned_outputs)
    return [
        (launch, *_request(kernel.source(launch.source), launch, layouts, kernel.spec))
        for launch in plan.launches
    ]
