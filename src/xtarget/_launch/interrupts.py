"""Work that an exception has left running: Ctrl-C, or another signal's handler, between the launch
and the wait. What the kernel uses must not be freed before it ends.

Such an exception comes up between any two steps of Python, also while it is dealt with. So who
catches it first puts all that the work uses into `unfinished` (one step, which nothing interrupts),
and calls `settle`. Another interruption, after a second of waiting, leaves them there for good.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from .._values.errors import XTargetError
from ..targets.optional import Capturable

__all__ = ["settle", "unfinished"]

#: Seconds of waiting after which another interruption ends it: the work may never end.
_PATIENCE = 1.0

#: A stream, and what its work uses.
unfinished: list[list[Any]] = []


def settle(entry: list[Any]) -> None:
    """Wait for the work of an entry of `unfinished`, through further interruptions too until a
    second has passed.
    """
    start = time.monotonic()
    while entry:
        try:
            stream = entry[0]
            # what is captured does not run now
            if not (isinstance(stream, Capturable) and stream.capturing()):
                stream.synchronize()
            entry.clear()
        except XTargetError:
            entry.clear()  # it has failed: the first exception is told
        except BaseException:
            if time.monotonic() - start > _PATIENCE:
                return
    with contextlib.suppress(ValueError):
        unfinished.remove(entry)  # an empty one
