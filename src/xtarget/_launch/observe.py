"""Observed calls: what hooks, profiles and traces are told. It does not run while there are none.

While somebody observes, `run` and prepared launches come here. The call is the same; each of its
launches stands between two events of its stream where device times are asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._arrays import view_of
from .._devices import streams
from .._system.locks import Lock
from .._values.errors import shortened
from ..spec import ArrayType
from ..targets.base import Stream, Value
from . import device_times, lookup, prepared
from . import run as _run
from .arguments import deferred_among, placed, take
from .call import BoundCall
from .launched import Launched
from .lookup import Found
from .outs import Outs
from .records import CallRecord, Observer, Record, is_quiet, quietly
from .sized import BoundLaunch
from .untold import UntoldError, found_in

if TYPE_CHECKING:
    from .._values.aliases import Args

__all__ = [
    "add",
    "check_with",
    "record_with",
    "remove",
    "stop_recording",
]

_MOST_TEXTS = 4096


#: Records a call instead of launching it: the kernel, the call, and the stream or None.
Recorder = Callable[[str, Found, Stream | None], Any]

#: Compares a call's result: it is told of a call, and what it returns is told the result.
Checker = Callable[[str, Found, Mapping[str, Any]], Callable[[Any], None] | None]

_observers: tuple[Observer, ...] = ()
_checkers: tuple[Checker, ...] = ()
#: Threads that record their calls.
_recording = 0
_lock = Lock()
_here = threading.local()


def present() -> tuple[Observer, ...]:
    return _observers


def add(observer: Observer) -> None:
    with _lock:
        _set((*_observers, observer))


def remove(observer: Observer) -> None:
    with _lock:
        _set(tuple(one for one in _observers if one is not observer))


def check_with(checker: Checker) -> None:
    """From now on, have the results of calls compared."""
    global _checkers
    with _lock:
        _checkers = (*_checkers, checker)
        _set(_observers)


def _set(observers: tuple[Observer, ...]) -> None:
    global _observers
    _observers = observers
    watching = bool(observers or _recording or _checkers)
    _run.observe_with(_observed_run if watching else None)
    prepared.observe_with(_observed_launch if watching else None)


def record_with(recorder: Recorder) -> None:
    """From now on, have the calls of this thread recorded instead of launched."""
    global _recording
    with _lock:
        _recording += 1
        _here.recorder = recorder
        _set(_observers)


def stop_recording() -> None:
    global _recording
    with _lock:
        _recording -= 1
        _here.recorder = None
        _set(_observers)


def recording() -> bool:
    """Whether the calls of this thread are recorded."""
    return getattr(_here, "recorder", None) is not None


def _present() -> tuple[Observer, ...]:
    return () if is_quiet() else _observers


# ------------------------------------------------------------------------------------------ calls


def _observed_run(
    kernel: str, args: Args, out: Any, device: Any, stream: Any, options: Mapping[str, Any]
) -> Any:
    """`run`, for observers."""
    args, options = placed(kernel, args, dict(options))
    deferred = deferred_among(args)
    if deferred is not None:
        return take(deferred, kernel, args, out, device, stream, options)
    start = time.perf_counter()
    try:
        found = lookup.find(kernel, args, out, device, options, stream)
    except UntoldError:
        if recording():
            raise
        options = found_in(kernel, args, device, stream, dict(options))
        found = lookup.find(kernel, args, out, device, options, stream)
    for consent in found.call.consents:
        consent(found.args, found.out)
    on = None if stream is None else streams.resolve(found.call.device, stream)
    if found.out is not None:
        found.call.check_overlap(found.values)
        if found.call.written is not None:
            found.call.written(found.out)
    returned = _replay(kernel, found, on, options, start)
    return returned if out is None else out


def _observed_launch(
    kernel: str, found: Found, on: Stream | None, options: Mapping[str, Any], start: float
) -> Any:
    """A prepared launch, for observers."""
    return _replay(kernel, found, on, options, start)


def _replay(
    kernel: str, found: Found, on: Stream | None, options: Mapping[str, Any], start: float
) -> Any:
    recorder: Recorder | None = getattr(_here, "recorder", None)
    if recorder is not None:
        return recorder(kernel, found, on)
    if not _checkers or is_quiet():
        return _told(kernel, found, on, options, start)
    with quietly():
        comparisons = [checker(kernel, found, options) for checker in _checkers]
    returned = _told(kernel, found, on, options, start)
    with quietly():
        for compare in comparisons:
            if compare is not None:
                compare(returned)
    return returned


def _told(
    kernel: str, found: Found, on: Stream | None, options: Mapping[str, Any], start: float
) -> Any:
    call, observers = found.call, _present()
    if not observers:
        return call.run(found.args, list(found.values), found.out, on)
    text = _layouts(kernel, found, options)
    record = CallRecord(
        kernel, text, call.device.info.name, start, thread=threading.get_native_id()
    )
    try:
        watched = _watched(found, record, observers)
        return watched.run(found.args, list(found.values), found.out, on)
    finally:
        record.seconds = time.perf_counter() - start
        with quietly():
            for observer in observers:
                observer.called(record)


_texts: dict[Any, str] = {}


def _layouts(kernel: str, found: Found, options: Mapping[str, Any]) -> str:
    """The class of a call's arguments for people: `float32 2d, float32 1d; axis=0`."""
    chosen = ", ".join(f"{name}={shortened(value)}" for name, value in sorted(options.items()))
    key = (kernel, found.parts, chosen)
    text = _texts.get(key)
    if text is None:
        parts = [_layout(value) for value in found.args]
        if len(found.parts) > len(found.args):  # the caller's
            parts.append(f"out {_layout(found.out)}")
        text = ", ".join(parts) + (f"; {chosen}" if chosen else "")
        if len(_texts) >= _MOST_TEXTS:
            _texts.clear()
        _texts[key] = text
    return text


def _layout(value: Any) -> str:
    if type(value) is Outs:
        return f"({', '.join(map(_layout, value))})"
    if lookup.kind_if_array(value) is None:
        return type(value).__name__
    type_ = view_of(value).type
    return f"{type_.dtype} {type_.ndim}d{'' if type_.contiguous else ' strided'}"


# --------------------------------------------------------------------------------------- launches


class _Watched(BoundCall):
    """A call that knows its arrays: the arguments, and the results that are given or made."""

    arrays: list[Any]

    def new_output(self, type_: ArrayType, args: Sequence[Any]) -> Any:
        array = super().new_output(type_, args)
        self.arrays.append(array)
        return array


def _watched(found: Found, record: CallRecord, observers: tuple[Observer, ...]) -> BoundCall:
    """The same call, whose launches are told."""
    call, other = found.call, object.__new__(_Watched)
    arrays = list(found.arrays)
    other.__dict__ = {**call.__dict__, "arrays": arrays}
    other._launches = tuple(
        replace(launch, prepared=_telling(launch, call, record, observers, arrays))
        for launch in call._launches
    )
    return other


def _telling(
    launch: BoundLaunch,
    call: BoundCall,
    record: CallRecord,
    observers: tuple[Observer, ...],
    arrays: Sequence[Any],
) -> Callable[[Sequence[Value], Stream], None]:
    info, function = call.device.info, launch.function
    timed = any(observer.wants_times for observer in observers)
    placed = any(observer.wants_places for observer in observers)
    asked = any(observer.wants_launched for observer in observers)

    def launched(values: Sequence[Value], stream: Stream) -> None:
        own = Record(
            kernel=record.kernel,
            entry="" if function is None else function.name,
            layouts=record.layouts,
            device=info.name,
            target=str(info.target),
            grid=launch.grid,
            block=(0, 0, 0) if function is None else function.artifact.block,
            stream=stream,
            thread=record.thread,
            launched=Launched(launch, (*arrays, *call._temporaries)) if asked else None,
        )
        with quietly():
            for observer in observers:
                observer.entered(own)
        before = device_times.mark(stream, info.name, placed=placed) if timed else None
        own.start = time.perf_counter()
        try:
            launch.prepared(values, stream)
        except BaseException as error:
            own.error = error
            raise
        finally:
            own.seconds = time.perf_counter() - own.start
            after = None if before is None else device_times.event_of(stream)
            with quietly():
                for observer in observers:
                    observer.launched(own)
            if before is not None and after is not None and own.error is None:
                device_times.add(own, before, after, observers)

    return launched
