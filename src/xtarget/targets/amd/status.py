"""The one reader of HIP's status codes: from a status to an error of our tree.

hip-python never raises for a status: every call gives `(status, result...)`, and after a failure
the results are uninitialised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._values.errors import DeviceLostError, DriverError, LaunchError, XTargetError
from .._objects import statuses
from .._objects.statuses import Meaning

__all__ = ["call", "check", "clear"]


def _lost(why: str = "") -> Meaning:
    return Meaning(
        DeviceLostError,
        f"{why}The device cannot be used any more in this process: find the fault, then start "
        "again (an emulated device: open it again, as every call by its name does).",
    )


_MEANINGS: dict[str, Meaning] = {
    "hipErrorOutOfMemory": statuses.OUT_OF_MEMORY,
    "hipErrorNoDevice": statuses.NO_DEVICE,
    "hipErrorInvalidDevice": statuses.NO_DEVICE,
    "hipErrorNoBinaryForGpu": statuses.WRONG_ARCH,
    "hipErrorInvalidImage": statuses.DAMAGED,
    "hipErrorInvalidKernelFile": statuses.DAMAGED,
    "hipErrorSharedObjectInitFailed": statuses.WRONG_ARCH,
    "hipErrorNotFound": statuses.DAMAGED,
    "hipErrorInvalidDeviceFunction": statuses.WRONG_ARCH,
    "hipErrorLaunchOutOfResources": statuses.TOO_LARGE,
    "hipErrorCooperativeLaunchTooLarge": Meaning(statuses.TOO_LARGE.kind, "Launch fewer blocks."),
    "hipErrorStreamCaptureUnsupported": statuses.CAPTURED,
    "hipErrorStreamCaptureImplicit": statuses.CAPTURED,
    "hipErrorStreamCaptureInvalidated": statuses.CAPTURED,
    "hipErrorStreamCaptureIsolation": statuses.CAPTURED,
    "hipErrorLaunchTimeOut": _lost(),
    "hipErrorIllegalAddress": _lost(
        "A kernel read or wrote memory that is not its own: check shapes, strides and masks. "
    ),
    "hipErrorLaunchFailure": _lost("A kernel crashed. "),
    "hipErrorAssert": _lost("An assertion in a kernel failed. "),
    "hipErrorECCNotCorrectable": Meaning(
        DeviceLostError, "The device's memory has an error. Reset or replace it."
    ),
    "hipErrorContextIsDestroyed": _lost(),
    "hipErrorRuntimeMemory": _lost(),
}
_OTHER = Meaning(DriverError, "AMD_LOG_LEVEL=3 in the environment makes HIP say more.")
_REFUSED = Meaning(LaunchError, "AMD_LOG_LEVEL=3 in the environment makes HIP say why.")
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


def clear(hip: Any) -> str:
    """Take back what HIP remembers of a failed call, and tell its name. Others ask for that after
    calls of their own (torch does after each launch), and would report it as theirs."""
    try:
        return str(hip.hipGetLastError()[0].name)
    except ValueError:  # a status that the binding has no name for
        return ""


def _error(status: Any, hip: Any, doing: str, launching: bool) -> XTargetError:
    clear(hip)
    meaning = _MEANINGS.get(status.name, _OTHER)
    if launching and status.name in _REFUSED_LAUNCHES:
        meaning = _REFUSED
    text = hip.hipGetErrorString(status)[1]
    words = text.decode() if isinstance(text, bytes) else str(text)
    return meaning.error(f"{doing} failed", f"{status.name} ({int(status)}), {words}")
