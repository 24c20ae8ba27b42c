"""Calls of a kernel that take other branches of its plan than those that are known.

A plan is run on symbols (`_values.symbols`), as launches in Python do it. Where its guards hold,
other sizes need nothing else; sizes for which the guards of no plan hold are planned next. So a
spec's `examples` are enough to find the classes of a kernel: the ranges fall out by themselves.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, TypeAlias

from ..._kernels.libraries import RegisteredKernel
from ..._launch import planning
from ..._launch.classes import lift
from ..._launch.specializing import requests
from ..._system.signals import raised_by_handler
from ..._values.errors import XTargetError
from ..._values.programs import Program
from ..._values.symbols import Tracer
from ..._values.types import Target
from ..._values.value_classes import value_class
from ...spec import ArrayType, Example, ScalarType

__all__ = ["explore"]

Types: TypeAlias = tuple[ArrayType | ScalarType, ...]
#: A shape that examples are asked for; None: there is no such example.
Ask: TypeAlias = Callable[[tuple[int, ...]], tuple[Example, Types] | None]
#: Takes a call on a device of so many compute units; whether something new was needed.
Reach: TypeAlias = Callable[[Example, Types, int], bool]

#: Powers of two, which are multiples of 16 from 16 on, and their neighbours, which are none.
_LENGTHS: Final = tuple(
    sorted(
        {max(1, 2**power + more) for power in range(16) for more in (-1, 0, 1)} | {48, 100, 1000}
    )
)
_LONG: Final = tuple(2**power - less for power in (17, 18, 20, 22, 24, 26) for less in (1, 0))
#: Of two lengths, one takes all values and the other one of these.
_FEW: Final = (1, 2, 7, 16, 33, 64, 250, 1024, 3000, 2**14)
#: Elements of an array that need 64-bit indices.
_NARROW: Final = 2**31 - 2**20
#: Plans of a kernel that are traced, some 3 ms each.
_MOST_TRACED: Final = 160
#: Of these, one after the other without news: then there is nothing else to be found.
_MOST_IDLE: Final = 64


@value_class(frozen=True, slots=True)
class _Known:
    """A plan that was traced: of which kind of call, and the sizes for which it holds (None: for
    these alone)."""

    kind: tuple[object, ...]
    holds: Program | None


def explore(
    kernel: RegisteredKernel, target: Target, units: Sequence[int], ask: Ask, reach: Reach
) -> None:
    """Take calls of the kernel's examples, each of which needs a plan that the ones before do not.

    Args:
        units: compute units of the devices that call.
        ask: from a shape to the call of an example of it.
        reach: is given each call.
    """
    known: list[_Known] = []
    idle = 0
    for shape in _shapes():
        asked = ask(shape)
        if asked is None or any(
            isinstance(one, ArrayType) and one.size > _NARROW for one in asked[1]
        ):
            continue
        for count in units:
            found = _traced(kernel, target, count, *asked, known)
            if found is None:
                continue
            known.append(found)
            # what is a multiple of 16 decides no class: the nearest call with such lengths, too
            even = tuple(-(-length // 16) * 16 for length in shape)
            twin = ask(even) if even != shape else None
            news = [reach(*one, count) for one in (asked, twin) if one is not None]
            idle = 0 if any(news) else idle + 1
            if idle >= _MOST_IDLE or len(known) >= _MOST_TRACED:
                return


@cache
def _shapes() -> tuple[tuple[int, ...], ...]:
    """Of one and of two dimensions, in no order: so that a while without news means something."""
    found: dict[tuple[int, ...], None] = {(length,): None for length in (*_LENGTHS, *_LONG)}
    pairs = (*itertools.product(_FEW, _LENGTHS), *itertools.product(_FEW[:3], _LONG))
    for few, length in pairs:
        found |= {(few, length): None, (length, few): None}

    def order(shape: tuple[int, ...]) -> tuple[bool, bytes]:  # a single row or column comes first
        return 1 not in shape, hashlib.sha256(repr(shape).encode()).digest()

    return tuple(sorted(found, key=order))


def _traced(
    kernel: RegisteredKernel,
    target: Target,
    units: int,
    example: Example,
    types: Types,
    known: Sequence[_Known],
) -> _Known | None:
    """The plan of a call; None where it is known, or where no call is like this."""
    kind = (
        repr(sorted(example.options.items())),
        *((t.dtype, t.ndim) if isinstance(t, ArrayType) else (t.dtype,) for t in types),
    )
    sizes = [units]
    for type_ in types:
        sizes += type_.shape
    if any(one.kind == kind and one.holds and one.holds(sizes) is not None for one in known):
        return None
    tracer = Tracer()
    count = tracer.symbol("compute_units", units, least=1)
    lifted = [
        lift(tracer, f"arg{n}", type_, True) if isinstance(type_, ArrayType) else type_
        for n, type_ in enumerate(types)
    ]
    try:
        call = planning.call_of(
            kernel, lifted, example.options, target, count, aligned=[True] * len(types),
            local=False, general=True,
        )  # fmt: skip
        plan = planning.make_plan(kernel, call)
        for launch in plan.launches:
            if 0 in launch.grid:
                return None
        plain = replace(plan, launches=tuple(replace(one, aligned_by=()) for one in plan.launches))
        requests(kernel, plain, lifted, [True] * len(types))
    except XTargetError:
        return None
    except Exception as error:  # a plan may do what only numbers can
        if raised_by_handler(error) is not None:
            raise
        return _Known(kind, None)
    return _Known(kind, tracer.compile(()))
