"""The route `template`, whatever language its texts are in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

from ..._values.errors import CompileError
from ..._values.types import Artifact, CompileRequest, Target
from .._c import route
from .._c.values import DType
from . import elements, elementwise, prepared
from .elementwise import Elementwise
from .holes import Template
from .prepared import Body

__all__ = ["SHARED", "Given", "TemplateRoute"]

#: The files behind all texts, for `TemplateRoute.sources`.
SHARED = ("targets/_template/*.py", "targets/_c/*.py")


@dataclass(frozen=True, slots=True)
class Given:
    """The values for a body's holes.

    Attributes:
        threads: of a block.
        each: elements of a block of the grid.
    """

    entry: str
    arch: str
    threads: int
    each: int


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
        self._made = lru_cache(maxsize=256)(self._make)

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
    def _body(self, kernel: Elementwise, entry: str) -> Body:
        """Return what the kernel itself decides; nothing of it depends on `kernel.each`."""

    @abstractmethod
    def _binary(self, body: Body, given: Given) -> bytes:
        """Return what an artifact holds."""

    @abstractmethod
    def _stage(self, kernel: Elementwise, given: Given, binary: bytes) -> str:
        """The text of a kernel whose binary this is."""

    @property
    def fingerprint(self) -> str:
        texts = self._skeleton().digest, elements.digest()
        return " ".join((route.fingerprint(self.sources), *texts))

    @cached_property
    def _identity(self) -> str:
        """Of this process: its code is loaded."""
        return f"{self.format} {self.fingerprint}"

    def key(self, request: CompileRequest) -> bytes:
        """Of the request's body among those that are prepared."""
        return prepared.key_of(self._identity, request)

    def kernel(self, request: CompileRequest) -> Elementwise | str:
        """Return what a request's kernel does; why templates do not serve it, as a sentence."""
        return elementwise.made(request, self._has)

    def anew(self, request: CompileRequest) -> tuple[Body, int] | str:
        """The body of a request, made of the kernel's text, and elements of a block; why not, as a
        sentence."""
        kernel = self.kernel(request)
        if isinstance(kernel, str):
            return kernel
        return self._body(kernel, _entry(request)), kernel.each

    def _make(self, request: CompileRequest) -> tuple[Body, int] | str:
        """As `anew` does it, but taken from the file of those that are prepared if it is there."""
        file = prepared.file()
        body = file.get(self.key(request)) if file else None
        return self.anew(request) if body is None else (body, prepared.each_of(request))

    def refusal(self, request: CompileRequest, target: Target) -> str:
        made = self._made(request)
        return made if isinstance(made, str) else ""

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        route.check_arch(self, target)
        made = self._made(request)
        if isinstance(made, str):
            raise CompileError(f"kernel {request.source.name} ({request.source.path}): {made}")
        body, each = made
        given = Given(_entry(request), target.arch, request.num_warps * self._warp_size, each)
        binary, texts = self._binary(body, given), {}
        if keep_stages:
            kernel = elementwise.served(request, self._has)
            texts[self.stage] = self._stage(kernel, given, binary)
        return Artifact(
            target=target,
            format=self.format,
            entry=given.entry,
            binary=binary,
            num_warps=request.num_warps,
            warp_size=self._warp_size,
            shared_bytes=0,
            parameters=body.parameters,
            route=self.name,
            texts=texts,
        )


def _entry(request: CompileRequest) -> str:
    return f"xt_{request.source.name}"
