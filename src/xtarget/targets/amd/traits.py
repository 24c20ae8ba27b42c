"""Facts of AMD for the shared code (`base.VendorPackage.vendor_traits`)."""

from __future__ import annotations

from ..._values.vendor_traits import VendorTraits

__all__ = ["TRAITS"]


def _arch(written: str) -> str:
    """`gfx942` for `gfx942:sramecc+:xnack-`."""
    arch = written.partition(":")[0]
    return arch if arch.startswith("gfx") and len(arch) > 3 else ""


TRAITS = VendorTraits(
    aliases=("hip", "rocm"),
    preference=20,
    example_arch="gfx942",
    # Source: ROCm, "GPU hardware specifications"
    products={
        "mi210": "gfx90a",
        "mi250": "gfx90a",
        "mi250x": "gfx90a",
        "mi300a": "gfx942",
        "mi300x": "gfx942",
        "mi325x": "gfx942",
        "mi350x": "gfx950",
        "mi355x": "gfx950",
        "rx7900xtx": "gfx1100",
        "rx7900xt": "gfx1100",
        "w7900": "gfx1100",
        "w7800": "gfx1100",
        "rx7800xt": "gfx1101",
        "rx7700xt": "gfx1101",
        "rx7600": "gfx1102",
        "rx7600xt": "gfx1102",
        "strixhalo": "gfx1151",
        "radeon8060s": "gfx1151",
        "rx9060xt": "gfx1200",
        "rx9070": "gfx1201",
        "rx9070xt": "gfx1201",
    },
    parse_arch=_arch,
    dlpack_device_type=10,  # kDLROCM
    dlpack_stream=0,  # HIP's default stream, which is CUDA's 1
    dlpack_located=True,  # torch and CuPy may bring a HIP library of their own
    array_interface="__cuda_array_interface__",
    packages=("hip-python", "rocm-bindings-hip"),
)
