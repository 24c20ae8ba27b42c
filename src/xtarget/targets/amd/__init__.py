"""AMD GPUs: hsaco code objects by Triton, launched through HIP (hip-python)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Compiler, Driver
from ..optional import Route

if TYPE_CHECKING:
    from ..._values.vendor_traits import VendorTraits

__all__ = ["create_compiler", "create_driver", "create_routes", "vendor_traits"]


def create_driver() -> Driver:
    """The HIP run time."""
    from .driver import HipDriver

    return HipDriver()


def create_compiler() -> Compiler:
    """Triton's AMD back end."""
    from .compiler import HsacoCompiler

    return HsacoCompiler()


def create_routes() -> tuple[Route, ...]:
    """HIP C++ by clang."""
    from .hip_cpp import HipRoute

    return (HipRoute(),)


def vendor_traits() -> VendorTraits:
    """Facts about the vendor for shared code."""
    from .traits import TRAITS

    return TRAITS
