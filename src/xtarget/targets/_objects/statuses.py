"""Meanings of statuses, common to all vendors: the class of the error, and what to do next.

Each vendor's table maps its own status names to these.
"""

from __future__ import annotations

from typing import Final

from ..._values.errors import (
    LaunchError,
    LoadError,
    NoDeviceError,
    OutOfMemoryError,
    OutOfResourcesError,
    XTargetError,
)
from ..._values.value_classes import value_class

__all__ = [
    "CAPTURED",
    "DAMAGED",
    "NO_DEVICE",
    "OUT_OF_MEMORY",
    "TOO_LARGE",
    "WRONG_ARCH",
    "Meaning",
]


@value_class(frozen=True, slots=True)
class Meaning:
    """A class of error, and a sentence that says what to do."""

    kind: type[XTargetError]
    advice: str = ""

    def error(self, what: str, said: str) -> XTargetError:
        """Args:
        what: what failed and on what, as the start of a sentence.
        said: the vendor's own status name and text.
        """
        return self.kind(f"{what}: {said.rstrip('. ')}. {self.advice}".rstrip())


OUT_OF_MEMORY: Final = Meaning(
    OutOfMemoryError, "Free arrays that are no longer needed, or use smaller ones."
)
NO_DEVICE: Final = Meaning(NoDeviceError, "`xtarget devices` says what there is.")
DAMAGED: Final = Meaning(LoadError, "Compile the kernel again.")
WRONG_ARCH: Final = Meaning(
    LoadError, "Compile the kernel for the device's own target (`xtarget devices` shows it)."
)
TOO_LARGE: Final = Meaning(OutOfResourcesError, "Use a smaller num_warps or smaller BLOCK sizes.")
CAPTURED: Final = Meaning(
    LaunchError, "This cannot be done while a stream is captured into a graph. Do it before."
)
