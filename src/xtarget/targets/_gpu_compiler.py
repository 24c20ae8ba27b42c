"""From a kernel to a vendor's own binary, by a back end that Triton brings. Needs neither the
vendor's libraries nor a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from .._errors import CompileError, LoadError, UnknownTargetError
from .._types import Artifact, CompileRequest, Resources, Target
from . import _triton

__all__ = ["GpuCompiler"]


class GpuCompiler(ABC):
    """`targets.base.Compiler`, but for what differs from vendor to vendor."""

    #: As people write the vendor.
    NAME: ClassVar[str]
    #: Triton's name of the back end.
    BACKEND: ClassVar[str]
    #: The stage that is the binary.
    FORMAT: ClassVar[str]
    #: What the oldest and the newest Triton both compile. Triton is not asked about others: it
    #: prints pages before it refuses one, and LLVM ends the process for some (sm_88).
    ARCHS: ClassVar[tuple[str, ...]]
    #: Text stages that stay in the artifact: always, and with `keep_stages`.
    KEEP: ClassVar[Sequence[str]] = ()
    STAGES: ClassVar[Sequence[str]]
    #: What an fp32 tl.dot is made of that does not say; empty: what Triton takes.
    FP32_DOT: ClassVar[str] = ""

    @property
    def fingerprint(self) -> str:
        products = f" fp32 dots {self.FP32_DOT}" if self.FP32_DOT else ""
        return _triton.fingerprint() + products

    def archs(self) -> tuple[str, ...]:
        return self.ARCHS

    @abstractmethod
    def _triton_target(self, arch: str) -> tuple[int | str, int]:
        """The arch as Triton writes it, and threads of a warp."""

    @abstractmethod
    def _read(self, artifact: Artifact) -> Resources:
        """What the binary says it uses.

        Raises:
            LoadError: it is not what the artifact says.
        """

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch not in self.ARCHS:
            raise UnknownTargetError(
                f"the {self.NAME} compiler does not know {target.arch!r}. "
                f"It knows {', '.join(f'{target.vendor}:{arch}' for arch in self.ARCHS)}."
            )
        arch, warp_size = self._triton_target(target.arch)
        compiled = _triton.compile_with_triton(
            request,
            target,
            backend=self.BACKEND,
            arch=arch,
            warp_size=warp_size,
            options={},
            fp32_dot=self.FP32_DOT,
        )
        artifact = _triton.make_artifact(
            compiled,
            target,
            format=self.FORMAT,
            keep=self.STAGES if keep_stages else self.KEEP,
            resources=Resources(),
        )
        try:
            return replace(artifact, resources=self._read(artifact))
        except LoadError as error:
            raise CompileError(
                f"Triton's output for {request.source.name} on {target} cannot be used: {error} "
                "If it stays so, this version of Triton writes binaries in another way: "
                'install the tested one with pip install "xtarget[compile]".'
            ) from error
