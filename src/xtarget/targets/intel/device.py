"""An opened Intel GPU: a SYCL device in its platform's default context."""

from __future__ import annotations

from typing import Any

import dpctl

from ..._types import Artifact, DeviceInfo
from .._queues import QueueDevice
from .._retire import Retired
from .._spirv_binary import check_spirv
from .memory import Addresses, IntelBuffer, allocate, shared_bytes
from .module import IntelModule, build
from .stream import IntelStream, borrowed_stream, new_stream

__all__ = ["IntelDevice"]

#: dpctl does not tell what the run time takes; this is the newest SPIR-V there is.
_MAX_SPIRV = (1, 6)


class IntelDevice(QueueDevice):
    """One opened device. dpctl gives no machine code out, so there is no native key."""

    def __init__(self, device: dpctl.SyclDevice, info: DeviceInfo) -> None:
        retired = Retired()
        default = new_stream(device, info.name, retired, is_default=True)
        queue = default.live()
        super().__init__(queue, info, default, retired, int(device.max_mem_alloc_size))
        self._device = device
        self._addresses = Addresses(queue, info.name)

    def load(self, artifact: Artifact, native: bytes | None = None) -> IntelModule:
        queue = self.live()
        entry = check_spirv(artifact, self.info.target, self.where, _MAX_SPIRV)
        asserts = self._asserts(artifact)
        return build(queue, artifact, entry, self.info, self._addresses, asserts)

    def stream(self, handle: Any = None) -> IntelStream:
        queue = self.live()
        if handle is None:
            return new_stream(self._device, self.where, self._retired)
        return borrowed_stream(handle, queue, self.where, self._retired)

    def _shared_bytes(self, raw: dpctl.SyclQueue, nbytes: int) -> tuple[memoryview, int]:
        return shared_bytes(raw, nbytes, self.where, self._addresses)

    def _allocate(self, raw: dpctl.SyclQueue, nbytes: int) -> IntelBuffer:
        return allocate(raw, nbytes, self.where, self._retired, self._addresses)

    def borrow(self, address: int, nbytes: int) -> IntelBuffer:
        self.live()
        memory = self._addresses.find(address, max(nbytes, 1))
        return IntelBuffer(memory, nbytes, self.where, self._retired)
