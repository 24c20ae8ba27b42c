"""Any CPU, through an OpenCL CPU run time and SPIR-V."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..._values.vendor_traits import VendorTraits
    from ..base import Compiler, Driver
    from ..optional import Route

__all__ = ["create_compiler", "create_driver", "create_routes", "vendor_traits"]


def create_driver() -> Driver:
    from .driver import CpuDriver

    return CpuDriver()


def create_compiler() -> Compiler:
    from .compiler import CpuCompiler

    return CpuCompiler()


def create_routes() -> tuple[Route, ...]:
    from .._template.spirv import SpirvTemplates
    from .opencl_c import OpenclRoute

    return (OpenclRoute(), SpirvTemplates(16))


def vendor_traits() -> VendorTraits:
    """Facts about the vendor for shared code."""
    from .traits import TRAITS

    return TRAITS
