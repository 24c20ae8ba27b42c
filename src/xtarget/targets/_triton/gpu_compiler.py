"""From a kernel to a vendor's own binary, by a back end that Triton brings. Needs neither the
vendor's libraries nor a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from ..._values.errors import CompileError, LoadError, UnknownTargetError
from ..._values.types import Artifact, CompileRequest, Resources, Target
from . import toolchain

__all__ = ["GpuCompiler"]


class GpuCompiler(ABC):
    """`targets.base.Compiler`, except for the parts that differ between vendors."""

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
    #: What Triton's back end uses, in Triton's folder.
    TOOLS: ClassVar[tuple[str, ...]]
    #: Files of xtarget that decide what this compiler makes, in addition to those of `toolchain`.
    OWN: ClassVar[tuple[str, ...]]
    #: Letters of registers in inline assembly that the vendor does not have, and another one has.
    FOREIGN_REGISTERS: ClassVar[str]
    #: What an fp32 tl.dot is made of that does not say; empty: what Triton takes.
    FP32_DOT: ClassVar[str] = ""

    @property
    def fingerprint(self) -> str:
        return toolchain.fingerprint(self.TOOLS, self.OWN)

    def unsettled(self) -> str:
        return toolchain.unsettled(self.TOOLS, self.OWN)

    def archs(self) -> tuple[str, ...]:
        return self.ARCHS

    @abstractmethod
    def _triton_target(self, arch: str) -> tuple[int | str, int]:
        """The arch as Triton writes it, and threads of a warp."""

    def _has_clusters(self, arch: str) -> bool:
        """Return whether several blocks of an arch can share the work of one (`num_ctas`).

        Elsewhere one does all of it, with the same result.
        """
        return False

    def _options(self) -> dict[str, Any]:
        """Options of Triton's back end for requests that do not say them."""
        return {}

    def _mended(self, arch: str) -> AbstractContextManager[None]:
        """Around Triton's compilation: what works around its errors for an arch."""
        return nullcontext()

    @abstractmethod
    def _read(self, artifact: Artifact) -> Resources:
        """Return the resources that the binary says it uses.

        Raises:
            LoadError: the binary is not what the artifact says.
        """

    def _waits(self, artifact: Artifact) -> bool:
        """Return whether the kernel waits by itself for the launch in front of it."""
        return False

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch not in self.ARCHS:
            raise UnknownTargetError(
                f"the {self.NAME} compiler does not know {target.arch!r}. "
                f"It knows {', '.join(f'{target.vendor}:{arch}' for arch in self.ARCHS)}."
            )
        from . import compile as _triton  # not for what is in the cache

        if not self._has_clusters(target.arch):
            kept = tuple(option for option in request.options if option[0] != "num_ctas")
            request = replace(request, options=kept)
        arch, warp_size = self._triton_target(target.arch)
        compiled = _triton.compile_with_triton(
            request,
            target,
            backend=self.BACKEND,
            arch=arch,
            warp_size=warp_size,
            options=self._options(),
            fp32_dot=self.FP32_DOT,
            mended=self._mended(target.arch),
            check_assembly=partial(self._check_assembly, request, target),
        )
        artifact = _triton.make_artifact(
            compiled,
            target,
            format=self.FORMAT,
            keep=self.STAGES if keep_stages else self.KEEP,
            resources=Resources(),
        )
        try:
            early = artifact.early and self._waits(artifact)
            return replace(artifact, resources=self._read(artifact), early=early)
        except LoadError as error:
            raise CompileError(
                f"Triton's output for {request.source.name} on {target} cannot be used: {error} "
                "If it stays so, this version of Triton writes binaries in another way: "
                'install the tested one with pip install "xtarget[compile]".'
            ) from error

    def _check_assembly(
        self, request: CompileRequest, target: Target, text: str, constraints: str
    ) -> None:
        """Refuse assembly for registers that are not there. Some LLVMs end the process for it,
        others print an error and leave it out, and the kernel computes with values that nobody
        wrote.

        Raises:
            CompileError: it is such; the message shows it.
        """
        operands = [operand.lstrip("=&*%+") for operand in constraints.split(",")]
        foreign = [o for o in operands if len(o) == 1 and o in self.FOREIGN_REGISTERS]
        if foreign:
            raise CompileError(
                f"kernel {request.source.name} cannot be compiled for {target}: its inline "
                f"assembly {text!r} wants registers of kind {foreign[0]!r}, which "
                f"{self.NAME} GPUs do not have, so it is another vendor's. Write it for "
                f"{target}, or leave it out there."
            )
