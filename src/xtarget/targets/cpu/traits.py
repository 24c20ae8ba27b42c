"""Facts of CPUs for the shared code (`base.VendorPackage.vendor_traits`)."""

from __future__ import annotations

from ..._values.vendor_traits import VendorTraits

__all__ = ["TRAITS"]

TRAITS = VendorTraits(
    aliases=("opencl",),
    preference=100,  # what is left where there is no GPU
    default_arch="spirv64",
    dlpack_device_type=1,  # kDLCPU
    packages=("pyopencl", "intel-opencl-rt", "intel-cmplr-lib-rt", "tbb"),
)
