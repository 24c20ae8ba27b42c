"""The one reader of dpctl's exceptions. dpctl gives no status code, only a class and a text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dpctl
import dpctl.memory
import dpctl.program

from ..._values.errors import DriverError, LaunchError, LoadError, XTargetError
from .._objects.statuses import OUT_OF_MEMORY, Meaning

__all__ = ["ERRORS", "check", "failure"]

_MEANINGS: dict[type[Exception], Meaning] = {
    dpctl.memory.USMAllocationError: OUT_OF_MEMORY,
    dpctl.program.SyclProgramCompilationError: Meaning(
        LoadError, "Set SYCL_UR_TRACE=1 and try again to see the driver's own text."
    ),
    dpctl.SyclKernelSubmitError: Meaning(
        LaunchError, "Set SYCL_UR_TRACE=1 and try again to see the driver's own status."
    ),
    dpctl.SyclKernelInvalidRangeError: Meaning(LaunchError, "Use a smaller grid or num_warps."),
}


def failure(error: Exception, what: str, default: type[XTargetError] = DriverError) -> XTargetError:
    """Our error for one of dpctl's; `what` failed and on what, as the start of a sentence."""
    meaning = _MEANINGS.get(type(error), Meaning(default))
    return meaning.error(what, f"{type(error).__name__}: {str(error).strip() or 'no text'}")


#: What dpctl raises when the run time refuses something.
ERRORS: tuple[type[Exception], ...] = (
    *_MEANINGS,
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
    except XTargetError:  # an ArgumentError is a ValueError too
        raise
    except ERRORS as error:
        raise failure(error, what, default) from error
