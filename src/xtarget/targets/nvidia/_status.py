"""CUDA's status codes as our errors: the only place that reads them.

Source: CUDA Driver API, section "Data types used by CUDA driver", CUresult.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..._errors import (
    DeviceLostError,
    DriverError,
    LaunchError,
    LoadError,
    NoDeviceError,
    OutOfMemoryError,
    OutOfResourcesError,
    XTargetError,
)

__all__ = ["check", "checked", "text_of"]

_LOST = (
    "The CUDA context is lost: a kernel failed in a way that ends it (an access outside its "
    "arrays, most often). Restart the process; compute-sanitizer finds the access."
)
_CLASSES: dict[str, tuple[type[XTargetError], str]] = {
    "OUT_OF_MEMORY": (OutOfMemoryError, "Free arrays on the device or use smaller ones."),
    "NO_DEVICE": (NoDeviceError, "`xtarget devices` says what there is."),
    "INVALID_DEVICE": (NoDeviceError, "`xtarget devices` says what there is."),
    "DEVICE_UNAVAILABLE": (NoDeviceError, "Another process holds the device exclusively."),
    "INVALID_IMAGE": (LoadError, "Compile the kernel again."),
    "INVALID_SOURCE": (LoadError, "Compile the kernel again."),
    "NO_BINARY_FOR_GPU": (LoadError, "Compile the kernel for this device's arch."),
    "INVALID_PTX": (LoadError, "Compile the kernel again."),
    "UNSUPPORTED_PTX_VERSION": (LoadError, "Update the NVIDIA driver."),
    "NOT_FOUND": (LoadError, "The binary has no such symbol."),
    "LAUNCH_OUT_OF_RESOURCES": (OutOfResourcesError, "Use a smaller num_warps or BLOCK."),
    "INVALID_VALUE": (LaunchError, "A size, pointer or stream is not valid on this device."),
    "INVALID_HANDLE": (LaunchError, "The stream or event is closed or of another device."),
    "INVALID_CONTEXT": (LaunchError, "The stream or array belongs to another context."),
    "CONTEXT_IS_DESTROYED": (DeviceLostError, _LOST),
    "ILLEGAL_ADDRESS": (DeviceLostError, _LOST),
    "MISALIGNED_ADDRESS": (DeviceLostError, _LOST),
    "ILLEGAL_INSTRUCTION": (DeviceLostError, _LOST),
    "INVALID_ADDRESS_SPACE": (DeviceLostError, _LOST),
    "INVALID_PC": (DeviceLostError, _LOST),
    "HARDWARE_STACK_ERROR": (DeviceLostError, _LOST),
    "LAUNCH_FAILED": (DeviceLostError, _LOST),
    "LAUNCH_TIMEOUT": (DeviceLostError, _LOST),
    "ASSERT": (DeviceLostError, "A device_assert of the kernel failed; " + _LOST),
    "ECC_UNCORRECTABLE": (DeviceLostError, "The device's memory is faulty; use another device."),
}
_NAME = re.compile(r"CUDA_ERROR_(\w+)")


def text_of(status: Any) -> tuple[str, str]:
    """Name and description of a CUresult, in the driver's own words."""
    from cuda.bindings import driver

    _, name = driver.cuGetErrorName(status)
    _, text = driver.cuGetErrorString(status)
    return (name or b"CUDA_ERROR_UNKNOWN").decode(), (text or b"").decode()


def _error(name: str, text: str, what: str) -> XTargetError:
    found = _NAME.search(name)
    cls, advice = _CLASSES.get(
        found[1] if found else "", (DriverError, "See the CUDA driver API's list of CUresult.")
    )
    return cls(f"{what}: {name}{f' ({text})' if text else ''}. {advice}")


def check(answer: tuple[Any, ...], what: str) -> Any:
    """The value behind the status of a `cuda.bindings` call (None, one value, or a tuple).

    Raises:
        XTargetError: of the class that fits the status.
    """
    status = answer[0]
    if int(status):
        raise _error(*text_of(status), what)
    return answer[1] if len(answer) == 2 else answer[1:] or None


@contextmanager
def checked(what: str) -> Iterator[None]:
    """The same for calls of `cuda.core`, which raise: their exception names the status."""
    try:
        yield
    except XTargetError:
        raise
    except Exception as error:
        found = _NAME.search(str(error))
        if found is None:
            raise DriverError(f"{what}: {type(error).__name__}: {error}") from error
        raise _error(found[0], str(error).partition(found[0])[2].strip(": "), what) from error
