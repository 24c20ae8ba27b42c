"""hip-python, one face for its versions 6.4 to 10, and the reasons why it may not work here."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from ..._values.errors import NoDeviceError
from .._objects.unavailable import broken_binding, missing_binding
from . import library
from .status import call, check

__all__ = ["absent", "device_count", "load", "pointer_attributes", "properties", "text", "version"]

_BINDING = "hip-python"
#: HIP's own numbering: major * 10**7 + minor * 10**5 + patch. ROCm 6.0 brought the device
#: properties (hipGetDevicePropertiesR0600) that every supported hip-python asks for.
_OLDEST = 60_000_000
_FOLDERS = ("/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")
#: The kernel driver's node on Linux; in Windows' subsystem for Linux.
_NODES = ("kfd", "dxg")
_AMD_PCI_VENDOR = "0x1002"
_FILTERS = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def load() -> Any:
    """The module `hip.hip`; nothing of ROCm is opened yet.

    Raises:
        NoDeviceError: hip-python is not installed, or is broken.
    """
    reason = missing_binding("hip", _BINDING, "amd")
    if reason is not None:
        raise NoDeviceError(reason)
    try:
        from hip import hip
    except ImportError as error:
        raise NoDeviceError(broken_binding(error, _BINDING, "amd")) from error
    return hip


def absent(dev: Path = Path("/dev")) -> str | None:
    """The reason why there can be no device, found without loading anything; None if unknown."""
    reason = missing_binding("hip", _BINDING, "amd")
    if reason is not None:
        return reason
    if importlib.util.find_spec("rocm_sdk") is not None or library.find() is not None:
        return None
    reason = _why_no_library("no file of that name")
    if not any(os.path.exists(dev / node) for node in _NODES):
        reason += f" {_why_no_device(dev)}"
    return reason


def _named_roots() -> list[str]:
    return [os.environ[name] for name in ("ROCM_PATH", "ROCM_HOME") if os.environ.get(name)]


def device_count(hip: Any, dev: Path = Path("/dev")) -> int:
    """Return the number of devices that HIP offers, at least one.

    Args:
        dev: the folder of device nodes.

    Raises:
        NoDeviceError: no device; the message gives the reason: no library, too old, no
            permission, no GPU.
        XTargetError: HIP failed in another way.
    """
    library.settle(hip)
    try:
        error, found = hip.hipRuntimeGetVersion()
        if not error and found < _OLDEST:
            raise NoDeviceError(
                f"The HIP run time is version {_dotted(found)}; xtarget needs 6.0 or newer. "
                "Install a newer ROCm."
            )
        error, count = hip.hipGetDeviceCount()
    except RuntimeError as failure:
        raise NoDeviceError(_why_no_library(str(failure))) from failure
    if error.name in ("hipErrorNoDevice", "hipErrorInvalidDevice") or (not error and count == 0):
        said = f"{error.name} ({int(error)})" if error else "a count of 0"
        raise NoDeviceError(f"HIP sees no device: {said}. {_why_no_device(dev)}")
    return int(check((error, count), hip, "counting HIP devices (hipGetDeviceCount)"))


def properties(hip: Any, ordinal: int) -> Any:
    """hipDeviceProp_t of a device."""
    doing = f"reading the properties of amd:{ordinal}"
    return _struct(hip, "hipGetDeviceProperties", "hipDeviceProp_t", ordinal, doing)


def pointer_attributes(hip: Any, address: int, doing: str) -> Any:
    """hipPointerAttribute_t of an address."""
    return _struct(hip, "hipPointerGetAttributes", "hipPointerAttribute_t", address, doing)


def _struct(hip: Any, name: str, kind: str, given: int, doing: str) -> Any:
    """The struct that a call of HIP fills."""
    try:
        return call(hip, name, given, doing=doing)
    except TypeError:  # hip-python 6 and 7: the caller brings the struct
        result = getattr(hip, kind)()
        call(hip, name, result, given, doing=doing)
        return result


def version(hip: Any) -> str:
    """HIP's version, as `7.2.53211`."""
    return _dotted(call(hip, "hipRuntimeGetVersion", doing="reading HIP's version"))


def text(value: str | bytes) -> str:
    """A string of a struct: `bytes` in hip-python 6 and 7."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _dotted(number: int) -> str:
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def _why_no_library(failure: str) -> str:
    if "dlsym" in failure:
        return (
            f"The HIP library is too old or too new for the installed hip-python ({failure}). "
            "xtarget needs ROCm 6.0 or newer, and the hip-python of the same ROCm version."
        )
    roots = _named_roots()
    paths = [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    folders = [*(f"{root}/lib" for root in roots), *paths, *_FOLDERS]
    named = (file for f in folders for file in sorted(Path(f).glob(f"{library.NAME}.*")))
    old = [str(file) for file in (*library.candidates(), *named) if library.too_old(file)]
    advice = "Install ROCm, or point LD_LIBRARY_PATH to the folder that has the library."
    if old:
        advice = f"There is {old[0]}, which is too old: xtarget needs ROCm 6.0 or newer. {advice}"
    return (
        f"The HIP library {library.NAME} was not found ({failure}). It was looked for in "
        f"{', '.join(dict.fromkeys(folders))} and in the system's library paths. {advice}"
    )


def _is_amd(node: Path) -> bool:
    """Return whether a render node belongs to an AMD GPU; True if the system does not tell."""
    try:
        vendor = Path(f"/sys/class/drm/{node.name}/device/vendor").read_text()
    except OSError:
        return True
    return vendor.strip() == _AMD_PCI_VENDOR


def _why_no_device(dev: Path) -> str:
    driver = dev / "kfd"
    if not os.path.exists(driver):  # Path.exists raises where a folder may not be read
        return (
            f"There is no {driver}: the machine has no AMD GPU, or the kernel driver amdgpu is "
            f"not loaded, or a container was started without --device={driver} "
            f"--device={dev / 'dri'}."
        )
    nodes = [driver, *(n for n in sorted((dev / "dri").glob("renderD*")) if _is_amd(n))]
    denied = [str(n) for n in nodes if not os.access(n, os.R_OK | os.W_OK)]
    if denied:
        return (
            f"This user has no permission to open {' and '.join(denied)}. Add the user to the "
            "groups that own them (sudo usermod -aG render,video $USER) and log in again."
        )
    hidden = [f"{name}={os.environ[name]}" for name in _FILTERS if name in os.environ]
    if hidden:
        return f"The environment hides devices ({', '.join(hidden)}): unset that, or correct it."
    return (
        f"{driver} is there and may be opened, so the GPU is none that this ROCm supports. "
        "rocminfo says what the driver sees."
    )
