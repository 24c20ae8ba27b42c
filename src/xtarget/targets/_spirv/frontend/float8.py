"""fp8e4b15 in software. Triton asks the back end for it; the other 8-bit floats it lowers itself.

The format has 4 bits of exponent with fp16's bias and 3 of mantissa, no infinity and no NaN, and
ends at 1.75; so its bits are those of an fp16 of small exponent, moved. Imports Triton.
"""

from __future__ import annotations

from typing import Any

from triton.language import core

__all__ = ["convert_fp8e4b15"]

#: fp16's bits of 1.75.
_LARGEST = 0x3F00


@core.builtin  # type: ignore[untyped-decorator]  # Triton has no types
def convert_fp8e4b15(
    value: Any, to: Any, fp_downcast_rounding: Any = None, _semantic: Any = None
) -> Any:
    """Convert to or from fp8e4b15 as NVIDIA's back end does: through fp16, to nearest, ties away
    from zero. Values above 1.75 become 1.75."""
    s = _semantic
    if value.type.scalar.is_fp8e4b15():
        bits = value.to(core.uint8, bitcast=True, _semantic=s).to(core.uint16, _semantic=s)
        size = bits.__and__(0x7F, _semantic=s).__lshift__(7, _semantic=s)
        sign = bits.__and__(0x80, _semantic=s).__lshift__(8, _semantic=s)
        half = size.__or__(sign, _semantic=s).to(core.float16, bitcast=True, _semantic=s)
        return s.cast(half, to)
    if not value.type.scalar.is_fp16():
        value = s.cast(s.cast(value, core.float32), core.float16, "rtz")
    bits = value.to(core.uint16, bitcast=True, _semantic=s)
    size = core.minimum(bits.__and__(0x7FFF, _semantic=s), _LARGEST, _semantic=s)
    size = size.__add__(0x40, _semantic=s).__rshift__(7, _semantic=s)
    sign = bits.__rshift__(8, _semantic=s).__and__(0x80, _semantic=s)
    byte = size.__or__(sign, _semantic=s).to(core.uint8, _semantic=s)
    return byte.to(core.float8e4b15, bitcast=True, _semantic=s)
