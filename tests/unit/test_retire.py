"""Memory in waiting: released after all streams, once, also when forgotten."""

from __future__ import annotations

from functools import partial

import pytest

from xtarget.targets._objects.deferred_free import Retired


class _Fence:
    def __init__(self) -> None:
        self.reached = False

    def done(self) -> bool:
        return self.reached

    def synchronize(self) -> None:
        self.reached = True


class _Stream:
    """Makes fences that a test reaches by hand."""

    def __init__(self) -> None:
        self.fences: list[_Fence] = []
        self.open = True

    def fence(self) -> _Fence | None:
        if not self.open:
            return None
        self.fences.append(_Fence())
        return self.fences[-1]

    def end(self) -> None:
        self.open = False


def _log() -> tuple[list[str], Retired]:
    return [], Retired()


def _log_with_a_stream() -> tuple[list[str], Retired, _Stream]:
    log, retired = _log()
    stream = _Stream()
    retired.opened(stream)
    return log, retired, stream


def test_without_streams_at_once() -> None:
    log, retired = _log()
    retired.add(lambda: log.append("a"))
    assert log == ["a"]


def test_waits_for_every_stream() -> None:
    log, retired = _log()
    streams = [_Stream(), _Stream()]
    for stream in streams:
        retired.opened(stream)
    retired.add(lambda: log.append("a"))
    assert log == []
    streams[0].fences[0].reached = True
    retired.collect()
    assert log == []
    streams[1].fences[0].reached = True
    retired.collect()
    retired.collect()
    assert log == ["a"]


def test_waits_for_a_stream_that_was_closed_before() -> None:
    log, retired = _log()
    stream, last = _Stream(), _Fence()
    retired.opened(stream)
    stream.end()
    retired.closed(stream, last)
    retired.add(lambda: log.append("a"))
    assert (log, stream.fences) == ([], [])
    last.reached = True
    retired.collect()
    assert log == ["a"]


def test_oldest_first() -> None:
    log, retired, stream = _log_with_a_stream()
    retired.add(lambda: log.append("a"))
    retired.add(lambda: log.append("b"))
    stream.fences[1].reached = True
    retired.collect()
    assert log == []
    stream.fences[0].reached = True
    retired.collect()
    assert log == ["a", "b"]


def test_everything_after_the_device_was_waited_for() -> None:
    log, retired, _stream = _log_with_a_stream()
    retired.add(lambda: log.append("a"))
    retired.collect(everything=True)
    assert log == ["a"]


def test_what_was_forgotten_is_done_at_the_next_chance() -> None:
    log, retired = _log()
    tail = _Fence()
    retired.left(tail)
    retired.dropped(lambda: log.append("memory"))
    retired.collect()
    assert log == []
    tail.reached = True
    retired.collect()
    assert log == ["memory"]


def test_a_stream_that_is_gone_is_no_longer_asked() -> None:
    log, retired, stream = _log_with_a_stream()
    del stream
    assert retired.streams() == []
    retired.add(lambda: log.append("a"))
    assert log == ["a"]


def test_thousands_that_are_forgotten_at_once() -> None:
    log, retired, stream = _log_with_a_stream()
    for number in range(5000):
        retired.dropped(partial(log.append, str(number)))
    retired.collect()
    assert (log, len(stream.fences)) == ([], 1)  # they wait for the same point
    stream.fences[0].reached = True
    retired.collect()
    assert len(log) == 5000


def test_a_release_that_is_interrupted_leaves_the_others() -> None:
    log, retired = _log()

    def interrupted() -> None:
        raise KeyboardInterrupt

    retired.dropped(lambda: log.append("last"))
    retired.dropped(interrupted)
    with pytest.raises(KeyboardInterrupt):
        retired.collect()
    retired.collect()
    assert log == ["last"]


def test_it_may_be_called_from_within_itself() -> None:
    """As signal handlers and finalizers do, at any moment."""
    log, retired = _log()

    class Talkative(_Fence):
        talks = True

        def done(self) -> bool:
            if self.talks:
                self.talks = False
                retired.add(lambda: log.append("inner"))
            return self.reached

    first = Talkative()
    retired.left(first)
    retired.add(lambda: log.append("outer"))
    assert "outer" not in log
    first.reached = True
    retired.collect()
    assert log.count("outer") == 1
