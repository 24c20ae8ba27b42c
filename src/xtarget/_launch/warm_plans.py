"""Plans that a warm-up has made of classes of calls, for the first call of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from .._arrays import View
from .._kernels import libraries, plan_values, tunings
from .._kernels.libraries import RegisteredKernel
from .._values.symbols import Tracer
from .._values.types import CompileRequest, DeviceInfo
from .._values.value_classes import value_class
from ..spec import ScalarType
from . import call_plans
from .arguments import argument_types, check_arguments
from .call_plans import Given, Planned

__all__ = ["Warm", "make", "plans_made", "take"]


@value_class(frozen=True, slots=True)
class Warm:
    """The plan of a class of calls.

    Attributes:
        holds: whether what the plan reads beside its arguments is still there.
    """

    kernel: RegisteredKernel
    tracer: Tracer
    planned: Planned
    holds: Callable[[], bool]


#: By what decides about a plan.
plans_made: dict[Hashable, list[Warm]] = {}


def _forget(kernel: str) -> None:
    """It was replaced, or another configuration of it was measured to be the fastest."""
    for key, plans in list(plans_made.items()):
        if plans and plans[0].kernel.spec.name == kernel:
            plans_made.pop(key, None)


libraries.on_change.append(_forget)
tunings.on_change.append(plans_made.clear)


def make(given: Given, info: DeviceInfo) -> tuple[list[CompileRequest], Tracer]:
    """Plan a call without its arrays or its device, and keep the plan for the first call of its
    class.

    Returns:
        the specializations that it loads, and the guards of its class.

    Raises:
        ArgumentError: the arguments do not fit the kernel.
    """
    kernel = given.kernel
    check_arguments(kernel.spec, given.args, given.options)
    contiguous = [v.type.contiguous for v in (*given.views, given.out_view) if v is not None]
    reads = plan_values.reads_of(kernel)
    tracer, planned = call_plans.planned(given, info, contiguous)
    reads.leave_own()
    if tracer is None:
        tracer = Tracer()
    else:
        key = _key(given, info, contiguous)
        plans_made.setdefault(key, []).append(Warm(kernel, tracer, planned, reads.holds))
    return [request for launch, request, _ in planned.launches if 0 not in launch.grid], tracer


def take(
    given: Given, info: DeviceInfo, contiguous: Sequence[bool], sizes: Sequence[int]
) -> Warm | None:
    """The plan that a warm-up has made for a call, once: binding goes on with its tracer.

    Args:
        contiguous: of each array.
        sizes: lengths of the arrays and strides, in the order of the tracer's symbols.
    """
    plans = plans_made.get(_key(given, info, contiguous), [])
    for warm in list(plans):
        if warm.kernel is given.kernel and not warm.tracer.failing(sizes) and warm.holds():
            try:
                plans.remove(warm)
            except ValueError:  # another thread's, by now
                continue
            return warm
    return None


def _key(given: Given, info: DeviceInfo, contiguous: Sequence[bool]) -> Hashable:
    """All that decides about a plan, apart from sizes and strides."""
    dense = iter(contiguous)

    def array(view: View) -> Hashable:
        type_ = view.type
        aligned, writable = view.address % 16 == 0, view.writable
        return type_.dtype, type_.ndim, next(dense), view.place, aligned, writable

    types = argument_types(given.kernel.spec, given.args, given.views)
    parts: list[Hashable] = [
        array(view) if view is not None else (type_ if isinstance(type_, ScalarType) else None)
        for view, type_ in zip(given.views, types, strict=True)
    ]
    options = sorted(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in given.options.items()
    )
    return (
        given.kernel.spec.name,
        tuple(parts),
        None if given.out_view is None else array(given.out_view),
        repr(options),
        (info.name, info.target, info.compute_units, info.host_memory, info.fp64),
    )
