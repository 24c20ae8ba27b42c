"""Keep the objects that a launch uses alive until its stream has passed the launch.

This is for arrays whose library does not do so itself. Such a library frees memory at once, or in
the order of its own streams.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from .._system.life import in_forked_child
from .._system.locks import Lock
from .._values.errors import DeviceLostError, XTargetError
from ..targets.base import Event, Stream

__all__ = ["keep_until", "keep_until_passed"]

#: Launches whose events cannot be asked are waited for beyond this many.
_MOST = 256
#: Other streams that each launch looks after, of which nobody may hear again.
_OTHERS = 2

#: By stream, in the order of its work, what is kept until when; the streams in the order in which
#: they are looked after. One that is slow keeps nothing of another's.
_kept: OrderedDict[Stream, deque[tuple[Event, list[Any]]]] = OrderedDict()
_lock = Lock()
#: Of which no event will be heard of again: whether anything uses it is not known, so it stays.
_lost: list[Any] = []


def _in_forked_child() -> None:
    """The events are the parent's: the child can ask none, and what it drops it may not free."""
    _lost.append(_kept.copy())
    _kept.clear()


in_forked_child(_in_forked_child)


def keep_until_passed(stream: Stream, objects: list[Any]) -> None:
    """Keep objects until the work that the stream has by now is done; no stream of a capture."""
    keep_until(stream.record(), objects, stream)


def keep_until(event: Event, objects: list[Any], stream: Stream) -> None:
    """Keep objects until an event of the stream has passed, which is its youngest."""
    with _lock:
        _kept.setdefault(stream, deque()).append((event, objects))
    _drop_passed(stream)
    for _ in range(_OTHERS):
        with _lock:
            other = next(iter(_kept), None)
            if other is None or (other is stream and len(_kept) == 1):
                return
            _kept.move_to_end(other)  # it has had its turn; one step, which nothing interrupts
        if other is not stream:
            _drop_passed(other)


def _drop_passed(stream: Stream) -> None:
    while True:
        with _lock:
            waiting = _kept.get(stream)
            if waiting is None:
                return
            first, many = waiting[0], sum(map(len, _kept.values())) > _MOST
        try:
            if not _passed(first[0], wait=many):
                return
        except XTargetError:  # told once: later launches, on other streams too, are no worse for it
            with _lock:
                _lost.append(_kept.pop(stream, None))
            raise
        with _lock:  # another thread may have been here
            if waiting and waiting[0] is first:
                waiting.popleft()
            if not waiting and _kept.get(stream) is waiting:
                del _kept[stream]
        del first  # what is dropped here may run code of others


def _passed(event: Event, *, wait: bool) -> bool:
    done = getattr(event, "done", None)
    try:
        if done is not None:
            return bool(done())
        if wait:
            event.synchronize()
    except DeviceLostError:  # it runs nothing any more, and the next launch there says so
        return True
    return wait
