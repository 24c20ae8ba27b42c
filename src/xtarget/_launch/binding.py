"""From a kernel and actual arguments to a bound call: checked, planned, compiled, loaded.

Binding happens once for every class of calls (`_launch.classes`); what it makes for each layout,
`_launch.call.BoundCall`, is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _arrays
from .._arrays import View
from .._compile import functions
from .._compile.apart import is_apart
from .._compile.functions import compile_together
from .._devices import registry
from .._kernels import libraries, plan_values
from .._kernels.libraries import RegisteredKernel
from .._system.signals import raised_by_handler
from .._values.errors import ArgumentError
from .._values.symbols import Tracer, peek
from .._values.types import CompileRequest, DeviceInfo
from ..spec import ArrayType, KernelSpec, Launch, Plan, ScalarType, contiguous_strides
from ..targets._objects.scalars import NEAREST
from ..targets.base import Device, Value
from .arguments import argument_types, check_arguments, check_fp64, check_written, place_of
from .call import BoundCall
from .classes import CallClass, Layouts, lift
from .forms import Form, LoadedLaunch, sized
from .outs import Outs
from .planning import Slot, call_of, make_plan, requests
from .staging import Staging, pattern_of

__all__ = ["bind", "on_bound", "planned_requests"]

#: Called with kernel, arguments, options, their views, that of `out`, the device, and the guards of
#: the class (None: it serves these sizes only) of each call that was bound.
on_bound: list[Callable[..., None]] = []


def _staged(view: View) -> ArrayType:
    """Layout of a host array's copy on a device: C-contiguous, broadcast dimensions kept."""
    lengths = tuple(
        1 if s == 0 else n for n, s in zip(view.type.shape, view.type.strides, strict=True)
    )
    packed = contiguous_strides(lengths)
    strides = tuple(0 if s == 0 else p for p, s in zip(packed, view.type.strides, strict=True))
    return replace(view.type, strides=strides)


@dataclass(frozen=True, slots=True)
class _Given:
    """A call's arguments, looked at.

    Attributes:
        views: of the arrays; None for a number.
        out_view: None without `out`.
        out_views: of the caller's arrays for several outputs.
    """

    kernel: RegisteredKernel
    args: Sequence[Any]
    options: Mapping[str, Any]
    views: Sequence[View | None]
    out_view: View | None
    out_views: Sequence[View] = ()


@dataclass(frozen=True, slots=True)
class _Planned:
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


def bind(
    kernel_name: str,
    args: Sequence[Any],
    out: Any,
    device: Any,
    options: Mapping[str, Any],
    layouts: Layouts | None = None,
) -> tuple[BoundCall, CallClass | None]:
    """Check a call and make everything ready for it, and for others of its class.

    Args:
        layouts: of the arrays; None: nothing is made for other sizes.

    Raises:
        XTargetError: any of its classes but LaunchError; the arguments do not fit, there is no
            such kernel or device, it does not compile or load.
    """
    kernel = libraries.find(kernel_name)
    spec = kernel.spec
    check_arguments(spec, args, options)
    views = [None if a is None or _arrays.is_scalar(a) else _arrays.view_of(a) for a in args]
    several = out if type(out) is Outs else ()
    for array in several or (out,):
        if array is not None and _arrays.is_scalar(array):
            raise ArgumentError(f"{spec.name}: out is a number, not an array. Give an array.")
    out_view = None if several or out is None else _arrays.view_of(out)
    given = _Given(kernel, args, options, views, out_view, tuple(map(_arrays.view_of, several)))
    place = place_of(spec, [*views, out_view, *given.out_views], device)
    argument_types(spec, args, views)  # says what does not fit before a device is opened
    opened = registry.open_device(place)
    checks = [] if kernel.fixed else [plan_values.holds(spec.plan)]
    contiguous = None if layouts is None else [steps is None for steps in layouts.strides]
    tracer, planned = _traced(given, opened.info, contiguous)
    if planned is None:
        planned = _plan(given, opened.info)
    if is_apart() and len(planned.launches) > 1:
        info = opened.info
        wanted = [
            (request, info.target, info.compile_options) for _, request, _ in planned.launches
        ]
        for _ in compile_together(wanted, len(wanted), opened):
            pass  # what fails is told below

    launches: list[LoadedLaunch] = []
    numbers = []
    uses: dict[int, set[str]] = {}
    for launch, request, slots in planned.launches:
        if 0 not in launch.grid:
            loaded, values, scratch = _load(opened, launch, request, slots, planned.types, uses)
            launches.append(loaded)
            numbers.append((launch.grid, values, scratch))
        source = request.source
        if source.again is not None and not (source.holds and source.holds()):
            source = kernel.source(launch.source)  # loading may have imported it
            if source.digest != request.source.digest:
                return bind(kernel_name, args, out, device, options, layouts)
        if source.holds is not None and not kernel.fixed:
            checks.append(source.holds)
    plan, pairs = planned.plan, planned.pairs
    form = Form(
        outputs=tuple(type_.dtype for type_ in plan.outputs),
        temporaries=tuple(type_.dtype for type_ in plan.temporaries),
        launches=tuple(launches),
        spans=tuple(planned.spans),
    )
    results = (
        tuple((type_.shape, type_.strides) for type_ in plan.outputs),
        tuple((type_.shape, type_.strides) for type_ in plan.temporaries),
        tuple(numbers),
        tuple(_apart(*pair) for pair in pairs),
        tuple(planned.spans.values()),
        tuple(type_.size * type_.itemsize for type_ in plan.temporaries),
    )
    types = tuple(tuple((t.dtype, t.shape, t.strides) for t in pair) for pair in pairs)
    staging = _staging(
        views, planned.stage, planned.stage_out, planned.updates, uses, planned.fills,
        given=out is not None, complete=planned.complete,
    )  # fmt: skip
    call = BoundCall(
        name=spec.name,
        device=opened,
        sized=sized(form, _peeked(results), lambda: _peeked(types)),
        views=views,
        out_view=out_view,
        staging=staging,
        out_views=given.out_views,
        fills=planned.fills,
        cleared=planned.cleared,
        counts=spec.counts,
        updates=planned.updates,
        against=planned.against,
        checks=tuple(checks),
    )
    entry = None if tracer is None else CallClass(call, form, tracer, results, types)
    for bound in on_bound:
        bound(kernel, args, options, views, out_view, opened.info, entry and entry.guards)
    return call, entry


def planned_requests(
    kernel: RegisteredKernel,
    args: Sequence[Any],
    options: Mapping[str, Any],
    views: Sequence[View | None],
    out_view: View | None,
    info: DeviceInfo,
) -> tuple[list[CompileRequest], Tracer]:
    """The specializations that a call would load, without the call's arrays or its device, and the
    guards of its class.

    Raises:
        ArgumentError: the arguments do not fit the kernel.
    """
    check_arguments(kernel.spec, args, options)
    given = _Given(kernel, args, options, views, out_view)
    contiguous = [v.type.contiguous for v in (*views, out_view) if v is not None]
    tracer, planned = _traced(given, info, contiguous)
    if planned is None:
        tracer, planned = Tracer(), _plan(given, info)
    assert tracer is not None
    return [request for launch, request, _ in planned.launches if 0 not in launch.grid], tracer


def _peeked(value: Any) -> Any:
    return tuple(map(_peeked, value)) if type(value) is tuple else peek(value)


def _traced(
    given: _Given, info: DeviceInfo, contiguous: Sequence[bool] | None
) -> tuple[Tracer | None, _Planned | None]:
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
    symbolic = replace(given, views=views, out_view=lifted(given.out_view, "out"))
    try:
        return tracer, _plan(symbolic, info)
    except Exception as error:  # a plan may do what only numbers can, or refuse the call
        if raised_by_handler(error) is not None:
            raise
        return None, None


def _plan(given: _Given, info: DeviceInfo) -> _Planned:
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
    out_types = []
    for number, view in enumerate(outs):
        check_written(spec, view, "out" if out_view is not None else f"out[{number}]")
        packed = contiguous_strides(view.type.shape) if stage_out else view.type.strides
        out_types.append(replace(view.type, strides=packed))
    call = call_of(
        given.kernel, bound_types, given.options, info.target, info.compute_units,
        out=None if out_view is None else out_types[0],
        outs=out_types if out_view is None else (),
    )  # fmt: skip
    plan = make_plan(given.kernel, call)
    check_fp64(spec, plan, bound_types, info.name, info.fp64)
    aligned_outputs = [stage_out or view.address % 16 == 0 for view in outs]
    launches = requests(given.kernel, plan, bound_types, aligned_inputs, aligned_outputs)
    skipped = any(0 in launch.grid for launch in plan.launches)
    complete = spec.complete and not skipped  # a grid without blocks writes nothing
    against, pairs = _overlapping(types, out_view, in_place=spec.elementwise or spec.in_place)
    reached = [*types, *(view.type for view in given.out_views)]
    spans = {i: _byte_span(t) for i, t in enumerate(reached) if isinstance(t, ArrayType)}
    updates += tuple(range(len(types), len(reached)))
    return _Planned(
        plan=plan,
        types=bound_types,
        launches=launches,
        stage=stage,
        stage_out=stage_out,
        updates=updates,
        complete=complete,
        fills=_fills(spec, plan, complete=complete, given=bool(outs)),
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


def _apart(type_: ArrayType, out: ArrayType) -> tuple[int, int]:
    """Between which distances of its first element from that of `out`, in bytes, an array may share
    memory with it."""
    below, above = _byte_span(type_)
    out_below, out_above = _byte_span(out)
    return out_below - above, out_above - below


def _byte_span(type_: ArrayType) -> tuple[int, int]:
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


def _staging(
    views: Sequence[View | None],
    stage: Sequence[bool],
    stage_out: bool,
    updates: Sequence[int],
    uses: Mapping[int, set[str]],
    fills: Sequence[bytes | None],
    *,
    given: bool,
    complete: bool,
) -> Staging | None:
    """Return what a call copies between host and device; None if it copies nothing."""
    if not any(stage) and not stage_out:
        return None
    back = []
    for index, (view, staged) in enumerate(zip(views, stage, strict=True)):
        if view is None or not staged:
            continue
        perhaps = "p" in uses.get(index, ()) and view.writable and 0 not in view.type.strides
        if index in updates or perhaps:
            back.append(index)
    out_in = stage_out and given and not complete and None in fills
    return Staging(tuple(stage), tuple(back), stage_out, out_in)


def _load(
    device: Device,
    launch: Launch,
    request: CompileRequest,
    slots: Mapping[str, Slot],
    types: Sequence[ArrayType | ScalarType],
    uses: dict[int, set[str]],
) -> tuple[LoadedLaunch, tuple[Value | None, ...], tuple[int, ...]]:
    """Load a launch; note in `uses` what it does with the call's values.

    Returns:
        the launch, the value of each parameter (None: dynamic), and the sizes of the global memory
        that it wants from us, bytes.
    """
    function = functions.function(device, request)
    artifact = function.artifact
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    wanted = {
        "global_scratch": artifact.global_scratch.nbytes * artifact.cluster,
        "profile_scratch": artifact.profile_scratch.nbytes * artifact.cluster,
    }
    values: list[Value | None] = []
    order: list[int] = []
    scratch: list[int] = []
    for parameter in artifact.parameters:
        if parameter.hidden is not None:
            nbytes = wanted.get(parameter.hidden, 0)  # others are the device's to fill in
            if nbytes:
                order.append(-1 - len(scratch))
                scratch.append(nbytes * blocks)
            values.append(None if nbytes else 0)
            continue
        slot = slots[parameter.name]
        values.append(slot.value)
        if slot.index is not None:
            order.append(slot.index)
            uses.setdefault(slot.index, set()).update(
                "?" if parameter.access is None else parameter.access
            )
    # as float32, in which they travel, halves would be rounded twice
    halves = tuple(
        (place, types[index].dtype)
        for place, index in enumerate(order)
        if 0 <= index < len(types)
        and isinstance(types[index], ScalarType)
        and types[index].dtype in NEAREST
    )
    return LoadedLaunch(function, tuple(order), halves, request), tuple(values), tuple(scratch)
