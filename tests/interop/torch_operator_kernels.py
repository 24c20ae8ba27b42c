"""A user's kernel that is registered with torch: alpha * x + y."""

from __future__ import annotations

import triton
import triton.language as tl

import xtarget


@xtarget.kernel(
    inputs=("x", "y"),
    outputs={"out": "x"},
    sizes={"n": lambda c: c.x.size},
    constants={"BLOCK": 1024},
    grid=lambda c: (xtarget.spec.cdiv(c.n, c.BLOCK),),
    complete=True,
)
@triton.jit
def axpy_of_torch(x, y, alpha, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, alpha * tl.load(x + i, mask) + tl.load(y + i, mask), mask)
