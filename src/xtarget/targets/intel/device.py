"""An opened Intel GPU: a SYCL device in its platform's default context."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dpctl

from ..._values.errors import LoadError
from ..._values.types import Artifact, DeviceInfo
from .._binaries.spirv import check_spirv
from .._objects.deferred_free import Retired
from .._objects.queues import QueueDevice
from .memory import Addresses, IntelBuffer, allocate, shared_bytes
from .module import IntelModule, check_warps
from .program import Loader, expect_build, native_key
from .stream import IntelStream, borrowed_stream, new_stream
from .zebin import options_of, spirv_of

__all__ = ["IntelDevice"]

#: dpctl does not tell what the run time takes; this is the newest SPIR-V there is.
_MAX_SPIRV = (1, 6)


def _portable(artifact: Artifact, where: str) -> tuple[Artifact, str]:
    """The artifact as SPIR-V, and the options to build it with."""
    if artifact.format != "zebin":
        return artifact, ""
    try:
        spirv, options = spirv_of(artifact.binary), options_of(artifact.binary)
    except LoadError as error:
        raise LoadError(f"{artifact.entry} cannot be loaded on {where}: {error}") from error
    return replace(artifact, format="spirv", binary=spirv), options


class IntelDevice(QueueDevice):
    """One opened device."""

    def __init__(self, device: dpctl.SyclDevice, info: DeviceInfo) -> None:
        retired = Retired()
        default = new_stream(device, info.name, retired, is_default=True)
        queue = default.live()
        super().__init__(queue, info, default, retired, int(device.max_mem_alloc_size))
        self._device = device
        self.native_key: str = native_key(device)
        self._loader = Loader(queue, self.native_key, info)
        self._addresses = Addresses(queue, info.name)

    def load(self, artifact: Artifact, native: bytes | None = None) -> IntelModule:
        self.live()
        info = self.info
        portable, options = _portable(artifact, self.where)
        entry = check_spirv(portable, info.target, self.where, _MAX_SPIRV, fp64=info.fp64)
        check_warps(portable, entry, info, self._device.sub_group_sizes)
        # a run time for CPUs has no use for a GPU's machine code
        zebin = artifact.binary if artifact is not portable and self._device.is_gpu else b""
        kernel, kept = self._loader.load(portable, zebin, options, native)
        asserts = self._asserts(portable)
        return IntelModule(kernel, portable, entry, info, self._addresses, kept, asserts)

    def expect_load(self) -> None:
        expect_build()

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
