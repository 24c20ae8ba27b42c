"""Answer calls of the emulator's HIP library: turn C arguments into calls of emulated devices.

Each thread has a current device; a handle tells which device it belongs to.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .hip import HANDLES, EmulatedHip
from .hip_types import Status

__all__ = ["Answers"]

_ELF, _ELF_HEADER = b"\x7fELF", 64
#: hipDeviceProp_t of HIP 6 and later (hipDeviceProp_tR0600): size, and where its members are.
_PROPERTIES = 1472
_AT = {
    "totalGlobalMem": (288, "Q"),
    "sharedMemPerBlock": (296, "Q"),
    "warpSize": (308, "i"),
    "maxThreadsPerBlock": (320, "i"),
    "multiProcessorCount": (388, "i"),
}
_MAX_THREADS_AT, _MAX_GRID_AT, _ARCH_AT = 324, 336, 1160
_EVERY_AXIS = "3i"


class Answers:
    """The library's state.

    Attributes:
        asked: how many calls came.
    """

    def __init__(self, devices: Sequence[EmulatedHip]) -> None:
        self._devices = devices
        self._thread = threading.local()
        self.asked = 0

    def give(self, function: str, a: Any) -> tuple[int, str]:
        """Answer one call: status, and the text that belongs to it.

        Args:
            a: the call's arguments, 64 bits each.

        Raises:
            XTargetError: a kernel that ran to answer it failed.
        """
        self.asked += 1
        device = self._devices[self._current]
        answer: Callable[..., int] = getattr(self, f"_{function}")
        return answer(device, a), device.hipGetErrorString(0)[1]

    @property
    def _current(self) -> int:
        return getattr(self._thread, "device", 0)

    def _of(self, handle: int) -> EmulatedHip:
        """The device that a handle is of; the current one for the null stream and for strangers."""
        ordinal = handle // HANDLES - 1
        known = 0 <= ordinal < len(self._devices)
        return self._devices[ordinal if known else self._current]

    @staticmethod
    def _out(address: int, result: tuple[Any, ...], form: str = "Q") -> int:
        """The status; the values go to where the caller wants them."""
        if not result[0]:
            data = struct.pack(f"={form}", *result[1:])
            ctypes.memmove(address, data, len(data))
        return int(result[0])

    # ---------------------------------------------------------------------------------- the device

    def _hipInit(self, device: EmulatedHip, a: Any) -> int:
        return 0

    def _hipRuntimeGetVersion(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], device.hipRuntimeGetVersion(), "i")

    _hipDriverGetVersion = _hipRuntimeGetVersion

    def _hipGetDeviceCount(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], (0, len(self._devices)), "i")

    def _hipGetDevice(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], (0, self._current), "i")

    def _hipSetDevice(self, device: EmulatedHip, a: Any) -> int:
        if a[0] >= len(self._devices):
            return int(Status.hipErrorInvalidDevice)
        self._thread.device = a[0]
        return 0

    def _hipDeviceSynchronize(self, device: EmulatedHip, a: Any) -> int:
        return int(device.hipDeviceSynchronize()[0])

    def _hipDeviceGetAttribute(self, device: EmulatedHip, a: Any) -> int:
        # the driver asks for what there is (pools, cooperative launches), whatever its number is
        return self._out(a[0], (0, 1), "i")

    def _hipGetDevicePropertiesR0600(self, device: EmulatedHip, a: Any) -> int:
        if a[1] >= len(self._devices):
            return int(Status.hipErrorInvalidDevice)
        told = self._devices[a[1]].hipGetDeviceProperties(0)[1]
        data = bytearray(_PROPERTIES)
        data[: len(told.name)] = told.name.encode()
        for name, (at, form) in _AT.items():
            struct.pack_into(form, data, at, getattr(told, name))
        struct.pack_into(_EVERY_AXIS, data, _MAX_THREADS_AT, *[told.maxThreadsPerBlock] * 3)
        struct.pack_into(_EVERY_AXIS, data, _MAX_GRID_AT, *told.maxGridSize)
        data[_ARCH_AT : _ARCH_AT + len(told.gcnArchName)] = told.gcnArchName.encode()
        ctypes.memmove(a[0], bytes(data), _PROPERTIES)
        return 0

    def _hipDeviceCanAccessPeer(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], (0, 0), "i")

    # -------------------------------------------------------------------------------------- memory

    def _hipMalloc(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], device.hipMalloc(a[1]))

    def _hipMallocAsync(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], device.hipMallocAsync(a[1], a[2]))

    def _hipFree(self, device: EmulatedHip, a: Any) -> int:
        return int(device.hipFree(a[0])[0])

    def _hipFreeAsync(self, device: EmulatedHip, a: Any) -> int:
        return int(device.hipFreeAsync(a[0], a[1])[0])

    def _hipMemGetInfo(self, device: EmulatedHip, a: Any) -> int:
        _, left, total = device.hipMemGetInfo()
        self._out(a[0], (0, left))
        return self._out(a[1], (0, total))

    def _hipMemcpyWithStream(self, device: EmulatedHip, a: Any) -> int:
        to, source, nbytes, kind, stream = a[0:5]
        host = ctypes.c_ubyte * nbytes
        if kind == device.hipMemcpyKind.hipMemcpyHostToDevice:
            source = host.from_address(source)
        else:
            to = host.from_address(to)
        return int(device.hipMemcpyWithStream(to, source, nbytes, kind, stream)[0])

    # -------------------------------------------------------------------------- streams and events

    def _hipStreamCreateWithFlags(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], device.hipStreamCreateWithFlags(a[1]))

    def _hipStreamDestroy(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[0]).hipStreamDestroy(a[0])[0])

    def _hipStreamSynchronize(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[0]).hipStreamSynchronize(a[0])[0])

    def _hipStreamIsCapturing(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[1], self._of(a[0]).hipStreamIsCapturing(a[0]), "i")

    def _hipStreamWaitEvent(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[1]).hipStreamWaitEvent(a[0], a[1], 0)[0])

    def _hipEventCreateWithFlags(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], device.hipEventCreateWithFlags(a[1]))

    def _hipEventRecord(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[0]).hipEventRecord(a[0], a[1])[0])

    def _hipEventSynchronize(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[0]).hipEventSynchronize(a[0])[0])

    def _hipEventElapsedTime(self, device: EmulatedHip, a: Any) -> int:
        return self._out(a[0], self._of(a[1]).hipEventElapsedTime(a[1], a[2]), "f")

    def _hipEventDestroy(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[0]).hipEventDestroy(a[0])[0])

    # ------------------------------------------------------------------------------------- modules

    def _hipModuleLoadData(self, device: EmulatedHip, a: Any) -> int:
        head = ctypes.string_at(a[1], _ELF_HEADER)
        if not head.startswith(_ELF):
            return int(Status.hipErrorInvalidImage)
        # as in HIP's own call, the size is what the file says: its section headers come last
        (sections,) = struct.unpack_from("<Q", head, 40)
        each, count = struct.unpack_from("<HH", head, 58)
        return self._out(
            a[0], device.hipModuleLoadData(ctypes.string_at(a[1], sections + each * count))
        )

    def _hipModuleUnload(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[0]).hipModuleUnload(a[0])[0])

    def _hipModuleGetFunction(self, device: EmulatedHip, a: Any) -> int:
        name = ctypes.string_at(a[2])
        return self._out(a[0], self._of(a[1]).hipModuleGetFunction(a[1], name))

    def _hipModuleLaunchKernel(self, device: EmulatedHip, a: Any) -> int:
        if a[9] or not a[10]:  # kernelParams, extra
            return int(Status.hipErrorInvalidValue)
        launch: Callable[..., tuple[Any, ...]] = self._of(a[0]).hipModuleLaunchKernel
        return int(launch(*a[0:9], None, ctypes.string_at(a[10], 40))[0])

    def _hipModuleLaunchCooperativeKernel(self, device: EmulatedHip, a: Any) -> int:
        return int(self._of(a[0]).hipModuleLaunchCooperativeKernel(*a[0:10])[0])

    def _hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        self, device: EmulatedHip, a: Any
    ) -> int:
        ask = self._of(a[1]).hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
        return self._out(a[0], ask(a[1], a[2], a[3]), "i")
