"""Floating numbers of 8 and 4 bits, by their bits.

Source: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0.
"""

# Triton needs the `else` after a return: without it the other branch is compiled too.

import triton
import triton.language as tl


@triton.jit
def decoded(bits, KIND: tl.constexpr):
    """The number of `bits` (of 8, or of 4 in the lower half of a byte), as it is or as float32."""
    if KIND == "e4m3" or KIND == "e5m2" or KIND == "e2m1":
        BITS: tl.constexpr = 2 if KIND == "e5m2" else 1 if KIND == "e2m1" else 3
        SIGN: tl.constexpr = 3 if KIND == "e2m1" else 7
        BIAS: tl.constexpr = 15 if KIND == "e5m2" else 1 if KIND == "e2m1" else 7
        word = bits.to(tl.int32)
        size = word & ((1 << SIGN) - 1)
        power = size >> BITS
        rest = size & ((1 << BITS) - 1)
        normal = ((power + (127 - BIAS)) << 23) | (rest << (23 - BITS))
        value = normal.to(tl.float32, bitcast=True)
        value = tl.where(power == 0, rest.to(tl.float32) * 2.0 ** (1 - BIAS - BITS), value)
        if KIND == "e4m3":
            value = tl.where(size == 0x7F, float("nan"), value)
        elif KIND == "e5m2":
            value = tl.where(size > 0x7C, float("nan"), value)
            value = tl.where(size == 0x7C, float("inf"), value)
        return tl.where((word >> SIGN) & 1 != 0, -value, value)
    else:
        return bits


@triton.jit
def encoded(value, KIND: tl.constexpr, INFINITE: tl.constexpr = False):
    """The bits of the number next to `value` (float32), of two the even one; for all above the
    largest it, or infinity.
    """
    BITS: tl.constexpr = 2 if KIND == "e5m2" else 1 if KIND == "e2m1" else 3
    SIGN: tl.constexpr = 3 if KIND == "e2m1" else 7
    BIAS: tl.constexpr = 15 if KIND == "e5m2" else 1 if KIND == "e2m1" else 7
    MOST: tl.constexpr = (
        (0x7C if INFINITE else 0x7B) if KIND == "e5m2" else 7 if KIND == "e2m1" else 0x7E
    )
    SHIFT: tl.constexpr = 23 - BITS
    word = value.to(tl.int32, bitcast=True)
    size = word & 0x7FFFFFFF
    half = (1 << (SHIFT - 1)) - 1 + ((size >> SHIFT) & 1)
    normal = ((size + half) >> SHIFT) - ((127 - BIAS) << BITS)
    # at 2^23 and above float32 has whole numbers alone; AMD's library of Triton 3.6 has no rint
    small = tl.abs(value) * 2.0 ** (BIAS + BITS - 1) + 8388608.0
    small = (small - 8388608.0).to(tl.int32)
    code = tl.where(tl.abs(value) < 2.0 ** (1 - BIAS), small, normal)
    code = tl.minimum(code, MOST)
    if KIND != "e2m1":  # which has no nan
        code = tl.where(value != value, 0x7F, code)
    return code | tl.where(word < 0, 1 << SIGN, 0)
