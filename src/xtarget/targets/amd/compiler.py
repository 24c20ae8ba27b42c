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

__all__ = ["HsacoCompiler"]

_MOST_THREADS = 1024


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
        return arch, 64 if arch.startswith("gfx9") else 32

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch in ARCHS:
            warp_size = self._triton_target(target.arch)[1]
            threads = request.num_warps * warp_size
            if threads > _MOST_THREADS:  # LLVM would say another number of threads in the binary
                raise CompileError(
                    f"kernel {request.source.name} cannot be compiled for {target}: "
                    f"num_warps={request.num_warps} gives blocks of {threads} threads ({warp_size} "
                    f"in a warp), and a block has {_MOST_THREADS} at most. Use num_warps="
                    f"{_MOST_THREADS // warp_size} or fewer."
                )
        return super().compile(request, target, keep_stages=keep_stages)

    @contextmanager
    def _mended(self, arch: str) -> Iterator[None]:
        with lanes_by_sign(arch), kept_out():
            yield

    def _read(self, artifact: Artifact) -> Resources:
        return check_agreement(artifact, CodeObject.parse(artifact.binary)).resources
