"""Kernels for `@xtarget.kernel` with parts of a spec that few need: lengths that only an optional
array says, a tuple for a flag, an array of no dimension, results whose layout or shape the caller
chooses, heuristics above configurations."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

from typing import Any

import triton
import triton.language as tl

import xtarget
from xtarget.spec import Config, In, InOut, Out, Stride, cdiv, next_power_of_2, step

# ------------------------------------------------------------------ experts' blocks, counted


@triton.jit
def _count_experts(chosen, counts, n, EXPERTS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    expert = tl.load(chosen + i, i < n, -1)
    tl.atomic_add(counts + expert, 1, (i < n) & (expert >= 0) & (expert < EXPERTS))


@triton.jit
def _first_places(counts, firsts, total, blocks, EXPERTS: tl.constexpr, TILE: tl.constexpr):
    e = tl.arange(0, EXPERTS)
    padded = (tl.load(counts + e) + TILE - 1) // TILE * TILE
    ends = tl.cumsum(padded, 0)
    tl.store(firsts + e, ends - padded)
    tl.store(total, tl.sum(padded, 0))
    for expert in range(EXPERTS):
        first = tl.sum(tl.where(e == expert, ends - padded, 0), 0)
        length = tl.sum(tl.where(e == expert, padded, 0), 0)
        for block in range(first // TILE, (first + length) // TILE):
            tl.store(blocks + block, expert)


@triton.jit
def _place_tokens(chosen, mapped, firsts, order, n, EXPERTS: tl.constexpr, B: tl.constexpr):
    expert, i, first = tl.program_id(0), tl.arange(0, B), 0
    begin = tl.load(firsts + expert)
    for start in range(0, n, B):
        mine = tl.load(chosen + start + i, start + i < n, -1) == expert
        place = begin + first + tl.cumsum(mine.to(tl.int32), 0) - 1
        token = start + i
        if mapped is not None:
            token = tl.load(mapped + start + i, start + i < n, 0)
        tl.store(order + place, token, mine)
        first += tl.sum(mine.to(tl.int32), 0)


@xtarget.kernel(
    name="u.expert_blocks",
    inputs={"chosen": In["int32|int64"], "mapped": In["int32"] | None},
    flags={"EXPERTS": ..., "TILE": 4},
    sizes={"n": "chosen.size"},
    constants={"B": 32},
    outputs={
        "order": Out(lambda c: ((c.n + c.EXPERTS * (c.TILE - 1),), "int32"), -1, "total"),
        "blocks": Out(lambda c: ((cdiv(c.n + c.EXPERTS * (c.TILE - 1), c.TILE),), "int32"), -1),
        "total": Out["int32", 1],
    },
    workspaces={"counts": Out["int32", "EXPERTS"].filled(0), "firsts": Out["int32", "EXPERTS"]},
)
def expert_blocks(c: Any) -> Any:
    """Tokens by expert, each expert's padded to whole tiles, and the expert of each tile."""
    yield step(_count_experts, cdiv(c.n, c.B))
    yield step(_first_places, 1, num_warps=1)
    yield step(_place_tokens, c.EXPERTS)


# ------------------------------------------------------- recurrence with states and heuristics


@xtarget.kernel(name="u.gated_recurrence", grid="cdiv(V, BV), B * H", complete=True)
@triton.heuristics({
    "HAS_STATE": lambda a: a["first"] is not None,
    "KEEP_STATE": lambda a: a["last"] is not None,
    "BK": lambda a: triton.next_power_of_2(a["K"]),
})  # fmt: skip
@triton.autotune([triton.Config({"BV": 8}, num_warps=1), triton.Config({"BV": 16}, num_warps=2)],
                 key=["K", "V", "HAS_STATE"])  # fmt: skip
@triton.jit
def gated_recurrence(
    q: In["T", "B", "L", "H", "K"],
    k: In["T", "B", "L", "H", "K"],
    v: In["T", "B", "L", "H", "V"],
    g: In["float32", "B", "L", "H", "K"] | None,
    first: In["float32", "B", "H", "K", "V"] | None,
    last: InOut["float32", "B", "H", "K", "V"] | None,
    out: Out["T", "B", "L", "H", "V"],
    scale,
    L,
    H,
    K: tl.constexpr,
    V: tl.constexpr,
    HAS_STATE: tl.constexpr,
    KEEP_STATE: tl.constexpr,
    REVERSE: tl.constexpr = False,
    BK: tl.constexpr = 16,
    BV: tl.constexpr = 8,
):
    """h = h exp(g) + k v, o = q h, in one loop over time."""
    part, both = tl.program_id(0), tl.program_id(1)
    batch, head = both // H, both % H
    i, j = tl.arange(0, BK), part * BV + tl.arange(0, BV)
    inside = (i < K)[:, None] & (j < V)[None, :]
    place = both * K * V + i[:, None] * V + j[None, :]
    h = tl.zeros([BK, BV], tl.float32)
    if HAS_STATE:
        h += tl.load(first + place, inside, 0)
    for n in range(L):
        t = L - 1 - n if REVERSE else n
        at = (batch * L + t) * H + head
        if g is not None:
            h *= tl.exp(tl.load(g + at * K + i, i < K, 0))[:, None]
        a = tl.load(k + at * K + i, i < K, 0).to(tl.float32)
        b = tl.load(v + at * V + j, j < V, 0).to(tl.float32)
        h += a[:, None] * b[None, :]
        query = tl.load(q + at * K + i, i < K, 0).to(tl.float32) * scale
        tl.store(out + at * V + j, tl.sum(h * query[:, None], 0).to(out.dtype.element_ty), j < V)
    if KEEP_STATE:
        tl.store(last + place, h, inside)


# -------------------------------------------------------- sums over chunks, with or without tables


@xtarget.kernel(
    name="u.chunk_sums",
    complete=True,
    grid=lambda c: (cdiv(c.L, c.CHUNK) if c.table is None else c.CHUNKS, c.H),
)
@triton.jit
def chunk_sums(
    x: In["floating", "L", "H"],
    starts: In["int32|int64", "SEQUENCES + 1"] | None,
    table: In["int32", "CHUNKS", 2] | None,
    out: Out["float32", "L", "H"],
    L,
    H,
    CHUNK: tl.constexpr = 16,
    REVERSE: tl.constexpr = False,
    EXCLUSIVE: tl.constexpr = False,
):
    """Sums within chunks. Where sequences follow each other, a table says each chunk's."""
    chunk, head, begin, end = tl.program_id(0), tl.program_id(1), 0, L
    if starts is not None:
        sequence = tl.load(table + chunk * 2)
        chunk = tl.load(table + chunk * 2 + 1)
        begin = tl.load(starts + sequence).to(tl.int32)
        end = tl.load(starts + sequence + 1).to(tl.int32)
    i = begin + chunk * CHUNK + tl.arange(0, CHUNK)
    v = tl.load(x + i * H + head, i < end, 0).to(tl.float32)
    total = tl.cumsum(v, 0, reverse=REVERSE)
    if EXCLUSIVE:
        total -= v
    tl.store(out + i * H + head, total, i < end)


# ------------------------------------------------------ scales the caller lays out, dtype by flag


@xtarget.kernel(name="u.block_quantise", grid="M, cdiv(K, GROUP)", complete=True)
@triton.jit
def block_quantise(
    x: In["floating", "M", "K"],
    values: Out["KIND", "M", "K"],
    scales: Out["float32", "M", "cdiv(K, GROUP)"],
    row: Stride["scales", 0],
    column: Stride["scales", 1],
    K,
    ceiling: float = 127.0,
    GROUP: tl.constexpr = 16,
    KIND: tl.constexpr = tl.int8,
    POWER: tl.constexpr = False,
):
    """A scale for each group of a row; `out=` says whether scales lie by rows or by columns."""
    m, part = tl.program_id(0), tl.program_id(1)
    i = part * GROUP + tl.arange(0, GROUP)
    v = tl.load(x + m * K + i, i < K, 0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(v), 0), 1e-10) / ceiling
    if POWER:
        scale = tl.exp2(tl.ceil(tl.log2(scale)))
    v = tl.minimum(tl.maximum(v / scale, -ceiling), ceiling)
    if not KIND.is_floating():
        v = tl.floor(v + 0.5)
    tl.store(values + m * K + i, v.to(KIND), i < K)
    tl.store(scales + m * row + part * column, scale)


# ------------------------------------------------------------ gates, with a tuple for a flag


@xtarget.kernel(name="u.gate", grid="ROWS, cdiv(N, B)", constants={"B": 32}, complete=True)
@triton.jit
def gate(
    x: In["T", "ROWS", "2 * N"],
    out: Out["T", "ROWS", "N"],
    N,
    alpha: float = 1.702,
    LIMITS: tl.constexpr = None,
    B: tl.constexpr = 32,
):
    """Gate and value lie in turn in a row; both may be limited."""
    row, i = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    left = tl.load(x + row * 2 * N + 2 * i, i < N, 0).to(tl.float32)
    right = tl.load(x + row * 2 * N + 2 * i + 1, i < N, 0).to(tl.float32)
    if LIMITS is not None:
        left = tl.minimum(left, LIMITS[1])
        right = tl.minimum(tl.maximum(right, LIMITS[0]), LIMITS[1])
    gated = left / (1 + tl.exp(-alpha * left)) * (right + 1)
    tl.store(out + row * N + i, gated.to(out.dtype.element_ty), i < N)


@xtarget.kernel(name="u.gate_gradient", grid="ROWS, cdiv(N, B)", constants={"B": 32})
@triton.jit
def gate_gradient(
    dy: In["T", "ROWS", "N"],
    a: InOut["T", "ROWS", "N"],
    a_row: Stride["a", 0],
    b: InOut["T", "ROWS", "N"],
    b_row: Stride["b", 0],
    grad: In["float32"] | None,
    N,
    B: tl.constexpr,
):
    """silu(a) * b: the gradients take the places of a and b. `grad` is a loss's own, one number."""
    row, i = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    g = tl.load(dy + row * N + i, i < N, 0).to(tl.float32)
    if grad is not None:
        g *= tl.load(grad)
    u = tl.load(a + row * a_row + i, i < N, 0).to(tl.float32)
    w = tl.load(b + row * b_row + i, i < N, 0).to(tl.float32)
    share = tl.sigmoid(u)
    slope = share * (1 + u * (1 - share))
    tl.store(a + row * a_row + i, (g * w * slope).to(a.dtype.element_ty), i < N)
    tl.store(b + row * b_row + i, (g * u * share).to(b.dtype.element_ty), i < N)


# ----------------------------------------------------- a loss whose result's shape a flag decides


@xtarget.kernel(
    name="u.kl",
    grid="ROWS",
    constants={"B": lambda c: next_power_of_2(c.V)},
    outputs={"loss": Out(lambda c: ((c.ROWS, c.V) if c.REDUCTION == "none" else (), "float32"), 0)},
    num_warps=lambda c: 1 if c.B <= 64 else 4,
)
@triton.jit
def kl(
    logq: In["floating", "ROWS", "V"],
    target: In["floating", "ROWS", "V"],
    kept: In["bool", "ROWS"] | None,
    loss,
    ROWS,
    V,
    REDUCTION: tl.constexpr = "batchmean",
    LOGARITHM: tl.constexpr = False,
    B: tl.constexpr = 1,
):
    """Kullback-Leibler divergence: a number, or one for each element."""
    row, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(logq + row * V + i, i < V, 0).to(tl.float32)
    y = tl.load(target + row * V + i, i < V, 0).to(tl.float32)
    if LOGARITHM:
        one = tl.exp(y) * (y - x)
    else:
        one = tl.where(y > 0, y * (tl.log(tl.maximum(y, 1e-30)) - x), 0.0)
    if kept is not None:
        one = tl.where(tl.load(kept + row), one, 0.0)
    if REDUCTION == "none":
        tl.store(loss + row * V + i, one, i < V)
    else:
        total = tl.sum(tl.where(i < V, one, 0.0), 0)
        if REDUCTION == "batchmean":
            total /= ROWS
        elif REDUCTION == "mean":
            total /= ROWS * V
        tl.atomic_add(loss, total)


# ------------------------------------------------- a convolution of sequences with states by slot


@xtarget.kernel(name="u.causal_conv", grid="SEQUENCES, cdiv(D, B)", constants={"B": 16})
@triton.jit
def causal_conv(
    x: In["T", "TOKENS", "D"],
    x_row: Stride["x", 0],
    x_one: Stride["x", 1],
    weight: In["T", "D", "WIDTH"],
    bias: In["T", "D"] | None,
    states: InOut["T", "SLOTS", "WIDTH - 1", "D"] | None,
    slots: In["int32", "SEQUENCES"] | None,
    fresh: In["bool", "SEQUENCES"] | None,
    starts: In["int32", "SEQUENCES + 1"],
    out: Out["T", "TOKENS", "D"],
    D,
    WIDTH: tl.constexpr,
    pad: int = -1,
    ACTIVATION: tl.constexpr = None,
    B: tl.constexpr = 16,
):
    """Depthwise, over sequences that follow each other; each goes on from its slot's state."""
    sequence, i = tl.program_id(0), tl.program_id(1) * B + tl.arange(0, B)
    begin, end = tl.load(starts + sequence), tl.load(starts + sequence + 1)
    slot = sequence if slots is None else tl.load(slots + sequence)
    inside = i < D
    if slot != pad:
        kept = slots is not None or states is not None
        if fresh is not None:
            kept = kept and not tl.load(fresh + sequence)
        for t in range(begin, end):
            total = tl.zeros([B], tl.float32)
            if bias is not None:
                total += tl.load(bias + i, inside, 0).to(tl.float32)
            for w in tl.static_range(WIDTH):
                s = t - (WIDTH - 1) + w
                v = tl.load(x + s * x_row + i * x_one, inside & (s >= begin), 0).to(tl.float32)
                if states is not None:
                    old = states + (slot * (WIDTH - 1) + s - begin + WIDTH - 1) * D + i
                    v += tl.load(old, inside & (s < begin) & kept, 0).to(tl.float32)
                total += v * tl.load(weight + i * WIDTH + w, inside, 0).to(tl.float32)
            if ACTIVATION == "silu":
                total = total / (1 + tl.exp(-total))
            tl.store(out + t * D + i, total.to(out.dtype.element_ty), inside)
        if states is not None:
            for w in tl.static_range(WIDTH - 1):
                s = end - (WIDTH - 1) + w
                v = tl.load(x + s * x_row + i * x_one, inside & (s >= begin), 0)
                at = states + slot * (WIDTH - 1) * D + i
                old = tl.load(at + (s - begin + WIDTH - 1) * D, inside & (s < begin) & kept, 0)
                tl.store(at + w * D, tl.where(s >= begin, v, old), inside)


# ------------------------------------------------------- a persistent product with descriptors


@xtarget.kernel(
    name="u.persistent_matmul",
    grid=lambda c: min(c.compute_units, cdiv(c.M, c.BM) * cdiv(c.N, c.BN)),
    complete=True,
    key=("M", "N", "K"),
    configs=[Config({"BM": 16, "BN": 32, "BK": 16, "PARTS": 2}, num_warps=1),
             Config({"BM": 32, "BN": 16, "BK": 32, "PARTS": 1}, num_warps=4)],
)  # fmt: skip
@triton.jit
def persistent_matmul(
    a: In["T", "M", "K"].descriptor("BM", "BK"),
    b: In["T", "N", "K"].descriptor("BN", "BK"),
    scale: In["float32", "N"] | None,
    out: Out["KIND", "M", "N"].descriptor("BM", "BN // PARTS"),
    M,
    N,
    K,
    KIND: tl.constexpr = tl.float32,
    BM: tl.constexpr = 16,
    BN: tl.constexpr = 16,
    BK: tl.constexpr = 16,
    PARTS: tl.constexpr = 1,
):
    """a bᵀ, by as many blocks as there are multiprocessors; stored in parts of a tile."""
    columns = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        m, n = tile // columns * BM, tile % columns * BN
        total = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            left, right = a.load([m, k]), b.load([n, k])
            total = tl.dot(left, right.T, total, input_precision="ieee")
        if scale is not None:
            j = n + tl.arange(0, BN)
            total *= tl.load(scale + j, j < N, 0)[None, :]
        if PARTS == 1:
            out.store([m, n], total.to(KIND))
        else:
            both = tl.permute(tl.reshape(total, [BM, 2, BN // 2]), [0, 2, 1])
            one, two = tl.split(both)
            out.store([m, n], one.to(KIND))
            out.store([m, n + BN // 2], two.to(KIND))


# ------------------------------------------------ sampling: values and places in one sorted word


@xtarget.kernel(name="u.min_p", grid="ROWS", constants={"B": "next_power_of_2(V)"})
@triton.jit
def min_p(
    logits: In["floating", "ROWS", "V"],
    temperature: In["float32", "ROWS"] | None,
    least: In["float32", "ROWS"],
    noise: In["float32", "ROWS", "V"],
    token: Out["int64", "ROWS"],
    share: Out["float32", "ROWS", 1],
    kept: InOut["bool", "ROWS", "V"] | None,
    V,
    B: tl.constexpr,
):
    """Draws among tokens whose share is at least a part of the greatest one's."""
    row, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(logits + row * V + i, i < V, -float("inf")).to(tl.float32)
    if temperature is not None:
        x /= tl.load(temperature + row)
    p = tl.exp(x - tl.max(x, 0))
    there = p >= tl.load(least + row)
    total = tl.sum(tl.where(there, p, 0.0), 0)
    drawn = tl.where(there, p / tl.load(noise + row * V + i, i < V, 1.0), -1.0)
    best = tl.argmax(drawn, 0)
    tl.store(token + row, best.to(tl.int64))
    tl.store(share + row, tl.sum(tl.where(i == best, p, 0.0), 0) / total)
    if kept is not None:
        tl.store(kept + row * V + i, there, i < V)
