"""The route `clang`: OpenCL C, which clang and llvm-spirv make SPIR-V of. It needs no run time of
OpenCL and no device.

Tried: clang 14.0.6 with llvm-spirv 14.0.0, of Debian.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final, NamedTuple

from ..._system.scratch import Folder
from ..._system.tools import find_tool
from ..._values.errors import CompileError, NoCompilerError
from ..._values.types import Artifact, CompileRequest, Target
from .._host import contents
from .._host.programs import run
from . import route
from .dialects import Dialect

__all__ = ["INSTALL", "ClangRoute", "Tools", "find"]

INSTALL: Final = "apt install clang-14 llvm-spirv-14 (or both of a newer version)"
_VERSIONS: Final = range(24, 13, -1)
_OWN: Final = ("targets/_c/*.py",)
_ADVICE: Final = "Make the kernel's blocks smaller"
#: The text as it stands: what optimizes is the run time, and intrinsics of LLVM are no SPIR-V.
_CLANG: Final = (
    *("-x", "cl", "-cl-std=CL2.0", "--target=spirv64-unknown-unknown", "-ffp-contract=off"),
    *("-Xclang", "-finclude-default-header", "-O2", "-Xclang", "-disable-llvm-passes"),
    *("-Qn", "-emit-llvm", "-c"),
)
_SPIRV: Final = ("--spirv-max-version=1.2", "--spirv-ext=-all")


class Tools(NamedTuple):
    """Two programs of one version of LLVM."""

    clang: str
    translator: str


def find() -> Tools | None:
    """The newest pair on the PATH: `clang-N` and `llvm-spirv-N`; or `llvm-spirv` with the clang of
    its version."""
    for version in _VERSIONS:
        clang, translator = (find_tool(f"{name}-{version}") for name in ("clang", "llvm-spirv"))
        if clang and not translator:
            translator = find_tool("llvm-spirv")
            if translator and _major(translator) != version:
                translator = None
        if clang and translator:
            return Tools(clang, translator)
    return None


@cache
def _major(program: str) -> int:
    """The version of LLVM that a program is of; 0 if it does not say."""
    with Folder("clang") as place:
        status, said = run([program, "--version"], place, "asking for llvm-spirv's version", "")
    number = said.partition("version ")[2].partition(".")[0]
    return int(number) if not status and number.isdecimal() else 0


class ClangRoute:
    """`targets.optional.Route`.

    Args:
        dialect: OpenCL C for one thread, or for several.
        warp_size: of the vendor's devices.
    """

    name = "clang"

    def __init__(self, dialect: Dialect, warp_size: int) -> None:
        self._dialect, self._warp_size = dialect, warp_size

    @property
    def fingerprint(self) -> str:
        tools = find()
        if tools is None:
            return ""
        programs = [contents.of_file(os.path.realpath(one))[:32] for one in tools]
        return " ".join((route.fingerprint(_OWN), *programs))

    def archs(self) -> tuple[str, ...]:
        return ("spirv64",)

    def refusal(self, request: CompileRequest, target: Target) -> str:
        return route.refusal(request, self._dialect, self._warp_size)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        route.check_arch(self, target)
        tools = find()
        if tools is None:
            raise NoCompilerError(
                f"the route {self.name} has no compiler: clang and llvm-spirv of one version are "
                f"not installed. Install them with: {INSTALL}"
            )
        made = route.translated(request, self._dialect, self._warp_size)
        what = f"kernel {request.source.name} did not compile for {target} by the route {self.name}"
        threads = made.threads
        return Artifact(
            target=target,
            format="spirv",
            entry=made.entry,
            binary=_compiled(tools, made.text, f"{made.entry}.cl", what),
            num_warps=max(1, threads // self._warp_size),
            warp_size=min(threads, self._warp_size),
            shared_bytes=0,
            parameters=made.parameters,
            route=self.name,
            texts={"cl": made.text} if keep_stages else {},
        )


def _compiled(tools: Tools, text: str, name: str, what: str) -> bytes:
    """The SPIR-V of a text.

    Raises:
        CompileError: clang refuses it; the message has its log, with file and line.
    """
    with Folder("clang") as place:
        (place / name).write_text(text)
        for command in (
            [tools.clang, *_CLANG, name, "-o", "kernel.bc"],
            [tools.translator, *_SPIRV, "kernel.bc", "-o", "kernel.spv"],
        ):
            status, log = run(command, place, what, _ADVICE)
            if status:
                raise CompileError(f"{what}: {log or f'{command[0]} ended with status {status}'}")
        return (place / "kernel.spv").read_bytes()
