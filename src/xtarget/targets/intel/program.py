"""Kernel bundles of dpctl. It loads SPIR-V only, so the user's process has to run the device's
compiler, which crashes or hangs on some modules: each module is built once in a child process
before, and what comes of that is remembered as the module's `native` form.

That costs the time of one more build when a module is new on the machine, and nothing later; Level
Zero keeps what it built in its own cache on disk, and finds it there the second time.
"""

from __future__ import annotations

import hashlib

import dpctl
import dpctl.program

from ..._types import Artifact, DeviceInfo
from .._jit import Jit

__all__ = ["build_kernel", "expect_build", "native_key", "proof_of", "try_in_child"]

_MAGIC = b"XTSYCLOK"

_jit = Jit("xtarget.targets.intel.jit")


def native_key(device: dpctl.SyclDevice) -> str:
    """Identity of a device and its run time, for what was built there."""
    return " | ".join((device.filter_string, device.name.strip(), device.driver_version.strip()))


def proof_of(spirv: bytes, options: str) -> bytes:
    """What is kept of a module that was built."""
    return _MAGIC + hashlib.sha256(options.encode() + b"\0" + spirv).digest()


def build_kernel(
    queue: dpctl.SyclQueue, spirv: bytes, entry: str, options: str
) -> dpctl.program.SyclKernel:
    """Compile SPIR-V to the device's machine code."""
    program = dpctl.program.create_program_from_spirv(queue, spirv, options)
    return program.get_sycl_kernel(entry)


def expect_build() -> None:
    """Have the child load the run time while the caller goes on."""
    _jit.start()


def try_in_child(key: str, artifact: Artifact, info: DeviceInfo, options: str) -> None:
    """Build a module where a crash does no harm.

    Args:
        key: the device's `native_key`.

    Raises:
        LoadError: it does not build.
    """
    what = f"{artifact.entry} cannot be loaded on {info.name} ({info.product})"
    _jit.build(what, key, artifact.binary, artifact.entry, options)
