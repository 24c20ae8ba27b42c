"""Casts of floats of 8 bits, which are there as their bits."""

import triton

from ..eight_bits import decoded, encoded


@triton.jit
def from_e4m3fn(bits):
    return decoded(bits, "e4m3")


@triton.jit
def from_e5m2(bits):
    return decoded(bits, "e5m2")


@triton.jit
def to_e4m3fn(x):
    return encoded(x, "e4m3")


@triton.jit
def to_e5m2(x):
    return encoded(x, "e5m2", True)


@triton.jit
def e4m3fn_to_e5m2(bits):
    return to_e5m2(from_e4m3fn(bits))


@triton.jit
def e5m2_to_e4m3fn(bits):
    return to_e4m3fn(from_e5m2(bits))
