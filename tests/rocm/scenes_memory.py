"""The memory pool of a device: what it keeps, and what it is not asked for."""

from __future__ import annotations

import ctypes
from typing import Any

from hip import hip
from scene import opened, refused

import xtarget

MIB = 1 << 20


def _pool(attribute: Any) -> int:
    status, pool = hip.hipDeviceGetDefaultMemPool(0)
    assert not status
    value = ctypes.c_uint64(0)
    assert not hip.hipMemPoolGetAttribute(pool, attribute, ctypes.addressof(value))[0]
    return value.value // MIB


def what_is_freed_is_kept() -> None:
    """256 MiB stay for the next allocations; closing the device gives them back."""
    reserved = hip.hipMemPoolAttr.hipMemPoolAttrReservedMemCurrent
    device = opened()
    for _ in range(3):
        buffer = device.alloc(64 * MIB)
        del buffer
        device.synchronize()
        assert _pool(reserved) == 64
    buffers = [device.alloc(100 * MIB) for _ in range(4)]
    del buffers
    device.synchronize()
    assert _pool(reserved) <= 300
    assert _pool(hip.hipMemPoolAttr.hipMemPoolAttrReleaseThreshold) == 256
    device.close()
    assert _pool(reserved) == 0


def others_may_want_more_kept() -> None:
    threshold = hip.hipMemPoolAttr.hipMemPoolAttrReleaseThreshold
    pool, value = hip.hipDeviceGetDefaultMemPool(0)[1], ctypes.c_uint64(1024 * MIB)
    assert not hip.hipMemPoolSetAttribute(pool, threshold, ctypes.addressof(value))[0]
    opened().alloc(64 * MIB)
    assert _pool(threshold) == 1024


def the_pool_is_not_asked_for_what_does_not_fit() -> None:
    """HIP 7.2.4 leaves all memory with a pool that could not give enough."""
    device = opened()
    device.alloc(MIB)
    kept = device.alloc(64 * MIB)
    for _ in range(3):
        said = refused(xtarget.OutOfMemoryError, lambda: device.alloc(64 << 30), "Free now:")
        assert "(hipMalloc)" in said
    del kept
    for _ in range(3):  # and what is there is there
        large = device.alloc(3 << 30)
        device.synchronize()
        del large
