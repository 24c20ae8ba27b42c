"""`xtarget.memory_stats()`: who has memory. `xtarget.empty_cache()`: what nobody uses goes back."""

from __future__ import annotations

from dataclasses import replace

from .._compile import residency
from .._devices import registry
from .._values.types import MemoryUse
from .._values.value_classes import value_class
from ..targets._objects import host_memory
from ..targets.optional import CountsMemory, TrimsMemory

__all__ = ["MemoryStats", "empty_cache", "memory_stats"]


@value_class(frozen=True, slots=True)
class MemoryStats:
    """Memory that xtarget has asked for. What torch and CuPy have asked for is in their own
    figures, results of calls on their arrays included.

    Attributes:
        devices: by name, those that are open.
        host_cached: bytes of host memory that are kept for later results (`XTARGET_HOST_MEMORY`).
    """

    devices: dict[str, MemoryUse]
    host_cached: int

    def __str__(self) -> str:
        lines = [
            f"{name}: {_text(use.in_use)} in use (most: {_text(use.peak)}), {_text(use.cached)} "
            f"cached, {use.kernels} kernels of {_text(use.modules)}, {_text(use.pinned)} pinned on "
            "the host"
            for name, use in self.devices.items()
        ]
        return "\n".join([*lines, f"host: {_text(self.host_cached)} cached"])


def _text(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} GiB"


def memory_stats() -> MemoryStats:
    """Say who has memory, by device; waits for nothing."""
    loaded = residency.loaded_binaries()
    found = {}
    for name, device in registry.opened().items():
        if isinstance(device, CountsMemory):
            sizes = loaded.get(name, ())
            found[name] = replace(device.memory_use(), modules=sum(sizes), kernels=len(sizes))
    return MemoryStats(found, host_memory.kept_bytes())


def empty_cache() -> None:
    """Give back the memory that is kept for later and that nobody uses: of open devices, and of the
    host. Arrays, graphs and loaded kernels keep theirs."""
    for device in registry.opened().values():
        if isinstance(device, TrimsMemory):
            device.trim_memory()
    host_memory.give_back()
