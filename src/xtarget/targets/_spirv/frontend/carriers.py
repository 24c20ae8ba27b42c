"""Loops of a kernel that carry a dot's sum from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._values.value_classes import value_class
from .structure import Operation

__all__ = ["Carrier", "carrier_of"]

#: Operations that are, or may have, dots.
_DOTS = ("tt.dot", "tt.call")


@value_class(frozen=True, slots=True)
class Carrier:
    """The loop of a kernel that carries a dot's sum from step to step, and nothing else reads it.

    Attributes:
        begin: the sum before the loop.
        result: after it.
    """

    loop: Operation
    begin: Any
    result: Any


def carrier_of(operations: Sequence[Operation], dot: Operation) -> Carrier | None:
    """Return it; None where there is none, or another dot in it may need the memory.

    Args:
        operations: of the module, in the order of `structure.operations`.
    """
    at = max(i for i, one in enumerate(operations) if one.block == dot.block)
    end = operations[at]
    loop = operations[at + 1] if at + 1 < len(operations) else end
    if end.name != "scf.yield" or loop.name != "scf.for":
        return None
    first = 0 if loop.before is None else operations.index(loop.before) + 1
    if any(one.name in _DOTS and one is not dot for one in operations[first:at]):
        return None
    total, (result,) = dot.operands[2], dot.results
    numbers = [i for i, value in enumerate(end.operands) if value.id() == result.id()]
    readers = [
        (one, value.id())
        for one in operations
        for value in one.operands
        if value.id() in (total.id(), result.id())
    ]
    if len(numbers) != 1 or readers != [(dot, total.id()), (end, result.id())]:
        return None
    (number,) = numbers
    if dot.handle.get_block().get_argument(number + 1).id() != total.id():
        return None  # the first argument is the loop's number
    return Carrier(loop, loop.operands[number + 3], loop.results[number])  # after its three limits
