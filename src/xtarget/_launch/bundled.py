"""Which plan of a call serves it: its own, or the general one (`Call.general`) where a loaded
bundle has binaries for that alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._compile.functions import has_bundles, is_bundled
from .._kernels.libraries import RegisteredKernel
from .._values.symbols import Tracer
from .._values.types import CompileRequest, DeviceInfo, Target
from .call_plans import Given, Planned, plan_call, trace_call
from .planning import compile_requests

__all__ = ["is_general", "planned"]


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
