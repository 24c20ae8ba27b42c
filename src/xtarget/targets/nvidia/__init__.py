"""NVIDIA GPUs: cubins by Triton, launched through the CUDA driver (cuda.core, cuda.bindings)."""

from __future__ import annotations

from ..base import Compiler, Driver

__all__ = ["compiler", "driver"]


def driver() -> Driver:
    """The CUDA driver."""
    from .driver import CudaDriver

    return CudaDriver()


def compiler() -> Compiler:
    """Triton's NVIDIA back end."""
    from .compiler import CubinCompiler

    return CubinCompiler()
