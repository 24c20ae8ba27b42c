"""Compiling for CPU: a sub-group of 16 makes one vector of 512 bits."""

from __future__ import annotations

from .._spirv.compiler import SpirvCompiler

__all__ = ["CpuCompiler"]

#: Most of the 256 KiB of shared memory that Intel's CPU run time gives a block.
_DOT_BYTES = 192 << 10


class CpuCompiler(SpirvCompiler):
    """SPIR-V for `cpu:spirv64`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            vendor="cpu",
            warp_size=16,
            lanes="vectors",
            options=(("kernel_clock", True), ("dot_bytes", _DOT_BYTES)),
        )
