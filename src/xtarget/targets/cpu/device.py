"""An opened CPU: an OpenCL context of one device."""

from __future__ import annotations

import ctypes
from typing import Any

import pyopencl as cl

from ..._values.types import Artifact, DeviceInfo
from .._binaries.opencl_c import FORMAT, check_opencl_c
from .._binaries.spirv import check_spirv
from .._objects.deferred_free import Retired
from .._objects.queues import QueueDevice
from .discover import spirv_version
from .memory import CpuBuffer, allocate
from .module import CpuModule, build, expect_build
from .pocl import is_pocl, use_machine_code
from .program import native_key
from .status import check
from .stream import CpuStream, borrowed_stream, new_stream
from .workers import Workers

__all__ = ["CpuDevice"]


class CpuDevice(QueueDevice):
    """One opened CPU."""

    def __init__(self, device: cl.Device, info: DeviceInfo) -> None:
        retired, self._workers = Retired(), Workers()
        if is_pocl(device):
            use_machine_code()
        with check(f"opening {info.name} ({info.product}) failed"):
            context = cl.Context([device])
        workers = self._workers
        default = new_stream(context, device, info.name, retired, workers, is_default=True)
        super().__init__(context, info, default, retired, int(device.max_mem_alloc_size))
        workers.look()
        retired.watch(workers.look)
        self._device = device
        self._spirv = spirv_version(device)
        self.native_key: str = native_key(device)

    def load(self, artifact: Artifact, native: bytes | None = None) -> CpuModule:
        context = self.live()
        info = self.info
        if artifact.format == FORMAT:
            entry = check_opencl_c(artifact, info.target, self.where)
        else:
            entry = check_spirv(artifact, info.target, self.where, self._spirv, fp64=info.fp64)
        asserts = self._asserts(artifact)
        return build(context, self._device, artifact, entry, info, self.native_key, native, asserts)

    def expect_load(self) -> None:
        expect_build()

    def stream(self, handle: Any = None) -> CpuStream:
        context = self.live()
        of_device = (context, self._device, self.where, self._retired, self._workers)
        if handle is None:
            return new_stream(*of_device)
        return borrowed_stream(handle, *of_device)

    def _shared_bytes(self, raw: cl.Context, nbytes: int) -> tuple[memoryview, int]:
        memory = (ctypes.c_char * nbytes)()
        return memoryview(memory).cast("B"), ctypes.addressof(memory)

    def _allocate(self, raw: cl.Context, nbytes: int) -> CpuBuffer:
        return allocate(raw, nbytes, self.where, self._retired, host_memory=self.info.host_memory)

    def borrow(self, address: int, nbytes: int) -> CpuBuffer:
        self.live()
        return CpuBuffer(address, nbytes, self.where, self._retired)
