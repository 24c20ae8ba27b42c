"""The values that memory is filled with before the launches of a call: outputs that begin as
something, and temporaries."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..targets.base import Device, Stream
from .staging import fill

__all__ = ["Filling"]


class Filling:
    """The patterns of pieces of memory.

    Attributes:
        patterns: by piece; None: it stays as it is.
    """

    __slots__ = ("_at_once", "_device", "_waits", "patterns")

    def __init__(
        self,
        device: Device,
        patterns: Sequence[bytes | None],
        *,
        at_once: bool = False,
        waits: bool = False,
    ) -> None:
        """Choose how.

        Args:
            at_once: the memory is the process's own, and nothing that the stream is given after
                this uses it before.
            waits: earlier work of the stream may use it.
        """
        self.patterns = tuple(patterns) if any(one is not None for one in patterns) else ()
        self._device, self._at_once, self._waits = device, at_once, waits

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def fill(self, addresses: Sequence[Any], sizes: Sequence[int], stream: Stream) -> None:
        """Fill the pieces, in order on the stream.

        Args:
            sizes: bytes of each.
        """
        if self._at_once and self._waits and self.patterns:
            stream.synchronize()
        for address, nbytes, pattern in zip(addresses, sizes, self.patterns, strict=False):
            if pattern is None or not nbytes:
                continue
            if self._at_once:
                _repeat(address, nbytes, pattern)
            else:
                fill(self._device, address, nbytes, pattern, stream)


def _repeat(address: int, nbytes: int, pattern: bytes) -> None:
    """Set the process's own memory to a pattern."""
    if pattern == pattern[:1] * len(pattern):
        ctypes.memset(address, pattern[0], nbytes)
        return
    ctypes.memmove(address, pattern, len(pattern))
    done = len(pattern)
    while done < nbytes:
        ctypes.memmove(address + done, address, min(done, nbytes - done))
        done *= 2
