"""The route `hip`: the C++ that NVRTC takes, as HIP C++, of which hipRTC or clang makes a code
object. It needs neither Triton nor a GPU."""

from __future__ import annotations

from dataclasses import replace

from ..._values.environment import hip_clang
from ..._values.errors import CompileError, LoadError
from ..._values.types import Artifact, CompileRequest, Target
from .._c import route
from .._c.dialects import HIP
from .._c.hip import in_library
from . import clang, hiprtc
from .archs import ARCHS
from .code_object import CodeObject, check_agreement
from .compiler import check_threads, warp_size

__all__ = ["HipRoute"]

_OWN = (
    "targets/_c/*.py",
    "targets/amd/hip_cpp.py",
    "targets/amd/clang.py",
    "targets/amd/hiprtc.py",
)


class HipRoute:
    """`targets.base.Route`."""

    name = "hip"

    @property
    def fingerprint(self) -> str:
        tools = hiprtc.identity() if _by_hiprtc() else clang.identity()
        return f"{route.fingerprint(_OWN)}\n{tools}" if tools else ""

    def archs(self) -> tuple[str, ...]:
        return ARCHS

    def refusal(self, request: CompileRequest, target: Target) -> str:
        return route.refusal(request, HIP, warp_size(target.arch))

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        route.check_arch(self, target)
        check_threads(request, target)
        made, width = route.translated(request, HIP, warp_size(target.arch)), warp_size(target.arch)
        what = f"kernel {request.source.name} did not compile for {target} by the route {self.name}"
        text = f"#define XT_WARP {width}\n#define XT_ISA {_isa(target.arch)}\n{made.text}"
        file = f"{made.entry}.hip"
        if _by_hiprtc():
            binary = hiprtc.build(text, file, target.arch, what)
        else:
            used = in_library(made.text.removeprefix(HIP.head))
            binary = clang.build(text, file, target.arch, what, functions=used)
        artifact = Artifact(
            target=target,
            format="hsaco",
            entry=made.entry,
            binary=binary,
            num_warps=made.threads // width,
            warp_size=width,
            shared_bytes=0,
            parameters=made.parameters,
            route=self.name,
            texts={"hip": text} if keep_stages else {},
        )
        try:
            resources = check_agreement(artifact, CodeObject.parse(binary)).resources
        except LoadError as error:
            raise CompileError(f"{what}: {error}") from error
        return replace(artifact, resources=resources)


def _by_hiprtc() -> bool:
    """AMD's own compiler, where it is installed and no other one is named."""
    return not hip_clang() and hiprtc.find() is not None


def _isa(arch: str) -> int:
    """The number of an arch in AMD's library: gfx942 is 9402."""
    digits = arch.removeprefix("gfx")
    major, minor, step = int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)
    return major * 1000 + minor * 100 + step
