"""Objects that launches use are kept until their streams have passed."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import pytest
from threads import in_threads

import xtarget
from xtarget._launch import lifetimes


class _Event:
    def __init__(self) -> None:
        self.reached = False

    def done(self) -> bool:
        return self.reached


class _Waiting:
    """An event that cannot be asked."""

    waits = 0

    def synchronize(self) -> None:
        _Waiting.waits += 1


class _Stream:
    def __init__(self, kind: Any = _Event) -> None:
        self.kind, self.events = kind, []

    def record(self) -> Any:
        self.events.append(self.kind())
        return self.events[-1]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queues have no objects that earlier tests left with events that are never reached."""
    monkeypatch.setattr(lifetimes, "_kept", OrderedDict())
    monkeypatch.setattr(lifetimes, "_lost", [])


class _Array:
    pass


def _keep_one(stream: Any) -> weakref.ref[_Array]:
    array = _Array()
    lifetimes.keep_until_passed(stream, [array])
    return weakref.ref(array)


def test_until_the_event_has_passed() -> None:
    stream = _Stream()
    first, second = _keep_one(stream), _keep_one(stream)
    gc.collect()
    assert first() is not None
    stream.events[0].reached = True
    third = _keep_one(stream)
    assert (first(), second() is None, third() is None) == (None, False, False)
    for event in stream.events:
        event.reached = True
    last = _keep_one(stream)
    stream.events[-1].reached = True
    _keep_one(_Stream())
    assert (second(), third(), last()) == (None, None, None)


def test_a_slow_stream_keeps_nothing_of_others() -> None:
    slow, fast, third = _Stream(), _Stream(), _Stream()
    waits = _keep_one(slow)
    gone = [_keep_one(fast) for _ in range(3)]
    for event in fast.events:
        event.reached = True
    last = _keep_one(third)
    assert [array() for array in gone] == [None, None, None]
    assert waits() is not None
    assert last() is not None


def test_many_streams_that_are_used_once_are_looked_after_by_the_others() -> None:
    once = [_Stream() for _ in range(20)]
    arrays = [_keep_one(stream) for stream in once]
    for stream in once:
        stream.events[0].reached = True
    other = _Stream()
    for _ in range(12):
        _keep_one(other)
    assert [array() for array in arrays] == [None] * 20
    assert list(lifetimes._kept) == [other]


def test_a_lost_device_keeps_nothing_and_stops_no_launch_of_another() -> None:
    class Lost:
        def done(self) -> bool:
            raise xtarget.DeviceLostError("gone")

    array, other = _keep_one(_Stream(Lost)), _Stream()
    _keep_one(other)
    assert array() is None


def test_an_event_that_cannot_be_asked_any_more_is_told_of_once() -> None:
    class Reset:
        def done(self) -> bool:
            raise xtarget.LaunchError("the context was destroyed")

    stream, other = _Stream(), _Stream()
    kept = [_keep_one(stream) for _ in range(3)]
    for event in stream.events:
        event.done = Reset().done
    with pytest.raises(xtarget.LaunchError, match="was destroyed"):
        _keep_one(other)
    for _ in range(5):
        _keep_one(other)
    assert all(array() is not None for array in kept), "nobody knows whether they are in use"


def test_a_forked_child_asks_no_event_of_its_parent() -> None:
    parents = os.getpid()

    class Parents(_Event):
        def done(self) -> bool:
            if os.getpid() != parents:
                raise xtarget.DriverError("not initialized")
            return super().done()

    array = _keep_one(_Stream(Parents))
    child = os.fork()
    if not child:
        status = 1
        try:
            own = _keep_one(_Stream())
            status = 0 if own() is not None and array() is not None else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert array() is not None


def test_an_interruption_at_any_step_drops_nothing_that_is_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C, in place of each instruction of a launch that looks after another stream."""
    # a signal never comes between taking a lock and the scope that frees it; this here does
    monkeypatch.setattr(lifetimes, "_lock", nullcontext())

    def interrupted(at: int) -> bool:
        steps = 0

        def step(frame: Any, event: str, argument: Any) -> Any:
            nonlocal steps
            if frame.f_code.co_filename != lifetimes.__file__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                steps += 1
                if steps == at:
                    raise KeyboardInterrupt
            return step

        slow, fast = _Stream(), _Stream()
        kept = [_keep_one(slow) for _ in range(2)]
        before = sys.gettrace()
        sys.settrace(step)
        try:
            _keep_one(fast)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert all(array() is not None for array in kept), f"at instruction {at}"
        lifetimes._kept.clear()
        return steps >= at

    at = 1
    while interrupted(at):
        at += 1
    assert at > 100


def test_threads_keep_what_each_of_them_launches() -> None:
    streams = [_Stream() for _ in range(4)]
    arrays: list[list[Any]] = [[] for _ in streams]

    def work(number: int) -> None:
        for turn in range(200):
            arrays[number].append(_keep_one(streams[number]))
            if turn % 3:
                streams[number].events[turn - 1].reached = True

    in_threads(work, range(len(streams)))
    for stream, kept in zip(streams, arrays, strict=True):
        reached = [event.reached for event in stream.events]
        assert all(array() is not None for array in kept[reached.index(False) :])
        for event in stream.events:
            event.reached = True
        _keep_one(stream)
        assert all(array() is None for array in kept)


def test_events_that_cannot_be_asked_are_waited_for_when_there_are_many() -> None:
    stream = _Stream(_Waiting)
    kept = [_keep_one(stream) for _ in range(lifetimes._MOST + 10)]
    assert sum(array() is None for array in kept) == _Waiting.waits == 10
