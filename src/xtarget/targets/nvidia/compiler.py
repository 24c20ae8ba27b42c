"""From a kernel to a cubin, by Triton's NVIDIA back end and a ptxas in Triton's wheel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..._values.types import Artifact, Resources
from .._triton.gpu_compiler import GpuCompiler
from . import ptx
from .cubin import resources

__all__ = ["CubinCompiler"]


class CubinCompiler(GpuCompiler):
    """Triton to cubin, with the PTX kept beside it."""

    NAME = "NVIDIA"
    BACKEND = "cuda"
    FORMAT = "cubin"
    FOREIGN_REGISTERS = "av"
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
    TOOLS = (
        "backends/nvidia/bin/ptxas",
        "backends/nvidia/bin/ptxas-blackwell",
        "backends/nvidia/lib/libdevice.10.bc",
    )
    OWN = (
        "targets/_triton/gpu_compiler.py",
        "targets/nvidia/assembler.py",
        "targets/nvidia/compiler.py",
        "targets/nvidia/cubin.py",
        "targets/nvidia/ptx.py",
    )

    def _triton_target(self, arch: str) -> tuple[int, int]:
        return int(arch.removeprefix("sm_")), 32

    def _has_clusters(self, arch: str) -> bool:
        return int(arch.removeprefix("sm_")) >= 90

    def _options(self) -> dict[str, Any]:
        from .._triton.importing import import_triton  # where nothing is compiled, of no use

        # Triton has it as it was at its import
        return {"ptx_options": import_triton().knobs.nvidia.ptxas_options}

    @contextmanager
    def _mended(self, arch: str) -> Iterator[None]:
        from .assembler import sound_ptxas  # where nothing is compiled, of no use

        with sound_ptxas():
            yield

    def _waits(self, artifact: Artifact) -> bool:
        return ptx.waits(artifact.texts["ptx"])

    def _read(self, artifact: Artifact) -> Resources:
        found = resources(artifact.binary, artifact.entry)
        arrays = ptx.local_arrays(artifact.texts.get("ptx", ""), artifact.entry)
        # ptxas lays a frame out in pieces of eight bytes
        kept = max(0, (found.local_bytes or 0) - (arrays + 7) // 8 * 8)
        return replace(found, spilled_registers=kept // 4)
