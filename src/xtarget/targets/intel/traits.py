"""Facts of Intel for the shared code (`base.VendorPackage.vendor_traits`)."""

from __future__ import annotations

from ..._values.vendor_traits import VendorTraits, products_by_arch

__all__ = ["TRAITS"]

# Source: Intel's product briefs
_PRODUCTS = products_by_arch("""
spirv64  pvc max1550 dg2 a770 bmg b580 lnl
""")

TRAITS = VendorTraits(
    aliases=("xpu",),
    preference=30,
    default_arch="spirv64",
    products=_PRODUCTS,
    dlpack_device_type=14,  # kDLOneAPI
    array_interface="__sycl_usm_array_interface__",
    packages=("dpctl",),
)
