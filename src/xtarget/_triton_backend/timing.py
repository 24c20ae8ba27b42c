"""The part of torch's device modules that `triton.testing.do_bench` uses, without torch."""

from __future__ import annotations

import time

from .devices import home

__all__ = ["DeviceInterface"]


class _Event:
    """A point in time, when all work before it is done.

    Launches on host memory are synchronous, so the host's clock is the right one.
    """

    def __init__(self, enable_timing: bool = True) -> None:
        self._nanoseconds = 0

    def record(self) -> None:
        DeviceInterface.synchronize()
        self._nanoseconds = time.perf_counter_ns()

    def elapsed_time(self, end: _Event) -> float:
        """Milliseconds until `end`."""
        return (end._nanoseconds - self._nanoseconds) * 1e-6


class DeviceInterface:
    """Like `torch.cuda`, for the one current device."""

    Event = _Event

    @staticmethod
    def synchronize(device: object = None) -> None:
        home().synchronize()

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: object) -> None:
        """There is one device: a launch goes where its arguments lie."""

    @staticmethod
    def device_count() -> int:
        return 1
