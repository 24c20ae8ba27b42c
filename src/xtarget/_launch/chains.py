"""Launches of a bound call one after the other, behind what is filled before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..targets.base import Stream, Value

__all__ = ["Chain"]


class _Chained(Protocol):
    """The part of a bound call (`_launch.call.BoundCall`) that is needed here."""

    takes: int
    outputs: tuple[Any, ...]

    def fill(self, addresses: Sequence[Any], stream: Stream) -> None: ...

    def _launch(self, values: list[Value], stream: Stream) -> None: ...

    def launch_from(self, first: int, values: Sequence[Value], stream: Stream) -> None: ...


class Chain:
    """All that a call starts, as one function."""

    __slots__ = ("_call", "_first")

    def __init__(self, call: _Chained) -> None:
        self._call, self._first = call, call.takes - len(call.outputs)

    def __call__(self, values: Sequence[Value], stream: Stream) -> None:
        self._call.fill(values[self._first :], stream)
        self._call._launch(list(values), stream)

    def rest(self, first: int, values: Sequence[Value], stream: Stream) -> None:
        """Start the launches from one on, where those before it were started by the core.

        Args:
            values: those of the call, and the pieces of memory that the launches alone use.
        """
        self._call.launch_from(first, values, stream)
