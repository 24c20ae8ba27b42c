"""Division of integers as NumPy has it: by zero gives 0, and the one overflow wraps.

Hardware traps there on some targets, and LLVM calls it undefined.
"""

import triton
import triton.language as tl


@triton.jit
def quotient(x, y):
    """x / y towards zero."""
    if x.dtype.scalar.is_int_unsigned():
        return tl.where(y == 0, tl.zeros_like(x), x // tl.where(y == 0, y + 1, y))
    else:
        plain = (y != 0) & (y != -1)
        q = x // tl.where(plain, y, tl.full(y.shape, 1, y.dtype))
        return tl.where(plain, q, tl.where(y == 0, tl.zeros_like(x), 0 - x))


@triton.jit
def rest(x, y):
    """The remainder of x / y towards zero: of x's sign, 0 for y = 0."""
    return tl.where(y == 0, tl.zeros_like(x), x - quotient(x, y) * y)


@triton.jit
def floor_quotient(x, y):
    q = quotient(x, y)
    if x.dtype.scalar.is_int_signed():
        left = rest(x, y)
        q -= ((left != 0) & ((left < 0) != (y < 0))).to(x.dtype)
    return q


@triton.jit
def floor_rest(x, y):
    """Of y's sign."""
    left = rest(x, y)
    if x.dtype.scalar.is_int_signed():
        left += tl.where((left != 0) & ((left < 0) != (y < 0)), y, tl.zeros_like(y))
    return left


@triton.jit
def power(x, y):
    """x ** y by squaring; for y < 0 what is left of 1 / x ** -y: 0 but for 1 and -1."""
    x, y = tl.broadcast(x, y)
    result = tl.full(x.shape, 1, x.dtype)
    base, left = x, y
    for _ in range(y.dtype.primitive_bitwidth):
        result = tl.where((left & 1) != 0, result * base, result)
        base *= base
        left = left >> 1
    if x.dtype.scalar.is_int_signed():
        unit = tl.where((x == -1) & ((y & 1) != 0), -1, 1).to(x.dtype)
        tiny = tl.where((x == 1) | (x == -1), unit, tl.zeros_like(x))
        result = tl.where(y < 0, tiny, result)
    return result


@triton.jit
def _any(condition):
    if len(condition.shape) == 0:
        return condition
    else:
        return tl.max(condition.to(tl.int32), axis=0) != 0


@triton.jit
def common_divisor(x, y):
    """The greatest common divisor, by Euclid; of unsigned numbers."""
    x, y = tl.broadcast(x, y)
    while _any(y != 0):
        safe = tl.where(y == 0, tl.full(y.shape, 1, y.dtype), y)
        left = tl.where(y == 0, tl.zeros_like(x), x % safe)
        x = tl.where(y == 0, x, y)
        y = left
    return x


@triton.jit
def unsigned(x):
    """|x| as an unsigned number of the same width."""
    if x.dtype.scalar.is_int_unsigned():
        return x
    else:
        size = tl.where(x < 0, 0 - x, x)
        if x.dtype.primitive_bitwidth == 8:
            return size.to(tl.uint8, bitcast=True)
        elif x.dtype.primitive_bitwidth == 16:
            return size.to(tl.uint16, bitcast=True)
        elif x.dtype.primitive_bitwidth == 32:
            return size.to(tl.uint32, bitcast=True)
        else:
            return size.to(tl.uint64, bitcast=True)
