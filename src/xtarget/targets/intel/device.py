"""An opened Intel GPU: a SYCL device in its platform's default context."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dpctl

from ..._errors import LoadError
from ..._types import Artifact, DeviceInfo
from .._queues import QueueDevice
from .._retire import Retired
from .._spirv_binary import check_spirv
from .memory import Addresses, IntelBuffer, allocate, shared_bytes
from .module import IntelModule, build
from .program import expect_build, native_key, proof_of, try_in_child
from .stream import IntelStream, borrowed_stream, new_stream
from .zebin import options_of, spirv_of

__all__ = ["IntelDevice"]

#: dpctl does not tell what the run time takes; this is the newest SPIR-V there is.
_MAX_SPIRV = (1, 6)


def _portable(artifact: Artifact, where: str) -> tuple[Artifact, str]:
    """The artifact as SPIR-V, and the options to build it with. dpctl has no way to load a zebin's
    machine code.
    """
    if artifact.format != "zebin":
        return artifact, ""
    try:
        spirv, options = spirv_of(artifact.binary), options_of(artifact.binary)
    except LoadError as error:
        raise LoadError(f"{artifact.entry} cannot be loaded on {where}: {error}") from error
    return replace(artifact, format="spirv", binary=spirv), options


class IntelDevice(QueueDevice):
    """One opened device. dpctl gives no machine code out; what is kept of a module is that it was
    built here before (see `program`).
    """

    def __init__(self, device: dpctl.SyclDevice, info: DeviceInfo) -> None:
        retired = Retired()
        default = new_stream(device, info.name, retired, is_default=True)
        queue = default.live()
        super().__init__(queue, info, default, retired, int(device.max_mem_alloc_size))
        self._device = device
        self.native_key: str = native_key(device)
        self._proven: set[bytes] = set()
        self._addresses = Addresses(queue, info.name)

    def load(self, artifact: Artifact, native: bytes | None = None) -> IntelModule:
        queue, info = self.live(), self.info
        artifact, options = _portable(artifact, self.where)
        entry = check_spirv(artifact, info.target, self.where, _MAX_SPIRV, fp64=info.fp64)
        proof = proof_of(artifact.binary, options)
        if native == proof:
            self._proven.add(proof)
        if proof not in self._proven:
            try_in_child(self.native_key, artifact, info, options)
            self._proven.add(proof)
        asserts = self._asserts(artifact)
        return build(queue, artifact, entry, info, self._addresses, options, asserts)

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
