"""Intel's offline compiler: SPIR-V to a GPU's machine code, with no GPU and no driver.

`ocloc` comes with Intel's OpenCL driver (Debian: intel-opencl-icd); `ci/unpack_debs.sh` gets it
without root. `XTARGET_OCLOC` names it where it is not on the PATH.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..._system.scratch import Folder
from ..._system.tools import find_tool
from ..._values.environment import ocloc
from ..._values.errors import CompileError, NoCompilerError, UnknownTargetError
from ..._values.value_classes import value_class
from .._host import contents
from .._host.machine import find_library_file
from .._host.programs import run

__all__ = ["ARCHS", "LARGE_REGISTERS", "Built", "build", "find", "identity"]

#: What ocloc calls its devices, those of Debian 12 and of newer releases: for messages, no limit.
ARCHS = ("pvc", "dg2", "tgllp", "adl-p", "mtl", "lnl", "bmg")
#: Build option: 256 registers for a hardware thread instead of 128, and half as many threads.
LARGE_REGISTERS = "-ze-opt-large-register-file"

_SPILLS = re.compile(r"kernel +(\S+) +compiled SIMD\d+ allocated \d+ regs and spilled around (\d+)")


@value_class(frozen=True, slots=True)
class Built:
    """A zebin with its SPIR-V in it, and the registers that IGC says it spilled."""

    zebin: bytes
    spilled: int


def find() -> str | None:
    """Path of the compiler."""
    return find_tool(ocloc() or "ocloc")


def identity() -> str:
    """Return the compiler's content and its settings from the environment; empty if none exists."""
    tool = find()
    if tool is None:
        return ""
    parts = []
    for path in (tool, find_library_file("libocloc.so"), find_library_file("libigc.so.1")):
        if path is not None:
            real = Path(path).resolve()  # libigc.so.1.0.12504.6: the name has the version
            parts.append(f"{real.name} {contents.of_file(real)[:32]}")
    parts += [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("IGC_", "NEO_", "OCLOC_"))
    ]
    return ", ".join(parts)


def build(spirv: bytes, entry: str, device: str, options: str) -> Built:
    """Compile for one device, in ocloc's words (`pvc`).

    Raises:
        NoCompilerError: there is no ocloc.
        UnknownTargetError: it does not know the device.
        CompileError: it fails.
    """
    tool = find()
    what = f"{entry} for intel:{device}"
    if tool is None:
        raise NoCompilerError(
            f"{what} needs Intel's offline compiler ocloc, which is not on the PATH. Install it "
            "with: apt install intel-opencl-icd, or name it by XTARGET_OCLOC; the target "
            "intel:spirv64 needs none."
        )
    with Folder("ocloc") as place:
        # a fixed name: it is written into the binary
        (place / "kernel.spv").write_bytes(spirv)
        command = [tool, "compile", "-spirv_input", "-file", "kernel.spv", "-device", device]
        command += ["--format", "zebin", "-output", "kernel", "-output_no_suffix"]
        command += ["-options", options] if options else []
        status, log = run(command, place, what, "Make the kernel's blocks smaller")
        if "Cannot get HW Info" in log:
            raise UnknownTargetError(
                f"intel:{device} is not known to this ocloc ({tool}). It knows devices such as "
                f"{', '.join(ARCHS)}, depending on its version: `ocloc compile --help` lists them."
            )
        file = place / "kernel"
        if status or not file.is_file():
            raise CompileError(f"{what}: ocloc ended with status {status}:\n{log}")
        spilled = {name: int(count) for name, count in _SPILLS.findall(log)}
        return Built(file.read_bytes(), spilled.get(entry, 0))
