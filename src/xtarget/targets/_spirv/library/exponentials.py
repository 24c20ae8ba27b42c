"""Powers of two in float32, written out for CPUs.

A CPU's run time calls a function for the vectors of a kernel's `exp2`. Around a call all registers
go through memory; written out, it is a polynomial among a kernel's other instructions.
"""

from __future__ import annotations

import struct

from .helpers import function

__all__ = ["CPU_EXP2", "EXP2", "define"]

#: What Triton's IR for AMD calls, and the function in its place.
EXP2 = ("llvm.exp2.f32", "llvm.amdgcn.exp2.f32")
CPU_EXP2 = "xt.cpu.exp2.f32"

#: (2**f - 1) / f for |f| <= 1/2, within 2^-25.9 of 2**f: by iterated weighted least squares.
_POWERS = (
    0.00015353361959569156,
    0.0013398875016719103,
    0.00961843691766262,
    0.055503323674201965,
    0.24022647738456726,
    0.6931471824645996,
    1.0,
)
#: Beyond these all results are 0 and infinite.
_LOW, _HIGH = -151.0, 129.0
#: 1.5 * 2^23: a sum with it is rounded to an integer, which its last bits are.
_ROUND = 12582912.0


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is not ours: 2**x within 1 ulp, nan for nan, subnormal
    results too. The power of the rounded x comes in two halves, which are all normal numbers.
    """
    if name != CPU_EXP2:
        return None
    steps = [
        f"%p{k} = call float @llvm.fma.f32(float {_before(k)}, float %f, float {_number(c)})"
        for k, c in enumerate(_POWERS[1:], 1)
    ]
    return function(
        name,
        "float",
        "float %x",
        f"""%low = fcmp olt float %x, {_number(_LOW)}
        %above = select i1 %low, float {_number(_LOW)}, float %x
        %high = fcmp ogt float %above, {_number(_HIGH)}
        %y = select i1 %high, float {_number(_HIGH)}, float %above
        %shifted = fadd float %y, {_number(_ROUND)}
        %n = fsub float %shifted, {_number(_ROUND)}
        %f = fsub float %y, %n""",
        *steps,
        f"""%bits = bitcast float %shifted to i32
        %whole = sub i32 %bits, {_bits(_ROUND)}
        %half = ashr i32 %whole, 1
        %rest = sub i32 %whole, %half
        %mantissa = bitcast float %p{len(steps)} to i32
        %up = shl i32 %half, 23
        %scaled = add i32 %mantissa, %up
        %first = bitcast i32 %scaled to float
        %biased = add i32 %rest, 127
        %exponent = shl i32 %biased, 23
        %second = bitcast i32 %exponent to float
        %r = fmul float %first, %second
        ret float %r""",
    )


def _before(k: int) -> str:
    return f"%p{k - 1}" if k > 1 else _number(_POWERS[0])


def _number(value: float) -> str:
    """A float as LLVM's text has it: the bits of the double that it is."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _bits(value: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", value))[0])
