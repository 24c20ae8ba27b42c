"""Compiling for Intel GPUs: SPIR-V for all of them, or with ocloc a zebin for one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..._values.errors import CompileError, LoadError, UnknownTargetError
from ..._values.types import Artifact, CompileRequest, Constant, Target
from .._spirv.compiler import ARCH, SpirvCompiler
from . import ocloc
from .ocloc import LARGE_REGISTERS
from .zebin import read_kernel, ze_info

__all__ = ["IntelCompiler"]

#: Values tried in turn, for a kernel that does not say its warp_size, until nothing is spilled:
#: threads of a warp, and options of IGC. Wide warps hide latency best; half as wide ones have twice
#: the registers for each thread; large register files halve the warps in flight.
LADDER: Final = ((32, ""), (16, ""), (16, LARGE_REGISTERS))


class IntelCompiler(SpirvCompiler):
    """SPIR-V for `intel:spirv64`; a zebin with that SPIR-V in it for `intel:pvc` and others."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(vendor="intel", warp_size=LADDER[0][0])

    @property
    def fingerprint(self) -> str:
        offline = ocloc.identity()
        return super().fingerprint + (f"\nocloc {offline}" if offline else "")

    @property
    def _own(self) -> tuple[str, ...]:
        ours = ("targets/_binaries/elf.py", "targets/intel/ocloc.py", "targets/intel/zebin.py")
        return (*super()._own, *ours)

    def archs(self) -> tuple[str, ...]:
        return (*super().archs(), *(ocloc.ARCHS if ocloc.find() else ()))

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch == ARCH:
            return super().compile(request, target, keep_stages=keep_stages)
        if ocloc.find() is None and target.arch not in ocloc.ARCHS:
            raise UnknownTargetError(
                f"{target} cannot be compiled for: one portable form serves all devices of "
                f"{self.vendor}. Write {self.vendor}:{ARCH}; with Intel's offline compiler ocloc "
                f"there are {', '.join(ocloc.ARCHS)} too."
            )
        asked = dict(request.options).get("warp_size")
        steps: list[tuple[Constant, str]] = [s for s in LADDER if asked in (None, s[0])]
        best: Artifact | None = None
        made: dict[Constant, Artifact] = {}
        for warp_size, options in steps or [(asked, "")]:
            if warp_size not in made:
                made[warp_size] = super().compile(
                    _with_option(request, warp_size),
                    Target(target.vendor, ARCH),
                    keep_stages=keep_stages,
                )
            found = _native(made[warp_size], target, options, keep_stages)
            if best is None or _spilled(found) < _spilled(best):
                best = found
            if not _spilled(best):
                break
        assert best is not None
        return best


def _with_option(request: CompileRequest, warp_size: Constant) -> CompileRequest:
    options = {**dict(request.options), "warp_size": warp_size}
    return replace(request, options=tuple(sorted(options.items())))


def _spilled(artifact: Artifact) -> int:
    return artifact.resources.spilled_registers or 0


def _native(portable: Artifact, target: Target, options: str, keep_stages: bool) -> Artifact:
    """The zebin of a SPIR-V artifact."""
    built = ocloc.build(portable.binary, portable.entry, target.arch, options)
    try:
        kernel = read_kernel(built.zebin, portable.entry)
        described = ze_info(built.zebin)
    except LoadError as error:
        raise CompileError(
            f"ocloc's output for {portable.entry} on {target} cannot be used: {error} If it stays "
            "so, this version of ocloc writes binaries in another way; use intel:spirv64."
        ) from error
    texts = {**portable.texts, **({"zeinfo": described} if keep_stages else {})}
    return replace(
        portable,
        target=target,
        format="zebin",
        binary=built.zebin,
        resources=kernel.resources(built.spilled),
        texts=texts,
    )
