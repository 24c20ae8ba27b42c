"""From a kernel and actual arguments to a bound call: checked, planned, compiled, loaded.

Binding happens once for every class of calls (`_launch.classes`); what it makes for each layout,
`_launch.call.BoundCall`, is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _arrays
from .._arrays import View
from .._compile import functions
from .._compile.apart import is_apart
from .._compile.declared import UndeclaredStoreError
from .._compile.functions import compile_together
from .._devices import registry
from .._kernels import libraries, plan_values
from .._kernels.asked_choices import told_of
from .._values.symbols import Tracer, peek
from .._values.types import CompileRequest
from ..spec import ArrayType, Launch, ScalarType
from ..targets._objects.scalars import NEAREST
from ..targets.base import Device, Value
from . import call_plans, warm_plans
from .arguments import argument_types, check_arguments, place_of
from .call import BoundCall
from .call_plans import Given, Planned, byte_span
from .checked_indices import index_check, setting_holds
from .classes import CallClass, Layouts
from .forms import Form, LoadedLaunch, sized
from .outs import Outs, check_writable
from .specializing import Slot
from .staging import Staging
from .undeclared import declare_stores
from .untold import check_told

__all__ = ["bind", "on_bound"]

#: Called with kernel, arguments, options, their views, that of `out`, the device, and the guards of
#: the class (None: it serves these sizes only) of each call that was bound.
on_bound: list[Callable[..., None]] = []


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
    check_told(spec, options)
    views = [None if a is None or _arrays.is_scalar(a) else _arrays.view_of(a) for a in args]
    several = out if type(out) is Outs else ()
    for array in several or (out,):
        if array is not None and _arrays.is_scalar(array):
            check_writable(spec.name, "out", array)
    out_view = None if several or out is None else _arrays.view_of(out)
    given = Given(kernel, args, options, views, out_view, tuple(map(_arrays.view_of, several)))
    place = place_of(spec, [*views, out_view, *given.out_views], device)
    argument_types(spec, args, views)  # says what does not fit before a device is opened
    opened = registry.open_device(place)
    reads = plan_values.reads_of(kernel)
    checks: list[Callable[[], bool]] = []
    as_set = setting_holds(spec, options)
    if as_set is not None:
        checks.append(as_set)
    warm, contiguous = None, None
    if layouts is not None:
        contiguous = [steps is None for steps in layouts.strides]
        if warm_plans.plans_made and not given.out_views:
            warm = warm_plans.take(given, opened.info, contiguous, layouts.sizes)
    tracer: Tracer | None
    planned: Planned
    if warm is not None:
        tracer, planned = warm.tracer, warm.planned
    else:
        tracer, planned = call_plans.planned(given, opened.info, contiguous)
        reads.leave_own()
    if reads.holds is not plan_values.always:
        checks.append(reads.holds)
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
            try:
                with told_of(spec.name, spec.options, options):
                    loaded, values, scratch = _load(
                        opened, launch, request, slots, planned.types, uses
                    )
            except UndeclaredStoreError as error:
                declare_stores(kernel, launch, error)
                return bind(kernel_name, args, out, device, options, layouts)
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
        sized=sized(form, _peeked_values(results), lambda: _peeked_values(types)),
        views=views,
        out_view=out_view,
        staging=staging,
        out_views=given.out_views,
        fills=planned.fills,
        cleared=planned.cleared,
        counts=spec.counts if out is None else (),
        updates=planned.updates,
        against=planned.against,
        checks=tuple(dict.fromkeys(checks)),
        index_check=None if spec.bounds is None else index_check(spec, options),
    )
    entry = None if tracer is None else CallClass(call, form, tracer, results, types)
    if warm is not None and entry is not None and layouts is not None:  # made for other sizes
        found = entry.at(layouts.sizes)
        if found is None:
            return bind(kernel_name, args, out, device, options, layouts)
        call = found
    for bound in on_bound:
        bound(kernel, args, options, views, out_view, opened.info, entry and entry.guards)
    return call, entry


def _apart(type_: ArrayType, out: ArrayType) -> tuple[int, int]:
    """Between which distances of its first element from that of `out`, in bytes, an array may share
    memory with it."""
    below, above = byte_span(type_)
    out_below, out_above = byte_span(out)
    return out_below - above, out_above - below


def _peeked_values(value: Any) -> Any:
    return tuple(map(_peeked_values, value)) if type(value) is tuple else peek(value)


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
