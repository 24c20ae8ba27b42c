"""What a compilation for a CPU's run time says beside its target."""

from __future__ import annotations

from .blocks import CPU_ELEMENTS
from .dots import CPU_BYTES

__all__ = ["CPU_OPTIONS", "PLAIN_OPTIONS"]

#: Options of `backend.Options`.
CPU_OPTIONS: dict[str, int | bool] = {
    "dot_bytes": CPU_BYTES,
    "thread_elements": CPU_ELEMENTS,
    "cpu_accesses": True,
    "kernel_clock": True,
}
#: The same for other devices. They are always said: where xtarget is one of Triton's back ends, the
#: one that Triton's table has by default compiles for the CPU.
PLAIN_OPTIONS: dict[str, int | bool] = {
    "dot_bytes": 0,
    "thread_elements": 0,
    "cpu_accesses": False,
    "kernel_clock": False,
}
