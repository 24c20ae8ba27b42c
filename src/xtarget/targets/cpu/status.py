"""The one reader of OpenCL status codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyopencl as cl

from ..._values.errors import (
    DeviceLostError,
    DriverError,
    LaunchError,
    LoadError,
    OutOfMemoryError,
    XTargetError,
)
from .._objects.statuses import DAMAGED, OUT_OF_MEMORY, TOO_LARGE, Meaning

__all__ = ["LOG", "check", "failure"]

#: Between a sentence and what the run time's compiler printed.
LOG = "\nThe run time's log:\n"
#: Source: OpenCL 3.0 API, appendix F.
_MEANINGS: dict[int, Meaning] = {
    -2: Meaning(DeviceLostError, "The device is gone; start the process again."),
    -4: OUT_OF_MEMORY,
    -5: TOO_LARGE,
    -6: OUT_OF_MEMORY,
    -11: Meaning(
        LoadError, "Compile the kernel again; if that does not help, report it with the log."
    ),
    -14: Meaning(LaunchError, "An earlier command that this one waits for has failed."),
    -42: DAMAGED,
    -43: Meaning(LoadError, "Unset PYOPENCL_BUILD_OPTIONS, which is given to every build."),
    -44: DAMAGED,
    -45: DAMAGED,
    -46: DAMAGED,
    -48: Meaning(LaunchError, "Load the module again."),
    -54: TOO_LARGE,
    -55: TOO_LARGE,
    -61: OUT_OF_MEMORY,
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
    meaning = _MEANINGS.get(code if isinstance(code, int) else 0, Meaning(default))
    if default is OutOfMemoryError:  # Intel answers CL_OUT_OF_RESOURCES when memory is short
        meaning = OUT_OF_MEMORY
    try:
        name = "CL_" + cl.status_code.to_string(code)
    except (ValueError, TypeError):
        name = str(error)
    made = meaning.error(what, f"{routine} gave {name} ({code})")
    if log.strip():
        return meaning.kind(f"{made}{LOG}{log.strip()}")
    return made


@contextmanager
def check(what: str, default: type[XTargetError] = DriverError) -> Iterator[None]:
    """Around OpenCL calls off the launch path: pyopencl's errors become ours."""
    try:
        yield
    except cl.Error as error:
        raise failure(error, what, default) from error
