"""Kernels for `@xtarget.kernel` of the kinds that servers and trainers of language models have."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

import triton
import triton.language as tl

import xtarget
from xtarget.spec import In, InOut, Out, Stride, next_power_of_2


@xtarget.kernel(name="s.silu_and_mul", grid="cdiv(D, BLOCK), T", constants={"BLOCK": 64})
@triton.jit
def silu_and_mul(x: In["floating", "T", "2 * D"], out: Out["x", "T", "D"], D, BLOCK: tl.constexpr):
    row, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(x + row * 2 * D + i, i < D, 0).to(tl.float32)
    up = tl.load(x + row * 2 * D + D + i, i < D, 0).to(tl.float32)
    tl.store(out + row * D + i, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), i < D)


@xtarget.kernel(name="s.group_quantise", grid="T, G", constants={"GROUP": 32})
@triton.jit
def group_quantise(
    x: In["floating", "T", "G * GROUP"],
    bits: Out["uint8", "T", "G * GROUP"],
    scales: Out["float32", "G", "T"],
    T,
    G,
    GROUP: tl.constexpr,
):
    """Floats of 8 bits as their bits, with a scale for each group, in columns."""
    row, group, i = tl.program_id(0), tl.program_id(1), tl.arange(0, GROUP)
    at = (row * G + group) * GROUP + i
    v = tl.load(x + at).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(v)), 1e-10) / 448.0
    kept = tl.clamp(v / scale, -448.0, 448.0).to(tl.float8e4nv)
    tl.store(bits + at, kept.to(tl.uint8, bitcast=True))
    tl.store(scales + group * T + row, scale)


@xtarget.kernel(name="s.cache_write", grid="T, H", constants={"B": lambda c: next_power_of_2(c.D)})
@triton.jit
def cache_write(
    key: In["K", "T", "H", "D"],
    cache: InOut["C", "PAGES", "PAGE", "H", "D"],
    slots: In["int64", "T"],
    scale: In["float32", 1] | None,
    s0: Stride["cache", 0],
    s1: Stride["cache", 1],
    s2: Stride["cache", 2],
    s3: Stride["cache", 3],
    H,
    D,
    PAGE: tl.constexpr,
    B: tl.constexpr,
):
    """A cache that is any view, of another dtype; slots below 0 are not written."""
    token, head, i = tl.program_id(0), tl.program_id(1), tl.arange(0, B)
    slot = tl.load(slots + token)
    if slot < 0:
        return
    v = tl.load(key + (token * H + head) * D + i, i < D)
    if scale is not None:
        v = v / tl.load(scale)
    at = cache + slot // PAGE * s0 + slot % PAGE * s1 + head * s2 + i * s3
    tl.store(at, v.to(cache.dtype.element_ty), i < D)


@xtarget.kernel(
    name="s.experts",
    grid="cdiv(PADDED, BM) * cdiv(N, BN)",
    constants={"BM": 16, "BN": 32, "BK": 32},
    flags={"TOP_K": 2, "WEIGHTED": False},
)
@triton.jit
def experts(
    a: In["T", "M", "K"],
    b: In["T", "E", "N", "K"],
    c: InOut["T", "PAIRS", "N"],
    weights: In["float32", "PAIRS"],
    order: In["int32", "PADDED"],
    expert_of: In["int32", "BLOCKS"],
    used: In["int32", 1],
    PAIRS,
    N,
    K,
    TOP_K: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """The product of a mixture of experts: pairs of token and expert, sorted, in blocks."""
    columns = tl.cdiv(N, BN)
    block, column = tl.program_id(0) // columns, tl.program_id(0) % columns
    if block * BM >= tl.load(used):
        return
    pair = tl.load(order + block * BM + tl.arange(0, BM))
    there = pair < PAIRS
    expert = tl.load(expert_of + block).to(tl.int64)
    n = column * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(
            a + (pair[:, None] // TOP_K) * K + k[None, :], there[:, None] & (k < K)[None, :], 0
        )
        inside = (k < K)[:, None] & (n < N)[None, :]
        w = tl.load(b + expert * N * K + n[None, :] * K + k[:, None], inside, 0)
        total += tl.dot(x, w, input_precision="ieee")
    if WEIGHTED:
        total *= tl.load(weights + pair, there, 0)[:, None]
    at = c + pair[:, None] * N + n[None, :]
    tl.store(at, total.to(c.dtype.element_ty), there[:, None] & (n < N)[None, :])


@xtarget.kernel(name="s.gated_delta", grid="B * H", num_warps=1)
@triton.jit
def gated_delta(
    q: In["T", "B", "L", "H", "K"],
    k: In["T", "B", "L", "H", "K"],
    v: In["T", "B", "L", "H", "V"],
    gate: In["float32", "B", "L", "H"] | None,
    beta: In["float32", "B", "L", "H"],
    start: In["float32", "B", "H", "K", "V"] | None,
    out: Out["v"],
    end: Out["float32", "B", "H", "K", "V"],
    scale,
    L,
    H,
    K: tl.constexpr,
    V: tl.constexpr,
):
    """The gated delta rule, step by step, with states that may be given and are returned."""
    chain = tl.program_id(0)
    i, j = tl.arange(0, K), tl.arange(0, V)
    state = tl.zeros([K, V], tl.float32)
    if start is not None:
        state += tl.load(start + chain * K * V + i[:, None] * V + j[None, :])
    for t in range(L):
        at = (chain // H * L + t) * H + chain % H
        key, query = tl.load(k + at * K + i), tl.load(q + at * K + i) * scale
        if gate is not None:
            state *= tl.exp(tl.load(gate + at))
        change = tl.load(v + at * V + j) - tl.sum(state * key[:, None], 0)
        state += key[:, None] * (change * tl.load(beta + at))[None, :]
        tl.store(out + at * V + j, tl.sum(state * query[:, None], 0).to(out.dtype.element_ty))
    tl.store(end + chain * K * V + i[:, None] * V + j[None, :], state)


@xtarget.kernel(name="s.conv_update", grid="BATCH, cdiv(DIM, BLOCK)", constants={"BLOCK": 32})
@triton.jit
def conv_update(
    x: In["T", "BATCH", "DIM"],
    state: InOut["T", "SLOTS", "DIM", "W - 1"],
    weight: In["T", "DIM", "W"],
    slots: In["int32", "BATCH"] | None,
    out: Out["x"],
    s0: Stride["state", 0],
    s1: Stride["state", 1],
    s2: Stride["state", 2],
    DIM,
    activation: tl.constexpr = None,
    W: tl.constexpr = 4,
    BLOCK: tl.constexpr = 32,
):
    """One step of a short convolution over time, whose state is shifted in place."""
    batch, i = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    slot = batch
    if slots is not None:
        slot = tl.load(slots + batch)
    new = tl.load(x + batch * DIM + i, i < DIM, 0)
    total = new.to(tl.float32) * tl.load(weight + i * W + W - 1, i < DIM, 0).to(tl.float32)
    place = state + slot * s0 + i * s1
    for j in tl.static_range(W - 1):
        old = tl.load(place + j * s2, i < DIM, 0)
        total += old.to(tl.float32) * tl.load(weight + i * W + j, i < DIM, 0).to(tl.float32)
        if j > 0:
            tl.store(place + (j - 1) * s2, old, i < DIM)
    tl.store(place + (W - 2) * s2, new, i < DIM)
    if activation == "silu":
        total *= tl.sigmoid(total)
    tl.store(out + batch * DIM + i, total.to(out.dtype.element_ty), i < DIM)


@xtarget.kernel(name="s.sequence_sums", grid="SEQUENCES", constants={"BLOCK": 64})
@triton.jit
def sequence_sums(
    x: In["float32", "N"],
    starts: In["int32", "SEQUENCES + 1"],
    out: Out["float32", "SEQUENCES"],
    BLOCK: tl.constexpr,
):
    """`starts` (cu_seqlens) says where each sequence begins, and how many there are."""
    sequence = tl.program_id(0)
    end, total = tl.load(starts + sequence + 1), tl.zeros([BLOCK], tl.float32)
    for first in range(tl.load(starts + sequence), end, BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.load(x + i, i < end, 0)
    tl.store(out + sequence, tl.sum(total))
