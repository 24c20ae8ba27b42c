"""A CUDA that is written in Python, for the NVIDIA driver's own logic: nothing is silicon."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import cuda.core as core
import pytest
from cuda.bindings import driver

from xtarget._values.types import Artifact, DeviceInfo, LaunchConfig, Parameter, Target

PRIMARY = 77
INFO = DeviceInfo(
    "nvidia:0", Target("nvidia", "sm_90"), "A fake", 1 << 30, 1, "1", 32, 1024, 1 << 17
)


ADD = Artifact(
    INFO.target,
    "cubin",
    "add",
    b"",
    num_warps=4,
    warp_size=32,
    shared_bytes=50_000,
    parameters=(
        Parameter("p", "*fp32"),
        Parameter("n", "i32"),
        Parameter("f", "fp16"),
        Parameter("global_scratch", "*i8", hidden="global_scratch"),
    ),
)
ONE = LaunchConfig((1, 1, 1))


class FakeStream:
    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.closed = False

    @staticmethod
    def from_handle(handle: int) -> FakeStream:
        return FakeStream(handle)

    def record(self, event: FakeEvent | None = None, options: Any = None) -> FakeEvent:
        event = event or FakeEvent()
        event.stream, event.is_done = self.handle, False
        FakeEvent.made.append(event)
        return event

    def wait(self, event: FakeEvent) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class FakeEvent:
    made: ClassVar[list[FakeEvent]] = []
    stream, is_done = 0, False

    def sync(self) -> None:
        pass

    def __sub__(self, other: FakeEvent) -> float:
        return 1.5

    def close(self) -> None:
        pass


class FakeCuda:
    """The calls that the driver makes, and what they leave behind."""

    def __init__(self) -> None:
        self.thread = threading.local()
        self.memory: dict[int, bytearray] = {}
        self._next, self._lock = 0x1000, threading.Lock()
        self.pinned: dict[int, Any] = {}
        self.calls: list[str] = []
        self.launches: list[tuple[int, tuple[Any, ...]]] = []
        self.failing: str | None = None
        self.libraries: set[int] = set()
        self.unloads: list[tuple[int, int]] = []
        self.mode = 0
        self.captured: set[int] = set()
        self.asked: list[int] = []
        #: Threads of a block that any kernel may have, and how often that was asked.
        self.most_threads, self.limits_read = 1024, 0

    @property
    def loaded(self) -> int:
        return len(self.libraries)

    def load(self, *args: Any) -> int:
        with self._lock:
            self._next += 1
            self.libraries.add(self._next)
            return self._next

    def unload(self, library: int) -> None:
        self.libraries.remove(library)
        self.unloads.append((self.mode, self.context))

    def limit(self, *args: Any) -> int:
        self.limits_read += 1
        return self.most_threads

    def exchange(self, mode: int) -> int:
        before, self.mode = self.mode, mode
        return before

    def is_capturing(self, stream: int) -> driver.CUstreamCaptureStatus:
        self.asked.append(stream)
        return driver.CUstreamCaptureStatus(stream in self.captured or stream % 2)

    @property
    def context(self) -> int:
        return getattr(self.thread, "context", 0)

    def enter(self, context: int) -> None:
        self.thread.context = int(context)

    def allocate(self, nbytes: int, pool: object, stream: int) -> int:
        with self._lock:  # allocations of several threads do not overlap either
            address = self._next
            self._next += -(-max(nbytes, 1) // 0x1000) * 0x1000
        self.calls.append("alloc")
        self.memory[address] = bytearray(nbytes)
        return address

    def free(self, address: int, *stream: int) -> None:
        self.calls.append("free in order" if stream else "free at once")
        assert self.context == PRIMARY
        del self.memory[address]

    def to_device(self, address: int, source: Any, nbytes: int, stream: int) -> None:
        memory, at = self.within(address)
        data = ctypes.string_at(source, nbytes) if isinstance(source, int) else source
        memory[at : at + nbytes] = data

    def to_host(self, destination: Any, address: int, nbytes: int, stream: int) -> None:
        memory, at = self.within(address)
        data = bytes(memory[at : at + nbytes])
        if isinstance(destination, int):
            ctypes.memmove(destination, data, nbytes)
        else:
            destination[:] = data

    def fills(self, width: int) -> Callable[..., None]:
        """The function that repeats a word of so many bytes. Memory of other libraries lies
        nowhere."""

        def fill(address: int, word: int, count: int, stream: int) -> None:
            self.calls.append(f"fill by {8 * width}")
            if any(one <= address < one + len(memory) for one, memory in self.memory.items()):
                memory, at = self.within(address)
                memory[at : at + width * count] = word.to_bytes(width, "little") * count

        return fill

    def within(self, address: int) -> tuple[bytearray, int]:
        """The allocation that an address is in, and where."""
        base = max(one for one in list(self.memory) if one <= address)
        return self.memory[base], address - base

    def pin(self, nbytes: int, flags: int) -> int:
        self.calls.append("pin")
        block = ctypes.create_string_buffer(nbytes)
        self.pinned[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def unpin(self, address: int) -> None:
        self.calls.append("unpin")
        del self.pinned[address]

    def launch(self, stream: FakeStream, config: object, kernel: object, *values: Any) -> None:
        assert self.context in (PRIMARY, 0)
        if self.failing:
            raise RuntimeError(f"{self.failing}: the driver's text")
        self.launches.append((stream.handle, tuple(getattr(v, "value", v) for v in values)))


@contextmanager
def in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """cuda-python's functions are those of a `FakeCuda`."""
    fake = FakeCuda()
    FakeEvent.made.clear()
    # most of a test's events are never reached, and other tests look at what is kept for theirs
    monkeypatch.setattr("xtarget._launch.lifetimes._kept", OrderedDict())

    def answers(call: Callable[..., Any]) -> Callable[..., Any]:
        def status_first(*args: Any) -> tuple[Any, ...]:
            value = call(*args)
            return (driver.CUresult.CUDA_SUCCESS,) + (() if value is None else (value,))

        return status_first

    def noted(name: str) -> Callable[..., Any]:
        return lambda *args: fake.calls.append(name)

    calls: dict[str, Callable[..., Any]] = {
        "cuCtxGetCurrent": lambda: fake.context,
        "cuCtxSetCurrent": fake.enter,
        "cuCtxSynchronize": noted("wait"),
        "cuStreamSynchronize": lambda stream: None,
        "cuStreamIsCapturing": fake.is_capturing,
        "cuThreadExchangeStreamCaptureMode": fake.exchange,
        "cuMemPoolCreate": lambda properties: object(),
        "cuMemPoolSetAttribute": lambda pool, attribute, value: None,
        "cuMemPoolGetAttribute": lambda pool, attribute: 0,
        "cuMemPoolTrimTo": noted("pool trimmed"),
        "cuMemAllocFromPoolAsync": fake.allocate,
        "cuMemFreeAsync": fake.free,
        "cuMemFree": fake.free,
        "cuMemHostAlloc": fake.pin,
        "cuMemFreeHost": fake.unpin,
        "cuMemcpyHtoDAsync": fake.to_device,
        "cuMemsetD8Async": fake.fills(1),
        "cuMemsetD16Async": fake.fills(2),
        "cuMemsetD32Async": fake.fills(4),
        "cuMemcpyDtoHAsync": fake.to_host,
        "cuLibraryLoadData": fake.load,
        "cuLibraryGetKernel": lambda library, name: 9,
        "cuLibraryUnload": fake.unload,
        "cuKernelGetAttribute": fake.limit,
        "cuKernelSetAttribute": lambda *args: None,
    }
    for name, call in calls.items():
        monkeypatch.setattr(driver, name, answers(call))
    numbers = iter(range(100, 200, 2))
    device = SimpleNamespace(
        set_current=lambda: fake.enter(PRIMARY),
        create_stream=lambda: FakeStream(next(numbers)),
    )
    monkeypatch.setattr(core, "Device", lambda ordinal: device)
    monkeypatch.setattr(core, "Stream", FakeStream)
    monkeypatch.setattr(core, "LEGACY_DEFAULT_STREAM", FakeStream(1))
    monkeypatch.setattr(core, "Kernel", SimpleNamespace(from_handle=lambda handle: handle))
    monkeypatch.setattr(core, "EventOptions", lambda **options: None)
    monkeypatch.setattr(core, "LaunchConfig", lambda **config: config)
    monkeypatch.setattr(core, "launch", fake.launch)
    from xtarget.targets.nvidia import device as module

    monkeypatch.setattr(module, "check_cubin", lambda artifact, info: ("add",))
    monkeypatch.setattr("xtarget.targets.nvidia.memory._pools", {})
    # the core would launch by the driver's own entries
    monkeypatch.setattr("xtarget.targets.nvidia.module.launch_entries", lambda: None)
    yield fake
    gc.collect()  # what a test has dropped goes while these calls are in place
