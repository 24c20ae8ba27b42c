"""The sizes for which the binaries of a call serve, as text for `xtarget explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._kernels.libraries import RegisteredKernel
from .._system.signals import raised_by_handler
from .._values.symbols import Tracer
from .._values.types import Target
from ..spec import ScalarType
from .arguments import argument_types
from .classes import lift
from .planning import TYPICAL_COMPUTE_UNITS, call_of, layout_views, make_plan
from .specializing import requests

__all__ = ["valid_for"]


def valid_for(
    kernel: RegisteredKernel,
    args: Sequence[Any],
    options: Mapping[str, Any],
    target: Target,
    compute_units: int = TYPICAL_COMPUTE_UNITS,
    *,
    general: bool = False,
) -> list[str]:
    """The conditions on sizes under which calls like this one need the same binaries (`513 <=
    x.shape[1] <= 1024`), the simplest first; none if the plan takes other values than sizes.

    Args:
        args: arrays, numbers, or `ArrayType` and `ScalarType` layouts; the arrays' alignment stays
            as it is.
        general: as of `Call`.
    """
    tracer = Tracer()
    names = [name.rstrip("?") for name in kernel.spec.inputs]
    views = layout_views([None if isinstance(arg, ScalarType) else arg for arg in args])
    for place, (name, view) in enumerate(zip(names, views, strict=False)):
        if view is not None:
            lifted = lift(tracer, name, view.type, view.type.contiguous)
            views[place] = replace(view, type=lifted)
    try:
        if any(isinstance(arg, ScalarType) for arg in args):
            types = [
                arg if view is None else view.type for arg, view in zip(args, views, strict=True)
            ]
        else:
            types = list(argument_types(kernel.spec, args, views))
        aligned = [view is not None and view.address % 16 == 0 for view in views]
        call = call_of(
            kernel, types, options, target, compute_units, aligned=aligned, general=general
        )
        requests(kernel, make_plan(kernel, call), types, aligned)
    except Exception as error:  # a plan may do what only numbers can
        if raised_by_handler(error) is not None:
            raise
        return []
    return sorted(tracer.guards(), key=len)
