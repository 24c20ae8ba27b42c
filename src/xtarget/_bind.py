"""From a kernel and actual arguments to a bound call: checked, planned, compiled, loaded.

Binding happens once for every combination of layouts; what it makes, `_call.BoundCall`, is
replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _arrays, _build, _kernels, _registry
from ._arguments import argument_types, check_arguments, check_fp64, check_out, place_of
from ._arrays import View
from ._arrays.host import KIND as HOST
from ._call import BoundCall, BoundLaunch, Staging
from ._dtypes import NumpyRules
from ._errors import ArgumentError
from ._kernels import RegisteredKernel
from ._types import DTYPES, CompileRequest, Constant, KernelSource, LaunchConfig, Target, TypeText
from .spec import (
    Argument,
    ArrayType,
    Call,
    Input,
    Launch,
    Output,
    Plan,
    Scalar,
    ScalarType,
    Temporary,
    contiguous_strides,
)
from .targets.base import Device, Value

__all__ = ["bind", "make_plan", "requests"]

_RULES = NumpyRules()
#: Sizes and strides are passed as i32 below this extent; the margin is for blocks that overshoot.
_I32_LIMIT = 2**31 - 2**20
#: Stands for the device's number where only a target is known; it chooses grids, not code.
_TYPICAL_COMPUTE_UNITS = 64


# ------------------------------------------------------------------------------------------- plans


def make_plan(
    kernel: RegisteredKernel,
    types: Sequence[ArrayType | ScalarType],
    options: Mapping[str, Any],
    out: ArrayType | None,
    target: Target,
    compute_units: int,
) -> Plan:
    """The plan of a call, from layouts alone."""
    spec = kernel.spec
    call = Call(
        kernel=spec.name,
        args=tuple(types),
        options={**spec.options, **options},
        out=out,
        vendor=target.vendor,
        compute_units=compute_units,
        rules=_RULES,
        arch=target.arch,
    )
    try:
        return spec.plan(call)
    except ArgumentError as error:
        if str(error).startswith(spec.name):
            raise
        raise ArgumentError(f"{spec.name}: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ArgumentError(
            f"{spec.name} cannot be planned for these arguments ({given or 'no options'}): {error}."
        ) from error


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a parameter's value comes from: fixed, or entry `index` of the call's values."""

    value: Value | None
    index: int | None = None


def _scalar_type(dtype: str) -> str:
    """How a scalar travels: half-precision ones as fp32, which holds them exactly."""
    return "fp32" if dtype in ("float16", "bfloat16") else DTYPES[dtype].triton


class _Layouts:
    """Types and 16-byte alignment of everything that a plan's launches can refer to."""

    def __init__(
        self,
        plan: Plan,
        inputs: Sequence[ArrayType | ScalarType],
        aligned_inputs: Sequence[bool],
        aligned_output: bool,
    ) -> None:
        self.plan, self.inputs = plan, inputs
        self.aligned_inputs, self.aligned_output = aligned_inputs, aligned_output

    def of(self, argument: Argument) -> tuple[ArrayType | ScalarType, bool]:
        if isinstance(argument, Input):
            return self.inputs[argument.index], self.aligned_inputs[argument.index]
        if isinstance(argument, Output):
            aligned = self.aligned_output or argument.index > 0
            return self.plan.outputs[argument.index], aligned
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
    source: KernelSource, launch: Launch, layouts: _Layouts
) -> tuple[CompileRequest, dict[str, Slot]]:
    """The specialization of a launch, and where each parameter's value comes from."""
    index_type = _index_type(launch, layouts)
    signature: list[tuple[str, TypeText]] = []
    aligned: list[str] = []
    slots: dict[str, Slot] = {}

    def integer(name: str, value: int) -> str:
        slots[name] = Slot(value)
        if value % 16 == 0:
            aligned.append(name)
        return index_type

    for name, argument in launch.args.items():
        type_: TypeText
        if isinstance(argument, Input | Output | Temporary):
            layout, is_aligned = layouts.of(argument)
            slots[name] = Slot(None, layouts.slot_index(argument))
            if isinstance(layout, ScalarType):
                type_ = _scalar_type(layout.dtype)
            else:
                type_ = "*" + DTYPES[layout.dtype].triton
                if is_aligned:
                    aligned.append(name)
        elif isinstance(argument, Scalar):
            type_, slots[name] = _scalar_type(argument.dtype), Slot(argument.value)
        elif isinstance(argument, tuple):
            type_ = tuple(integer(f"{name}.{i}", v) for i, v in enumerate(argument))
        elif isinstance(argument, float):
            type_, slots[name] = "fp32", Slot(argument)
        else:
            type_ = integer(name, argument)
        signature.append((name, type_))
    constants: list[tuple[str, Constant]] = list(launch.constants.items())
    signature += [(name, "constexpr") for name, _ in constants]
    request = CompileRequest(
        source=source,
        signature=tuple(signature),
        constants=tuple(constants),
        aligned=tuple(aligned),
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        options=tuple(sorted(launch.options.items())),
    )
    return request, slots


def _index_type(launch: Launch, layouts: _Layouts) -> str:
    """i64 when an index or an offset of this launch can leave i32."""
    extents = [0]
    for argument in launch.args.values():
        if isinstance(argument, Input | Output | Temporary):
            layout, _ = layouts.of(argument)
            if isinstance(layout, ArrayType):
                low, high = layout.span
                extents += [layout.size, -low, high]
        elif isinstance(argument, int):
            extents.append(abs(argument))
        elif isinstance(argument, tuple):
            extents += [abs(value) for value in argument]
    return "i64" if max(extents) > _I32_LIMIT else "i32"


def requests(
    kernel: RegisteredKernel,
    plan: Plan,
    types: Sequence[ArrayType | ScalarType],
    aligned_inputs: Sequence[bool],
    aligned_output: bool = True,
) -> list[tuple[Launch, CompileRequest, dict[str, Slot]]]:
    """The specializations that a plan's launches need."""
    layouts = _Layouts(plan, types, aligned_inputs, aligned_output)
    return [
        (launch, *_request(kernel.source(launch.source), launch, layouts))
        for launch in plan.launches
    ]


# ------------------------------------------------------------------------------------------ binding


def _staged(view: View) -> ArrayType:
    """Layout of a host array's copy on a device: C-contiguous, broadcast dimensions kept."""
    lengths = tuple(
        1 if s == 0 else n for n, s in zip(view.type.shape, view.type.strides, strict=True)
    )
    packed = contiguous_strides(lengths)
    strides = tuple(0 if s == 0 else p for p, s in zip(packed, view.type.strides, strict=True))
    return replace(view.type, strides=strides)


def bind(
    kernel_name: str,
    args: Sequence[Any],
    out: Any,
    device: Any,
    options: Mapping[str, Any],
) -> BoundCall:
    """Check a call and make everything ready for it.

    Raises:
        XTargetError: any of its classes but LaunchError; the arguments do not fit, there is no
            such kernel or device, it does not compile or load.
    """
    kernel = _kernels.find(kernel_name)
    spec = kernel.spec
    check_arguments(spec, args, options)
    views = [None if _arrays.is_scalar(a) else _arrays.kind_of(a).view(a) for a in args]
    if out is not None and _arrays.is_scalar(out):
        raise ArgumentError(f"{spec.name}: out is a number, not an array. Give an array.")
    out_view = None if out is None else _arrays.kind_of(out).view(out)
    types = argument_types(spec, args, views)
    place = place_of(spec, [*views, out_view], device)
    opened = _registry.open_device(place)
    info = opened.info

    # host data is used in place where the device can, else copied there and back
    like = next((view for view in views if view is not None), out_view)
    stage = [v is not None and v.place is None and not info.host_memory for v in views]
    stage_out = not info.host_memory and (
        out_view.place is None if out_view is not None else like is None or like.place is None
    )
    bound_types = tuple(
        _staged(view) if staged and view is not None else type_
        for view, staged, type_ in zip(views, stage, types, strict=True)
    )
    aligned_inputs = [
        staged or (view is not None and view.address % 16 == 0)
        for view, staged in zip(views, stage, strict=True)
    ]
    out_type = None
    if out_view is not None:
        check_out(spec, out_view)
        out_type = out_view.type
        if stage_out:
            out_type = replace(out_type, strides=contiguous_strides(out_type.shape))
    plan = make_plan(kernel, bound_types, options, out_type, info.target, info.compute_units)
    check_fp64(spec, plan, bound_types, info.name, info.fp64)

    launches = []
    for launch, request, slots in requests(
        kernel,
        plan,
        bound_types,
        aligned_inputs,
        out_view is None or stage_out or out_view.address % 16 == 0,
    ):
        if 0 not in launch.grid:
            launches.append(_bound_launch(opened, launch, request, slots))
    return BoundCall(
        name=spec.name,
        device=opened,
        plan=plan,
        launches=tuple(launches),
        views=views,
        out_type=None if out_view is None else out_view.type,
        types=types,
        staging=Staging(tuple(stage), stage_out) if any(stage) or stage_out else None,
    )


def _bound_launch(
    device: Device, launch: Launch, request: CompileRequest, slots: Mapping[str, Slot]
) -> BoundLaunch:
    function = _build.function(device, request)
    artifact = function.artifact
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    scratch = {
        "global_scratch": artifact.global_scratch.nbytes * blocks * artifact.cluster,
        "profile_scratch": artifact.profile_scratch.nbytes * blocks * artifact.cluster,
    }
    values: list[Value | None] = []
    order: list[int] = []
    memory: list[int] = []
    for parameter in artifact.parameters:
        if parameter.hidden is not None:
            nbytes = scratch.get(parameter.hidden, 0)  # others are the device's to fill in
            if nbytes:
                order.append(-1 - len(memory))
                memory.append(nbytes)
            values.append(None if nbytes else 0)
            continue
        slot = slots[parameter.name]
        values.append(slot.value)
        if slot.index is not None:
            order.append(slot.index)
    prepared = function.prepare(LaunchConfig(launch.grid), values)
    return BoundLaunch(prepared, tuple(order), tuple(memory))


def plan_of_layouts(
    kernel: RegisteredKernel, args: Sequence[Any], options: Mapping[str, Any], target: Target
) -> tuple[Plan, Sequence[ArrayType | ScalarType], list[bool]]:
    """The plan of a call that need not have arrays, its arguments' layouts, and which are aligned.

    Args:
        args: arrays, numbers, or `ArrayType` layouts, which count as aligned.
    """
    spec = kernel.spec
    check_arguments(spec, args, options)
    views: list[View | None] = []
    for arg in args:
        if isinstance(arg, ArrayType):
            views.append(View(HOST, None, 0, arg, None))
        else:
            views.append(None if _arrays.is_scalar(arg) else _arrays.kind_of(arg).view(arg))
    types = argument_types(spec, args, views)
    plan = make_plan(kernel, types, options, None, target, _TYPICAL_COMPUTE_UNITS)
    return plan, types, [view is not None and view.address % 16 == 0 for view in views]


def compile_requests(
    kernel: RegisteredKernel, args: Sequence[Any], options: Mapping[str, Any], target: Target
) -> list[CompileRequest]:
    """The specializations that a call (`plan_of_layouts`) needs on a target."""
    plan, types, aligned = plan_of_layouts(kernel, args, options, target)
    return [request for _, request, _ in requests(kernel, plan, types, aligned)]
