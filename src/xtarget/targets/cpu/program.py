"""Programs of pyopencl: built from SPIR-V in a child process, from machine code in the user's."""

from __future__ import annotations

import hashlib
import warnings

import pyopencl as cl

from ..._system.locks import Lock
from ..._values.errors import LoadError
from .._binaries.spirv import is_spirv
from .._host.machine import cpu_identity
from .._host.opencl_icd import compilers
from . import pocl
from .pairs import has_instruction, with_instruction
from .status import check, failure

__all__ = ["build_native", "from_machine_code", "machine_code", "native_key", "with_header"]

_MAGIC = b"XTCLBIN1"
#: Environment variables of the run times, Intel's and PoCL's.
_SWITCHES = ("CL_CONFIG_", "POCL_")
_WRONG_ASSEMBLY = "error: <inline asm>"
# pyopencl reports build logs through the process-wide warnings
_warnings_lock = Lock()


def native_key(device: cl.Device) -> str:
    """Identity of a CPU and its run time, for machine code."""
    platform = device.platform
    machine = cpu_identity(_SWITCHES, pocl.ENVIRONMENT, compilers())
    return " | ".join(
        (platform.name, platform.version, device.name, device.driver_version, machine)
    )


def _header(spirv: bytes, code: bytes) -> bytes:
    """Return the proof that machine code is whole and was built from this SPIR-V."""
    return _MAGIC + hashlib.sha256(spirv).digest() + hashlib.sha256(code).digest()


_HEADER_BYTES = len(_header(b"", b""))


def with_header(spirv: bytes, code: bytes) -> bytes:
    """Machine code as it is kept."""
    return _header(spirv, code) + code


def machine_code(spirv: bytes, native: bytes | None) -> bytes | None:
    """Return the machine code in a kept record, if it is whole and built from this SPIR-V."""
    if native is None:
        return None
    code = native[_HEADER_BYTES:]
    return code if native[:_HEADER_BYTES] == _header(spirv, code) else None


def from_machine_code(context: cl.Context, device: cl.Device, code: bytes, what: str) -> cl.Program:
    """Load machine code: a few milliseconds, and nothing is compiled.

    Raises:
        LoadError: the run time refuses it.
    """
    with check(what, LoadError):
        program = cl.Program(context, [device], [code])
    return _built(program, device, what)


def build_native(
    context: cl.Context, device: cl.Device, spirv: bytes, options: str, what: str
) -> bytes:
    """Machine code of a SPIR-V module or of OpenCL C. For the child process: the compiler may crash
    or hang.

    Raises:
        LoadError: the run time refuses it; its log is in the message.
    """
    with check(what, LoadError):
        if is_spirv(spirv):
            if has_instruction(device.platform.vendor):
                spirv = with_instruction(spirv)
            program = cl.Program(context, spirv)
        else:
            program = cl.Program(context, spirv.decode())
            options = f"{options} {_source_options(device)}"
    program = _built(program, device, what, options)
    with check(what, LoadError):
        log = str(program.get_build_info(device, cl.program_build_info.LOG))
    if _WRONG_ASSEMBLY in log:  # Intel's run time says so, and builds a kernel that does nothing
        raise LoadError(f"{what}: {log.strip()}")
    with check(what, LoadError):
        return bytes(program.get_info(cl.program_info.BINARIES)[0])


def _source_options(device: cl.Device) -> str:
    """Division and roots of float32 are rounded correctly where the device can, as on GPUs."""
    exact = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT & device.single_fp_config
    return "-cl-std=CL1.2" + (" -cl-fp32-correctly-rounded-divide-sqrt" if exact else "")


def _built(program: cl.Program, device: cl.Device, what: str, options: str = "") -> cl.Program:
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # "there is a log" is not news
        try:
            return program.build(options, devices=[device], cache_dir=False)
        except cl.Error as error:
            try:
                log = program.get_build_info(device, cl.program_build_info.LOG)
            except cl.Error:
                log = str(error)
            raise failure(error, what, LoadError, log) from error
