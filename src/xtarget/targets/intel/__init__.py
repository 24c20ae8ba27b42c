"""Intel GPUs, through SYCL (dpctl) and SPIR-V."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._values.vendors import maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._values.vendor_traits import VendorTraits
    from ..base import Compiler, Driver
    from ..optional import Route

__all__ = ["create_compiler", "create_driver", "create_routes", "vendor_traits"]

create_driver: Callable[[], Driver] = maker(__name__, "driver.IntelDriver")
create_compiler: Callable[[], Compiler] = maker(__name__, "compiler.IntelCompiler")


def create_routes() -> tuple[Route, ...]:
    from .._c.dialects import OPENCL_GPU
    from .._c.offline import ClangRoute
    from .._template.spirv import SpirvTemplates

    return (ClangRoute(OPENCL_GPU, 32), SpirvTemplates(32))


def vendor_traits() -> VendorTraits:
    """Facts about the vendor for shared code."""
    from .traits import TRAITS

    return TRAITS
