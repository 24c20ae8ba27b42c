"""Observed calls: what hooks, profiles and traces are told. It does not run while there are none.

While somebody observes, `run` and prepared launches come here. The call is the same; each of its
launches stands between two events of its stream where device times are asked for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from .._arrays import view_of
from .._devices import registry, streams
from .._system.locks import Lock
from .._values.errors import XTargetError, shortened
from ..targets.base import Capturable, Event, Pollable, Stream, Value
from . import lookup, prepared
from . import run as _run
from .arguments import deferred_among, placed, take
from .call import BoundCall, BoundLaunch
from .lookup import Found

if TYPE_CHECKING:
    from .._values.aliases import Args

__all__ = [
    "CallRecord",
    "Observer",
    "Record",
    "add",
    "check_with",
    "quietly",
    "record_with",
    "remove",
    "settle_times",
    "stop_recording",
]

#: Launches whose device times are looked for at once, and those that may be unknown.
_BATCH, _MOST = 64, 4096
#: Seconds of device time after which the clocks of host and device are matched at a later event:
#: run times count milliseconds in 32-bit floats.
_MATCHED = 10.0
_MOST_TEXTS = 4096


@dataclass(slots=True)
class CallRecord:
    """One call of a kernel.

    Attributes:
        kernel: its name.
        layouts: dtypes and dimensions of the arguments, and the options, as text.
        device: the device's name.
        start: when it began, in seconds of `time.perf_counter`; nan for what only lacks it.
        seconds: of the host.
        thread: the id of its thread, as the system has it.
    """

    kernel: str
    layouts: str
    device: str
    start: float
    seconds: float = 0.0
    thread: int = 0


@dataclass(slots=True)
class Record:
    """One launch, for hooks and observers.

    Attributes:
        kernel: the kernel's name in the catalog.
        entry: the name of the function that is launched.
        layouts: of the call's arguments, as text.
        device, target: as `nvidia:0` and `nvidia:sm_90`.
        grid: blocks in x, y, z.
        block: threads of a block.
        stream: where it is launched.
        thread: the id of its thread.
        start: when the launch began on the host, in seconds of `time.perf_counter`.
        seconds: how long the launch took on the host; 0 before it.
        error: what it has raised; None before it, and where it went well.
        device_start: when the kernel began, in seconds of `time.perf_counter`; None: not known.
        device_seconds: how long it ran; None: not known.
    """

    kernel: str
    entry: str
    layouts: str
    device: str
    target: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    stream: Stream = field(repr=False)
    thread: int
    start: float = 0.0
    seconds: float = 0.0
    error: BaseException | None = None
    device_start: float | None = None
    device_seconds: float | None = None


class Observer(Protocol):
    """A listener for calls and launches. It does not raise, and any thread may call it."""

    @property
    def wants_times(self) -> bool:
        """Of the device."""
        ...

    @property
    def wants_places(self) -> bool:
        """In the host's time, for the launches on the device."""
        ...

    def entered(self, launch: Record) -> None:
        """A launch begins."""
        ...

    def launched(self, launch: Record) -> None:
        """The launch has returned, or raised; the kernel may run."""
        ...

    def timed(self, launch: Record) -> None:
        """The kernel has ended; its times are in the record, if the device tells them."""
        ...

    def called(self, call: CallRecord) -> None:
        """A call has ended, or raised."""
        ...


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


class quietly:
    """Within it, calls of this thread are not observed: they are an observer's own."""

    def __enter__(self) -> None:
        self._before = getattr(_here, "quiet", False)
        _here.quiet = True

    def __exit__(self, *_: object) -> None:
        _here.quiet = self._before


def _quiet() -> bool:
    return bool(getattr(_here, "quiet", False))


def _present() -> tuple[Observer, ...]:
    return () if _quiet() else _observers


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
    if not _checkers or _quiet():
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
        watched = _watched(call, record, observers)
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
    if lookup.kind_if_array(value) is None:
        return type(value).__name__
    type_ = view_of(value).type
    return f"{type_.dtype} {type_.ndim}d{'' if type_.contiguous else ' strided'}"


# --------------------------------------------------------------------------------------- launches


def _watched(call: BoundCall, record: CallRecord, observers: tuple[Observer, ...]) -> BoundCall:
    """The same call, whose launches are told."""
    other = call.copy()
    other._launches = tuple(
        replace(launch, prepared=_telling(launch, call, record, observers))
        for launch in call._launches
    )
    return other


def _telling(
    launch: BoundLaunch, call: BoundCall, record: CallRecord, observers: tuple[Observer, ...]
) -> Callable[[Sequence[Value], Stream], None]:
    info, function = call.device.info, launch.function
    timed = any(observer.wants_times for observer in observers)
    placed = any(observer.wants_places for observer in observers)

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
        )
        with quietly():
            for observer in observers:
                observer.entered(own)
        before = _mark(stream, info.name, placed=placed) if timed else None
        own.start = time.perf_counter()
        try:
            launch.prepared(values, stream)
        except BaseException as error:
            own.error = error
            raise
        finally:
            own.seconds = time.perf_counter() - own.start
            after = None if before is None else _event(stream)
            with quietly():
                for observer in observers:
                    observer.launched(own)
            if before is not None and after is not None and own.error is None:
                _pending.append((own, before, after, observers))
                _look_for_times()

    return launched


# ------------------------------------------------------------------------------------ device times

#: Launches, the events around them, and who is told.
_pending: deque[tuple[Record, Event, Event, tuple[Observer, ...]]] = deque()
_times_lock = Lock()
#: By device: an event, and when it was reached, in seconds of `time.perf_counter`.
_matched: dict[str, tuple[Event, float]] = {}
_kept: list[Any] = []


def _in_forked_child() -> None:
    _kept.append((list(_pending), dict(_matched)))  # events of the parent's devices
    _pending.clear()
    _matched.clear()


registry.after_fork.append(_in_forked_child)


def _drop_times(device: str) -> None:
    _matched.pop(device, None)


registry.on_lost.append(_drop_times)


def _event(stream: Stream) -> Event | None:
    """None where there is none, or it would become part of a graph."""
    with suppress(XTargetError):
        if not (isinstance(stream, Capturable) and stream.capturing()):
            return stream.record()
    return None


def _mark(stream: Stream, device: str, *, placed: bool) -> Event | None:
    """An event before a launch; the clocks of its device are matched first, if asked for."""
    event = _event(stream)
    if placed and event is not None and device not in _matched:
        with suppress(XTargetError):
            event.synchronize()
            _matched[device] = event, time.perf_counter()
            event = stream.record()
    return event


def _look_for_times() -> None:
    """Tell the times of what has ended, once it is worth it."""
    if len(_pending) >= _BATCH:
        settle_times(wait=False)


def settle_times(*, wait: bool = True) -> None:
    """Tell the times of launches that have ended.

    Args:
        wait: for all of them.
    """
    with _times_lock, quietly():
        for _ in range(len(_pending)):  # those that others launch meanwhile can wait
            try:
                entry = _pending.popleft()
            except IndexError:
                return
            record, before, after, observers = entry
            try:
                if not (wait or len(_pending) >= _MOST) and not _done(after):
                    _pending.appendleft(entry)
                    return
                after.synchronize()
                record.device_seconds = max(after.elapsed_ms(before), 0.0) * 1e-3
                _place(record, before)
            except XTargetError:
                pass  # a queue without times, a device that was lost: others tell of that
            for observer in observers:
                observer.timed(record)
            for event in (before, after):
                if not any(event is matched for matched, _ in list(_matched.values())):
                    with suppress(XTargetError):
                        event.close()


def _done(event: Event) -> bool:
    return isinstance(event, Pollable) and event.done()


def _place(record: Record, before: Event) -> None:
    """Say when the kernel began in the host's time."""
    matched = _matched.get(record.device)
    if matched is None:
        return
    since = before.elapsed_ms(matched[0]) * 1e-3
    record.device_start = matched[1] + since
    if since > _MATCHED:
        _matched[record.device] = before, record.device_start
        with suppress(XTargetError):
            matched[0].close()
