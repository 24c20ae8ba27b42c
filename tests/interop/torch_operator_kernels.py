"""Users' kernels that are registered with torch: alpha * x + y, two results, one in place."""
# ruff: noqa: F821 - the words in annotations are lengths

import triton
import triton.language as tl

import xtarget
from xtarget.spec import In, InOut, Out, next_power_of_2


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


@xtarget.kernel(grid="ROWS", constants={"BLOCK": lambda c: next_power_of_2(c.N)})
@triton.jit
def split_rows_of_torch(x: In["T", "ROWS", "N"], least: Out["T", "ROWS"], most: Out["T", "ROWS"],
                        N, BLOCK: tl.constexpr):  # fmt: skip
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, 0)
    tl.store(least + row, tl.min(tl.where(i < N, v, float("inf")), 0))
    tl.store(most + row, tl.max(tl.where(i < N, v, -float("inf")), 0))


@xtarget.kernel(grid="N")
@triton.jit
def scale_of_torch(x: InOut["T", "N"], y: In["T", "N"]):
    i = tl.program_id(0)
    tl.store(x + i, tl.load(x + i) * tl.load(y + i))


@xtarget.kernel(grid="cdiv(n, 64)", sizes={"n": "x.size"}, complete=True, elementwise=True)
@triton.jit
def scaled_sum_of_torch(x: In["floating"], y: In["x"], out: Out["x"], n, alpha=2.0):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    tl.store(out + i, alpha * tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)
