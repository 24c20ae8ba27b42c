"""From layouts to plans.

Sizes and strides may be symbolic integers (`_values.symbols`). What has to be a number (a constant
of a kernel, what the alignment of a size decides) is one afterwards, with a guard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _arrays
from .._arrays import View
from .._arrays.dtypes import NumpyRules
from .._arrays.host import KIND as HOST
from .._kernels import implementations, tunings
from .._kernels.asked_choices import AskedChoices, of_options
from .._kernels.libraries import RegisteredKernel
from .._system.processor import register_bytes, vectors
from .._system.signals import raised_by_handler
from .._values.choosing import CONFIG
from .._values.errors import ArgumentError, XTargetError, shortened, shortened_text
from .._values.types import (
    CompileRequest,
    Target,
)
from ..spec import (
    ArrayType,
    Call,
    KernelSpec,
    Plan,
    ScalarType,
)
from .arguments import argument_types, check_arguments
from .checked_plans import checked
from .specializing import requests

__all__ = [
    "TYPICAL_COMPUTE_UNITS",
    "call_of",
    "compile_requests",
    "layout_views",
    "make_plan",
    "plan_of_layouts",
]

_RULES = NumpyRules()
#: Stands for the device's number where only a target is known; it chooses grids, not code.
TYPICAL_COMPUTE_UNITS = 64
#: Characters of a plan's own messages, which may quote what the caller gave.
_MOST_TEXT = 700


def call_of(
    kernel: RegisteredKernel,
    types: Sequence[ArrayType | ScalarType],
    options: Mapping[str, Any],
    target: Target,
    compute_units: int,
    *,
    out: ArrayType | None = None,
    outs: Sequence[ArrayType] = (),
    aligned: Sequence[bool] = (),
    local: bool = True,
    general: bool = False,
) -> Call:
    """A call as plans see it.

    Args:
        out: the caller's array for the result.
        outs: the caller's arrays for several results.
        aligned: as of `Call`.
        local: whether what was tuned on this machine, or is known of it, serves it.
        general: as of `Call`.
    """
    here = local and not general
    spec, chooser = kernel.spec, tunings.chooser(str(target), local=here)
    wanted = of_options(spec.name, spec.options, options)
    if wanted:
        chooser = AskedChoices(spec.name, target.vendor, wanted, chooser)
        options = {name: value for name, value in options.items() if name != CONFIG}
    return Call(
        kernel=spec.name,
        args=tuple(types),
        options={**spec.planned_with, **options},
        out=out,
        vendor=target.vendor,
        compute_units=compute_units,
        rules=_RULES,
        arch=target.arch,
        outs=tuple(outs),
        aligned=tuple(aligned),
        chooser=chooser,
        general=general,
        register_bytes=register_bytes() if target.vendor == "cpu" and here else 0,
        vectors=vectors() if target.vendor == "cpu" and here else "",
    )


def _check_places(spec: KernelSpec, call: Call, plan: Plan) -> None:
    """An elementwise kernel reads each input at the places of its result.

    Raises:
        ArgumentError: an input has no such places, and would be read past its end.
    """
    result = plan.outputs[0]
    for name, arg in zip(spec.inputs, call.args, strict=False):
        if not isinstance(arg, ArrayType):
            continue
        missing = result.ndim - arg.ndim
        pairs = zip(arg.shape, result.shape[max(missing, 0) :], strict=False)
        fits = missing >= 0 and all(own == whole or own == 1 for own, whole in pairs)
        # what plans compare anyway comes first: the question is a guard of the class
        if not fits and arg.size != result.size:
            raise ArgumentError(
                f"{spec.name} is declared elementwise, and {name.rstrip('?')} has shape "
                f"{arg.shape} where the result has {result.shape}. Give arrays whose shapes fit."
            )


def make_plan(kernel: RegisteredKernel, call: Call) -> Plan:
    """The plan of a call, from layouts alone."""
    spec = kernel.spec
    plan = implementations.serving(kernel, call.vendor, call.arch).spec.plan
    try:
        made = checked(spec.name, plan(call), len(call.args))
        if isinstance(call.chooser, AskedChoices):
            made = call.chooser.applied(made)
        if spec.elementwise and spec.by_name:  # of a user's, whose plan compares no shapes
            _check_places(spec, call, made)
        return made
    except ArgumentError as error:
        text = shortened_text(str(error), _MOST_TEXT)
        # a sentence about a variable of the environment is of no kernel
        text = text if text.startswith((spec.name, "XTARGET_")) else f"{spec.name}: {text}"
        raise ArgumentError(text) from None
    except XTargetError:
        raise
    except Exception as error:  # the plan is a user's
        interrupted = raised_by_handler(error)
        if interrupted is not None:
            raise interrupted from interrupted.__cause__
        given = ", ".join(
            f"{name}={shortened(value)}"
            for name, value in call.options.items()
            if name not in spec.options or spec.options[name] is not value
        )
        raise ArgumentError(
            f"{spec.name} cannot be planned for these arguments ({given or 'no options'}): {error}."
        ) from error


def layout_views(args: Sequence[Any]) -> list[View | None]:
    """The views of a call's arguments, of which some may be layouts without memory; None: of what
    is no array.
    """
    views: list[View | None] = []
    for arg in args:
        if isinstance(arg, ArrayType):
            views.append(View(HOST, None, 0, arg, None))
        else:
            known = arg is None or _arrays.is_scalar(arg)
            views.append(None if known else _arrays.view_of(arg))
    return views


def plan_of_layouts(
    kernel: RegisteredKernel,
    args: Sequence[Any],
    options: Mapping[str, Any],
    target: Target,
    *,
    general: bool = False,
) -> tuple[Plan, Sequence[ArrayType | ScalarType], list[bool]]:
    """The plan of a call that need not have arrays, its arguments' layouts, and which are aligned.

    Args:
        args: arrays, numbers, or `ArrayType` layouts, which count as aligned.
        general: as of `Call`.
    """
    spec = kernel.spec
    check_arguments(spec, args, options)
    views = layout_views(args)
    types = argument_types(spec, args, views)
    aligned = [view is not None and view.address % 16 == 0 for view in views]
    call = call_of(
        kernel, types, options, target, TYPICAL_COMPUTE_UNITS, aligned=aligned, general=general
    )
    return make_plan(kernel, call), types, aligned


def compile_requests(
    kernel: RegisteredKernel,
    args: Sequence[Any],
    options: Mapping[str, Any],
    target: Target,
    *,
    general: bool = False,
) -> list[CompileRequest]:
    """The specializations that a call (`plan_of_layouts`) needs on a target."""
    plan, types, aligned = plan_of_layouts(kernel, args, options, target, general=general)
    return [request for _, request, _ in requests(kernel, plan, types, aligned)]
