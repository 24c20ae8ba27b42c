"""Keep the objects that a launch uses alive until its stream has passed the launch.

This is for arrays whose library does not do so itself. Such a library frees memory at once, or in
the order of its own streams.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ..targets.base import Event, Stream

__all__ = ["keep_until", "keep_until_passed"]

#: Launches whose events cannot be asked are waited for beyond this many.
_MOST = 256

_kept: deque[tuple[Event, list[Any]]] = deque()


def keep_until_passed(stream: Stream, objects: list[Any]) -> None:
    """Keep objects until the work that the stream has by now is done; no stream of a capture."""
    keep_until(stream.record(), objects)


def keep_until(event: Event, objects: list[Any]) -> None:
    """Keep objects until an event has passed."""
    _kept.append((event, objects))
    while True:
        try:
            first = _kept.popleft()
        except IndexError:
            return
        if not _passed(first[0], wait=len(_kept) >= _MOST):
            _kept.appendleft(first)
            return


def _passed(event: Event, *, wait: bool) -> bool:
    done = getattr(event, "done", None)
    if done is not None:
        return bool(done())
    if wait:
        event.synchronize()
    return wait
