"""HIP in this process: the calls of hip-python that the AMD driver makes, answered by the emulator.

The same shapes as hip-python's: a tuple that starts with a status. Work is queued and runs when
something waits for it, as on a GPU, so that a missing synchronisation shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...._errors import KernelFault, LoadError
from .hip_types import Attribute, Kind, Status, kernarg_of
from .launch import Image, Limits, Loaded
from .memory import Arena

__all__ = ["HANDLES", "EmulatedHip"]

_VERSION = 70_253_211
_CAPACITY = 1 << 30
_LDS = {"gfx950": 163_840}
#: Handles of device n start at (n + 1) times this.
HANDLES = 1 << 32


_OK = (Status.hipSuccess,)


class EmulatedHip:
    """One emulated device.

    Args:
        arch: of `GENERATIONS`.
        limits: for every launch.
        ordinal: of the device, where several share one library: their handles and addresses differ.

    Attributes:
        executed: lane-instructions since the start.
        lost: what a kernel did wrong, after which the device is of no use.
        when_lost: called then.
    """

    hipDeviceAttribute_t = Attribute
    hipMemcpyKind = Kind
    hipError_t = Status

    def __init__(self, arch: str, limits: Limits, ordinal: int = 0) -> None:
        self.arch, self.limits = arch, limits
        self.arena = Arena(_CAPACITY, ordinal)
        self.executed = 0
        self._lock = threading.RLock()
        self._last = ""
        self.lost = ""
        self.when_lost: Callable[[], None] = lambda: None
        self._queues: dict[int, list[Callable[[], None]]] = {0: []}
        self._events: dict[int, float | None] = {}
        self._handles = (ordinal + 1) * HANDLES
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
        return _OK if ordinal == 0 else self._no("hipErrorInvalidDevice", f"device {ordinal}")

    def hipDeviceGetAttribute(self, attribute: Any, ordinal: int) -> tuple[Any, ...]:
        return Status.hipSuccess, int(attribute == 1)

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

    def hipGetErrorString(self, status: Any) -> tuple[Any, ...]:
        return Status.hipSuccess, self._last

    def _no(self, status: str, why: str) -> tuple[Any, ...]:
        self._last = why
        return (Status[status],)

    def _unusable(self) -> tuple[Any, ...]:
        """The answer once a kernel has failed. As on a GPU that stays so, until the device is
        opened again; giving things back still works."""
        return self._no("hipErrorContextIsDestroyed", f"a kernel failed before: {self.lost}")

    # -------------------------------------------------------------------------------------- memory

    def hipMalloc(self, nbytes: int) -> tuple[Any, ...]:
        if self.lost:
            return (*self._unusable(), None)
        with self._lock:
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
                return _OK
        return self._no("hipErrorInvalidValue", f"0x{address:x} is no buffer that is in use")

    def hipFreeAsync(self, address: int, stream: int) -> tuple[Any, ...]:
        with self._lock:
            block = self.arena.block_at(address)
            if stream not in self._queues:
                return self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}")
            if block is None or block.start != address:
                why = f"0x{address:x} is no buffer that is in use"
                return self._no("hipErrorInvalidValue", why)

            def free() -> None:
                self.arena.free(address)

            self._enqueue(stream, free)
        return _OK

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
        with self._lock:
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
        return _OK

    # ------------------------------------------------------------------------------------- modules

    def hipModuleLoadData(self, data: bytes) -> tuple[Any, ...]:
        if self.lost:
            return (*self._unusable(), None)
        try:
            with self._lock:
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
        return _OK

    def hipModuleLaunchKernel(
        self,
        function: int,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int,
        parameters: Any,
        extra: Any,
    ) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        loaded = self._functions.get(function)
        if loaded is None or stream not in self._queues:
            what = "function" if loaded is None else f"stream 0x{stream:x}"
            return self._no("hipErrorInvalidHandle", f"there is no such {what}")
        kernel = loaded.kernel
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
        kernarg = kernarg_of(extra)
        if kernarg is None or len(kernarg) != kernel.kernarg_bytes:
            found = "none" if kernarg is None else f"{len(kernarg)} bytes"
            return self._no(
                "hipErrorInvalidValue",
                f"{kernel.name} takes {kernel.kernarg_bytes} bytes of arguments, and got {found}",
            )

        def run() -> None:
            try:
                self.executed += loaded.run((gx, gy, gz), bx, shared, kernarg, self.limits)
            except KernelFault as fault:
                self.lost = str(fault)
                self.when_lost()
                raise

        with self._lock:
            self._enqueue(stream, run)
        return _OK

    # -------------------------------------------------------------------------- streams and events

    def hipStreamCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        if self.lost:
            return (*self._unusable(), None)
        handle = self._handle()
        self._queues[handle] = []
        return Status.hipSuccess, handle

    def hipStreamDestroy(self, stream: int) -> tuple[Any, ...]:
        if stream == 0 or stream not in self._queues:
            return self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}")
        self._drain(stream)
        del self._queues[stream]
        return _OK

    def hipStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if stream not in self._queues:
            return self._no("hipErrorInvalidHandle", f"no stream 0x{stream:x}")
        self._drain(stream)
        return _OK

    def hipDeviceSynchronize(self) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        self._drain_all()
        return _OK

    def hipStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if stream not in self._queues or event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such stream or event")
        owner = self._owner(event)
        if owner is not None:
            self._enqueue(stream, lambda: self._drain_to(owner, event))
        return _OK

    def hipEventCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        handle = self._handle()
        self._events[handle] = None
        return Status.hipSuccess, handle

    def hipEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if stream not in self._queues or event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such stream or event")

        def reach() -> None:
            if event in self._events:
                self._events[event] = time.perf_counter()

        reach.__dict__["event"] = event
        with self._lock:
            self._enqueue(stream, reach)
        return _OK

    def hipEventSynchronize(self, event: int) -> tuple[Any, ...]:
        if self.lost:
            return self._unusable()
        if event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such event")
        owner = self._owner(event)
        if owner is not None:
            self._drain_to(owner, event)
        return _OK

    def hipEventElapsedTime(self, start: int, end: int) -> tuple[Any, ...]:
        first, last = self._events.get(start), self._events.get(end)
        if first is None or last is None:
            return (*self._no("hipErrorNotReady", "an event was not reached yet"), 0.0)
        return Status.hipSuccess, 1e3 * (last - first)

    def hipEventDestroy(self, event: int) -> tuple[Any, ...]:
        if event not in self._events:
            return self._no("hipErrorInvalidHandle", "no such event")
        del self._events[event]
        return _OK

    # --------------------------------------------------------------------------------------- queue

    def _handle(self) -> int:
        with self._lock:
            self._handles += 16
            return self._handles

    def _enqueue(self, stream: int, work: Callable[[], None]) -> None:
        """HIP's null stream is in order with all others: it runs them first, and is run first."""
        if stream == 0:
            for other, queue in self._queues.items():
                if other and queue:
                    self._queues[0].append(lambda other=other: self._drain(other))  # type: ignore[misc]
        elif self._queues[0]:
            self._queues[stream].append(lambda: self._drain(0))
        self._queues[stream].append(work)

    def _owner(self, event: int) -> int | None:
        """The stream in which an event waits to be reached."""
        for stream, queue in self._queues.items():
            if any(getattr(work, "event", None) == event for work in queue):
                return stream
        return None

    def _drain(self, stream: int) -> None:
        with self._lock:
            queue = self._queues.get(stream, [])
            while queue:
                queue.pop(0)()

    def _drain_to(self, stream: int, event: int) -> None:
        with self._lock:
            queue = self._queues.get(stream, [])
            while queue and any(getattr(work, "event", None) == event for work in queue):
                queue.pop(0)()

    def _drain_all(self) -> None:
        for stream in list(self._queues):
            self._drain(stream)
