"""An opened CPU: an OpenCL context of one device."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyopencl as cl

from ..._errors import DriverError, OutOfMemoryError
from ..._types import Artifact, DeviceInfo
from .._retire import Retired
from .._spirv_binary import check_spirv
from ..base import Stream
from .discover import spirv_version
from .errors import check
from .memory import CpuBuffer, allocate
from .module import CpuModule, build
from .stream import CpuStream, borrowed_stream, own_stream

__all__ = ["CpuDevice"]


def _machine() -> str:
    """The instruction sets of this machine: machine code for one CPU may not run on another that
    the run time calls by the same name.
    """
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = ""
    switches = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("CL_CONFIG_")]
    return sha256("\n".join([flags, *switches]).encode()).hexdigest()[:16]


class CpuDevice:
    """One opened CPU."""

    def __init__(self, device: cl.Device, info: DeviceInfo) -> None:
        self.info = info
        self._device = device
        self._retired = Retired()
        with check(f"opening {info.name} ({info.product}) failed"):
            self._context: cl.Context | None = cl.Context([device])
        self._max_alloc = int(device.max_mem_alloc_size)
        self._spirv = spirv_version(device)
        self._default = own_stream(self._live(), device, info.name, self._retired)
        platform = device.platform
        self._native_key = " | ".join(
            (platform.name, platform.version, device.name, device.driver_version, _machine())
        )

    def _live(self) -> cl.Context:
        if self._context is None:
            raise DriverError(f"{self.info.name} is closed. Open it again.")
        return self._context

    @property
    def default_stream(self) -> CpuStream:
        self._live()
        return self._default

    @property
    def native_key(self) -> str | None:
        return self._native_key

    def load(self, artifact: Artifact, native: bytes | None = None) -> CpuModule:
        context = self._live()
        entry = check_spirv(artifact, self.info.target, self.info.name, self._spirv)
        return build(context, self._device, artifact, entry, self.info, native)

    def stream(self, handle: Any = None) -> CpuStream:
        context = self._live()
        if handle is None:
            return own_stream(context, self._device, self.info.name, self._retired)
        return borrowed_stream(handle, context, self._device, self.info.name, self._retired)

    def alloc(self, nbytes: int, stream: Stream | None = None) -> CpuBuffer:
        # closing the buffer waits for every stream, so it does not matter which one it is for
        context = self._live()
        self._retired.collect()
        if nbytes > self._max_alloc:
            raise OutOfMemoryError(
                f"{nbytes} bytes cannot be allocated on {self.info.name}: its OpenCL run time "
                f"gives at most {self._max_alloc} bytes at once (CL_DEVICE_MAX_MEM_ALLOC_SIZE). "
                f"Use smaller arrays."
            )
        return allocate(context, nbytes, self.info.name, self._retired)

    def borrow(self, address: int, nbytes: int) -> CpuBuffer:
        self._live()
        return CpuBuffer(address, nbytes, self.info.name, self._retired)

    def synchronize(self) -> None:
        self._live()
        self._wait()

    def _wait(self) -> None:
        for fence in self._retired.fences():
            fence.synchronize()
        self._retired.collect(everything=True)

    def close(self) -> None:
        if self._context is None:
            return
        self._wait()
        for stream in self._retired.streams():
            stream.close()
        self._context = None
