"""PoCL, the second run time for CPUs: what it does otherwise than Intel's.

Source: PoCL 4.0 to 7.1, `lib/CL/devices/spirv_parser.cc` and `common.c`; measured with 6.0.
"""

from __future__ import annotations

import os
import re

import pyopencl as cl

__all__ = ["ENVIRONMENT", "compile_options", "is_pocl", "newest_spirv", "use_machine_code"]

_VERSION = re.compile(r"PoCL (\d+)")
#: From here on its parser takes modules up to 1.5. Until 6.0 it tells 1.2 all the same.
_PARSES_NEWER = 4
_PARSED = (1, 5)
#: Bytes of a register: LLVM's names of the CPUs whose library has no wider ones.
_REGISTERS = {64: ("skylake-avx512",), 32: ("haswell", "sandybridge", "ivybridge", "bdver1")}
_SPECIALIZE = "POCL_WORK_GROUP_SPECIALIZATION"
#: Of its variables, those that do not change machine code.
ENVIRONMENT = ("POCL_CACHE_DIR", "POCL_DEBUG", "POCL_KERNEL_CACHE", _SPECIALIZE)


def is_pocl(device: cl.Device) -> bool:
    return _VERSION.search(str(device.platform.version)) is not None


def newest_spirv(device: cl.Device, told: tuple[int, int]) -> tuple[int, int]:
    """The newest SPIR-V that a device takes which tells `told`."""
    version = _VERSION.search(str(device.platform.version))
    if version is None or int(version[1]) < _PARSES_NEWER or told == (0, 0):
        return told
    return max(told, _PARSED)


def compile_options(device: cl.Device) -> dict[str, bool | int]:
    """Return the compiler options that a device needs."""
    if not is_pocl(device):
        return {}
    # also with cl_khr_fp16 it has a part of the functions only (its CMakeLists.txt)
    options: dict[str, bool | int] = {"half_math": False, "function_bytes": _register_bytes(device)}
    if "cl_khr_kernel_clock" not in str(device.extensions).split():
        options["kernel_clock"] = False
    return options


def _register_bytes(device: cl.Device) -> int:
    """Bytes of a register of the CPU that PoCL's library was compiled for: it passes wider vectors
    to functions wrongly. A distribution's build has a library for each, and the device's name tells
    which is in use (`pocl_llvm_utils.cc`); of other builds nothing is known.
    """
    if "DISTRO" in str(device.platform.version):
        for size, names in _REGISTERS.items():
            if device.name.strip().removeprefix("cpu-").startswith(names):
                return size
    return 16


def use_machine_code() -> None:
    """Make this process's PoCL run what a program's machine code has. By default it compiles each
    kernel again at its first launch, for that launch's size, in the process that launches, and
    ends it where that fails; code for one size is not faster (add 1.2 times, others not). A value
    that the user has set stays.
    """
    os.environ.setdefault(_SPECIALIZE, "0")
