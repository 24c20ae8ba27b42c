"""Choose the device that Triton calls the current one."""

from __future__ import annotations

import sys

from .._devices import registry
from .._system.processor import register_bytes
from .._values import environment
from .._values.errors import NoDeviceError
from ..targets._spirv.frontend.cpu_options import CPU_OPTIONS, DOT_ELEMENTS
from ..targets.base import Device

__all__ = ["cpu_options", "default_options", "has_torch_xpu", "home", "host_device"]

_CPU, _INTEL = "cpu:0", "intel:0"
#: Of registers, for each element of a dot's sum that a thread holds: the elements of 16 threads, of
#: 4 bytes each, take half of the registers.
_BYTES_OF_A_DOT = 2 * 16 * 4


def _chosen(vendor: str, otherwise: str) -> str:
    """`XTARGET_DEVICE`, where it names a device of this vendor."""
    wanted = environment.default_device() or ""
    return wanted if wanted.startswith(f"{vendor}:") else otherwise


def host_device() -> Device:
    """The device for arguments in host memory.

    Raises:
        NoDeviceError: no OpenCL CPU run time is here; the message says how to get one.
    """
    return registry.open_device(_chosen("cpu", _CPU))


def has_torch_xpu() -> bool:
    """Is there an Intel GPU for torch? Does not import torch."""
    torch = sys.modules.get("torch")
    xpu = getattr(torch, "xpu", None)
    return xpu is not None and bool(xpu.is_available())


def default_options() -> dict[str, int | bool]:
    """Options of `targets._spirv`. Code is the same for all devices, and an Intel GPU has less
    shared memory for large dots than a CPU, smaller blocks, and other ways to memory: with one, it
    is compiled for both.
    """
    return {} if has_torch_xpu() else cpu_options()


def cpu_options() -> dict[str, int | bool]:
    """Options of `targets._spirv` for this machine's processor. Kernels that come this way are
    compiled where they run, so sums of dots fill its registers and not more."""
    held = register_bytes() // _BYTES_OF_A_DOT or DOT_ELEMENTS
    return {**CPU_OPTIONS, "dot_elements": min(held, DOT_ELEMENTS)}


def home() -> Device:
    """The device whose limits Triton is told, before it is known where a kernel's arrays lie.

    Raises:
        NoDeviceError: there is neither an Intel GPU nor an OpenCL CPU run time.
    """
    first = _chosen("intel", _INTEL) if has_torch_xpu() else _chosen("cpu", _CPU)
    reasons = []
    for name in dict.fromkeys((first, _CPU, _INTEL)):
        try:
            return registry.open_device(name)
        except NoDeviceError as error:
            reasons.append(error)
    raise reasons[0]
