"""Facts of NVIDIA for the shared code (`base.VendorPackage.vendor_traits`)."""

from __future__ import annotations

from ..._values.vendor_traits import VendorTraits, products_by_arch
from .compatibility import CubinRules

__all__ = ["TRAITS"]


def _arch(written: str) -> str:
    """`sm_90` for `90`, `9.0` and `sm90`."""
    digits = written.removeprefix("sm").removeprefix("_").replace(".", "")
    return f"sm_{digits}" if digits[:1].isdigit() else ""


# Source: "CUDA GPU compute capability", developer.nvidia.com
_PRODUCTS = products_by_arch("""
sm_75   t4
sm_80   a100
sm_86   a10 rtx3090
sm_89   l4 l40s rtx4090
sm_90   h100 h200 gh200
sm_100  b200 gb200
sm_120  rtx5090
""")

TRAITS = VendorTraits(
    aliases=("cuda",),
    preference=10,
    example_arch="sm_90",
    products=_PRODUCTS,
    parse_arch=_arch,
    dlpack_device_type=2,  # kDLCUDA
    dlpack_stream=1,  # the legacy default stream
    arch_rules=CubinRules(),
    array_interface="__cuda_array_interface__",
    packages=("cuda-python", "cuda-core", "cuda-bindings"),
)
