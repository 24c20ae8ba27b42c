"""Kernels as their authors write them, for `@xtarget.kernel`: those of language models first.

Each is a Triton function as it stands in other projects, and a spec of less than 25 lines.
"""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

from typing import Any

import triton
import triton.language as tl

import xtarget
from xtarget.spec import Config, In, InOut, Out, Stride, cdiv, next_power_of_2, step


@xtarget.kernel(name="a.bias_gelu_dropout", constants={"BLOCK": 128}, complete=True,
                grid="cdiv(M * N, BLOCK)")  # fmt: skip
@triton.jit
def bias_gelu_dropout(x: In["T", "M", "N"], bias: In["T", "N"], p: float, out: Out["x"],
                      M, N, seed=0, APPROXIMATE: tl.constexpr = True,
                      BLOCK: tl.constexpr = 128):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < M * N
    v = tl.load(x + i, mask).to(tl.float32) + tl.load(bias + i % N, mask).to(tl.float32)
    if APPROXIMATE:
        inner = 0.7978845608 * (v + 0.044715 * v * v * v)
        v = v * (1 - 1 / (tl.exp(2 * inner) + 1))
    else:
        v = 0.5 * v * (1 + tl.erf(v * 0.70710678))
    kept = tl.rand(seed, i) >= p
    tl.store(out + i, tl.where(kept, v / (1 - p), 0.0), mask)


@xtarget.kernel(name="a.int4_matmul", complete=True, grid="cdiv(M, BM), cdiv(N, BN)",
                constants={"BM": 16, "BN": 32, "BK": 32},
                sizes={"GROUP": lambda c: c.K // c.scale.shape[0]})  # fmt: skip
@triton.jit
def int4_matmul(x: In["float16|float32", "M", "K"], packed: In["int32", "K // 8", "N"],
                scale: In["x", "K // GROUP", "N"], out: Out["x", "M", "N"], M, N, K,
                GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                BK: tl.constexpr):  # fmt: skip
    """Weights of 4 bits, eight in a word, with a scale for each group of rows."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + k[None, :], (rows < M)[:, None] & (k < K)[None, :], 0)
        inside = (k < K)[:, None] & (columns < N)[None, :]
        word = tl.load(packed + (k // 8)[:, None] * N + columns[None, :], inside, 0)
        s = tl.load(scale + (k // GROUP)[:, None] * N + columns[None, :], inside, 0)
        weight = ((word >> ((k % 8) * 4)[:, None]) & 15) - 8
        total += tl.dot(a, (weight.to(tl.float32) * s).to(a.dtype), input_precision="ieee")
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(out + rows[:, None] * N + columns[None, :], total.to(out.dtype.element_ty), inside)


@xtarget.kernel(name="a.rotary", grid="TOKENS, HEADS")
@triton.jit
def rotary(q: InOut["T", "TOKENS", "HEADS", "2 * HALF"], cos: In["float32", "TOKENS", "HALF"],
           sin: In["float32", "TOKENS", "HALF"], step: Stride["q", 0], head_step: Stride["q", 1],
           one: Stride["q", 2], HALF: tl.constexpr):  # fmt: skip
    """In place, also on a view (queries in a fused projection)."""
    token, head = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, HALF)
    at = q + token * step + head * head_step + i * one
    first, second = tl.load(at).to(tl.float32), tl.load(at + HALF * one).to(tl.float32)
    c, s = tl.load(cos + token * HALF + i), tl.load(sin + token * HALF + i)
    tl.store(at, first * c - second * s)
    tl.store(at + HALF * one, second * c + first * s)


@xtarget.kernel(name="a.cache_write", grid="TOKENS",
                constants={"BLOCK": lambda c: next_power_of_2(c.D)})  # fmt: skip
@triton.jit
def cache_write(keys: In["T", "TOKENS", "D"], values: In["T", "TOKENS", "D"],
                slots: In["int32|int64", "TOKENS"], key_cache: InOut["T", "SLOTS", "D"],
                value_cache: InOut["T", "SLOTS", "D"], D, BLOCK: tl.constexpr):  # fmt: skip
    token, i = tl.program_id(0), tl.arange(0, BLOCK)
    slot = tl.load(slots + token)
    inside = (i < D) & (slot >= 0)
    tl.store(key_cache + slot * D + i, tl.load(keys + token * D + i, inside), inside)
    tl.store(value_cache + slot * D + i, tl.load(values + token * D + i, inside), inside)


@triton.jit
def _attend_part(q, keys, values, table, lengths, part, peak, weight, scale, PAGES, SPLITS,
                 PAGE: tl.constexpr, D: tl.constexpr):  # fmt: skip
    sequence, split = tl.program_id(0), tl.program_id(1)
    i, j = tl.arange(0, D), tl.arange(0, PAGE)
    query = tl.load(q + sequence * D + i)
    length = tl.load(lengths + sequence)
    top, total, out = -1e30, 0.0, tl.zeros([D], tl.float32)
    for number in range(split, tl.cdiv(length, PAGE), SPLITS):
        at = tl.load(table + sequence * PAGES + number) * PAGE * D + j[:, None] * D + i[None, :]
        score = tl.sum(tl.load(keys + at) * query[None, :], 1) * scale
        score = tl.where(number * PAGE + j < length, score, -1e30)
        new = tl.maximum(top, tl.max(score, 0))
        p, old = tl.exp(score - new), tl.exp(top - new)
        out = out * old + tl.sum(p[:, None] * tl.load(values + at), 0)
        total, top = total * old + tl.sum(p, 0), new
    place = sequence * SPLITS + split
    tl.store(part + place * D + i, out)
    tl.store(peak + place, top)
    tl.store(weight + place, total)


@triton.jit
def _attend_join(part, peak, weight, out, SPLITS: tl.constexpr, D: tl.constexpr):
    sequence, i, s = tl.program_id(0), tl.arange(0, D), tl.arange(0, SPLITS)
    tops = tl.load(peak + sequence * SPLITS + s)
    factor = tl.exp(tops - tl.max(tops, 0))
    total = tl.sum(factor * tl.load(weight + sequence * SPLITS + s), 0)
    parts = tl.load(part + (sequence * SPLITS + s)[:, None] * D + i[None, :])
    tl.store(out + sequence * D + i, tl.sum(parts * factor[:, None], 0) / total)


@xtarget.kernel(
    name="a.paged_decode",
    inputs={"q": In["float32", "B", "D"], "keys": In["float32", "BLOCKS", "PAGE", "D"],
            "values": In["float32", "BLOCKS", "PAGE", "D"], "table": In["int32", "B", "PAGES"],
            "lengths": In["int32", "B"]},
    scalars={"scale": 1.0},
    constants={"SPLITS": 4},
    workspaces={"part": Out["float32", "B", "SPLITS", "D"], "peak": Out["float32", "B", "SPLITS"],
                "weight": Out["float32", "B", "SPLITS"]},
    outputs={"out": "q"},
    complete=True,
)  # fmt: skip
def paged_decode(c: Any) -> Any:
    """Each part of the keys by itself, then a reduction over the parts."""
    yield step(_attend_part, (c.B, c.SPLITS))
    yield step(_attend_join, (c.B,), num_warps=1)


@xtarget.kernel(name="a.top_k_softmax", grid="TOKENS", complete=True, flags={"K": 2})
@triton.jit
def top_k_softmax(scores: In["floating", "TOKENS", "EXPERTS"],
                  weights: Out["float32", "TOKENS", "K"],
                  chosen: Out["int32", "TOKENS", "K"], K: tl.constexpr,
                  EXPERTS: tl.constexpr):  # fmt: skip
    token, i = tl.program_id(0), tl.arange(0, EXPERTS)
    left = tl.load(scores + token * EXPERTS + i).to(tl.float32)
    top, total = tl.max(left, 0), 0.0
    for n in tl.static_range(K):
        best = tl.argmax(left, 0)
        weight = tl.exp(tl.max(left, 0) - top)
        tl.store(weights + token * K + n, weight)
        tl.store(chosen + token * K + n, best)
        total += weight
        left = tl.where(i == best, -float("inf"), left)
    tl.debug_barrier()
    for n in tl.static_range(K):
        tl.store(weights + token * K + n, tl.load(weights + token * K + n) / total)


@xtarget.kernel(name="a.cross_entropy", grid="ROWS", num_warps=4,
                constants={"BLOCK": lambda c: next_power_of_2(c.N)})  # fmt: skip
@triton.jit
def cross_entropy(logits: InOut["floating", "ROWS", "N"], labels: In["int32|int64", "ROWS"],
                  loss: Out["float32", "ROWS"], N, ignore=-100, GRADIENT: tl.constexpr = True,
                  BLOCK: tl.constexpr = 1024):  # fmt: skip
    """The loss, and its gradient in the place of the logits."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    x = tl.load(logits + row * N + i, i < N, -float("inf")).to(tl.float32)
    top = tl.max(x, 0)
    power = tl.exp(x - top)
    total = tl.sum(power, 0)
    there = label != ignore
    right = tl.sum(tl.where(i == label, x, 0.0), 0)
    tl.store(loss + row, tl.where(there, tl.log(total) + top - right, 0.0))
    if GRADIENT:
        gradient = power / total - tl.where(i == label, 1.0, 0.0)
        tl.store(logits + row * N + i, tl.where(there, gradient, 0.0), i < N)


@xtarget.kernel(
    name="a.matmul",
    grid="cdiv(M, BM), cdiv(N, BN)",
    complete=True,
    configs=[Config({"BM": 16, "BN": 16, "BK": 16}, num_warps=1),
             Config({"BM": 32, "BN": 32, "BK": 32}, num_warps=4),
             Config({"BM": 64, "BN": 32, "BK": 32}, num_warps=4)],
    key=("M", "N", "K"),
    prune=lambda configs, c: [one for one in configs if one.constants["BM"] <= max(16, c.M)],
)  # fmt: skip
@triton.jit
def matmul(a: In["T", "M", "K"], b: In["T", "K", "N"], bias: In["T", "N"] | None,
           out: Out["T", "M", "N"], M, N, K, am: Stride["a", 0], ak: Stride["a", 1],
           bk: Stride["b", 0], bn: Stride["b", 1], ACTIVATION: tl.constexpr = "none",
           BM: tl.constexpr = 16, BN: tl.constexpr = 16, BK: tl.constexpr = 16):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * am + k[None, :] * ak,
                       (rows < M)[:, None] & (k < K)[None, :], 0)  # fmt: skip
        right = tl.load(b + k[:, None] * bk + columns[None, :] * bn,
                        (k < K)[:, None] & (columns < N)[None, :], 0)  # fmt: skip
        total += tl.dot(left, right, input_precision="ieee")
    if bias is not None:
        total += tl.load(bias + columns, columns < N, 0).to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        total = tl.maximum(total, 0.0)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(out + rows[:, None] * N + columns[None, :], total, inside)


@xtarget.kernel(name="a.layer_norm", complete=True, grid=lambda c: c.x.size // c.N,
                constants={"BLOCK": lambda c: next_power_of_2(c.N)},
                num_warps=lambda c: min(8, max(1, c.BLOCK // 256)))  # fmt: skip
@triton.jit
def layer_norm(x: In["T", ..., "N"], weight: In["T", "N"] | None, bias: In["T", "N"] | None,
               out: Out["x"], N, eps=1e-5, BLOCK: tl.constexpr = 1024):  # fmt: skip
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, 0).to(tl.float32)
    mean = tl.sum(v, 0) / N
    away = tl.where(i < N, v - mean, 0.0)
    v = away * tl.rsqrt(tl.sum(away * away, 0) / N + eps)
    if weight is not None:
        v *= tl.load(weight + i, i < N, 0).to(tl.float32)
    if bias is not None:
        v += tl.load(bias + i, i < N, 0).to(tl.float32)
    tl.store(out + row * N + i, v, i < N)


@xtarget.kernel(name="a.split_k", grid="cdiv(M, BM), cdiv(N, BN), SPLITS",
                constants={"BM": 16, "BN": 16, "BK": 32}, flags={"SPLITS": 4})  # fmt: skip
@triton.jit
def split_k(a: In["T", "M", "K"], b: In["T", "K", "N"], out: Out["float32", "M", "N"].filled(0),
            M, N, K, SPLITS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(tl.program_id(2) * BK, K, BK * SPLITS):
        k = start + tl.arange(0, BK)
        left = tl.load(
            a + rows[:, None] * K + k[None, :], (rows < M)[:, None] & (k < K)[None, :], 0
        )
        right = tl.load(b + k[:, None] * N + columns[None, :],
                        (k < K)[:, None] & (columns < N)[None, :], 0)  # fmt: skip
        total += tl.dot(left, right, input_precision="ieee")
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.atomic_add(out + rows[:, None] * N + columns[None, :], total, inside)


@xtarget.kernel(name="a.histogram", grid="cdiv(n, BLOCK)", constants={"BLOCK": 256},
                flags={"BINS": 32}, sizes={"n": "x.size"})  # fmt: skip
@triton.jit
def histogram(x: In["integer"], counts: Out["int32", "BINS"].filled(0), n, BINS: tl.constexpr,
              BLOCK: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n, -1).to(tl.int32)
    tl.atomic_add(counts + value, 1, (i < n) & (value >= 0) & (value < BINS))


@xtarget.kernel(name="a.varlen_attention", grid="SEQUENCES, HEADS", complete=True, num_warps=1,
                sizes={"SEQUENCES": "starts.size - 1"}, constants={"BN": 16})  # fmt: skip
@triton.jit
def varlen_attention(q: In["float32", "T", "HEADS", "D"], k: In["float32", "T", "HEADS", "D"],
                     v: In["float32", "T", "HEADS", "D"], starts: In["int32"], scale: float,
                     out: Out["q"], SEQUENCES, HEADS, D: tl.constexpr, CAUSAL: tl.constexpr = False,
                     BN: tl.constexpr = 16):  # fmt: skip
    """Sequences of any length one after the other; `starts` (cu_seqlens) says where they begin."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    first, end = tl.load(starts + sequence), tl.load(starts + sequence + 1)
    i, j = tl.arange(0, D), tl.arange(0, BN)
    for row in range(first, end):
        query = tl.load(q + (row * HEADS + head) * D + i)
        top, total, result = -1e30, 0.0, tl.zeros([D], tl.float32)
        for place in range(first, end, BN):
            at = place + j
            seen = (at < end) & ((at <= row) | (not CAUSAL))
            where = ((at * HEADS + head) * D)[:, None] + i[None, :]
            score = tl.sum(tl.load(k + where, seen[:, None], 0) * query[None, :], 1) * scale
            score = tl.where(seen, score, -1e30)
            new = tl.maximum(top, tl.max(score, 0))
            p, old = tl.where(seen, tl.exp(score - new), 0.0), tl.exp(top - new)
            result = result * old + tl.sum(p[:, None] * tl.load(v + where, seen[:, None], 0), 0)
            total, top = total * old + tl.sum(p, 0), new
        tl.store(out + (row * HEADS + head) * D + i, result / total)


@triton.jit
def _chunk_states(k, v, states, CHUNKS, D: tl.constexpr, CHUNK: tl.constexpr):
    batch, chunk = tl.program_id(0), tl.program_id(1)
    i, t = tl.arange(0, D), tl.arange(0, CHUNK)
    at = ((batch * CHUNKS + chunk) * CHUNK + t)[:, None] * D + i[None, :]
    state = tl.dot(tl.trans(tl.load(k + at)), tl.load(v + at), input_precision="ieee")
    place = (batch * CHUNKS + chunk) * D * D
    tl.store(states + place + i[:, None] * D + i[None, :], state)


@triton.jit
def _chunk_sums(states, CHUNKS, D: tl.constexpr):
    batch, i = tl.program_id(0), tl.arange(0, D)
    total = tl.zeros([D, D], tl.float32)
    for chunk in range(CHUNKS):  # what is before each chunk
        at = states + (batch * CHUNKS + chunk) * D * D + i[:, None] * D + i[None, :]
        here = tl.load(at)
        tl.store(at, total)
        total += here


@triton.jit
def _chunk_outputs(q, k, v, states, out, CHUNKS, D: tl.constexpr, CHUNK: tl.constexpr):
    batch, chunk = tl.program_id(0), tl.program_id(1)
    i, t = tl.arange(0, D), tl.arange(0, CHUNK)
    at = ((batch * CHUNKS + chunk) * CHUNK + t)[:, None] * D + i[None, :]
    queries = tl.load(q + at)
    score = tl.dot(queries, tl.trans(tl.load(k + at)), input_precision="ieee")
    score = tl.where(t[:, None] >= t[None, :], score, 0.0)
    before = states + (batch * CHUNKS + chunk) * D * D + i[:, None] * D + i[None, :]
    result = tl.dot(score, tl.load(v + at), input_precision="ieee")
    tl.store(out + at, result + tl.dot(queries, tl.load(before), input_precision="ieee"))


@xtarget.kernel(
    name="a.linear_attention",
    inputs=dict.fromkeys(("q", "k", "v"), In["float32", "B", "L", "D"]),
    outputs={"out": "q"},
    flags={"CHUNK": 16},
    sizes={"CHUNKS": "L // CHUNK"},
    workspaces={"states": Out["float32", "B", "CHUNKS", "D", "D"]},
    complete=True,
)
def linear_attention(c: Any) -> Any:
    """o[t] = q[t] · sum of k[s]ᵀ v[s] over s <= t, in chunks: three launches."""
    yield step(_chunk_states, (c.B, c.CHUNKS))
    yield step(_chunk_sums, (c.B,))
    yield step(_chunk_outputs, (c.B, c.CHUNKS))


@xtarget.kernel(name="a.quantise", grid="ROWS", complete=True,
                constants={"BLOCK": lambda c: next_power_of_2(c.N)})  # fmt: skip
@triton.jit
def quantise(x: In["floating", "ROWS", "N"], values: Out["int8", "ROWS", "N"],
             scales: Out["float32", "ROWS"], N, BLOCK: tl.constexpr):  # fmt: skip
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, 0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(v), 0), 1e-8) / 127
    tl.store(values + row * N + i, tl.floor(v / scale + 0.5).to(tl.int8), i < N)
    tl.store(scales + row, scale)


@xtarget.kernel(name="a.nonzero", grid="1", num_warps=4, constants={"BLOCK": 256},
                sizes={"n": "x.size"})  # fmt: skip
@triton.jit
def nonzero(x: In["any", "LENGTH"], places: Out["int32", "LENGTH"].counted_by("found"),
            found: Out["int32", 1], n, BLOCK: tl.constexpr):  # fmt: skip
    """How many there are is known afterwards: an upper bound, and a count."""
    total = 0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        there = (tl.load(x + i, i < n, 0) != 0).to(tl.int32)
        place = total + tl.cumsum(there, 0) - there
        tl.store(places + place, i, there != 0)
        total += tl.sum(there, 0)
    tl.store(found, total)


@xtarget.kernel(name="a.persistent_scale", complete=True, constants={"BLOCK": 128},
                sizes={"n": "x.size"},
                grid=lambda c: min(c.compute_units, cdiv(c.n, c.BLOCK)))  # fmt: skip
@triton.jit
def persistent_scale(x: In["floating"], factor: float, out: Out["x"], n, BLOCK: tl.constexpr):
    """As many blocks as there are multiprocessors; each takes every so-manyth part."""
    for part in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        i = part * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@xtarget.kernel(name="a.transpose", complete=True, grid="cdiv(M, B), cdiv(N, B)",
                constants={"B": 32, "DESCRIPTORS": lambda c: c.arch.startswith(("sm_9", "sm_1"))
                           and c.N % 8 == 0 and c.M % 8 == 0})  # fmt: skip
@triton.jit
def transpose(x: In["T", "M", "N"], out: Out["T", "N", "M"], M, N, B: tl.constexpr,
              DESCRIPTORS: tl.constexpr):  # fmt: skip
    """By descriptors where the GPU has them (TMA), else by addresses."""
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    if DESCRIPTORS:
        source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
        target = tl.make_tensor_descriptor(out, [N, M], [M, 1], [B, B])
        target.store([j, i], tl.trans(source.load([i, j])))
    else:
        rows, columns = i + tl.arange(0, B), j + tl.arange(0, B)
        inside = (rows < M)[:, None] & (columns < N)[None, :]
        tile = tl.load(x + rows[:, None] * N + columns[None, :], inside)
        tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(tile), tl.trans(inside))


@xtarget.kernel(name="test.numbers_first", inputs=("beta", "x", "alpha", "y"), complete=True,
                scalars=("alpha", "beta"), outputs={"out": "x"}, sizes={"n": "x.size"},
                constants={"BLOCK": 64}, grid="cdiv(n, BLOCK)")  # fmt: skip
@triton.jit
def numbers_first(x, y, out, alpha, beta, n, BLOCK: tl.constexpr):
    """A call's order that is not the function's."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = alpha * tl.load(x + i, i < n) + beta * tl.load(y + i, i < n)
    tl.store(out + i, v, i < n)
