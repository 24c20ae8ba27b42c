"""HIP in this process: the calls of hip-python that the AMD driver makes, answered by the emulator.

The same shapes as hip-python's: a tuple that starts with a status. Work is queued and runs when
something waits for it, as on a GPU, so that a missing synchronisation shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from xtarget._values.errors import KernelFault, LoadError

from .hip_types import Attribute, Kind, Status, kernarg_behind, kernarg_of
from .launch import Image, Limits, Loaded
from .memory import Arena
from .queues import OK, Queues

__all__ = ["HANDLES", "EmulatedHip"]

_VERSION = 70_253_211
_CAPACITY = 1 << 30
_LDS = {"gfx950": 163_840}
#: What a cooperative launch may have: the device has one "multiprocessor", which takes as many.
_THREADS_TOGETHER = 1 << 16
#: Handles of device n start at (n + 1) times this.
HANDLES = 1 << 32


class EmulatedHip(Queues):
    """One emulated device.

    Args:
        arch: of `GENERATIONS`.
        limits: for every launch.
        ordinal: of the device, where several share one library: their handles and addresses differ.

    Attributes:
        executed: lane-instructions since the start.
        when_lost: called when a kernel fails, after which the device is of no use.
    """

    hipDeviceAttribute_t = Attribute
    hipMemcpyKind = Kind
    hipError_t = Status

    def __init__(self, arch: str, limits: Limits, ordinal: int = 0) -> None:
        super().__init__((ordinal + 1) * HANDLES)
        self.arch, self.limits = arch, limits
        self.arena = Arena(_CAPACITY, ordinal)
        self.executed = 0
        self.when_lost: Callable[[], None] = lambda: None
        self._images: dict[int, Image] = {}
        self._functions: dict[int, Loaded] = {}

    # ---------------------------------------------------------------------------------- the device

    def hipRuntimeGetVersion(self) -> tuple[Any, ...]:
        return Status.hipSuccess, _VERSION

    def hipGetDeviceCount(self) -> tuple[Any, ...]:
        return Status.hipSuccess, 1

    def hipGetDevice(self) -> tuple[Any, ...]:
        return Status.hipSuccess, 0

    def hipSetDevice(self, ordinal: int) -> tuple[Any, ...]:
        return OK if ordinal == 0 else self._no("hipErrorInvalidDevice", f"device {ordinal}")

    def hipDeviceGetAttribute(self, attribute: Any, ordinal: int) -> tuple[Any, ...]:
        return Status.hipSuccess, int(attribute in tuple(Attribute))

    def hipGetDeviceProperties(self, ordinal: int) -> tuple[Any, ...]:
        return Status.hipSuccess, SimpleNamespace(
            name=f"xtarget emulator of {self.arch}",
            gcnArchName=self.arch,
            totalGlobalMem=_CAPACITY,
            multiProcessorCount=1,
            warpSize=64 if self.arch.startswith("gfx9") else 32,
            maxThreadsPerBlock=1024,
            sharedMemPerBlock=_LDS.get(self.arch, 65_536),
            maxGridSize=[2**31 - 1, 65_536, 65_536],
        )

    def hipGetLastError(self) -> tuple[Any, ...]:
        return OK  # this library remembers none

    def hipGetErrorString(self, status: Any) -> tuple[Any, ...]:
        return Status.hipSuccess, self._last

    # -------------------------------------------------------------------------------------- memory

    def hipMalloc(self, nbytes: int) -> tuple[Any, ...]:
        if self.lost:
            return (*self._unusable(), None)
        with self._alone():
            block = self.arena.allocate(nbytes, "a buffer")
        if block is None:
            return (*self._no("hipErrorOutOfMemory", f"no room for {nbytes:,} bytes"), None)
        return Status.hipSuccess, block.start

    def hipMallocAsync(self, nbytes: int, stream: int) -> tuple[Any, ...]:
        if stream not in self._queues:
            return (*self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}"), None)
        return self.hipMalloc(nbytes)

    def hipFree(self, address: int) -> tuple[Any, ...]:
        self._drain_all()
        with self._lock:
            if self.arena.free(address):
                return OK
        return self._no("hipErrorInvalidValue", f"0x{address:x} is not a buffer that is in use")

    def hipFreeAsync(self, address: int, stream: int) -> tuple[Any, ...]:
        with self._lock:
            block = self.arena.block_at(address)
            if stream not in self._queues:
                return self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}")
            if block is None or block.start != address:
                why = f"0x{address:x} is not a buffer that is in use"
                return self._no("hipErrorInvalidValue", why)

            def free() -> None:
                self.arena.free(address)

            self._enqueue(stream, free)
        return OK

    def hipMemGetInfo(self) -> tuple[Any, ...]:
        return Status.hipSuccess, _CAPACITY - self.arena.used, _CAPACITY

    def hipMemcpyWithStream(
        self, to: Any, source: Any, nbytes: int, kind: Any, stream: int
    ) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if stream not in self._queues:
            return self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}")
        self._drain(stream)
        with self._alone():
            to_device = kind == Kind.hipMemcpyHostToDevice
            address = to if to_device else source
            span = self.arena.span(address, nbytes)
            if span is None:
                why = f"{nbytes:,} bytes at 0x{address:x} are not within one buffer"
                return self._no("hipErrorInvalidValue", why)
            if to_device:
                span[:] = np.frombuffer(source, np.uint8)[:nbytes]
                self.arena.mark(address, nbytes)
            else:
                np.frombuffer(to, np.uint8)[:nbytes] = span
        return OK

    # ------------------------------------------------------------------------------------- modules

    def hipModuleLoadData(self, data: bytes) -> tuple[Any, ...]:
        if self.lost:
            return (*self._unusable(), None)
        try:
            with self._alone():
                image = Image(bytes(data), self.arch, self.arena)
        except LoadError as error:
            return (*self._no("hipErrorInvalidImage", str(error)), None)
        handle = self._handle()
        self._images[handle] = image
        return Status.hipSuccess, handle

    def hipModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, ...]:
        if self.lost:
            return (*self._unusable(), None)
        image = self._images.get(module)
        if image is None:
            return (*self._no("hipErrorInvalidHandle", "the module is not loaded"), None)
        try:
            loaded = image.load(name.decode())
        except LoadError as error:
            return (*self._no("hipErrorNotFound", str(error)), None)
        handle = self._handle()
        self._functions[handle] = loaded
        return Status.hipSuccess, handle

    def hipModuleUnload(self, module: int) -> tuple[Any, ...]:
        self._drain_all()
        with self._lock:
            image = self._images.pop(module, None)
            if image is None:
                return self._no("hipErrorInvalidHandle", "the module is not loaded")
            for handle in [h for h, f in self._functions.items() if f.image is image]:
                del self._functions[handle]
            image.close()
        return OK

    def hipModuleLaunchKernel(self, function: int, *given: Any) -> tuple[Any, ...]:
        """`given`: grid, block, dynamic LDS, stream, kernelParams and extra."""
        *sizes, stream, _, extra = given
        return self._launch(function, sizes, stream, lambda loaded: kernarg_of(extra))

    def hipModuleLaunchCooperativeKernel(self, function: int, *given: Any) -> tuple[Any, ...]:
        """`given`: grid, block, dynamic LDS, stream and kernelParams."""
        *sizes, stream, parameters = given
        blocks, threads = math.prod(sizes[:3]), math.prod(sizes[3:6])
        most = _THREADS_TOGETHER // max(threads, 1)
        if blocks > most:
            return self._no(
                "hipErrorCooperativeLaunchTooLarge",
                f"{blocks:,} blocks that have to run at the same time; {most:,} can",
            )

        def kernarg(loaded: Loaded) -> bytes | None:
            return kernarg_behind(parameters, loaded.kernel.arguments, loaded.kernel.kernarg_bytes)

        return self._launch(function, sizes, stream, kernarg, together=True)

    def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        self, function: int, threads: int, shared: int
    ) -> tuple[Any, ...]:
        if function not in self._functions:
            return (*self._no("hipErrorInvalidHandle", "there is no such function"), 0)
        return Status.hipSuccess, _THREADS_TOGETHER // max(threads, 1)

    def _launch(
        self,
        function: int,
        sizes: Sequence[int],
        stream: int,
        kernarg_for: Callable[[Loaded], bytes | None],
        together: bool = False,
    ) -> tuple[Any, ...]:
        """Queue a launch.

        Args:
            sizes: grid, block and dynamic LDS.
            together: all blocks at the same time.
        """
        if self.lost:
            return self._unusable()
        loaded = self._functions.get(function)
        if loaded is None or stream not in self._queues:
            what = "function" if loaded is None else f"stream 0x{stream:x}"
            return self._no("hipErrorInvalidHandle", f"there is no such {what}")
        kernel = loaded.kernel
        gx, gy, gz, bx, by, bz, shared = sizes
        if (bx, by, bz) != (kernel.max_threads, 1, 1):
            return self._no(
                "hipErrorInvalidConfiguration",
                f"{kernel.name} was compiled for blocks of {kernel.max_threads} threads, and is "
                f"launched with {bx} x {by} x {bz}",
            )
        limit = _LDS.get(self.arch, 65_536)
        if shared + (kernel.resources.static_shared_bytes or 0) > limit:
            return self._no("hipErrorInvalidValue", f"{shared:,} bytes of LDS; there are {limit:,}")
        if min(gx, gy, gz) < 1 or gx * bx >= 1 << 32:
            return self._no("hipErrorInvalidValue", f"the grid {gx} x {gy} x {gz}")
        kernarg = kernarg_for(loaded)
        if kernarg is None or len(kernarg) != kernel.kernarg_bytes:
            found = "none" if kernarg is None else f"{len(kernarg)} bytes"
            return self._no(
                "hipErrorInvalidValue",
                f"{kernel.name} takes {kernel.kernarg_bytes} bytes of arguments, and got {found}",
            )

        def run() -> None:
            try:
                grid = (gx, gy, gz)
                self.executed += loaded.run(grid, bx, shared, kernarg, self.limits, together)
            except KernelFault as fault:
                self.lost = str(fault)
                self.when_lost()
                raise

        with self._lock:
            self._enqueue(stream, run)
        return OK
