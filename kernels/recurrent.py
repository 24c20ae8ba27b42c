"""One step of recurrent cells."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .functions.activations import sigmoid
from .indexing import span


@triton.jit
def _products(
    w, x, j, j_mask, K, wj, wk, xk, T: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows `j` of a matrix times a vector."""
    total = tl.zeros([BLOCK_H, BLOCK_K], T)
    for start in range(0, K, BLOCK_K):
        k, k_mask = span(start, K, BLOCK_K)
        value = tl.load(x + k * xk, mask=k_mask, other=0).to(T)
        p = w + (j * wj)[:, None] + (k * wk)[None, :]
        weight = tl.load(p, mask=j_mask[:, None] & k_mask[None, :], other=0).to(T)
        total += weight * value[None, :]
    return tl.sum(total, 1)


@triton.jit
def _bias(b, j, j_mask, step, total, T: tl.constexpr):
    if b is not None:
        total = total + tl.load(b + j * step, mask=j_mask, other=0).to(T)
    return total


@triton.jit
def step(
    x, w, u, bw, bu, h, c, y, inputs, H, from_x, from_h, to_h, from_y,
    xb, xi, wj, wi, uj, uh, bj, vj, yb, yj, CELL: tl.constexpr, T: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The state after one step, for a tile of the H elements of one row of the batch: `h` is read
    from `from_h` on and written from `to_h` on, `c` in place, and the result from `from_y` on. The
    matrices `w` (of x) and `u` (of h) have H rows for each gate, in torch's order.
    """
    tiles = tl.cdiv(H, BLOCK_H)
    block = tl.program_id(0).to(H.dtype)
    row = block // tiles
    j, j_mask = span((block - row * tiles) * BLOCK_H, H, BLOCK_H)
    px = x + from_x + row * xb
    ph = h + from_h + row * H
    old = tl.load(ph + j, mask=j_mask, other=0).to(T)
    if CELL == "lstm":
        i = _gate(px, w, u, bw, bu, ph, 0, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj, T,
                  BLOCK_H, BLOCK_K)  # fmt: skip
        f = _gate(px, w, u, bw, bu, ph, 1, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj, T,
                  BLOCK_H, BLOCK_K)  # fmt: skip
        g = _gate(px, w, u, bw, bu, ph, 2, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj, T,
                  BLOCK_H, BLOCK_K)  # fmt: skip
        o = _gate(px, w, u, bw, bu, ph, 3, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj, T,
                  BLOCK_H, BLOCK_K)  # fmt: skip
        pc = c + row * H + j
        cell = sigmoid(f) * tl.load(pc, mask=j_mask, other=0) + sigmoid(i) * libdevice.tanh(g)
        tl.store(pc, cell, mask=j_mask)
        new = sigmoid(o) * libdevice.tanh(cell)
    elif CELL == "gru":
        r = _gate(px, w, u, bw, bu, ph, 0, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj, T,
                  BLOCK_H, BLOCK_K)  # fmt: skip
        z = _gate(px, w, u, bw, bu, ph, 1, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj, T,
                  BLOCK_H, BLOCK_K)  # fmt: skip
        n = j + 2 * H
        own = _products(w, px, n, j_mask, inputs, wj, wi, xi, T, BLOCK_H, BLOCK_K)
        other = _products(u, ph, n, j_mask, H, uj, uh, 1, T, BLOCK_H, BLOCK_K)
        own = _bias(bw, n, j_mask, bj, own, T)
        other = _bias(bu, n, j_mask, vj, other, T)
        keep = sigmoid(z)
        new = (1 - keep) * libdevice.tanh(own + sigmoid(r) * other) + keep * old
    else:
        new = _gate(px, w, u, bw, bu, ph, 0, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj, T,
                    BLOCK_H, BLOCK_K)  # fmt: skip
        if CELL == "relu":
            new = tl.where(new < 0, tl.zeros_like(new), new)
        else:
            new = libdevice.tanh(new)
    tl.store(h + to_h + row * H + j, new, mask=j_mask)
    tl.store(y + from_y + row * yb + j * yj, new.to(y.dtype.element_ty), mask=j_mask)


@triton.jit
def _gate(
    px, w, u, bw, bu, ph, number: tl.constexpr, j, j_mask, inputs, H, xi, wj, wi, uj, uh, bj, vj,
    T: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The argument of a gate's function."""
    n = j + number * H
    total = _products(w, px, n, j_mask, inputs, wj, wi, xi, T, BLOCK_H, BLOCK_K)
    total += _products(u, ph, n, j_mask, H, uj, uh, 1, T, BLOCK_H, BLOCK_K)
    return _bias(bu, n, j_mask, vj, _bias(bw, n, j_mask, bj, total, T), T)
