"""Shared duties of all vendors' objects: closing, dropping, forks; and queues whose work fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from xtarget._values.errors import (
    ArgumentError,
    DeviceLostError,
    DriverError,
    LaunchError,
    OutOfMemoryError,
    XTargetError,
)
from xtarget._values.types import DeviceInfo, Target
from xtarget.targets._objects import handles
from xtarget.targets._objects.deferred_free import Retired
from xtarget.targets._objects.handles import Owned
from xtarget.targets._objects.queues import QueueBuffer, QueueDevice, QueueEvent, QueueStream

INFO = DeviceInfo("q:0", Target("q", "q1"), "A queue in memory", 1 << 20, 1, "1", 4, 64, 1024)


class Handle(Owned):
    def __init__(self, log: list[str], error: XTargetError | None = None) -> None:
        super().__init__("raw", "q:0")
        self.log, self.error = log, error

    def close(self) -> None:
        super().close()
        self.log.append("closed")
        if self.error is not None:
            raise self.error


def test_dropped_is_closed_once() -> None:
    log: list[str] = []
    Handle(log)
    assert log == ["closed"]
    handle = Handle(log)
    handle.close()
    del handle
    assert log == ["closed"] * 2


def test_a_forked_child_gives_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    of_the_parent = Handle(log)
    monkeypatch.setattr(handles, "_generation", handles._generation + 1)
    del of_the_parent
    assert log == []
    Handle(log)
    assert log == ["closed"]


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_dropping_after_the_device_is_lost_is_quiet() -> None:
    log: list[str] = []
    Handle(log, DeviceLostError("lost"))
    assert log == ["closed"]


# ------------------------------------------------------------------------------------------- queues


@contextmanager
def check(what: str, default: type[XTargetError] = DriverError) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise default(f"{what}: {error}") from error


class Work:
    """The run time's event and queue in one."""

    def __init__(self, failing: bool = False) -> None:
        self.failing, self.waits = failing, 0

    def wait(self) -> None:
        self.waits += 1
        if self.failing:
            raise RuntimeError("status -14")


class Event(QueueEvent):
    CHECK = staticmethod(check)
    PROFILING = "timed=True"

    def done(self) -> bool:
        return True

    def _end(self, event: Any) -> int:
        return 5_000_000


class FakeStream(QueueStream):
    CHECK = staticmethod(check)
    EVENT = Event

    def _mark(self, queue: Work) -> Work:
        return queue

    def _barrier(self, queue: Work, event: Work) -> None: ...

    def _finish(self, queue: Work) -> None:
        queue.wait()


class Buffer(QueueBuffer):
    def _copy_in(self, address: int, source: memoryview, stream: Any) -> None: ...

    def _copy_out(self, address: int, destination: memoryview, stream: Any) -> None: ...


class FakeDevice(QueueDevice):
    def __init__(self) -> None:
        retired = Retired()
        default = FakeStream(Work(), "q:0", retired, timed=True, is_default=True)
        super().__init__("context", INFO, default, retired, max_alloc=1024)
        self.freed: list[int] = []

    def stream(self, queue: Work, *, timed: bool = True) -> FakeStream:
        return FakeStream(queue, "q:0", self._retired, timed=timed)

    def _shared_bytes(self, raw: Any, nbytes: int) -> tuple[memoryview, int]:
        return memoryview(bytearray(nbytes)), 512

    def _allocate(self, raw: Any, nbytes: int) -> Buffer:
        return Buffer(256, nbytes, "q:0", self._retired, lambda: self.freed.append(nbytes))


def test_the_default_stream_lives_as_long_as_the_device() -> None:
    device = FakeDevice()
    default = device.default_stream
    default.close()
    default.synchronize()
    device.close()
    with pytest.raises(DriverError, match="stream of q:0 is closed"):
        default.synchronize()


@pytest.mark.parametrize("way", ["synchronize", "close"])
def test_failed_work_is_told_after_all_the_rest_was_waited_for(way: str) -> None:
    device = FakeDevice()
    queues = [Work(failing=True), Work(), Work(failing=True), Work()]
    streams = [device.stream(queue) for queue in queues]
    with pytest.raises(LaunchError, match=r"waiting for an event of q:0 failed: status -14"):
        getattr(device, way)()
    assert all(queue.waits for queue in queues)
    assert [stream.raw is None for stream in streams] == [way == "close"] * 4
    if way == "close":
        device.close()
        with pytest.raises(DriverError, match="q:0 is closed"):
            device.synchronize()


def test_failed_work_of_a_stream_is_told_as_a_launch_that_failed() -> None:
    stream = FakeDevice().stream(Work(failing=True))
    with pytest.raises(LaunchError, match="work on a stream of q:0 failed: status -14") as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_stream_that_is_gone_tells_of_its_work_once() -> None:
    device = FakeDevice()
    device.stream(Work(failing=True)).close()
    with pytest.raises(LaunchError):
        device.synchronize()
    device.synchronize()


def test_times_need_a_queue_with_profiling() -> None:
    device = FakeDevice()
    timed, untimed = device.stream(Work()), device.stream(Work(), timed=False)
    assert timed.record().elapsed_ms(timed.record()) == 0
    for one, other in ((timed, untimed), (untimed, timed)):
        with pytest.raises(DriverError, match="Make the queue with timed=True"):
            one.record().elapsed_ms(other.record())


def test_memory() -> None:
    device = FakeDevice()
    buffer, dropped = device.alloc(8), device.alloc(16)
    with pytest.raises(OutOfMemoryError, match=r"1025 bytes.*at most 1024"):
        device.alloc(1025)
    with pytest.raises(ArgumentError, match="9 bytes do not fit a buffer of 8"):
        buffer.write(memoryview(bytes(9)), device.default_stream)
    with pytest.raises(ArgumentError, match="read-only"):
        buffer.read(memoryview(bytes(8)), device.default_stream)
    buffer.close()
    buffer.close()
    del dropped
    device.synchronize()
    assert device.freed == [8, 16]
