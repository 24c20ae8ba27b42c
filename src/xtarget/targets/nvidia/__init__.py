"""NVIDIA GPUs: cubins by Triton, launched through the CUDA driver (cuda.core, cuda.bindings)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._values.vendors import maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._values.vendor_traits import VendorTraits
    from ..base import Compiler, Driver
    from ..optional import Route

__all__ = ["create_compiler", "create_driver", "create_routes", "vendor_traits"]

#: The CUDA driver.
create_driver: Callable[[], Driver] = maker(__name__, "driver.CudaDriver")
#: Triton's NVIDIA back end.
create_compiler: Callable[[], Compiler] = maker(__name__, "compiler.CubinCompiler")


def create_routes() -> tuple[Route, ...]:
    """CUDA C++ by NVRTC, then PTX from templates."""
    from .nvrtc import NvrtcRoute
    from .template import PtxTemplates

    return (NvrtcRoute(), PtxTemplates())


def vendor_traits() -> VendorTraits:
    """Facts about the vendor for shared code."""
    from .traits import TRAITS

    return TRAITS
