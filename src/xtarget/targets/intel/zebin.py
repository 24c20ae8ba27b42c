"""Read a zebin, the binary of Intel's GPU compiler (IGC), without loading it.

Source: Intel graphics compiler, "ZEBIN: zeInfo" and "ELF sections" (IGC/ZEBinWriter/zebin/spec). A
zebin carries the SPIR-V and the build options that it came from, so it runs wherever SPIR-V does.
"""

from __future__ import annotations

import re

from ..._values.errors import LoadError
from ..._values.types import Resources
from ..._values.value_classes import value_class
from .._binaries.elf import Elf

__all__ = ["Kernel", "options_of", "read_kernel", "spirv_of", "ze_info"]

#: e_machine EM_INTELGT.
_MACHINE = 205
_SPIRV, _OPTIONS, _INFO = ".spv", ".misc.buildOptions", ".ze_info"


@value_class(frozen=True, slots=True)
class Kernel:
    """A kernel of a zebin.

    Attributes:
        simd: lanes of a hardware thread: the sub-group size.
        registers: general registers of a hardware thread (GRF, 32 or 64 bytes each).
        scratch_bytes: memory of a hardware thread for spilled registers and private arrays.
        shared_bytes: shared local memory of a block.
    """

    simd: int
    registers: int
    scratch_bytes: int
    shared_bytes: int

    def resources(self, spilled: int) -> Resources:
        """For an artifact; the zebin tells scratch memory, and IGC's log the registers behind."""
        return Resources(
            registers=self.registers,
            spilled_registers=spilled,
            local_bytes=-(-self.scratch_bytes // self.simd),
            static_shared_bytes=self.shared_bytes,
        )


def _section(binary: bytes, name: str) -> bytes:
    elf = Elf.parse(binary)
    if elf.machine != _MACHINE:
        raise LoadError(
            f"this ELF file is for machine {elf.machine}, not for Intel's GPUs ({_MACHINE}). "
            "Load it on the vendor's own device."
        )
    section = elf.section(name)
    return b"" if section is None else bytes(section.data)


def spirv_of(binary: bytes) -> bytes:
    """The SPIR-V in a zebin.

    Raises:
        LoadError: not a zebin, or damaged, or without SPIR-V.
    """
    spirv = _section(binary, _SPIRV)
    if not spirv:
        raise LoadError(
            "the zebin has no SPIR-V in it, which other devices load. Compile it again."
        )
    return spirv


def options_of(binary: bytes) -> str:
    """The options it was built with."""
    return _section(binary, _OPTIONS).rstrip(b"\0").decode("utf-8", "replace").strip()


def ze_info(binary: bytes) -> str:
    """Its description, in YAML."""
    return _section(binary, _INFO).rstrip(b"\0").decode("utf-8", "replace")


def read_kernel(binary: bytes, entry: str) -> Kernel:
    """Return what a kernel needs.

    Raises:
        LoadError: the binary is not a zebin, is damaged, or does not contain this kernel.
    """
    kernels = ze_info(binary).partition("\nkernels:")[2]
    # the list ends with the next line that is not indented
    kernels = re.split(r"\n(?=[^\s])", kernels, maxsplit=1)[0]
    for text in re.split(r"\n  - name: +", kernels)[1:]:
        name, _, body = text.partition("\n")
        if name.strip().strip("'\"") == entry:
            return _kernel(body, entry)
    raise LoadError(f"the zebin describes no kernel {entry!r}. Compile it again.")


def _kernel(body: str, entry: str) -> Kernel:
    values = {
        key: int(value) for key, value in re.findall(r"^      (\w+): +(\d+)$", body, re.MULTILINE)
    }
    missing = [key for key in ("simd_size", "grf_count") if values.get(key, 0) < 1]
    if missing:
        raise LoadError(
            f"the zebin does not tell {' and '.join(missing)} of {entry!r}. Compile it again."
        )
    buffers = re.search(
        r"^    per_thread_memory_buffers: *\n((?:      .*\n?)*)", body, re.MULTILINE
    )
    sizes = re.findall(r"^        size: +(\d+)$", buffers[1] if buffers else "", re.MULTILINE)
    return Kernel(
        simd=values["simd_size"],
        registers=values["grf_count"],
        scratch_bytes=sum(map(int, sizes)),
        shared_bytes=values.get("slm_size", 0),
    )
