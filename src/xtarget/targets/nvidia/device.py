"""An opened CUDA device, and whose turn it is in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import cuda.core as core
from cuda.bindings import driver

from ..._types import Artifact, DeviceInfo
from .._stream_order import OrderedDevice
from ._status import check, checked
from .cubin import check_cubin
from .memory import CudaBuffer, allocate, new_pool
from .module import CudaModule
from .stream import CudaStream

__all__ = ["CudaDevice"]


class CudaDevice(OrderedDevice[CudaStream, CudaBuffer]):
    """One opened CUDA device, in its primary context, which torch and CuPy use too."""

    def __init__(self, info: DeviceInfo, *, alone: bool) -> None:
        self._alone = alone
        self._threads = threading.local()
        what = f"opening {info.name} ({info.product})"
        before = check(driver.cuCtxGetCurrent(), what)
        try:
            with checked(what):
                device = core.Device(info.ordinal)
                device.set_current()
            self._context = check(driver.cuCtxGetCurrent(), what)
            self._pool = new_pool(info)
        finally:
            if int(before):
                check(driver.cuCtxSetCurrent(before), "restoring the current context")
        super().__init__(device, info)
        self._default = CudaStream(self, core.LEGACY_DEFAULT_STREAM, owned=False, is_default=True)

    def current(self) -> AbstractContextManager[None]:
        return nullcontext() if self.always_current else super().current()

    @contextmanager
    def entered(self) -> Iterator[None]:
        before = check(driver.cuCtxGetCurrent(), "reading the current context")
        here = int(before) == int(self._context)
        if not here:
            check(driver.cuCtxSetCurrent(self._context), f"switching to {self.info.name}")
        if self._alone and (here or not int(before)):
            self._threads.ready = True
        try:
            yield
        finally:
            if int(before) and not here:
                check(driver.cuCtxSetCurrent(before), "restoring the current context")

    @property
    def always_current(self) -> bool:
        """No switching is needed in this thread: the only device, entered before."""
        return self._alone and getattr(self._threads, "ready", False)

    def load(self, artifact: Artifact, native: bytes | None = None) -> CudaModule:
        self.live()
        entries = check_cubin(artifact, self.info)
        read = core.ObjectCode.from_ptx if artifact.format == "ptx" else core.ObjectCode.from_cubin
        with self.current(), checked(f"loading {artifact.entry} on {self.where}"):
            code = read(artifact.binary)
        return CudaModule(self, artifact, code, entries)

    def _new_stream(self) -> CudaStream:
        with self.current(), checked(f"making a stream on {self.where}"):
            return CudaStream(self, self.raw.create_stream(), owned=True)

    def _borrowed_stream(self, number: int, keep: Any) -> CudaStream:
        with self.current(), checked(f"borrowing a stream of {self.where}"):
            return CudaStream(self, core.Stream.from_handle(number), owned=False, keep=keep)

    def _allocate(self, nbytes: int, stream: CudaStream) -> CudaBuffer:
        return allocate(self, self._pool, nbytes, stream)

    def borrow(self, address: int, nbytes: int) -> CudaBuffer:
        self.live()
        return CudaBuffer(self, address, nbytes)

    def _wait(self) -> None:
        with self.current():
            check(driver.cuCtxSynchronize(), f"running the work of {self.where}")

    def _end(self) -> None:
        # the primary context is shared with torch and CuPy: it stays, only our use of it ends
        self._alone = False  # the next launch goes through `current`, which says so
        # the pool goes with the last memory of it (CUDA Driver API, cuMemPoolDestroy)
        check(driver.cuMemPoolDestroy(self._pool), f"closing the memory pool of {self.where}")
