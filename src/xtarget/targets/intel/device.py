"""An opened Intel GPU: a SYCL device in its platform's default context."""

from __future__ import annotations

from typing import Any

import dpctl

from ..._errors import DriverError, OutOfMemoryError
from ..._types import Artifact, DeviceInfo
from .._retire import Retired
from .._spirv_binary import check_spirv
from ..base import Stream
from .memory import Addresses, IntelBuffer, allocate
from .module import IntelModule, build
from .stream import IntelStream, borrowed_stream, own_stream

__all__ = ["IntelDevice"]

#: dpctl does not tell what the run time takes; this is the newest SPIR-V there is.
_MAX_SPIRV = (1, 6)


class IntelDevice:
    """One opened device."""

    def __init__(self, device: dpctl.SyclDevice, info: DeviceInfo) -> None:
        self.info = info
        self._device = device
        self._max_alloc = int(device.max_mem_alloc_size)
        self._retired = Retired()
        self._default = own_stream(device, info.name, self._retired)
        self._queue: dpctl.SyclQueue | None = self._default.live()
        self._addresses = Addresses(self._default.live(), info.name)

    def _live(self) -> dpctl.SyclQueue:
        if self._queue is None:
            raise DriverError(f"{self.info.name} is closed. Open it again.")
        return self._queue

    @property
    def default_stream(self) -> IntelStream:
        self._live()
        return self._default

    @property
    def native_key(self) -> str | None:
        return None  # dpctl gives no machine code out, so there is nothing to name

    def load(self, artifact: Artifact, native: bytes | None = None) -> IntelModule:
        queue = self._live()
        entry = check_spirv(artifact, self.info.target, self.info.name, _MAX_SPIRV)
        return build(queue, artifact, entry, self.info, self._addresses)

    def stream(self, handle: Any = None) -> IntelStream:
        queue = self._live()
        if handle is None:
            return own_stream(self._device, self.info.name, self._retired)
        return borrowed_stream(handle, queue, self.info.name, self._retired)

    def alloc(self, nbytes: int, stream: Stream | None = None) -> IntelBuffer:
        # closing the buffer waits for every stream, so it does not matter which one it is for
        queue = self._live()
        self._retired.collect()
        if nbytes > self._max_alloc:
            raise OutOfMemoryError(
                f"{nbytes} bytes cannot be allocated on {self.info.name}: its run time gives at "
                f"most {self._max_alloc} bytes at once. Use smaller arrays."
            )
        return allocate(queue, nbytes, self.info.name, self._retired, self._addresses)

    def borrow(self, address: int, nbytes: int) -> IntelBuffer:
        self._live()
        memory = self._addresses.find(address, max(nbytes, 1))
        return IntelBuffer(memory, nbytes, self.info.name, self._retired)

    def synchronize(self) -> None:
        self._live()
        self._wait()

    def _wait(self) -> None:
        for fence in self._retired.fences():
            fence.synchronize()
        self._retired.collect(everything=True)

    def close(self) -> None:
        if self._queue is None:
            return
        self._wait()
        for stream in self._retired.streams():
            stream.close()
        self._queue = None
