"""Facts of Intel for the shared code (`base.VendorPackage.vendor_traits`)."""

from __future__ import annotations

from ..._values.vendor_traits import VendorTraits

__all__ = ["TRAITS"]

TRAITS = VendorTraits(
    aliases=("xpu",),
    preference=30,
    default_arch="spirv64",
    # Source: Intel's product briefs
    products={
        "pvc": "spirv64",
        "max1550": "spirv64",
        "dg2": "spirv64",
        "a770": "spirv64",
        "bmg": "spirv64",
        "b580": "spirv64",
        "lnl": "spirv64",
    },
    dlpack_device_type=14,  # kDLOneAPI
    array_interface="__sycl_usm_array_interface__",
    packages=("dpctl",),
)
