"""Kernels that write to what they are given."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

import triton
import triton.language as tl

import xtarget
from xtarget.spec import In, InOut, Out, Stride

NAME, SHARES = "test.cache_halves", "test.shares"


@xtarget.kernel(name=NAME, grid="A", constants={"B": 8})
@triton.jit
def cache_halves(keys: InOut["float32", "A", 8], values: InOut["float32", "A", 8],
                 k0: Stride["keys", 0], k1: Stride["keys", 1], v0: Stride["values", 0],
                 v1: Stride["values", 1], B: tl.constexpr):  # fmt: skip
    i, j = tl.program_id(0), tl.arange(0, B)
    tl.store(keys + i * k0 + j * k1, 1.0)
    tl.store(values + i * v0 + j * v1, 2.0)


@xtarget.kernel(name=SHARES, grid="M", complete=True, in_place=True, constants={"B": 16})
@triton.jit
def shares(x: In["float32", "M", "N"], out: Out["x"], M, N, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * N + i, i < N, 0)
    tl.store(out + tl.program_id(0) * N + i, v / tl.sum(v, 0), i < N)
