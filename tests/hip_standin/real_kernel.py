"""A Triton kernel with mixed parameters, for the stand-in's test of real binaries."""

import triton
import triton.language as tl


@triton.jit
def scaled_add(a, b, o, flag, scale, n, block: tl.constexpr):
    index = tl.program_id(0) * block + tl.arange(0, block)
    inside = index < n
    x = tl.load(a + index, mask=inside)
    y = tl.load(b + index, mask=inside).to(tl.float32)
    tl.store(o + index, tl.where(flag, x + y * scale, x), mask=inside)
