"""The memory pool of an AMD device: what it keeps, and what it is not asked for.

HIP's pool gives all that is freed back to the system whenever anything waits (its threshold is 0):
each call then pays for new memory, and on some GPUs such memory came back with zeros in it
(ROCm/rocm-systems, issue 10943, open for HIP 7.2: small allocations between waits, right with a
threshold; another way to it, freeing on another stream than that of the allocation, is none of
ours). So it keeps as much as ours does on NVIDIA. HIP 7.2 forgets a threshold that was set before
the first allocation (issue 11690), hence it is set again after it. An allocation that the pool
cannot make takes all memory that is left with it, and ends the process at its end (issue 11642): a
large one that does not look like it fits goes to hipMalloc, which says so properly.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .status import call

__all__ = ["LARGE", "Pool"]

#: Bytes that the pool keeps for the next allocation when all work is done.
_KEEPS = 256 << 20
#: Allocations from here on are looked at, which costs three calls of HIP.
LARGE = 256 << 20


class Pool:
    """The default pool of a device, which other libraries of the process may use too.

    Attributes:
        settled: it knows what to keep.

    Args:
        hip: the binding.
        ordinal: HIP's number for the device.
        where: the device's name, for messages.
    """

    def __init__(self, hip: Any, ordinal: int, where: str) -> None:
        self._hip, self._where = hip, where
        doing = f"asking {where} for its memory pool"
        self._handle = call(hip, "hipDeviceGetDefaultMemPool", ordinal, doing=doing)
        self.settled = False
        self._keep()

    def settle(self) -> None:
        """After the first allocation from it."""
        self._keep()
        self.settled = True

    def fits(self, nbytes: int) -> bool:
        """False if there seems to be no room for a large allocation: what the pool kept was given
        back then, and hipMalloc should be asked."""
        kept = self.kept_bytes()
        free, _ = call(self._hip, "hipMemGetInfo", doing=f"asking {self._where} for free memory")
        if nbytes <= free + kept:
            return True
        self.trim()
        return False

    def kept_bytes(self) -> int:
        """Bytes that it keeps and nobody uses."""
        attributes = self._hip.hipMemPoolAttr
        reserved = self._get(attributes.hipMemPoolAttrReservedMemCurrent)
        return reserved - self._get(attributes.hipMemPoolAttrUsedMemCurrent)

    def trim(self) -> None:
        """Give the memory back that it keeps and nobody uses."""
        doing = f"trimming the memory pool of {self._where}"
        call(self._hip, "hipMemPoolTrimTo", self._handle, 0, doing=doing)

    def _keep(self) -> None:
        attribute = self._hip.hipMemPoolAttr.hipMemPoolAttrReleaseThreshold
        if self._get(attribute) >= _KEEPS:
            return  # somebody wants more kept
        value = ctypes.c_uint64(_KEEPS)
        args = (self._handle, attribute, ctypes.addressof(value))
        doing = f"setting what the memory pool of {self._where} keeps"
        call(self._hip, "hipMemPoolSetAttribute", *args, doing=doing)

    def _get(self, attribute: Any) -> int:
        value = ctypes.c_uint64(0)
        args = (self._handle, attribute, ctypes.addressof(value))
        doing = f"asking the memory pool of {self._where} what it has"
        call(self._hip, "hipMemPoolGetAttribute", *args, doing=doing)
        return value.value
