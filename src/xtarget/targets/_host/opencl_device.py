"""Facts that OpenCL and SYCL tell of a device, by the names that both bindings have for them."""

from __future__ import annotations

from typing import Any

__all__ = ["common_facts"]


def common_facts(device: Any) -> dict[str, Any]:
    """Fields of a `DeviceInfo`, of a pyopencl or dpctl device."""
    return {
        "product": device.name.strip(),
        "memory_bytes": int(device.global_mem_size),
        "compute_units": int(device.max_compute_units),
        "driver_version": device.driver_version.strip(),
        "max_threads_per_block": int(device.max_work_group_size),
        "max_shared_bytes": int(device.local_mem_size),
    }
