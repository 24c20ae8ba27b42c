"""A vendor in memory: shows that one can be added out of tree, and is strict about the contract.

It enters by the entry-point group `xtarget.targets`, executes a few kernels with NumPy, and defers
all work of a stream until somebody waits for it, so that a missing synchronization shows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xtarget._values.vendor_traits import VendorTraits
    from xtarget.targets.base import Compiler, Driver

__all__ = ["create_compiler", "create_driver", "vendor_traits"]


def create_driver() -> Driver:
    from .driver import FakeDriver

    return FakeDriver()


def create_compiler() -> Compiler:
    from .compiler import FakeCompiler

    return FakeCompiler()


def vendor_traits() -> VendorTraits:
    """A device is taken unasked only where a test wants it to be."""
    from xtarget._values.vendor_traits import VendorTraits

    return VendorTraits(
        aliases=("pretend",),
        preference=200 if "FAKE_VENDOR_UNASKED" in os.environ else None,
        default_arch="f1",
        products={"pretend9000": "f1"},
        parse_arch=lambda arch: "f1" if arch in ("1", "f1") else "",
        dlpack_device_type=12,  # kDLExtDev
    )
