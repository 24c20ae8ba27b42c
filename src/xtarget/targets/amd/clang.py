"""Clang for AMD's GPUs: HIP C++ to a code object, with no GPU and no driver.

A clang of version 17 or newer that has the target amdgcn, with lld of the same version: ROCm's,
Debian's packages (clang-19, lld-19), the wheel ziglang, whose program is both. Versions 19.1.7 of
Debian and 22.1.8 of the wheel were tried.
"""

from __future__ import annotations

import glob
import importlib.util
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..._system.scratch import Folder
from ..._system.tools import find_tool
from ..._values.environment import hip_clang
from ..._values.errors import CompileError, NoCompilerError
from ..._values.value_classes import value_class
from .._host import contents
from .._host.programs import run

__all__ = ["INSTALL", "LIBRARY", "Tools", "build", "device_library", "find"]

INSTALL = 'pip install "xtarget[hip]" (the wheel ziglang), or: apt install clang-19 lld-19'
#: AMD's mathematical functions, as LLVM's bitcode.
LIBRARY = "ocml.bc"
_VERSIONS = range(24, 16, -1)
_ADVICE = "Make the kernel's blocks smaller"
#: No header and no library but what the text brings, and nothing of the machine in the result.
_OPTIONS = (
    *("-std=c++17", "-O3", "-ffp-contract=off", "-fno-exceptions", "-fno-gpu-rdc"),
    *("-fuse-cuid=none", "-Qn", "-mcode-object-version=5", "-nogpulib"),
)
_HIP = (
    *("-x", "hip", "--cuda-device-only", "-nogpuinc", "-nostdinc", "-nostdinc++"),
    *("-emit-llvm", "-c"),
)


@value_class(frozen=True, slots=True)
class Tools:
    """Two commands, each a program and its first words."""

    clang: tuple[str, ...]
    lld: tuple[str, ...]


def _beside(clang: str, suffix: str = "") -> Tools | None:
    """A clang with the linker that lies beside it."""
    real = os.path.dirname(os.path.realpath(clang))
    for lld in (f"{os.path.dirname(clang)}/ld.lld{suffix}", f"{real}/ld.lld"):
        found = find_tool(lld)
        if found is not None:
            return Tools((clang,), (found,))
    return None


def find() -> Tools | None:
    """The compiler: `XTARGET_HIP_CLANG`, ROCm's, the wheel's, or one of the PATH."""
    named = hip_clang()
    if named:
        found = find_tool(named)
        if found is None:
            return None
        return _of_zig(found) if Path(found).name == "zig" else _beside(found)
    for root in (*_roots(), "/opt/rocm"):
        found = find_tool(f"{root}/llvm/bin/clang")
        if found is not None:
            return _beside(found)
    package = importlib.util.find_spec("ziglang")
    for folder in (package and package.submodule_search_locations) or ():
        found = find_tool(f"{folder}/zig")
        if found is not None:
            return _of_zig(found)
    for version in _VERSIONS:
        found = find_tool(f"clang-{version}")
        tools = found and _beside(found, f"-{version}")
        if tools:
            return tools
    return None


def _of_zig(program: str) -> Tools:
    return Tools((program, "clang"), (program, "ld.lld"))


def _roots() -> list[str]:
    return [os.environ[name] for name in ("ROCM_PATH", "ROCM_HOME") if os.environ.get(name)]


def device_library() -> str | None:
    """The file of AMD's functions: ROCm's, Debian's (rocm-device-libs), or that of Triton's wheel,
    which is not imported."""
    places = [os.environ.get("HIP_DEVICE_LIB_PATH", ""), *(f"{r}/amdgcn/bitcode" for r in _roots())]
    places += ["/opt/rocm/amdgcn/bitcode", "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"]
    places += sorted(glob.glob("/usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode"), reverse=True)
    package = importlib.util.find_spec("triton")
    for folder in (package and package.submodule_search_locations) or ():
        places.append(f"{folder}/backends/amd/lib")
    files = (os.path.join(place, LIBRARY) for place in places if os.path.isabs(place))
    return next((file for file in files if os.path.isfile(file)), None)


@cache
def _identity(tools: Tools) -> str:
    """The compiler's own version text, which includes the version of Debian's package."""
    with Folder("clang") as place:
        status, said = run([*tools.clang, "--version"], place, "asking for clang's version", "")
    first = said.partition("\n")[0] if not status else ""
    programs = sorted({os.path.realpath(p) for p in (tools.clang[0], tools.lld[0])})
    return " ".join([first, *(contents.of_file(program)[:32] for program in programs)])


def identity() -> str:
    """The compiler and AMD's library by content; empty if there is no compiler."""
    tools = find()
    if tools is None:
        return ""
    library = device_library()
    return f"{_identity(tools)} {LIBRARY} {contents.of_file(library)[:32] if library else 'absent'}"


def build(text: str, name: str, arch: str, what: str, *, functions: Sequence[str]) -> bytes:
    """The code object of a text.

    Args:
        name: of the file, for messages.
        functions: of AMD's library that it calls.

    Raises:
        NoCompilerError: there is no clang, or no library though it calls functions of it.
        CompileError: it refuses the text; the message has its log, with file and line.
    """
    tools = find()
    if tools is None:
        raise NoCompilerError(
            f"{what}: neither hipRTC nor a clang with AMD's target is installed. Install one with: "
            f"{INSTALL}; or ROCm. XTARGET_HIP_CLANG names a clang that is elsewhere."
        )
    options = [f"--offload-arch={arch}", *_OPTIONS]
    if functions:
        library = device_library()
        if library is None:
            raise NoCompilerError(
                f"{what}: it calls {', '.join(functions)}, and AMD's library of mathematical "
                f"functions ({LIBRARY}) is not here. It comes with ROCm, with Debian's "
                "rocm-device-libs, and with pip install triton; HIP_DEVICE_LIB_PATH names its "
                "folder."
            )
        options += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", library]
    with Folder("clang") as place:
        (place / name).write_text(text)
        _step([*tools.clang, *_HIP, *options, name, "-o", "kernel.bc"], place, what)
        machine = ["-x", "ir", "--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-O3", "-nogpulib"]
        machine.append("-c")
        _step([*tools.clang, *machine, "kernel.bc", "-o", "kernel.o"], place, what)
        _step([*tools.lld, "-shared", "kernel.o", "-o", "kernel.hsaco"], place, what)
        return (place / "kernel.hsaco").read_bytes()


def _step(command: Sequence[str], place: Path, what: str) -> None:
    status, log = run(command, place, what, _ADVICE)
    if status:
        raise CompileError(f"{what}: {log or f'{command[0]} ended with status {status}'}")
