"""The child process that makes machine code for CPUs: `python -m xtarget.targets.cpu.jit`."""

from __future__ import annotations

import pyopencl as cl

from ..._values.errors import NoDeviceError
from .._workers.jit_process import Build, serve
from .discover import discover, keep_no_files
from .program import build_native, native_key

__all__ = ["open_device"]


def open_device(key: str) -> Build:
    """Raises NoDeviceError where no CPU here has this `native_key`."""
    there = [native_key(device) for device, _ in discover().devices]
    if key not in there:
        raise NoDeviceError(
            f"the process that makes machine code does not find the device {key!r}, but "
            f"{', '.join(map(repr, there)) or 'none'}. Set variables of the OpenCL run time "
            "before the first use of the device, and do not change them afterwards. Where xtarget "
            "or the run time was replaced meanwhile, start this program again."
        )
    device = discover().devices[there.index(key)][0]
    context = cl.Context([device])

    def build(spirv: bytes, entry: str, options: str) -> bytes:
        return build_native(context, device, spirv, options, f"building {entry} failed")

    return build


if __name__ == "__main__":
    keep_no_files(program_has_pyopencl=False)
    serve(open_device)
