"""The check of a plan whose integers may be symbolic (`_values.symbols`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._kernels.plan_checks import check_plan
from .._values.symbols import SymInt, peek
from ..spec import ArrayType, Plan, Scalar

__all__ = ["checked"]


def checked(kernel: str, plan: Any, arguments: int) -> Plan:
    """Check a plan; the constants of its launches are numbers afterwards."""
    if not _symbolic(plan):
        return check_plan(kernel, plan, arguments)
    assert isinstance(plan, Plan)
    check_plan(kernel, _numbers(plan), arguments)
    for type_ in (*plan.outputs, *plan.temporaries):
        _check_counts(type_.shape)
    for launch in plan.launches:
        _check_counts(launch.grid)
    launches = tuple(
        replace(
            launch,
            constants={name: _settled(value) for name, value in launch.constants.items()},
            options={name: _settled(value) for name, value in launch.options.items()},
            num_warps=_settled(launch.num_warps),
            num_stages=_settled(launch.num_stages),
        )
        for launch in plan.launches
    )
    return replace(plan, launches=launches, init=_settled(plan.init))


def _check_counts(counts: Sequence[int]) -> None:
    """For guards: the plan's own check has seen the values at hand only."""
    for count in counts:
        if count < 0:
            raise AssertionError(count)


def _symbolic(plan: Any) -> bool:
    """Has a plan symbolic integers? Anything else than a plan has none."""
    if not isinstance(plan, Plan):
        return False
    try:
        parts: list[Any] = [plan.init]
        parts += [(t.shape, t.strides) for t in (*plan.outputs, *plan.temporaries)]
        for launch in plan.launches:
            parts += [launch.grid, *launch.args.values(), *launch.constants.values()]
            parts += [*launch.options.values(), launch.num_warps, launch.num_stages]
    except (AttributeError, TypeError):
        return False
    return any(map(_has_symbol, parts))


def _has_symbol(value: Any) -> bool:
    if type(value) is tuple:
        return any(map(_has_symbol, value))
    return type(value.value if type(value) is Scalar else value) is SymInt


def _numbers(plan: Plan) -> Plan:
    """A plan with the values at hand, without a guard."""

    def peeked(value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(peeked, value))
        return replace(value, value=peek(value.value)) if type(value) is Scalar else peek(value)

    def mapping(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: peeked(value) for name, value in values.items()}

    def layouts(types: Sequence[ArrayType]) -> tuple[ArrayType, ...]:
        return tuple(
            replace(type_, shape=peeked(type_.shape), strides=peeked(type_.strides))
            for type_ in types
        )

    launches = tuple(
        replace(
            launch,
            args=mapping(launch.args),
            constants=mapping(launch.constants),
            options=mapping(launch.options),
            grid=peeked(launch.grid),
            num_warps=peek(launch.num_warps),
            num_stages=peek(launch.num_stages),
        )
        for launch in plan.launches
    )
    return Plan(
        layouts(plan.outputs), launches, layouts(plan.temporaries), peeked(plan.init), plan.cleared
    )


def _settled(value: Any) -> Any:
    """A constant as numbers; a guard keeps each that was symbolic."""
    if type(value) is tuple:
        return tuple(map(_settled, value))
    return value.__index__() if type(value) is SymInt else value
