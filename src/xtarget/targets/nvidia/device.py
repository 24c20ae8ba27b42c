"""An opened CUDA device: streams, events, memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cuda.core as core
from cuda.bindings import driver

from ..._errors import ArgumentError, DriverError
from ..._types import Artifact, DeviceInfo
from ..base import Event, Stream
from ._status import check, checked
from .cubin import check_cubin
from .module import CudaModule

__all__ = ["CudaDevice", "CudaStream"]

#: Bytes that the pool keeps for the next allocation when all work is done.
_POOL_KEEPS = 256 << 20


class CudaEvent:
    """A point in a CUDA stream."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def _live(self) -> Any:
        if self._event is None:
            raise DriverError("this event is closed. Record another one.")
        return self._event

    def synchronize(self) -> None:
        with checked("waiting for an event"):
            self._live().sync()

    def elapsed_ms(self, since: Event) -> float:
        assert isinstance(since, CudaEvent)
        with checked("reading the time between two events"):
            return float(self._live() - since._live())

    def close(self) -> None:
        if self._event is not None:
            self._event.close()
            self._event = None


class CudaStream:
    """A CUDA stream; `core` is what cuda.core launches on."""

    __slots__ = ("_owned", "core", "device", "handle")

    def __init__(self, device: CudaDevice, stream: Any, *, owned: bool) -> None:
        self.device, self.core, self._owned = device, stream, owned
        self.handle = int(stream.handle)

    def live(self) -> Any:
        if self.core is None:
            raise DriverError(f"this stream of {self.device.info.name} is closed. Open another.")
        return self.core

    def record(self) -> Event:
        with self.device.current(), checked("recording an event"):
            return CudaEvent(self.live().record(options=core.EventOptions(timing_enabled=True)))

    def wait(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        with self.device.current(), checked("making a stream wait"):
            self.live().wait(event._live())

    def synchronize(self) -> None:
        self.live()
        with self.device.current():
            check(driver.cuStreamSynchronize(self.handle), "waiting for a stream")

    def close(self) -> None:
        """The default stream stays open: it is the device's."""
        if self.core is not None and self._owned:
            self.core.close()
        if self is not self.device._default:
            self.core = None


class CudaBuffer:
    """Global memory, from the device's pool or somebody else's."""

    __slots__ = ("_address", "_device", "_stream", "nbytes")

    def __init__(
        self, device: CudaDevice, address: int, nbytes: int, stream: CudaStream | None
    ) -> None:
        self._device, self.nbytes = device, nbytes
        self._address: int | None = address
        self._stream = stream  # None: not ours to free

    @property
    def address(self) -> int:
        if self._address is None:
            raise DriverError(
                f"this buffer of {self._device.info.name} is closed. Allocate another one."
            )
        return self._address

    def _fits(self, nbytes: int) -> None:
        if nbytes > self.nbytes:
            raise ArgumentError(f"{nbytes} bytes do not fit a buffer of {self.nbytes}.")

    def write(self, source: memoryview, stream: Stream) -> None:
        self._fits(source.nbytes)
        address = self.address
        if source.nbytes:
            with self._device.current():
                what = f"copying {source.nbytes} bytes to {self._device.info.name}"
                copy = driver.cuMemcpyHtoDAsync(address, source, source.nbytes, stream.handle)
                check(copy, what)
                # from pinned memory the copy is still under way
                check(driver.cuStreamSynchronize(stream.handle), what)

    def read(self, destination: memoryview, stream: Stream) -> None:
        self._fits(destination.nbytes)
        address = self.address
        if destination.nbytes:
            with self._device.current():
                what = f"copying {destination.nbytes} bytes from {self._device.info.name}"
                check(
                    driver.cuMemcpyDtoHAsync(
                        destination, address, destination.nbytes, stream.handle
                    ),
                    what,
                )
                check(driver.cuStreamSynchronize(stream.handle), what)

    def close(self) -> None:
        address, stream = self._address, self._stream
        self._address = self._stream = None
        if stream is not None and address:
            with self._device.current():
                check(driver.cuMemFreeAsync(address, stream.handle), "freeing memory")

    def __del__(self, _free: Any = driver.cuMemFreeAsync) -> None:
        # the default keeps the function: at interpreter exit this module's names may be gone
        if self._stream is not None and self._address:
            _free(self._address, self._stream.handle)


class CudaDevice:
    """One opened CUDA device, in its primary context, which torch and CuPy use too."""

    native_key = None

    def __init__(self, info: DeviceInfo, *, alone: bool) -> None:
        self.info = info
        self._alone = alone
        self._threads = threading.local()
        with checked(f"opening {info.name} ({info.product})"):
            before = check(driver.cuCtxGetCurrent(), "reading the current context")
            device = core.Device(info.ordinal)
            device.set_current()
        self._core: Any = device
        self._context = check(driver.cuCtxGetCurrent(), "reading the current context")
        if int(before) and int(before) != int(self._context):
            check(driver.cuCtxSetCurrent(before), "restoring the current context")
        self._threads.ready = not int(before) or alone
        self._default = CudaStream(self, core.LEGACY_DEFAULT_STREAM, owned=False)
        self._pool = _memory_pool(info)

    @property
    def default_stream(self) -> CudaStream:
        if self._core is None:
            raise DriverError(f"{self.info.name} is closed. Open it again.")
        return self._default

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this device's context the thread's current one, and give it back afterwards."""
        if self._alone and getattr(self._threads, "ready", False):
            yield
            return
        before = self.enter()
        try:
            yield
        finally:
            self.leave(before)

    def enter(self) -> Any:
        """Make the context current; what was current before, to be given to `leave`."""
        if self._core is None:
            raise DriverError(f"{self.info.name} is closed. Open it again.")
        before = check(driver.cuCtxGetCurrent(), "reading the current context")
        if int(before) != int(self._context):
            check(driver.cuCtxSetCurrent(self._context), f"switching to {self.info.name}")
        if self._alone:
            self._threads.ready = True
        return before

    def leave(self, before: Any) -> None:
        """Give the thread its context back, where it had one of another device."""
        if int(before) and int(before) != int(self._context):
            check(driver.cuCtxSetCurrent(before), "restoring the current context")

    @property
    def always_current(self) -> bool:
        """No switching is needed in this thread: the only device, entered before."""
        return self._alone and getattr(self._threads, "ready", False)

    def load(self, artifact: Artifact, native: bytes | None = None) -> CudaModule:
        check_cubin(artifact, self.info)
        _ = self.default_stream  # says so when the device is closed
        read = core.ObjectCode.from_ptx if artifact.format == "ptx" else core.ObjectCode.from_cubin
        with self.current(), checked(f"loading {artifact.entry} on {self.info.name}"):
            return CudaModule(self, artifact, read(artifact.binary))

    def stream(self, handle: Any = None) -> CudaStream:
        with self.current(), checked(f"opening a stream on {self.info.name}"):
            if handle is None:
                return CudaStream(self, self._core.create_stream(), owned=True)
            protocol = getattr(handle, "__cuda_stream__", None)
            if protocol is not None:
                handle = protocol()[1]
            if isinstance(handle, bool) or not isinstance(handle, int):
                raise DriverError(
                    f"{handle!r} ({type(handle).__name__}) is not a CUDA stream. Give an integer "
                    "handle, or an object with __cuda_stream__."
                )
            if handle in (0, self._default.handle):
                return self.default_stream
            return CudaStream(self, core.Stream.from_handle(handle), owned=False)

    def alloc(self, nbytes: int, stream: Stream | None = None) -> CudaBuffer:
        on = self.default_stream if stream is None else stream
        assert isinstance(on, CudaStream)
        if not nbytes:
            return CudaBuffer(self, 0, 0, on)
        with self.current():
            what = f"allocating {nbytes} bytes on {self.info.name}"
            address = check(driver.cuMemAllocFromPoolAsync(nbytes, self._pool, on.handle), what)
        return CudaBuffer(self, int(address), nbytes, on)

    def borrow(self, address: int, nbytes: int) -> CudaBuffer:
        return CudaBuffer(self, address, nbytes, None)

    def synchronize(self) -> None:
        with self.current():
            if self._core is None:
                raise DriverError(f"{self.info.name} is closed. Open it again.")
            check(driver.cuCtxSynchronize(), f"waiting for {self.info.name}")

    def close(self) -> None:
        # the primary context is shared with torch and CuPy: it stays, only our use of it ends
        if self._core is not None:
            self.synchronize()
            self._core = None
            self._alone = False  # the next use goes through `enter`, which says so


def _memory_pool(info: DeviceInfo) -> Any:
    """A pool of our own: the device's default one gives freed memory back to the system at every
    synchronization (its threshold is 0), and other libraries use it too."""
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = info.ordinal
    what = f"making a memory pool on {info.name}"
    pool = check(driver.cuMemPoolCreate(properties), what)
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    check(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(_POOL_KEEPS)), what)
    return pool
