"""Arrays whose lengths a plan never looks at: it launches whatever they are, and what it launches
may read beyond them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..._values.symbols import SymInt, Tracer
from ...spec import ArrayType, Input, Plan

__all__ = ["unread"]


def unread(plan: Plan, args: Sequence[Any], tracer: Tracer) -> list[int]:
    """The places of arrays of a call that are launched with, and of which no length decides
    anything: not the grid, no argument, no output, no comparison of the plan's.

    Args:
        args: the call's layouts, with lengths of the tracer's.
    """
    launched = {one.index for launch in plan.launches for one in _inputs(launch.args.values())}
    decides: list[Any] = [launch.args.values() for launch in plan.launches]
    decides += [launch.constants.values() for launch in plan.launches]
    decides += [launch.grid for launch in plan.launches]
    decides += [(one.shape, one.strides) for one in (*plan.outputs, *plan.temporaries)]
    read = tracer.reached(symbol.name for symbol in _symbols(decides))
    return [
        place
        for place, type_ in enumerate(args)
        if place in launched and isinstance(type_, ArrayType) and type_.ndim
        if not any(symbol.name in read for symbol in _symbols(type_.shape))
    ]


def _symbols(value: Any) -> Iterator[SymInt]:
    if type(value) is SymInt:
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for one in value:
            yield from _symbols(one)


def _inputs(values: Iterable[Any]) -> Iterator[Input]:
    return (one for one in values if isinstance(one, Input))
