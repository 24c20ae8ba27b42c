"""From a kernel and actual arguments to a bound call: checked, planned, compiled, loaded.

Binding happens once for every combination of layouts; what it makes, `_call.BoundCall`, is
replayed. All validation of arguments is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _arrays, _build, _kernels, _registry
from ._arrays import View
from ._arrays.host import KIND as HOST
from ._call import BoundCall, BoundLaunch, Staging
from ._dtypes import NumpyRules, name_of, weak_scalar
from ._errors import ArgumentError
from ._kernels import RegisteredKernel
from ._types import DTYPES, CompileRequest, Constant, KernelSource, LaunchConfig, Target, TypeText
from .spec import (
    Argument,
    ArrayType,
    Call,
    Input,
    KernelSpec,
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


# --------------------------------------------------------------------------------------- arguments


def _check_arguments(spec: KernelSpec, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    if not spec.required <= len(args) <= len(spec.inputs):
        wanted = str(spec.required)
        if spec.required != len(spec.inputs):
            wanted += f" to {len(spec.inputs)}"
        names = ", ".join(spec.inputs)
        raise ArgumentError(
            f"{spec.name} takes {wanted} argument{'s' if wanted != '1' else ''} ({names}), not "
            f"{len(args)}."
        )
    unknown = [name for name in options if name not in spec.options]
    if unknown:
        known = ", ".join(spec.options) or "none"
        raise ArgumentError(
            f"{spec.name} has no option {', '.join(map(repr, unknown))}; its options: {known}."
        )
    for name, value in options.items():
        _check_option(spec, name, value)


def _check_option(spec: KernelSpec, name: str, value: Any) -> None:
    """A switch takes a bool, a number takes a number; the plan knows the rest."""
    default = spec.options[name]
    scalar = value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value
    if isinstance(default, bool):
        fits, wanted = scalar in (True, False, 0, 1) and not isinstance(scalar, float), "a bool"
    elif isinstance(default, float):
        fits, wanted = isinstance(scalar, int | float), "a number"
    else:
        return
    if not fits:
        raise ArgumentError(f"{spec.name}: {name}={value!r} is not {wanted}.")


def _types(
    spec: KernelSpec, args: Sequence[Any], views: Sequence[View | None]
) -> tuple[ArrayType | ScalarType, ...]:
    """Layouts of the arguments, with the dtype that each scalar gets among the arrays."""
    dtypes = [view.type.dtype for view in views if view is not None]
    for value, view in zip(args, views, strict=True):
        if view is None and hasattr(value, "dtype"):
            dtypes.append(name_of(value.dtype))  # a NumPy scalar has a dtype of its own
    types: list[ArrayType | ScalarType] = []
    for index, (value, view) in enumerate(zip(args, views, strict=True)):
        name = spec.inputs[index].rstrip("?")
        if view is not None and name in spec.scalars:
            raise ArgumentError(f"{spec.name}: {name} is a number, not an array.")
        if view is not None:
            if view.type.dtype not in spec.dtypes:
                raise ArgumentError(
                    f"{spec.name} does not take {view.type.dtype} ({name}); it takes "
                    f"{', '.join(spec.dtypes)}. Convert the array first."
                )
            types.append(view.type)
        elif name in spec.scalars:
            types.append(ScalarType(_natural(value, dtypes)))
        elif hasattr(value, "dtype"):
            types.append(ScalarType(name_of(value.dtype)))
        else:
            types.append(ScalarType(weak_scalar(value, tuple(dtypes))))
    return tuple(types)


def _natural(value: Any, dtypes: Sequence[str]) -> str:
    """The type of a number that stands for itself."""
    if hasattr(value, "dtype"):  # NumPy's float64 is a Python float too
        return name_of(value.dtype)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int32" if -(2**31) <= value < 2**31 else "int64"
    return "float64" if "float64" in dtypes else "float32"


def _place(spec: KernelSpec, views: Sequence[View | None], chosen: Any) -> str:
    """The device of the call: where the arrays lie, else the chosen one.

    Raises:
        ArgumentError: the arrays lie on different devices, or not on the chosen one.
    """
    places: dict[str, str] = {}
    for index, view in enumerate(views):
        if view is not None and view.place is not None:
            label = spec.inputs[index].rstrip("?") if index < len(spec.inputs) else "out"
            places.setdefault(view.place, label)
    if len(places) > 1:
        where = ", ".join(f"{label} on {place}" for place, label in places.items())
        raise ArgumentError(
            f"{spec.name}: its arrays lie on different devices ({where}). Move them to one device."
        )
    name = None if chosen is None else _registry.find_device(chosen)
    if places:
        place, label = next(iter(places.items()))
        if name not in (None, place):
            raise ArgumentError(
                f"{spec.name}: {label} lies on {place}, but device={chosen!r} was asked for. Move "
                "the array, or leave device= out."
            )
        _refuse_host_tensors(spec, views, place)
        return place
    return name or _registry.default_device()


def _refuse_host_tensors(spec: KernelSpec, views: Sequence[View | None], place: str) -> None:
    """NumPy's arrays have no device and follow the others; a CPU tensor was put where it is."""
    for index, view in enumerate(views):
        if view is not None and view.place is None and view.kind.name == "torch":
            label = spec.inputs[index].rstrip("?") if index < len(spec.inputs) else "out"
            raise ArgumentError(
                f"{spec.name}: its arrays lie on different devices ({label} on torch's cpu, others "
                f"on {place}). Move them to one device."
            )


def _check_out(spec: KernelSpec, out: View) -> None:
    if not out.writable:
        raise ArgumentError(f"{spec.name}: out is read-only. Give a writable array.")
    lengths = zip(out.type.shape, out.type.strides, strict=True)
    if any(stride == 0 and length > 1 for length, stride in lengths):
        raise ArgumentError(
            f"{spec.name}: out is a broadcast view, whose elements share memory. Give an array "
            "with memory for each element."
        )
    reach = 0  # of the dimensions with smaller strides
    for stride, length in sorted(
        (abs(s), n) for s, n in zip(out.type.strides, out.type.shape, strict=True)
    ):
        if length > 1 and out.type.size and stride <= reach:
            raise ArgumentError(
                f"{spec.name}: elements of out may share memory (shape {out.type.shape}, strides "
                f"{out.type.strides} elements). Give an array with memory for each element."
            )
        reach += stride * (length - 1)


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
    _check_arguments(spec, args, options)
    views = [None if _arrays.is_scalar(a) else _arrays.kind_of(a).view(a) for a in args]
    out_view = None if out is None else _arrays.kind_of(out).view(out)
    types = _types(spec, args, views)
    place = _place(spec, [*views, out_view], device)
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
        _check_out(spec, out_view)
        out_type = out_view.type
        if stage_out:
            out_type = replace(out_type, strides=contiguous_strides(out_type.shape))
    plan = make_plan(kernel, bound_types, options, out_type, info.target, info.compute_units)
    _check_fp64(spec, plan, bound_types, info.name, info.fp64)

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


def _check_fp64(
    spec: KernelSpec, plan: Plan, types: Sequence[ArrayType | ScalarType], name: str, has: bool
) -> None:
    arrays = [*plan.outputs, *plan.temporaries, *types]
    if not has and any(a.dtype == "float64" for a in arrays):
        raise ArgumentError(f"{spec.name}: {name} has no float64. Convert the arrays to float32.")


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
            nbytes = scratch[parameter.hidden]
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


def compile_requests(
    kernel: RegisteredKernel, args: Sequence[Any], options: Mapping[str, Any], target: Target
) -> list[CompileRequest]:
    """The specializations that a call needs on a target.

    Args:
        args: arrays, numbers, or `ArrayType` layouts, which count as aligned.
    """
    spec = kernel.spec
    _check_arguments(spec, args, options)
    views: list[View | None] = []
    for arg in args:
        if isinstance(arg, ArrayType):
            views.append(View(HOST, None, 0, arg, None))
        else:
            views.append(None if _arrays.is_scalar(arg) else _arrays.kind_of(arg).view(arg))
    types = _types(spec, args, views)
    plan = make_plan(kernel, types, options, None, target, _TYPICAL_COMPUTE_UNITS)
    aligned = [view is not None and view.address % 16 == 0 for view in views]
    return [request for _, request, _ in requests(kernel, plan, types, aligned)]
