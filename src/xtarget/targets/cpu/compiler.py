"""Compiling for CPU: a sub-group of 16 makes one vector of 512 bits."""

from __future__ import annotations

from .._spirv.compiler import SpirvCompiler
from .._spirv.frontend.cpu_options import CPU_OPTIONS

__all__ = ["CpuCompiler"]


class CpuCompiler(SpirvCompiler):
    """SPIR-V for `cpu:spirv64`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            vendor="cpu",
            warp_size=16,
            lanes="vectors",
            options=tuple(CPU_OPTIONS.items()),
        )
