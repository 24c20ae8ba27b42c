"""The route `nvrtc`: CUDA C++, which NVIDIA's run-time compiler makes a cubin of. It needs neither
Triton nor a GPU."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from glob import glob
from importlib import metadata
from typing import Any

from ..._values.errors import CompileError, LoadError, NoCompilerError
from ..._values.types import Artifact, CompileRequest, Target
from .._c import route
from .._c.dialects import CUDA
from .._c.translate import Translated
from .._host import contents
from .compiler import CubinCompiler
from .cubin import entries, resources

__all__ = ["NvrtcRoute", "installed"]

_WARP_SIZE = 32
_INSTALL = "pip install nvidia-cuda-nvrtc cuda-core cuda-python"
_CCCL = "nvidia-cuda-cccl"
#: Shared memory that a block may ask for, KiB; of archs that are not named, those of 227. Source:
#: CUDA C++ programming guide, "Technical Specifications per Compute Capability".
_SHARED_KIB = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99,
               "sm_120": 99, "sm_121": 99}  # fmt: skip
_MOST_KIB = 227
#: What a compiler says that misses one of its headers.
_MISSING = re.compile(r'open source file "(?:cub|cuda|nv|thrust)/')
_OWN = ("targets/_c/*.py", "targets/nvidia/nvrtc.py", "targets/nvidia/cubin.py")


@cache
def _library() -> str:
    """The compiler's file; empty where it is not installed."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ModuleNotFoundError:
        return ""
    try:
        return load_nvidia_dynamic_lib("nvrtc").abs_path or ""
    except DynamicLibNotFoundError:
        return ""


@cache
def _headers() -> tuple[str, str]:
    """The folder of the headers of cub, thrust and libcu++, and their version and digest; empty
    where their wheel is not installed."""
    try:
        wheel = metadata.distribution(_CCCL)
    except metadata.PackageNotFoundError:
        return "", ""
    roots = os.path.join(str(wheel.locate_file("nvidia")), "*", "include", "cccl")
    record = hashlib.sha256((wheel.read_text("RECORD") or "").encode()).hexdigest()
    for folder in sorted(glob(roots)):
        return folder, f"{_CCCL} {wheel.version} {record[:32]}"
    return "", ""


def installed() -> bool:
    """Return whether the compiler is installed."""
    return bool(_library())


class NvrtcRoute:
    """`targets.optional.Route`."""

    name = "nvrtc"

    @property
    def fingerprint(self) -> str:
        library = _library()
        if not library:
            return ""
        folder = os.path.dirname(library)
        names = sorted(n for n in os.listdir(folder) if n.startswith("libnvrtc"))
        tools = [f"{n} {contents.of_file(os.path.join(folder, n))[:32]}" for n in names]
        _, headers = _headers()
        return "\n".join([route.fingerprint(_OWN), *tools, *filter(None, [headers])])

    def archs(self) -> tuple[str, ...]:
        return CubinCompiler.ARCHS

    def refusal(self, request: CompileRequest, target: Target) -> str:
        refused = route.refusal(request, CUDA, _WARP_SIZE)
        return refused or _too_large(route.translated(request, CUDA, _WARP_SIZE), target)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        route.check_arch(self, target)
        if not installed():
            raise NoCompilerError(
                f"the route {self.name} has no compiler: NVRTC is not installed. Install it with: "
                f"{_INSTALL}"
            )
        made = route.translated(request, CUDA, _WARP_SIZE)
        too_large = _too_large(made, target)
        if too_large:
            raise CompileError(f"kernel {request.source.name}: {too_large}")
        what = f"kernel {request.source.name} did not compile for {target} by the route {self.name}"
        cubin = _compiled(made.text, made.entry, target.arch, what)
        if made.entry not in entries(cubin):
            raise CompileError(
                f"{what}: it has no entry {made.entry}. Begin its definition with KERNEL(THREADS) "
                'or extern "C" __global__.'
            )
        try:
            used = resources(cubin, made.entry)
        except LoadError as error:
            raise CompileError(f"{what}: {error}") from error
        return Artifact(
            target=target,
            format="cubin",
            entry=made.entry,
            binary=cubin,
            num_warps=request.num_warps,
            warp_size=_WARP_SIZE,
            shared_bytes=made.shared_bytes,
            parameters=made.parameters,
            route=self.name,
            resources=used,
            texts={"cu": made.text} if keep_stages else {},
        )


def _too_large(made: Translated, target: Target) -> str:
    """Why a block does not have so much shared memory, as a sentence; empty if it has."""
    most = _SHARED_KIB.get(target.arch, _MOST_KIB) << 10
    if made.shared_bytes <= most:
        return ""
    return f"its blocks of {made.shared_bytes} bytes are more than the {most} that {target} has."


def _compiled(text: str, entry: str, arch: str, what: str) -> bytes:
    """The cubin that NVRTC makes of a text.

    Raises:
        CompileError: it refuses it; the message has its log, with file and line.
    """
    from cuda import core

    # 177: of our own functions above a kernel's source, those that it does not use
    options = core.ProgramOptions(arch=arch, std="c++17", name=f"{entry}.cu", diag_suppress=177)
    folder, _ = _headers()
    if folder and "#include" in text:
        options.include_path = [folder]
    try:
        made: Any = core.Program(text, "c++", options).compile("cubin").code
    except Exception as error:  # cuda.core has errors of its own for every status
        log = str(error).replace("\0", "").strip()  # NVRTC's ends as texts in C do
        missing = not folder and _MISSING.search(log)
        way = f"\nInstall these headers with: pip install {_CCCL}" if missing else ""
        raise CompileError(f"{what}: {log}{way}") from error
    return bytes(made)
