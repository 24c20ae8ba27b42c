"""The route `template`, whatever language its texts are in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ..._values.types import Artifact, CompileRequest, Target
from .._c import route
from .._c.values import DType
from . import elements, elementwise
from .elementwise import Elementwise
from .holes import Template

__all__ = ["SHARED", "TemplateRoute"]

#: The files behind all texts, for `TemplateRoute.sources`.
SHARED = ("targets/_template/*.py", "targets/_c/*.py")


class TemplateRoute(ABC):
    """`targets.base.Route` of elementwise kernels, whose texts have holes.

    Attributes:
        format: of the artifacts.
        stage: what the text is called among the stages that are kept.
        sources: the files of xtarget that decide the text (`_c.route.fingerprint`).
    """

    name = "template"
    format: ClassVar[str]
    stage: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]

    def __init__(self, warp_size: int) -> None:
        """Take the number of threads of a warp on the vendor's devices."""
        self._warp_size = warp_size
        self._has = self._native

    @abstractmethod
    def _native(self, name: str, dtype: DType) -> bool:
        """Whether its language has a mathematical function of a type."""

    @abstractmethod
    def archs(self) -> tuple[str, ...]:
        """The archs that it writes for."""

    @abstractmethod
    def _skeleton(self) -> Template:
        """The text of a kernel, in whose holes the operator's is put."""

    @abstractmethod
    def _text(self, kernel: Elementwise, entry: str, arch: str, threads: int) -> str:
        """The text of a kernel."""

    @abstractmethod
    def _binary(self, text: str) -> bytes:
        """What an artifact holds of a text."""

    @property
    def fingerprint(self) -> str:
        texts = self._skeleton().digest, elements.digest()
        return " ".join((route.fingerprint(self.sources), *texts))

    def refusal(self, request: CompileRequest, target: Target) -> str:
        return elementwise.refusal(request, self._has)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        route.check_arch(self, target)
        kernel = elementwise.served(request, self._has)
        entry = f"xt_{request.source.name}"
        text = self._text(kernel, entry, target.arch, request.num_warps * self._warp_size)
        return Artifact(
            target=target,
            format=self.format,
            entry=entry,
            binary=self._binary(text),
            num_warps=request.num_warps,
            warp_size=self._warp_size,
            shared_bytes=0,
            parameters=kernel.parameters,
            route=self.name,
            texts={self.stage: text} if keep_stages else {},
        )
