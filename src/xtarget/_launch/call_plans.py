"""From a call's arguments to its plan, with symbols for sizes where it is of a class. Where a
loaded bundle has binaries for the general plan alone (`Call.general`), that one serves the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._arrays import View
from .._compile.functions import has_bundles, is_bundled
from .._kernels.libraries import RegisteredKernel
from .._system.signals import raised_by_handler
from .._values.errors import ArgumentError
from .._values.symbols import Tracer
from .._values.types import CompileRequest, DeviceInfo, Target
from .._values.value_classes import value_class
from ..spec import ArrayType, KernelSpec, Launch, Plan, ScalarType, contiguous_strides
from .arguments import argument_types, check_fp64, check_written
from .classes import lift
from .planning import call_of, compile_requests, make_plan
from .specializing import Slot, requests
from .staging import pattern_of

__all__ = [
    "Given",
    "Planned",
    "byte_span",
    "is_general",
    "plan_call",
    "planned",
    "trace_call",
]


@value_class(frozen=True, slots=True)
class Given:
    """A call's arguments, looked at.

    Attributes:
        views: of the arrays; None for a number.
        out_view: None without `out`.
        out_views: of the caller's arrays for several outputs.
        general: as of `spec.Call`.
    """

    kernel: RegisteredKernel
    args: Sequence[Any]
    options: Mapping[str, Any]
    views: Sequence[View | None]
    out_view: View | None
    out_views: Sequence[View] = ()
    general: bool = False


@value_class(frozen=True, slots=True)
class Planned:
    """A call with all that it takes to load it. Its integers may be symbolic.

    Attributes:
        types: of the arguments, as the launches see them.
        launches: with the specialization of each, and where its values come from.
        stage, stage_out: what is copied between host and device.
        against: arrays that `out` must not overlap, and whether it may be the array itself.
        pairs: their types and that of `out`, in that order.
        spans: by argument, the bytes that it reaches from its first element.
    """

    plan: Plan
    types: Sequence[ArrayType | ScalarType]
    launches: Sequence[tuple[Launch, CompileRequest, dict[str, Slot]]]
    stage: Sequence[bool]
    stage_out: bool
    updates: tuple[int, ...]
    complete: bool
    fills: tuple[bytes | None, ...]
    cleared: tuple[bytes | None, ...]
    against: Sequence[tuple[int, bool]]
    pairs: Sequence[tuple[ArrayType, ArrayType]]
    spans: Mapping[int, tuple[int, int]]


def trace_call(
    given: Given, info: DeviceInfo, contiguous: Sequence[bool] | None
) -> tuple[Tracer | None, Planned | None]:
    """The plan of a class of calls; None where its integers have to be numbers."""
    if contiguous is None:
        return None, None
    tracer = Tracer()
    names = [name.rstrip("?") for name in given.kernel.spec.inputs]
    each = iter(contiguous)

    def lifted(view: View | None, name: str) -> View | None:
        if view is None:
            return None
        return replace(view, type=lift(tracer, name, view.type, next(each)))

    views = [lifted(view, name) for view, name in zip(given.views, names, strict=False)]
    outs = [lifted(view, f"out[{number}]") for number, view in enumerate(given.out_views)]
    symbolic = replace(
        given,
        views=views,
        out_view=lifted(given.out_view, "out"),
        out_views=[view for view in outs if view is not None],
    )
    try:
        return tracer, plan_call(symbolic, info)
    except Exception as error:  # a plan may do what only numbers can, or refuse the call
        if raised_by_handler(error) is not None:
            raise
        return None, None


def plan_call(given: Given, info: DeviceInfo) -> Planned:
    """Check layouts and plan a call."""
    spec, views, out_view = given.kernel.spec, given.views, given.out_view
    outs = [out_view] if out_view is not None else given.out_views
    types = argument_types(spec, given.args, views)
    # host data is used in place where the device can, else copied there and back
    arrays = [view for view in views if view is not None]
    like = next((view for view in arrays if view.place), (*arrays, *outs, None)[0])
    stage = [v is not None and v.place is None and not info.host_memory for v in views]
    stage_out = not info.host_memory and (
        outs[0].place is None if outs else like is None or like.place is None
    )
    if len({view.place for view in outs}) > 1:
        raise ArgumentError(
            f"{spec.name}: some arrays of out lie on the host, others on {info.name}. Give all of "
            "them in one place."
        )
    bound_types = tuple(
        _staged(view) if staged and view is not None else type_
        for view, staged, type_ in zip(views, stage, types, strict=True)
    )
    aligned_inputs = [
        staged or (view is not None and view.address % 16 == 0)
        for view, staged in zip(views, stage, strict=True)
    ]
    updates = tuple(
        index
        for index, view in enumerate(views)
        if view is not None and spec.inputs[index].rstrip("?") in spec.updates
    )
    for index in updates:
        view = views[index]
        assert view is not None
        check_written(spec, view, spec.inputs[index].rstrip("?"))
    aligned_outputs = [stage_out or view.address % 16 == 0 for view in outs]
    out_types = []
    for number, view in enumerate(outs):
        check_written(spec, view, "out" if out_view is not None else f"out[{number}]")
        packed = contiguous_strides(view.type.shape) if stage_out else view.type.strides
        out_types.append(replace(view.type, strides=packed))
    call = call_of(
        given.kernel, bound_types, given.options, info.target, info.compute_units,
        out=None if out_view is None else out_types[0],
        outs=out_types if out_view is None else (),
        aligned=[*aligned_inputs, *aligned_outputs],
        general=given.general,
    )  # fmt: skip
    plan = make_plan(given.kernel, call)
    check_fp64(spec, plan, bound_types, info.name, info.fp64)
    launches = requests(given.kernel, plan, bound_types, aligned_inputs, aligned_outputs)
    skipped = any(0 in launch.grid for launch in plan.launches)
    complete = spec.complete and not skipped  # a grid without blocks writes nothing
    fills = _fills(spec, plan, complete=complete, given=bool(outs))
    # what is filled first is not read afterwards, in whatever order a kernel works
    in_place = (spec.elementwise or spec.in_place) and not any(one is not None for one in fills)
    against, pairs = _overlapping(types, out_view, in_place=in_place)
    reached = [*types, *(view.type for view in given.out_views)]
    spans = {i: byte_span(t) for i, t in enumerate(reached) if isinstance(t, ArrayType)}
    updates += tuple(range(len(types), len(reached)))
    return Planned(
        plan=plan,
        types=bound_types,
        launches=launches,
        stage=stage,
        stage_out=stage_out,
        updates=updates,
        complete=complete,
        fills=fills,
        cleared=tuple(
            None if value is None else pattern_of(spec.name, number, value, type_)
            for number, (value, type_) in enumerate(
                zip(plan.cleared, plan.temporaries, strict=False)
            )
        ),
        against=against,
        pairs=pairs,
        spans=spans if updates else {},
    )


def _staged(view: View) -> ArrayType:
    """Layout of a host array's copy on a device: C-contiguous, broadcast dimensions kept."""
    lengths = tuple(
        1 if s == 0 else n for n, s in zip(view.type.shape, view.type.strides, strict=True)
    )
    packed = contiguous_strides(lengths)
    strides = tuple(0 if s == 0 else p for p, s in zip(packed, view.type.strides, strict=True))
    return replace(view.type, strides=strides)


def _overlapping(
    types: Sequence[ArrayType | ScalarType], out: View | None, *, in_place: bool
) -> tuple[list[tuple[int, bool]], list[tuple[ArrayType, ArrayType]]]:
    """The arrays that `out` must not overlap, and whether it may be the array; both's types."""
    against, pairs = [], []
    if out is not None and out.type.size:
        for index, type_ in enumerate(types):
            if isinstance(type_, ArrayType) and type_.size:
                against.append((index, in_place and type_ == out.type))
                pairs.append((type_, out.type))
    return against, pairs


def byte_span(type_: ArrayType) -> tuple[int, int]:
    low, high = type_.span
    return low * type_.itemsize, high * type_.itemsize


def _fills(
    spec: KernelSpec, plan: Plan, *, complete: bool, given: bool
) -> tuple[bytes | None, ...]:
    """By output, what it is filled with before the launches: what is declared, else zeros where
    the launches may leave elements of a new array as they are.

    Args:
        complete: the launches write every element.
        given: `out` is the caller's, whose elements count.
    """
    fills: list[bytes | None] = []
    for number, type_ in enumerate(plan.outputs):
        init = plan.init[number] if number < len(plan.init) else None
        if init is None and not (given or complete):
            init = 0
        fills.append(None if init is None else pattern_of(spec.name, number, init, type_))
    return tuple(fills)


def planned(
    given: Given, info: DeviceInfo, contiguous: Sequence[bool] | None
) -> tuple[Tracer | None, Planned]:
    """The plan of a call, with symbols for sizes where it is of a class.

    Args:
        contiguous: of each array; None: nothing is made for other sizes.

    Raises:
        ArgumentError: the arguments do not fit the kernel.
    """
    own = _planned(given, info, contiguous)
    if not has_bundles() or _has_all(_started(own[1]), info.target):
        return own
    general = _planned(replace(given, general=True), info, contiguous)
    return general if _has_all(_started(general[1]), info.target) else own


def is_general(
    kernel: RegisteredKernel, args: Sequence[Any], options: Mapping[str, Any], target: Target
) -> bool:
    """Whether a loaded bundle serves the general plan of a call (`planning.plan_of_layouts`) and
    not its own."""
    if not has_bundles() or _has_all(compile_requests(kernel, args, options, target), target):
        return False
    return _has_all(compile_requests(kernel, args, options, target, general=True), target)


def _planned(
    given: Given, info: DeviceInfo, contiguous: Sequence[bool] | None
) -> tuple[Tracer | None, Planned]:
    tracer, found = trace_call(given, info, contiguous)
    return tracer, plan_call(given, info) if found is None else found


def _started(found: Planned) -> list[CompileRequest]:
    return [request for launch, request, _ in found.launches if 0 not in launch.grid]


def _has_all(requests: Iterable[CompileRequest], target: Target) -> bool:
    return all(is_bundled(request, target) for request in requests)
