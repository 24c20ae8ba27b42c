"""The one reader of HIP's status codes: from a status to an error of our tree.

hip-python never raises for a status: every call gives `(status, result...)`, and after a failure
the results are uninitialised.
"""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["call", "check"]

_LOST = "The device cannot be used any more in this process: find the fault, then start again."
_REBUILD = "Compile the kernel for the device's own target (xtarget devices shows it)."
#: Status name: its class, and what to do next.
_ANSWERS: dict[str, tuple[type[XTargetError], str]] = {
    "hipErrorOutOfMemory": (
        OutOfMemoryError,
        "Free arrays that are no longer needed, or work on smaller pieces.",
    ),
    "hipErrorNoDevice": (NoDeviceError, "xtarget devices says what there is."),
    "hipErrorInvalidDevice": (NoDeviceError, "xtarget devices says what there is."),
    "hipErrorNoBinaryForGpu": (LoadError, _REBUILD),
    "hipErrorInvalidImage": (LoadError, "Compile the kernel again."),
    "hipErrorInvalidKernelFile": (LoadError, "Compile the kernel again."),
    "hipErrorSharedObjectInitFailed": (LoadError, _REBUILD),
    "hipErrorNotFound": (LoadError, "Compile the kernel again."),
    "hipErrorInvalidDeviceFunction": (LoadError, _REBUILD),
    "hipErrorLaunchOutOfResources": (
        OutOfResourcesError,
        "Launch with fewer warps or smaller tiles.",
    ),
    "hipErrorCooperativeLaunchTooLarge": (OutOfResourcesError, "Launch fewer blocks."),
    "hipErrorLaunchTimeOut": (DeviceLostError, _LOST),
    "hipErrorIllegalAddress": (
        DeviceLostError,
        "A kernel read or wrote memory that is not its own: check shapes, strides and masks. "
        + _LOST,
    ),
    "hipErrorLaunchFailure": (DeviceLostError, "A kernel crashed. " + _LOST),
    "hipErrorAssert": (DeviceLostError, "An assertion in a kernel failed. " + _LOST),
    "hipErrorECCNotCorrectable": (
        DeviceLostError,
        "The device's memory has an error. Reset or replace it.",
    ),
    "hipErrorContextIsDestroyed": (DeviceLostError, _LOST),
    "hipErrorRuntimeMemory": (DeviceLostError, _LOST),
}
_REFUSED_LAUNCHES = (
    "hipErrorInvalidValue",
    "hipErrorInvalidConfiguration",
    "hipErrorLaunchFailure",
)


def check(result: tuple[Any, ...], hip: Any, doing: str, launching: bool = False) -> Any:
    """The result of a call (None, one value, or a tuple), if its status is success.

    Args:
        result: what the binding's function returned.
        hip: the binding.
        doing: what was tried and on what, as the beginning of a sentence ("allocating 16 bytes").
        launching: a refusal of the launch itself (HIP uses the codes of a crashed kernel there).

    Raises:
        XTargetError: of the class that belongs to the status.
    """
    status = result[0]
    if status:
        raise _error(status, hip, doing, launching)
    return result[1] if len(result) == 2 else result[1:] or None


def call(hip: Any, function: str, *args: Any, doing: str) -> Any:
    """Call `hip.<function>(*args)` and check it.

    Raises:
        XTargetError: as `check`; DriverError also where the library lacks the function.
    """
    try:
        result: tuple[Any, ...] = _function(hip, function)(*args)
    except (RuntimeError, ValueError) as error:
        # RuntimeError: a symbol is missing; ValueError: a status that the binding has no name for
        raise DriverError(
            f"{doing} failed in {function}: {error}. The HIP library and hip-python do not fit "
            "together: install the hip-python of the same ROCm version."
        ) from error
    return check(result, hip, f"{doing} ({function})")


def _function(hip: Any, name: str) -> Callable[..., tuple[Any, ...]]:
    function: Callable[..., tuple[Any, ...]] = getattr(hip, name)
    return function


def _error(status: Any, hip: Any, doing: str, launching: bool) -> XTargetError:
    kind, advice = _ANSWERS.get(
        status.name,
        (DriverError, "AMD_LOG_LEVEL=3 in the environment makes HIP say more."),
    )
    if launching and status.name in _REFUSED_LAUNCHES:
        kind, advice = LaunchError, "AMD_LOG_LEVEL=3 in the environment makes HIP say why."
    text = hip.hipGetErrorString(status)[1]
    words = text.decode() if isinstance(text, bytes) else str(text)
    return kind(f"{doing} failed: {status.name} ({int(status)}), {words}. {advice}")
