"""NVIDIA GPUs: cubins by Triton, launched through the CUDA driver (cuda.core, cuda.bindings)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Compiler, Driver
from ..optional import Route

if TYPE_CHECKING:
    from ..._values.vendor_traits import VendorTraits

__all__ = ["create_compiler", "create_driver", "create_routes", "vendor_traits"]


def create_driver() -> Driver:
    """The CUDA driver."""
    from .driver import CudaDriver

    return CudaDriver()


def create_compiler() -> Compiler:
    """Triton's NVIDIA back end."""
    from .compiler import CubinCompiler

    return CubinCompiler()


def create_routes() -> tuple[Route, ...]:
    """CUDA C++ by NVRTC, then PTX from templates."""
    from .nvrtc import NvrtcRoute
    from .template import PtxTemplates

    return (NvrtcRoute(), PtxTemplates())


def vendor_traits() -> VendorTraits:
    """Facts about the vendor for shared code."""
    from .traits import TRAITS

    return TRAITS
