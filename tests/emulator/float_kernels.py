"""Kernels of floating operations, for the emulator's tests."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def divide(x, y, o, block: tl.constexpr, exactly: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    a, b = tl.load(x + i), tl.load(y + i)
    if exactly:
        tl.store(o + i, tl.div_rn(a, b))
    else:
        tl.store(o + i, (a / b).to(o.dtype.element_ty))


@triton.jit
def functions(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    v = tl.load(x + i)
    tl.store(o + i, libdevice.exp(v))
    tl.store(o + n + i, libdevice.exp2(v))
    tl.store(o + 2 * n + i, libdevice.log(v))
    tl.store(o + 3 * n + i, libdevice.log2(v))
    tl.store(o + 4 * n + i, libdevice.sqrt(v))
    tl.store(o + 5 * n + i, libdevice.rsqrt(v))
    tl.store(o + 6 * n + i, tl.floor(v))
    tl.store(o + 7 * n + i, tl.ceil(v))
    tl.store(o + 8 * n + i, libdevice.rint(v))
    tl.store(o + 9 * n + i, libdevice.trunc(v))
