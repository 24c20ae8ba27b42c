"""The kernel objects of a function.

A kernel object of OpenCL holds the values of its arguments. Making one takes pyopencl (2026.1) a
millisecond and 10 kB, since it writes and compiles Python code for each. So a launch with arguments
of its own takes over the object of one that was made long ago, when there are enough of them.
"""

from __future__ import annotations

import linecache
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyopencl as cl

from ..base import Value

__all__ = ["Arguments", "KernelObjects"]

#: Objects of a function, beyond as many as launch at one moment.
_MOST = 64


class Arguments:
    """A kernel object, which holds the values of its arguments, and what they were set to last.

    Attributes:
        dynamic: what sets the arguments that each call gives.
        last: the values of these; None where they are not to be trusted.
        set_at: what `memory.ALLOCATIONS.freed` was then.

    Args:
        setters: what sets each argument.
        lasting: of each argument, whether equal values stay the same: 0.0 and -0.0 do not, nor does
            an address other than 0, where other memory may lie by now.
    """

    __slots__ = (
        "_constants",
        "_lasting",
        "_places",
        "_setters",
        "dynamic",
        "kernel",
        "last",
        "set_at",
    )

    def __init__(
        self,
        kernel: cl.Kernel,
        setters: list[Callable[[Value], None]],
        lasting: Sequence[Callable[[Value], bool]],
    ) -> None:
        self.kernel, self._setters, self._lasting = kernel, setters, lasting
        self._constants: list[Value | None] = [None] * len(setters)
        self._places: tuple[int, ...] = ()
        self.dynamic: list[Callable[[Value], None]] = []
        self.last: tuple[Value, ...] | None = None
        self.set_at: object = None

    def serve(self, args: Sequence[Value | None]) -> None:
        """From now on for a launch with these arguments; None marks a dynamic one."""
        places = tuple([index for index, value in enumerate(args) if value is None])
        if places != self._places:
            self.last = None
            self.dynamic = [self._setters[index] for index in places]
            self._places = places
        constants = self._constants
        for index, value in enumerate(args):
            known = constants[index]
            if value is None or known is None or value != known:
                constants[index] = None  # also where setting it fails
                if value is not None:
                    self._setters[index](value)
                    if self._lasting[index](value):
                        constants[index] = value


class KernelObjects:
    """All of a function. Every step is one operation on a list or a deque: signal handlers and
    other threads launch at any moment.

    Args:
        make: a new one.
        name: of the entry.
    """

    def __init__(self, make: Callable[[], Arguments], name: str) -> None:
        self._make, self._text = make, f"<generated: 'pyopencl invoker for '{name}'"
        # where an object is when no call uses it, oldest first; once for each object
        self._places: deque[list[Arguments]] = deque()
        self.first = self._new()
        self._spare = [self.first]

    def __len__(self) -> int:
        return len(self._places) + len(self._spare)

    def take(self) -> Arguments:
        """One that served another launch, or none; `belongs` is to follow."""
        with suppress(IndexError):
            return self._spare.pop()
        if len(self._places) >= _MOST:
            for _ in range(len(self._places)):
                try:
                    place = self._places.popleft()
                except IndexError:
                    break
                try:
                    return place.pop()
                except IndexError:  # a call uses it now
                    self._places.append(place)
        return self._new()

    def belongs(self, place: list[Arguments]) -> None:
        """Register the list that contains the taken arguments whenever no call uses them."""
        self._places.append(place)

    def _new(self) -> Arguments:
        made = self._make()
        # pytools keeps the text of what pyopencl has compiled for ever, and searches all of it for
        # the next one
        for name in list(linecache.cache):
            if name.startswith(self._text):
                linecache.cache.pop(name, None)
        return made
