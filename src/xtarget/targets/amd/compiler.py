"""From a kernel to an hsaco, by Triton's AMD back end. Needs neither ROCm nor a GPU."""

from __future__ import annotations

from dataclasses import replace

from ..._errors import CompileError, LoadError, UnknownTargetError
from ..._types import Artifact, CompileRequest, Resources, Target
from .. import _triton
from .code_object import CodeObject, check_agreement

__all__ = ["HsacoCompiler"]

#: What Triton 3.6 and 3.9 both compile (tests/compile/test_amd.py tries each). Triton is not asked
#: about others: it prints its whole IR to stderr before it refuses one.
_ARCHS = (
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
_STAGES = ("ttir", "ttgir", "llir", "amdgcn")
#: Triton's list for every arch but gfx942, where "tf32" joins it and becomes the default of an fp32
#: tl.dot: an error of 1e-2 on that arch alone. A kernel that wants it gives the option itself.
_OPTIONS = {"allowed_dot_input_precisions": ("ieee", "bf16x3", "bf16x6")}


class HsacoCompiler:
    """Triton to hsaco."""

    @property
    def fingerprint(self) -> str:
        return f"{_triton.fingerprint()} amd options {sorted(_OPTIONS.items())}"

    def archs(self) -> tuple[str, ...]:
        return _ARCHS

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch not in _ARCHS:
            raise UnknownTargetError(
                f"the AMD compiler does not know {target.arch!r}. "
                f"It knows {', '.join(f'amd:{a}' for a in _ARCHS)}."
            )
        compiled = _triton.compile_with_triton(
            request,
            target,
            backend="hip",
            arch=target.arch,
            warp_size=64 if target.arch.startswith("gfx9") else 32,
            options=_OPTIONS,
        )
        artifact = _triton.make_artifact(
            compiled,
            target,
            format="hsaco",
            keep=_STAGES if keep_stages else (),
            resources=Resources(),
        )
        try:
            kernel = check_agreement(artifact, CodeObject.parse(artifact.binary))
        except LoadError as error:
            raise CompileError(
                f"Triton's output for {request.source.name} on {target} cannot be used: {error} "
                "If it stays so, this version of Triton lays arguments out in another way: "
                'install the tested one with pip install "xtarget[compile]".'
            ) from error
        return replace(artifact, resources=kernel.resources)
