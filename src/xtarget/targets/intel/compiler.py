"""Compiling for Intel GPUs: a sub-group of 32."""

from __future__ import annotations

from .._spirv.compiler import SpirvCompiler

__all__ = ["IntelCompiler"]


class IntelCompiler(SpirvCompiler):
    """SPIR-V for `intel:spirv64`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(vendor="intel", warp_size=32)
