"""Arguments that a launch writes in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._arrays import (
    view_of,
)
from .._kernels import libraries
from .._values.errors import ArgumentError
from .overlap import Overlaps

__all__ = ["Limits", "Update", "limits_of"]

#: Two places in a call's values, and between which distances of the first array from the second, in
#: bytes, they may share memory.
Limits = tuple[int, int, Any, Any]


def limits_of(updates: Sequence[int], spans: Mapping[int, tuple[Any, Any]]) -> list[Limits]:
    """Of each array that is written in place, and each other one.

    Args:
        spans: by place, the bytes that an array reaches from its first element.
    """
    return [
        (index, other, low - spans[index][1], high - spans[index][0])
        for index in updates
        for other, (low, high) in spans.items()
        if other not in updates or other > index
    ]


class Update:
    """An argument that is written in place; nothing else of the launch may share its memory."""

    __slots__ = ("_index", "_others", "_shared", "_span", "_written")

    def __init__(
        self,
        index: int,
        written: Callable[[Any], None] | None,
        spans: Mapping[int, tuple[int, int]],
    ) -> None:
        self._index, self._span, self._written = index, spans[index], written
        self._others = [(other, span) for other, span in spans.items() if other != index]
        self._shared: dict[int, Overlaps] = {}

    def prepare(self, kernel: str, args: Sequence[Any], values: Sequence[Any]) -> None:
        """Check a call and announce it.

        Raises:
            ArgumentError: two arguments overlap.
        """
        self.check(kernel, args, values)
        if self._written is not None:
            self._written(args[self._index])

    def check(self, kernel: str, args: Sequence[Any], values: Sequence[Any]) -> None:
        """Check a call.

        Raises:
            ArgumentError: two arguments overlap.
        """
        address = values[self._index]
        low, high = address + self._span[0], address + self._span[1]
        for other, (below, above) in self._others:
            at = values[other]
            if low < at + above and at + below < high and self._shares(other, args, address - at):
                raise ArgumentError(
                    f"{kernel}: {_words_of(kernel, self._index)}, which it writes to, overlaps "
                    f"{_words_of(kernel, other)} in memory. Pass a copy of one of them."
                )

    def _shares(self, other: int, args: Sequence[Any], distance: int) -> bool:
        """Do the arrays have a byte in common, and not only the span between first and last: views
        may lie between each other's elements, as keys and values of a cache do."""
        known = self._shared.get(other)
        if known is None:
            pair = view_of(args[self._index]).type, view_of(args[other]).type
            known = self._shared[other] = Overlaps(lambda: pair)
        return known.at(distance)


def _words_of(kernel: str, index: int) -> str:
    """An argument, or an array for one of several outputs after them, in words."""
    spec = libraries.find(kernel).spec
    names = [name.rstrip("?") for name in spec.inputs]
    if index >= len(names):
        return f"out[{spec.outputs[index - len(names)]!r}]"
    return f"argument {index + 1} ({names[index]})"
