"""From a kernel to an hsaco, by Triton's AMD back end."""

from __future__ import annotations

from ..._types import Artifact, Resources
from .._gpu_compiler import GpuCompiler
from .code_object import CodeObject, check_agreement

__all__ = ["HsacoCompiler"]


class HsacoCompiler(GpuCompiler):
    """Triton to hsaco; tests/compile/test_amd.py tries each arch."""

    NAME = "AMD"
    BACKEND = "hip"
    FORMAT = "hsaco"
    ARCHS = (
        "gfx90a",
        "gfx942",
        "gfx950",
        "gfx1100",
        "gfx1101",
        "gfx1102",
        "gfx1103",
        "gfx1150",
        "gfx1151",
        "gfx1152",
        "gfx1153",
        "gfx1200",
        "gfx1201",
        "gfx1250",
    )
    STAGES = ("ttir", "ttgir", "llir", "amdgcn")
    #: Triton's own is "tf32" on gfx942 alone: an error of 1e-2 on that arch only. A kernel that
    #: wants it says tl.dot(..., input_precision="tf32").
    FP32_DOT = "ieee"

    def _triton_target(self, arch: str) -> tuple[str, int]:
        return arch, 64 if arch.startswith("gfx9") else 32

    def _read(self, artifact: Artifact) -> Resources:
        return check_agreement(artifact, CodeObject.parse(artifact.binary)).resources
