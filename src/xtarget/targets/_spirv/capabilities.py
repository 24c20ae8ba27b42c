"""What a device must have for a module, compared with what the target's options say it has.

Source: SPIR-V Specification 1.6, section 3.31 (capabilities).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..._errors import CompileError
from .places import place_of_operation

__all__ = ["check_capabilities"]

_HEADER_WORDS = 5
_OP_CAPABILITY = 17 | 2 << 16
#: Capability: the option that says whether the device has it, what needs it, and how that looks in
#: Triton's IR.
_OPTIONAL = {
    10: ("fp64", "64-bit floats", re.compile(r"(?:\b|x)f64\b")),
    9: ("fp16", "16-bit floats", re.compile(r"(?:\b|x)f16\b")),
    12: ("int64_atomics", "64-bit atomic operations", re.compile(r"tt\.atomic_\w+ .*[<x][if]64\b")),
}


def check_capabilities(binary: bytes, options: Mapping[str, bool], ttir: Callable[[], str]) -> None:
    """Refuse a module that wants what the options exclude.

    Args:
        binary: SPIR-V.
        options: by name.
        ttir: gives Triton's IR of the kernel, with locations.

    Raises:
        CompileError: it wants it; the message has the line.
    """
    words = memoryview(binary).cast("I")
    at = _HEADER_WORDS
    while at < len(words) and words[at] == _OP_CAPABILITY:
        option, what, pattern = _OPTIONAL.get(words[at + 1], ("", "", None))
        if option and not options[option]:
            assert pattern is not None
            raise CompileError(
                f"the kernel uses {what}{place_of_operation(pattern, ttir())}, and the option "
                f"{option}=False says that the device has none. Use narrower types, or compile "
                f"for a device that has them with {option}=True."
            )
        at += 2
