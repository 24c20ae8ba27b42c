"""Facts of AMD for the shared code (`base.VendorPackage.vendor_traits`)."""

from __future__ import annotations

from ..._values.vendor_traits import VendorTraits, products_by_arch

__all__ = ["TRAITS"]


def _arch(written: str) -> str:
    """`gfx942` for `gfx942:sramecc+:xnack-`."""
    arch = written.partition(":")[0]
    return arch if arch.startswith("gfx") and len(arch) > 3 else ""


# Source: ROCm, "GPU hardware specifications"
_PRODUCTS = products_by_arch("""
gfx90a   mi210 mi250 mi250x
gfx942   mi300a mi300x mi325x
gfx950   mi350x mi355x
gfx1100  rx7900xtx rx7900xt w7900 w7800
gfx1101  rx7800xt rx7700xt
gfx1102  rx7600 rx7600xt
gfx1151  strixhalo radeon8060s
gfx1200  rx9060xt
gfx1201  rx9070 rx9070xt
""")

TRAITS = VendorTraits(
    aliases=("hip", "rocm"),
    preference=20,
    example_arch="gfx942",
    products=_PRODUCTS,
    parse_arch=_arch,
    dlpack_device_type=10,  # kDLROCM
    dlpack_stream=0,  # HIP's default stream, which is CUDA's 1
    dlpack_located=True,  # torch and CuPy may bring a HIP library of their own
    array_interface="__cuda_array_interface__",
    packages=("hip-python", "rocm-bindings-hip"),
)
