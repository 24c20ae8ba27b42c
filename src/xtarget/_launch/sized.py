"""The part of a bound call that depends on sizes and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._values.types import CompileRequest
from .._values.value_classes import value_class
from ..spec import ArrayType
from ..targets.base import Function, PreparedLaunch, Stream, Value
from .overlap import Overlaps

__all__ = ["BoundLaunch", "Sized", "picking"]


@value_class(frozen=True, slots=True)
class BoundLaunch:
    """One prepared launch.

    Attributes:
        prepared: takes the dynamic values in the entry's order.
        order: for each dynamic value, its place in the call's values; -1, -2... are scratch.
        scratch: sizes of the global memory that the entry wants from us, bytes.
        function, grid: what is launched, for who observes.
        values: of its parameters, None where they are dynamic; None alone where `prepared` does
            more than to launch them.
        halves: places in `order` of numbers that `prepared` rounds first, and to what.
        request: what `function` was made of; None where `values` is.
    """

    prepared: PreparedLaunch
    order: tuple[int, ...]
    scratch: tuple[int, ...]
    function: Function | None = None
    grid: tuple[int, int, int] = (0, 0, 0)
    values: Sequence[Value | None] | None = None
    halves: tuple[tuple[int, str], ...] = ()
    request: CompileRequest | None = None


@value_class(frozen=True, slots=True)
class Sized:
    """The part of a bound call that depends on sizes and strides.

    Attributes:
        outputs: layouts of the results.
        temporaries: layouts of memory for this call only.
        launches: in their order.
        overlaps: for each array that `out` must not overlap, between which distances of its first
            element from that of `out`, in bytes, they may share memory, and what knows whether they
            do.
        spans: by argument, the bytes that an array reaches from its first element.
    """

    outputs: tuple[ArrayType, ...]
    temporaries: tuple[ArrayType, ...]
    launches: tuple[BoundLaunch, ...]
    overlaps: tuple[tuple[int, int, Overlaps], ...]
    spans: Mapping[int, tuple[int, int]]


def picking(launch: BoundLaunch) -> PreparedLaunch:
    """A launch that takes all of a call's values, in the call's order."""
    prepared, order = launch.prepared, launch.order

    def picked(values: Sequence[Value], stream: Stream) -> None:
        prepared([values[place] for place in order], stream)

    return picked
