"""The results of a kernel without running it: shapes and dtypes, also of symbolic sizes.

A plan asks `Call.output` for its result's layout before it chooses tiles. Up to there it is run on
torch's own sizes, so torch sees just the comparisons that shapes depend on, and no threshold of a
tile size becomes a guard of a compiled program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._arrays import View
from .._arrays.dtypes import NumpyRules
from .._arrays.host import KIND as HOST
from .._kernels.interfaces import INPUT_DTYPES
from .._kernels.libraries import RegisteredKernel
from .._launch.arguments import argument_types, check_arguments
from .._values.errors import ArgumentError, XTargetError
from .._values.symbolic_integers import symbolic_types
from ..spec import ArrayType, Call, KernelSpec, Plan, contiguous_strides
from .schemas import arguments, dtype_name, torch_dtype

__all__ = ["fake_results", "result_count"]

_RULES = NumpyRules()
symbolic_types.add(torch.SymInt)


class _Known(BaseException):
    """Dtypes and shapes of the results are known: the rest of the plan is not needed."""

    def __init__(self, results: Sequence[tuple[str, Sequence[Any]]]) -> None:
        super().__init__()
        self.results = results


class _ShapeCall(Call):
    """A call of one result, whose plan ends when it knows that."""

    def output(self, shape: Sequence[Any], dtype: str, index: int = 0) -> ArrayType:
        raise _Known([(dtype, tuple(shape))])

    def results(self, layouts: Sequence[ArrayType]) -> None:
        raise _Known([(layout.dtype, layout.shape) for layout in layouts])


class _Declared(Call):
    """A call of a kernel that says all of its results at once."""

    results = _ShapeCall.results


def _layouts(kernel: RegisteredKernel, args: Sequence[Any]) -> tuple[Any, ...]:
    views = [
        View(
            HOST,
            None,
            0,
            ArrayType(dtype_name(arg.dtype), tuple(arg.shape), tuple(arg.stride())),
            None,
        )
        if isinstance(arg, torch.Tensor)
        else None
        for arg in args
    ]
    return argument_types(kernel.spec, args, views)


def fake_results(
    kernel: RegisteredKernel, results: int, args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[torch.Tensor, ...]:
    """Tensors like the results, on the device of the first tensor (or of the option `device`).

    A length that a kernel counts is a new symbol of the trace.

    Raises:
        ArgumentError: the arguments are not what the kernel takes; said as by `xtarget.run`.
    """
    spec = kernel.spec
    place = dict(options)
    device = place.pop("device", None)
    options = arguments(spec, place)
    check_arguments(spec, args, options)
    types = _layouts(kernel, args)
    like = next((arg.device for arg in args if isinstance(arg, torch.Tensor)), device)
    untold = [name for name in spec.found if options.get(name) is None]
    if untold:
        found = _of_any_length(
            *(
                _planned(spec, types, {**options, **dict.fromkeys(untold, length)}, results)
                for length in (2, 3)
            )
        )
    else:
        found = _planned(spec, types, options, results)
    if any(count is not None for count in spec.counts):
        found = _counted(spec, found)
    return tuple(torch.empty(s, dtype=torch_dtype(dtype), device=like) for dtype, s in found)


def _planned(
    spec: KernelSpec, types: tuple[Any, ...], options: Mapping[str, Any], results: int
) -> list[tuple[str, Any]]:
    """Dtypes and shapes of the results.

    Raises:
        ArgumentError: as the plan says it.
    """
    kind = _ShapeCall if results == 1 and not spec.counts else _Declared
    call = kind(spec.name, types, {**spec.options, **options}, None, "cpu", 1, _RULES)
    try:
        found: list[tuple[str, Sequence[Any]]] = []
        plan: Plan = spec.plan(call)
        found += [(out.dtype, out.shape) for out in plan.outputs]
    except _Known as known:
        found = list(known.results)
    except XTargetError as error:
        text = str(error)
        raise ArgumentError(
            text if text.startswith(spec.name) else f"{spec.name}: {text}"
        ) from None
    return found


def _of_any_length(
    some: Sequence[tuple[str, Any]], others: Sequence[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """Results with a length that nobody knows where two calls, each told another one, differ."""
    context = torch.library.get_ctx()
    return [
        (
            dtype,
            [
                own if own == other else context.new_dynamic_size()
                for own, other in zip(shape, beside, strict=True)
            ],
        )
        for (dtype, shape), (_, beside) in zip(some, others, strict=True)
    ]


def _counted(spec: KernelSpec, found: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Without the counts, and with a length that nobody knows where one of them says it."""
    context = torch.library.get_ctx()
    sizes = {count: context.new_dynamic_size() for count in {*spec.counts} - {None}}
    return [
        (dtype, shape if count is None else (sizes[count], *shape[1:]))
        for place, ((dtype, shape), count) in enumerate(zip(found, spec.counts, strict=True))
        if place not in sizes
    ]


def result_count(kernel: RegisteredKernel) -> int:
    """How many results a kernel has: what it declares, or its plan gives for small float32 arrays.

    Raises:
        ArgumentError: it cannot be planned for its own example, or for vectors without one.
    """
    spec = kernel.spec
    counts = len({*spec.counts} - {None})
    if spec.outputs or not spec.results:
        return len(spec.outputs) - counts
    inputs = len(spec.inputs)
    shapes = spec.examples((4, 4)) if spec.examples else [(4,)] * inputs
    last: Exception | None = None
    usual = [one for one in ("float32", "int32", "bool", "float64") if one in spec.dtypes]
    for dtype in dict.fromkeys((*usual, *spec.dtypes)):
        types = [  # None: an optional input in the middle
            ArrayType(INPUT_DTYPES.get(name.rstrip("?"), dtype), tuple(s), contiguous_strides(s))
            for name, s in zip(spec.inputs, shapes, strict=False)
            if s is not None
        ]
        call = Call(spec.name, tuple(types), dict(spec.planned_with), None, "cpu", 1, _RULES)
        try:
            return len(spec.plan(call).outputs) - counts
        except Exception as error:  # a user's plan, for arguments that are only a guess
            last = error
    raise ArgumentError(
        f"{spec.name}: its results are not known ({last}). Say how many tensors it gives: "
        "xtarget.torch.register(kernel, results=1)."
    ) from last
