"""Options of a compilation for a CPU's run time, in addition to its target.

This module is separate from its readers: a process that finds all its kernels in the cache imports
only this one.
"""

from __future__ import annotations

__all__ = ["CPU_BYTES", "CPU_OPTIONS", "DOT_ELEMENTS", "OTHER_BYTES", "PLAIN_OPTIONS"]

#: Most elements of a tensor that one thread on a CPU has, while more warps are available. With half
#: as many compiling is not faster; with twice as many the largest kernels take twice as long.
_CPU_ELEMENTS = 32
#: Shared memory that Triton itself may need in a kernel whose dots are loops.
OTHER_BYTES = 64 << 10
#: The rest of the 1 MiB that `_host.opencl_icd` asks of Intel's CPU run time.
CPU_BYTES = (1 << 20) - OTHER_BYTES

#: Elements of a dot's sum that a thread holds: those of a sub-group of 16 are half of AVX-512's
#: registers.
DOT_ELEMENTS = 16

#: Options of `backend.Options`.
CPU_OPTIONS: dict[str, int | bool] = {
    "dot_bytes": CPU_BYTES,
    "dot_elements": DOT_ELEMENTS,
    "thread_elements": _CPU_ELEMENTS,
    "cpu_accesses": True,
    "kernel_clock": True,
}
#: The same for other devices. They are always said: where xtarget is one of Triton's back ends, the
#: one that Triton's table has by default compiles for the CPU.
PLAIN_OPTIONS: dict[str, int | bool] = {
    "dot_bytes": 0,
    "dot_elements": DOT_ELEMENTS,
    "thread_elements": 0,
    "cpu_accesses": False,
    "kernel_clock": False,
}
