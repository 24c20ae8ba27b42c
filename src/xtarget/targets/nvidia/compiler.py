"""From a kernel to a cubin, by Triton's NVIDIA back end and the ptxas in Triton's wheel."""

from __future__ import annotations

from ..._types import Artifact, Resources
from .._gpu_compiler import GpuCompiler
from .cubin import resources

__all__ = ["CubinCompiler"]


class CubinCompiler(GpuCompiler):
    """Triton to cubin, with the PTX kept beside it."""

    NAME = "NVIDIA"
    BACKEND = "cuda"
    FORMAT = "cubin"
    ARCHS = (
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_87",
        "sm_89",
        "sm_90",
        "sm_100",
        "sm_103",
        "sm_120",
        "sm_121",
    )
    KEEP = ("ptx",)
    STAGES = ("ttir", "ttgir", "llir", "ptx")

    def _triton_target(self, arch: str) -> tuple[int, int]:
        return int(arch.removeprefix("sm_")), 32

    def _read(self, artifact: Artifact) -> Resources:
        return resources(artifact.binary, artifact.entry)
