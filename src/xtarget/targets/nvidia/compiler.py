"""From a kernel to a cubin, by Triton's NVIDIA back end and the ptxas in Triton's wheel. Needs
neither CUDA nor a GPU."""

from __future__ import annotations

from ..._errors import CompileError, LoadError, UnknownTargetError
from ..._types import Artifact, CompileRequest, Target
from .. import _triton
from .cubin import resources

__all__ = ["CubinCompiler"]

#: What Triton 3.6 and 3.9 both compile. Triton is not asked about others: it prints pages of PTX
#: before it refuses one, and LLVM ends the process for some (sm_88).
_ARCHS = (
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


class CubinCompiler:
    """Triton to cubin, with the PTX kept beside it."""

    @property
    def fingerprint(self) -> str:
        return _triton.fingerprint()

    def archs(self) -> tuple[str, ...]:
        return _ARCHS

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch not in _ARCHS:
            raise UnknownTargetError(
                f"the NVIDIA compiler does not know {target.arch!r}. "
                f"It knows {', '.join(f'nvidia:{arch}' for arch in _ARCHS)}."
            )
        compiled = _triton.compile_with_triton(
            request,
            target,
            backend="cuda",
            arch=int(target.arch.removeprefix("sm_")),
            warp_size=32,
            options={},
        )
        cubin = compiled.stages["cubin"]
        assert isinstance(cubin, bytes)
        try:
            used = resources(cubin, compiled.metadata["name"])
        except LoadError as error:
            raise CompileError(
                f"Triton's output for {request.source.name} on {target} is no cubin: {error}"
            ) from error
        return _triton.make_artifact(
            compiled,
            target,
            format="cubin",
            keep=("ttir", "ttgir", "llir", "ptx") if keep_stages else ("ptx",),
            resources=used,
        )
