"""The one reader of OpenCL status codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyopencl as cl

from ..._errors import (
    DeviceLostError,
    DriverError,
    LaunchError,
    LoadError,
    OutOfMemoryError,
    OutOfResourcesError,
    XTargetError,
)

__all__ = ["check", "failure"]

#: OpenCL status to our class and what to do next. Source: OpenCL 3.0 API, appendix F.
_MEANING: dict[int, tuple[type[XTargetError], str]] = {
    -2: (DeviceLostError, "The device is gone; start the process again."),
    -4: (OutOfMemoryError, "Free memory, or use smaller arrays."),
    -5: (OutOfResourcesError, "Use a smaller num_warps or smaller BLOCK sizes."),
    -6: (OutOfMemoryError, "Free host memory, or use smaller arrays."),
    -11: (LoadError, "Compile the kernel again; if that does not help, report it with the log."),
    -14: (LaunchError, "An earlier command that this one waits for has failed."),
    -42: (LoadError, "Compile the kernel again."),
    -43: (LoadError, "Unset PYOPENCL_BUILD_OPTIONS, which is given to every build."),
    -44: (LoadError, "Compile the kernel again."),
    -45: (LoadError, "Compile the kernel again."),
    -46: (LoadError, "Compile the kernel again."),
    -48: (LaunchError, "Load the module again."),
    -54: (OutOfResourcesError, "Use a smaller num_warps."),
    -55: (OutOfResourcesError, "Use a smaller num_warps."),
    -61: (OutOfMemoryError, "Use smaller arrays."),
}


def failure(
    error: cl.Error, what: str, default: type[XTargetError] = DriverError, log: str = ""
) -> XTargetError:
    """Our error for one of pyopencl's.

    Args:
        error: what pyopencl raised.
        what: what failed and on what, as the start of a sentence.
        default: the class for a status that has no better one.
        log: the compiler's text, added to the message.
    """
    code = getattr(error, "code", None)
    routine = getattr(error, "routine", None) or "OpenCL"
    kind, advice = _MEANING.get(code if isinstance(code, int) else 0, (default, ""))
    if default is OutOfMemoryError:  # Intel answers CL_OUT_OF_RESOURCES when memory is short
        kind, advice = default, "Free memory, or use smaller arrays."
    try:
        name = "CL_" + cl.status_code.to_string(code)
    except (ValueError, TypeError):
        name = str(error)
    text = f"{what}: {routine} gave {name} ({code})."
    if advice:
        text += f" {advice}"
    if log.strip():
        text += f"\nThe run time's log:\n{log.strip()}"
    return kind(text)


@contextmanager
def check(what: str, default: type[XTargetError] = DriverError) -> Iterator[None]:
    """Around OpenCL calls off the launch path: pyopencl's errors become ours."""
    try:
        yield
    except cl.Error as error:
        raise failure(error, what, default) from error
