"""Kernels for `@xtarget.kernel` of the kinds that servers and trainers of language models have."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

from typing import Any

import triton
import triton.language as tl

import xtarget
from xtarget.spec import In, InOut, Out, Stride, cdiv, next_power_of_2, step


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


@xtarget.kernel(name="s.state_update", grid="cdiv(DIM, BM), B",
                constants={"BM": 8, "BS": lambda c: next_power_of_2(c.S)})  # fmt: skip
@triton.jit
def state_update(
    state: InOut["T", "B", "DIM", "S"],
    between: Stride["state", 0],
    x: In["X", "B", "DIM"],
    dt: In["X", "B", "DIM"],
    dt_bias: In["float32", "DIM"] | None,
    a: In["float32", "DIM", "S"],
    b: In["X", "B", "S"],
    c: In["X", "B", "S"],
    skip: In["float32", "DIM"] | None,
    gate: In["X", "B", "DIM"] | None,
    out: Out["x"],
    DIM,
    S,
    SOFTPLUS: tl.constexpr = False,
    BM: tl.constexpr = 8,
    BS: tl.constexpr = 16,
):
    """One token of a selective state space, whose states may lie apart."""
    sequence = tl.program_id(1)
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BS)
    inside = (m < DIM)[:, None] & (n < S)[None, :]
    at = state + sequence * between + m[:, None] * S + n[None, :]
    token = sequence * DIM + m
    v = tl.load(x + token, m < DIM, 0).to(tl.float32)
    delta = tl.load(dt + token, m < DIM, 0).to(tl.float32)
    if dt_bias is not None:
        delta += tl.load(dt_bias + m, m < DIM, 0)
    if SOFTPLUS:
        delta = tl.where(delta <= 20.0, tl.log(1 + tl.exp(delta)), delta)
    decay = tl.exp(tl.load(a + m[:, None] * S + n[None, :], inside, 0) * delta[:, None])
    given = tl.load(b + sequence * S + n, n < S, 0).to(tl.float32)
    new = tl.load(at, inside, 0).to(tl.float32) * decay + given[None, :] * (delta * v)[:, None]
    tl.store(at, new, inside)
    taken = tl.load(c + sequence * S + n, n < S, 0).to(tl.float32)
    result = tl.sum(new * taken[None, :], 1)
    if skip is not None:
        result += v * tl.load(skip + m, m < DIM, 0)
    if gate is not None:
        g = tl.load(gate + token, m < DIM, 0).to(tl.float32)
        result *= g * tl.sigmoid(g)
    tl.store(out + token, result, m < DIM)


@triton.jit
def _count(ids, counts, PAIRS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(ids + i, i < PAIRS, 0), 1, i < PAIRS)


@triton.jit
def _begin(counts, starts, E: tl.constexpr, ALIGN: tl.constexpr):
    i = tl.arange(0, E)
    tl.store(starts, 0)
    tl.store(starts + 1 + i, tl.cumsum(tl.cdiv(tl.load(counts + i), ALIGN) * ALIGN, 0))


@triton.jit
def _place(ids, starts, taken, order, PAIRS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(ids + i, i < PAIRS, 0)
    at = tl.load(starts + expert) + tl.atomic_add(taken + expert, 1, i < PAIRS)
    tl.store(order + at, i, i < PAIRS)


@xtarget.kernel(
    name="s.expert_order",
    inputs={"ids": In["int32|int64", "T", "K"]},
    flags={"E": 8, "ALIGN": 4},
    sizes={"PAIRS": "T * K"},
    constants={"BLOCK": 64},
    outputs={
        "order": Out["int32", "T * K + E * (ALIGN - 1)"].filled(-1),
        "starts": Out["int32", "E + 1"],
    },
    workspaces={"counts": Out["int32", "E"].filled(0), "taken": Out["int32", "E"].filled(0)},
)
def expert_order(c: Any) -> Any:
    """Pairs of token and expert, sorted by expert, each expert's padded with -1."""
    yield step(_count, cdiv(c.PAIRS, c.BLOCK))
    yield step(_begin, 1)
    yield step(_place, cdiv(c.PAIRS, c.BLOCK))
