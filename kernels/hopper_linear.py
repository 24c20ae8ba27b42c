"""Products for NVIDIA's sm_90 that start before the launch in front of them has ended."""

import triton
import triton.language as tl

from .early import ordered
from .linear import matmul as _matmul


@triton.jit
def matmul(
    a, b, out, M, N, K, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
    DOT: tl.constexpr, T: tl.constexpr, EVEN_K: tl.constexpr, FOLD: tl.constexpr,
    FEW: tl.constexpr, GROUP_M: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The same as `linear:matmul`."""
    ordered()
    _matmul(
        a, b, out, M, N, K, chunk, part, batch_shape, sa, sb, so, am, ak, bk, bn, om, on,
        DOT, T, EVEN_K, FOLD, FEW, GROUP_M, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip


@triton.jit
def few(
    a, b, out, M, K, am, bn, om,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """a @ b.T for no more rows of `a` than BLOCK_M, BLOCK_N columns a block: there are whole blocks
    of them, and whole steps of BLOCK_K along K. Elements of a row lie side by side.
    """
    rm = tl.arange(0, BLOCK_M).to(K.dtype)
    rn = tl.program_id(0).to(K.dtype) * BLOCK_N + tl.arange(0, BLOCK_N).to(K.dtype)
    rk = tl.arange(0, BLOCK_K).to(K.dtype)
    some = (rm < M)[:, None]
    pa = a + (rm * am)[:, None] + rk[None, :]
    pb = b + (rn * bn)[:, None] + rk[None, :]
    ordered()
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(pa + k, mask=some, other=0)
        total = tl.dot(x, tl.load(pb + k).T, total)
    p = out + (rm * om)[:, None] + rn[None, :]
    tl.store(p, total.to(out.dtype.element_ty), mask=some)


@triton.jit
def added(parts, out, n, width, om, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """out = the sum of PARTS matrices that lie one after the other, n elements each: one after the
    other, too. `width`: columns; `om`: from row to row of `out`; None: its rows lie side by side.
    """
    ordered()
    i = tl.program_id(0).to(n.dtype) * BLOCK + tl.arange(0, BLOCK).to(n.dtype)
    some = i < n
    total = tl.load(parts + i, mask=some, other=0)
    for number in tl.static_range(1, PARTS):
        total += tl.load(parts + number * n + i, mask=some, other=0)
    if om is None:
        p = out + i
    else:
        row = i // width
        p = out + row * om + (i - row * width)
    tl.store(p, total.to(out.dtype.element_ty), mask=some)
