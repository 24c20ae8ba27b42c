"""Intel GPUs, through SYCL (dpctl) and SPIR-V."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..._values.vendor_traits import VendorTraits
    from ..base import Compiler, Driver

__all__ = ["create_compiler", "create_driver", "vendor_traits"]


def create_driver() -> Driver:
    from .driver import IntelDriver

    return IntelDriver()


def create_compiler() -> Compiler:
    from .compiler import IntelCompiler

    return IntelCompiler()


def vendor_traits() -> VendorTraits:
    """Facts about the vendor for shared code."""
    from .traits import TRAITS

    return TRAITS
