"""From a kernel to an hsaco, by Triton's AMD back end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..._values.errors import CompileError
from ..._values.types import Artifact, CompileRequest, Resources, Target
from .._triton.gpu_compiler import GpuCompiler
from .archs import ARCHS
from .code_object import CodeObject, check_agreement
from .signed_atomics import lanes_by_sign
from .unused_arguments import kept_out

__all__ = ["HsacoCompiler", "check_threads", "warp_size"]

_MOST_THREADS = 1024


def warp_size(arch: str) -> int:
    """Threads of a warp (AMD: wavefront)."""
    return 64 if arch.startswith("gfx9") else 32


def check_threads(request: CompileRequest, target: Target) -> None:
    """Raises CompileError if its blocks have more threads than a block can have. LLVM would say
    another number of threads in the binary."""
    width = warp_size(target.arch)
    threads = request.num_warps * width
    if threads > _MOST_THREADS:
        raise CompileError(
            f"kernel {request.source.name} cannot be compiled for {target}: num_warps="
            f"{request.num_warps} gives blocks of {threads} threads ({width} in a warp), and a "
            f"block has {_MOST_THREADS} at most. Use num_warps={_MOST_THREADS // width} or fewer."
        )


class HsacoCompiler(GpuCompiler):
    """Triton to hsaco; tests/compile/test_amd.py tries each arch."""

    NAME = "AMD"
    BACKEND = "hip"
    FORMAT = "hsaco"
    ARCHS = ARCHS
    STAGES = ("ttir", "ttgir", "llir", "amdgcn")
    TOOLS = ("backends/amd/lib/*",)
    OWN = (
        "targets/_triton/gpu_compiler.py",
        "targets/_binaries/msgpack.py",
        "targets/amd/kernarg.py",
        "targets/amd/code_object.py",
        "targets/amd/compiler.py",
        "targets/amd/signed_atomics.py",
        "targets/amd/unused_arguments.py",
    )
    #: Triton's own is "tf32" on gfx942 alone: an error of 1e-2 on that arch only. A kernel that
    #: wants it says tl.dot(..., input_precision="tf32").
    FP32_DOT = "ieee"
    FOREIGN_REGISTERS = "bcdfhlq"

    def _triton_target(self, arch: str) -> tuple[str, int]:
        return arch, warp_size(arch)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch in ARCHS:
            check_threads(request, target)
        return super().compile(request, target, keep_stages=keep_stages)

    @contextmanager
    def _mended(self, arch: str) -> Iterator[None]:
        with lanes_by_sign(arch), kept_out():
            yield

    def _read(self, artifact: Artifact) -> Resources:
        return check_agreement(artifact, CodeObject.parse(artifact.binary)).resources
