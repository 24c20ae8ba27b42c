"""Compare the capabilities that a module needs with those that the target's options name.

Source: SPIR-V Specification 1.6, section 3.31 (capabilities).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..._values.errors import CompileError
from .frontend.structure import place_of_first

__all__ = ["check_capabilities"]

_HEADER_WORDS = 5
_OP_CAPABILITY = 17 | 2 << 16
#: Capability: the option that says whether the device has it, what needs it, and how the name of
#: such an operation of Triton's IR begins, and which types it has.
_OPTIONAL = {
    10: ("fp64", "64-bit floats", "", ("f64",)),
    9: ("fp16", "16-bit floats", "", ("f16",)),
    12: ("int64_atomics", "64-bit atomic operations", "tt.atomic_", ("i64", "f64")),
}


def check_capabilities(binary: bytes, options: Mapping[str, bool], ttir: Callable[[], Any]) -> None:
    """Refuse a module that uses capabilities which the options exclude.

    Args:
        binary: SPIR-V.
        options: by name.
        ttir: gives the kernel's module of Triton, with locations.

    Raises:
        CompileError: it wants it; the message has the line.
    """
    words = memoryview(binary).cast("I")
    at = _HEADER_WORDS
    while at < len(words) and words[at] == _OP_CAPABILITY:
        option, what, prefix, types = _OPTIONAL.get(words[at + 1], ("", "", "", ()))
        if option and not options[option]:
            place = place_of_first(ttir(), prefix, types)
            raise CompileError(
                f"the kernel uses {what}{place}, and the option "
                f"{option}=False says that the device has none. Use narrower types, or compile "
                f"for a device that has them with {option}=True."
            )
        at += 2
