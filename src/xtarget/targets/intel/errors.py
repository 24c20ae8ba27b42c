"""The one reader of dpctl's exceptions. dpctl gives no status code, only a class and a text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dpctl
import dpctl.memory
import dpctl.program

from ..._errors import DriverError, LaunchError, LoadError, OutOfMemoryError, XTargetError

__all__ = ["ERRORS", "check", "failure"]

_MEANING: dict[type[Exception], tuple[type[XTargetError], str]] = {
    dpctl.memory.USMAllocationError: (OutOfMemoryError, "Free memory, or use smaller arrays."),
    dpctl.program.SyclProgramCompilationError: (
        LoadError,
        "Set SYCL_UR_TRACE=1 and try again to see the driver's own text.",
    ),
    dpctl.SyclKernelSubmitError: (
        LaunchError,
        "Set SYCL_UR_TRACE=1 and try again to see the driver's own status.",
    ),
    dpctl.SyclKernelInvalidRangeError: (LaunchError, "Use a smaller grid or num_warps."),
}


def failure(error: Exception, what: str, default: type[XTargetError] = DriverError) -> XTargetError:
    """Our error for one of dpctl's; `what` failed and on what, as the start of a sentence."""
    kind, advice = _MEANING.get(type(error), (default, ""))
    text = f"{what}: {type(error).__name__}: {str(error).strip() or 'no text'}"
    return kind(f"{text.rstrip('.')}. {advice}".rstrip())


#: What dpctl raises when the run time refuses something.
ERRORS: tuple[type[Exception], ...] = (
    *_MEANING,
    dpctl.SyclDeviceCreationError,
    dpctl.SyclContextCreationError,
    dpctl.SyclQueueCreationError,
    RuntimeError,
    ValueError,
    TypeError,
)


@contextmanager
def check(what: str, default: type[XTargetError] = DriverError) -> Iterator[None]:
    """Around dpctl's calls off the launch path."""
    try:
        yield
    except ERRORS as error:
        raise failure(error, what, default) from error
