"""AMD GPUs: hsaco code objects by Triton, launched through HIP (hip-python)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._values.vendors import maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._values.vendor_traits import VendorTraits
    from ..base import Compiler, Driver
    from ..optional import Route

__all__ = ["create_compiler", "create_driver", "create_routes", "vendor_traits"]

#: The HIP run time.
create_driver: Callable[[], Driver] = maker(__name__, "driver.HipDriver")
#: Triton's AMD back end.
create_compiler: Callable[[], Compiler] = maker(__name__, "compiler.HsacoCompiler")


def create_routes() -> tuple[Route, ...]:
    """HIP C++ by clang."""
    from .hip_cpp import HipRoute

    return (HipRoute(),)


def vendor_traits() -> VendorTraits:
    """Facts about the vendor for shared code."""
    from .traits import TRAITS

    return TRAITS
