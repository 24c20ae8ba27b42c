"""CUDA's status codes as our errors: the only place that reads them.

Source: CUDA Driver API, section "Data types used by CUDA driver", CUresult.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..._values.errors import DeviceLostError, DriverError, LaunchError, LoadError, XTargetError
from .._objects import statuses
from .._objects.statuses import Meaning

__all__ = ["check", "checked", "text_of"]

_LOST_TEXT = (
    "The CUDA context is lost: a kernel failed in a way that ends it (an access outside its "
    "arrays, most often). Restart the process; compute-sanitizer finds the access."
)
_LOST = Meaning(DeviceLostError, _LOST_TEXT)
_MEANINGS: dict[str, Meaning] = {
    "OUT_OF_MEMORY": statuses.OUT_OF_MEMORY,
    "NO_DEVICE": statuses.NO_DEVICE,
    "INVALID_DEVICE": statuses.NO_DEVICE,
    "DEVICE_UNAVAILABLE": Meaning(
        statuses.NO_DEVICE.kind, "Another process holds the device exclusively."
    ),
    "INVALID_IMAGE": statuses.DAMAGED,
    "INVALID_SOURCE": statuses.DAMAGED,
    "NO_BINARY_FOR_GPU": statuses.WRONG_ARCH,
    "INVALID_PTX": statuses.DAMAGED,
    "UNSUPPORTED_PTX_VERSION": Meaning(LoadError, "Update the NVIDIA driver."),
    "NOT_FOUND": Meaning(LoadError, "The binary has no such symbol."),
    "LAUNCH_OUT_OF_RESOURCES": statuses.TOO_LARGE,
    "COOPERATIVE_LAUNCH_TOO_LARGE": Meaning(statuses.TOO_LARGE.kind, "Launch fewer blocks."),
    "INVALID_CLUSTER_SIZE": Meaning(statuses.TOO_LARGE.kind, "Use a smaller num_ctas."),
    "INVALID_VALUE": Meaning(LaunchError, "A size, pointer or stream is not valid on this device."),
    "INVALID_HANDLE": Meaning(LaunchError, "The stream or event is closed or of another device."),
    "INVALID_CONTEXT": Meaning(LaunchError, "The stream or array belongs to another context."),
    "STREAM_CAPTURE_UNSUPPORTED": statuses.CAPTURED,
    "STREAM_CAPTURE_IMPLICIT": statuses.CAPTURED,
    "STREAM_CAPTURE_INVALIDATED": statuses.CAPTURED,
    "STREAM_CAPTURE_ISOLATION": statuses.CAPTURED,
    "CONTEXT_IS_DESTROYED": _LOST,
    "ILLEGAL_ADDRESS": _LOST,
    "MISALIGNED_ADDRESS": _LOST,
    "ILLEGAL_INSTRUCTION": _LOST,
    "INVALID_ADDRESS_SPACE": _LOST,
    "INVALID_PC": _LOST,
    "HARDWARE_STACK_ERROR": _LOST,
    "LAUNCH_FAILED": _LOST,
    "LAUNCH_TIMEOUT": _LOST,
    "CONTAINED": _LOST,
    "ASSERT": Meaning(DeviceLostError, f"A device_assert of the kernel failed; {_LOST_TEXT}"),
    "ECC_UNCORRECTABLE": Meaning(
        DeviceLostError, "The device's memory is faulty; use another device."
    ),
}
_OTHER = Meaning(DriverError, "See the CUDA driver API's list of CUresult.")
_NAME = re.compile(r"CUDA_ERROR_(\w+)")


def text_of(status: Any) -> tuple[str, str]:
    """Name and description of a CUresult, in the driver's own words."""
    from cuda.bindings import driver

    _, name = driver.cuGetErrorName(status)
    _, text = driver.cuGetErrorString(status)
    return (name or b"CUDA_ERROR_UNKNOWN").decode(), (text or b"").decode()


def _error(name: str, text: str, what: str) -> XTargetError:
    meaning = _MEANINGS.get(name.removeprefix("CUDA_ERROR_"), _OTHER)
    return meaning.error(f"{what} failed", f"{name} ({text})" if text else name)


def check(answer: tuple[Any, ...], what: str) -> Any:
    """The value behind the status of a `cuda.bindings` call (None, one value, or a tuple).

    Args:
        answer: of the call.
        what: what was tried and on what, as the start of a sentence ("allocating 16 bytes").

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
    except Exception as error:  # cuda.core raises classes of its own and Python's
        found = _NAME.search(str(error))
        if found is None:
            raise _OTHER.error(f"{what} failed", f"{type(error).__name__}: {error}") from error
        text = str(error).partition(found[0])[2].strip(": ")
        if found[1] in _MEANINGS:  # what follows its first sentence is said in our own words
            text = text.partition(". ")[0].rstrip(".")
        raise _error(found[0], text, what) from error
