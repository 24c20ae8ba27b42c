"""The child process that tries modules on SYCL devices: `python -m xtarget.targets.intel.jit`."""

from __future__ import annotations

import dpctl

from ..._values.errors import LoadError, NoDeviceError
from .._workers.jit_process import Build, serve
from .discover import loaders
from .machine_code import find_route
from .program import CODE, build_kernel, is_zebin, native_key, proof_of
from .status import check

__all__ = ["open_device"]


def open_device(key: str) -> Build:
    """Raises NoDeviceError where SYCL's device of that name is not the one of this `native_key`.

    With `CODE` behind it, machine code is made, or taken where that is given, and loaded.
    """
    makes_code, key = key.endswith(CODE), key.removesuffix(CODE)
    wanted = key.partition(" | ")[0]
    with loaders(wanted), check(f"opening {wanted} failed", NoDeviceError):
        device = dpctl.SyclDevice(wanted)
    if native_key(device) != key:
        raise NoDeviceError(
            f"the process that tries modules finds {native_key(device)!r} instead of {key!r}. Set "
            "variables of the SYCL run time before the first use of the device, and do not change "
            "them afterwards."
        )
    queue = dpctl.SyclQueue(device)

    def build(spirv: bytes, entry: str, options: str) -> bytes:
        with check(f"building {entry} failed", LoadError):
            build_kernel(queue, spirv, entry, options)
        return proof_of(spirv, options)

    route = find_route(queue) if makes_code else None

    def build_code(binary: bytes, entry: str, options: str) -> bytes:
        if route is None:
            raise LoadError(f"there is no way to machine code on {wanted}.")
        code = binary if is_zebin(binary) else route.compile(binary, options)
        with check(f"loading machine code of {entry} failed", LoadError):
            route.load(code, entry, options)
        return code

    return build_code if makes_code else build


if __name__ == "__main__":
    serve(open_device)
