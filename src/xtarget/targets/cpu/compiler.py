"""Compiling for CPU: a sub-group of 16 makes one vector of 512 bits."""

from __future__ import annotations

from .._spirv.blocks import CPU_ELEMENTS
from .._spirv.compiler import SpirvCompiler
from .._spirv.dots import CPU_BYTES

__all__ = ["CpuCompiler"]


class CpuCompiler(SpirvCompiler):
    """SPIR-V for `cpu:spirv64`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            vendor="cpu",
            warp_size=16,
            lanes="vectors",
            options=(
                ("kernel_clock", True),
                ("dot_bytes", CPU_BYTES),
                ("thread_elements", CPU_ELEMENTS),
            ),
        )
