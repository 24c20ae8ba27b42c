"""NVIDIA GPUs: cubins by Triton, launched through the CUDA driver (cuda.core, cuda.bindings)."""

from __future__ import annotations

from ..base import Compiler, Driver

__all__ = ["create_compiler", "create_driver"]


def create_driver() -> Driver:
    """The CUDA driver."""
    from .driver import CudaDriver

    return CudaDriver()


def create_compiler() -> Compiler:
    """Triton's NVIDIA back end."""
    from .compiler import CubinCompiler

    return CubinCompiler()
