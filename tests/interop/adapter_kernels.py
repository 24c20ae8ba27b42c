"""Kernels for `@xtarget.kernel` of the kinds that serving and training libraries have, beside those
of `author_kernels`, `serving_kernels` and `decoding_kernels`: adapters, masks, sampling, losses,
recurrences with states that may be left out."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

from typing import Any

import triton
import triton.language as tl

import xtarget
from xtarget.spec import In, InOut, Out, Stride, next_power_of_2, step


@triton.jit
def _shrink(x, a, which, low, K, R: tl.constexpr, BK: tl.constexpr):
    token, r, k = tl.program_id(0), tl.arange(0, R), tl.arange(0, BK)
    adapter = tl.load(which + token)
    total = tl.zeros([R], tl.float32)
    if adapter >= 0:
        for start in range(0, K, BK):
            inside = start + k < K
            v = tl.load(x + token * K + start + k, inside, 0).to(tl.float32)
            w = tl.load(a + (adapter * R + r[:, None]) * K + start + k[None, :], inside[None, :], 0)
            total += tl.sum(w.to(tl.float32) * v[None, :], 1)
    tl.store(low + token * R + r, total)


@triton.jit
def _expand(low, b, which, y, row, N, scale, R: tl.constexpr, BN: tl.constexpr):
    token, n, r = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, R)
    adapter = tl.load(which + token)
    if adapter >= 0:
        w = tl.load(b + (adapter * N + n[:, None]) * R + r[None, :], (n < N)[:, None], 0)
        added = tl.sum(w.to(tl.float32) * tl.load(low + token * R + r)[None, :], 1) * scale
        at = y + token * row + n
        old = tl.load(at, n < N, 0).to(tl.float32)
        tl.store(at, (old + added).to(y.dtype.element_ty), n < N)


@xtarget.kernel(
    name="b.lora",
    inputs={"y": InOut["T", "TOKENS", "N"], "x": In["T", "TOKENS", "K"],
            "a": In["T", "ADAPTERS", "R", "K"], "b": In["T", "ADAPTERS", "N", "R"],
            "which": In["int32", "TOKENS"]},
    scalars={"scale": 1.0}, sizes={"row": Stride["y", 0]}, constants={"BK": 32, "BN": 16},
    workspaces={"low": Out["float32", "TOKENS", "R"]},
)  # fmt: skip
def lora(c: Any) -> Any:
    """y += x a b of each token's adapter (below 0: none), on rows that may lie apart."""
    yield step(_shrink, c.TOKENS)
    yield step(_expand, (c.TOKENS, -(-c.N // 16)))


@xtarget.kernel(name="b.linear_cross_entropy", grid="cdiv(ROWS, BM)",
                constants={"BM": 16, "BV": 32, "BK": 16})  # fmt: skip
@triton.jit
def linear_cross_entropy(
    x: In["T", "ROWS", "K"],
    weight: In["T", "V", "K"],
    label: In["int64", "ROWS"],
    loss: Out["float32", "ROWS"],
    lse: Out["float32", "ROWS"],
    ROWS,
    V,
    K,
    softcap: float = 0.0,
    BM: tl.constexpr = 1,
    BV: tl.constexpr = 1,
    BK: tl.constexpr = 1,
):
    """Cross entropy of x @ weight.T, of which no row is ever stored."""
    m, v, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BV), tl.arange(0, BK)
    wanted = tl.load(label + m, m < ROWS, -1)
    peak, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32)
    found = tl.zeros([BM], tl.float32)
    for first in range(0, V, BV):
        scores = tl.zeros([BM, BV], tl.float32)
        for start in range(0, K, BK):
            kk = start + k
            left = tl.load(x + m[:, None] * K + kk, (m < ROWS)[:, None] & (kk < K), 0)
            right = tl.load(weight + (first + v)[None, :] * K + kk[:, None],
                            (first + v < V)[None, :] & (kk < K)[:, None], 0)  # fmt: skip
            scores = tl.dot(left, right, scores, input_precision="ieee")
        if softcap > 0:
            e = tl.exp(-2 * tl.abs(scores / softcap))
            scores = tl.where(scores < 0, -1, 1) * (1 - e) / (1 + e) * softcap
        scores = tl.where((first + v < V)[None, :], scores, -float("inf"))
        found += tl.sum(tl.where((first + v)[None, :] == wanted[:, None], scores, 0.0), 1)
        top = tl.maximum(peak, tl.max(scores, 1))
        total = total * tl.exp(peak - top) + tl.sum(tl.exp(scores - top[:, None]), 1)
        peak = top
    whole = peak + tl.log(total)
    tl.store(lse + m, whole, m < ROWS)
    tl.store(loss + m, tl.where(wanted < 0, 0.0, whole - found), m < ROWS)


@xtarget.kernel(name="b.int8_matmul", grid="cdiv(M, BM), cdiv(N, BN)", complete=True,
                constants={"BM": 16, "BN": 16, "BK": 32})  # fmt: skip
@triton.jit
def int8_matmul(
    x: In["int8", "M", "K"],
    w: In["int8", "N", "K"],
    x_scale: In["float32", "M"],
    w_scale: In["float32", "N"] | None,
    bias: In["KIND", "N"] | None,
    out: Out["KIND", "M", "N"],
    M,
    N,
    K,
    KIND: tl.constexpr = tl.float16,
    BM: tl.constexpr = 1,
    BN: tl.constexpr = 1,
    BK: tl.constexpr = 1,
):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.int32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(x + m[:, None] * K + k[None, :], (m < M)[:, None] & (k < K)[None, :], 0)
        right = tl.load(w + n[None, :] * K + k[:, None], (n < N)[None, :] & (k < K)[:, None], 0)
        total = tl.dot(left, right, total, out_dtype=tl.int32)  # which Triton 3.6 wants said
    result = total.to(tl.float32) * tl.load(x_scale + m, m < M, 0)[:, None]
    if w_scale is not None:
        result *= tl.load(w_scale + n, n < N, 0)[None, :]
    if bias is not None:
        result += tl.load(bias + n, n < N, 0).to(tl.float32)[None, :]
    at = out + m[:, None] * N + n[None, :]
    tl.store(at, result.to(KIND), (m < M)[:, None] & (n < N)[None, :])


@xtarget.kernel(name="b.sink_attention", grid="cdiv(T, BM), H",
                constants={"BM": 16, "BN": 16})  # fmt: skip
@triton.jit
def sink_attention(
    q: In["E", "H", "T", "D"],
    k: In["E", "KV", "T", "D"],
    v: In["E", "KV", "T", "D"],
    sinks: In["float32", "H"] | None,
    out: Out["E", "H", "T", "D"],
    scale: float,
    T,
    H,
    KV,
    WINDOW: tl.constexpr = None,
    D: tl.constexpr = 16,
    BM: tl.constexpr = 1,
    BN: tl.constexpr = 1,
):
    """Causal attention of grouped heads over a window, with a score that takes weight and has no
    value."""
    m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    head = tl.program_id(1)
    own = head // (H // KV)
    queries = tl.load(q + (head * T + m[:, None]) * D + d[None, :], (m < T)[:, None], 0)
    peak, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32)
    if sinks is not None:
        peak, total = peak * 0 + tl.load(sinks + head), total + 1
        peak = tl.zeros([BM], tl.float32) + tl.load(sinks + head)
    sums = tl.zeros([BM, D], tl.float32)
    first = 0
    if WINDOW is not None:
        first = tl.maximum(tl.program_id(0) * BM - WINDOW + 1, 0) // BN * BN
    for start in range(first, tl.minimum((tl.program_id(0) + 1) * BM, T), BN):
        j = start + n
        keys = tl.load(k + (own * T + j[None, :]) * D + d[:, None], (j < T)[None, :], 0)
        scores = tl.dot(queries, keys, input_precision="ieee") * scale
        seen = (j[None, :] <= m[:, None]) & (j < T)[None, :]
        if WINDOW is not None:
            seen &= m[:, None] - j[None, :] < WINDOW
        scores = tl.where(seen, scores, -float("inf"))
        top = tl.maximum(peak, tl.max(scores, 1))
        safe = tl.where(top == -float("inf"), 0.0, top)
        p = tl.exp(scores - safe[:, None])
        keep = tl.exp(tl.where(peak == -float("inf"), -float("inf"), peak - safe))
        values = tl.load(v + (own * T + j[:, None]) * D + d[None, :], (j < T)[:, None], 0)
        sums = sums * keep[:, None]
        sums = tl.dot(p.to(values.dtype), values, sums, input_precision="ieee")
        total, peak = total * keep + tl.sum(p, 1), top
    at = out + (head * T + m[:, None]) * D + d[None, :]
    tl.store(at, (sums / total[:, None]).to(out.dtype.element_ty), (m < T)[:, None])


@xtarget.kernel(name="b.copy_blocks", grid="PAIRS, 2", constants={"B": 64})
@triton.jit
def copy_blocks(
    keys: InOut["any", "BLOCKS", "SLOTS", "D"],
    values: InOut["any", "BLOCKS", "SLOTS", "D"],
    pairs: In["int64", "PAIRS", 2],
    key_step: Stride["keys", 0],
    value_step: Stride["values", 0],
    SLOTS,
    D,
    B: tl.constexpr,
):
    """Blocks of two caches, of dtypes of their own, copied to other blocks of the same."""
    pair = tl.program_id(0)
    source, target = tl.load(pairs + 2 * pair), tl.load(pairs + 2 * pair + 1)
    for start in range(0, SLOTS * D, B):
        i = start + tl.arange(0, B)
        if tl.program_id(1) == 0:
            kept = tl.load(keys + source * key_step + i, i < SLOTS * D)
            tl.store(keys + target * key_step + i, kept, i < SLOTS * D)
        else:
            moved = tl.load(values + source * value_step + i, i < SLOTS * D)
            tl.store(values + target * value_step + i, moved, i < SLOTS * D)


@xtarget.kernel(name="b.policy_loss", grid="ROWS", constants={"B": lambda c: next_power_of_2(c.V)})
@triton.jit
def policy_loss(
    logits: In["floating", "ROWS", "V"],
    chosen: In["int64", "ROWS"],
    old: In["float32", "ROWS"] | None,
    reference: In["float32", "ROWS"] | None,
    advantage: In["float32", "ROWS"],
    loss: Out["float32", "ROWS"],
    divergence: InOut["float32", "ROWS"] | None,
    clipped: Out["bool", "ROWS"],
    V,
    beta: float = 0.04,
    low: float = 0.2,
    high: float = 0.2,
    B: tl.constexpr = 1,
):
    """A clipped policy's loss; the divergence from a reference where there is room for it."""
    row, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(logits + row * V + i, i < V, -float("inf")).to(tl.float32)
    top = tl.max(x, 0)
    own = tl.load(logits + row * V + tl.load(chosen + row)).to(tl.float32)
    said = own - top - tl.log(tl.sum(tl.exp(x - top), 0))
    ratio = tl.exp(said - (said if old is None else tl.load(old + row)))
    gain = tl.load(advantage + row)
    cut = tl.minimum(tl.maximum(ratio, 1 - low), 1 + high)
    total = -tl.minimum(ratio * gain, cut * gain)
    if reference is not None:
        apart = tl.load(reference + row) - said
        kl = tl.exp(apart) - apart - 1
        total += beta * kl
        if divergence is not None:
            tl.store(divergence + row, kl)
    tl.store(loss + row, total)
    tl.store(clipped + row, ((ratio < 1 - low) & (gain < 0)) | ((ratio > 1 + high) & (gain > 0)))


@xtarget.kernel(name="b.token_mask", grid="ROWS, cdiv(V, B)", constants={"B": 128})
@triton.jit
def token_mask(
    logits: InOut["floating", "ALL", "V"],
    bits: In["int32", "ROWS", "(V + 31) // 32"],
    rows: In["int32", "ROWS"] | None,
    WORDS: Stride["bits", 0],
    row_step: Stride["logits", 0],
    V,
    B: tl.constexpr,
):
    """Set tokens that a grammar forbids to -inf: a bit for each token, 32 in a word."""
    i = tl.program_id(1) * B + tl.arange(0, B)
    word = tl.load(bits + tl.program_id(0) * WORDS + i // 32, i < V, 0)
    row = tl.program_id(0) if rows is None else tl.load(rows + tl.program_id(0))
    forbidden = ((word >> (i % 32)) & 1) == 0
    tl.store(logits + row * row_step + i, -float("inf"), (i < V) & forbidden)


@xtarget.kernel(name="b.sample", grid="ROWS", constants={"B": lambda c: next_power_of_2(c.V)})
@triton.jit
def sample(
    logits: In["floating", "ROWS", "V"],
    temperature: In["float32", "ROWS"] | None,
    seed: int,
    token: Out["int64", "ROWS"],
    logp: Out["float32", "ROWS"],
    V,
    B: tl.constexpr,
):
    """A token of each row by the largest of logits and Gumbel noise (0: the largest alone)."""
    row, i = tl.program_id(0), tl.arange(0, B)
    x = tl.load(logits + row * V + i, i < V, -float("inf")).to(tl.float32)
    heat = 1.0 if temperature is None else tl.load(temperature + row)
    noise = -tl.log(-tl.log(tl.rand(seed, row * V + i) * 0.999998 + 1e-6))
    x = tl.where(heat > 0, x / tl.where(heat > 0, heat, 1.0), x)
    taken = tl.argmax(tl.where(i < V, x + tl.where(heat > 0, noise, 0.0), -float("inf")), 0)
    top = tl.max(x, 0)
    own = tl.sum(tl.where(i == taken, x, 0.0), 0)
    tl.store(token + row, taken.to(tl.int64))
    tl.store(logp + row, own - top - tl.log(tl.sum(tl.exp(x - top), 0)))


@xtarget.kernel(name="b.propose", grid="ROWS", complete=True)
@triton.jit
def propose(
    tokens: In["int32", "ROWS", "MOST"],
    lengths: In["int32", "ROWS"],
    drafts: Out["int32", "ROWS", "COUNT"],
    found: Out["int32", "ROWS"],
    MOST,
    GRAM: tl.constexpr = 2,
    COUNT: tl.constexpr = 4,
):
    """Give the tokens that followed the last place where a row's last GRAM tokens stood before."""
    row = tl.program_id(0)
    length = tl.load(lengths + row)
    at, matched = length - GRAM - 1, 0
    while (at >= 0) & (matched == 0):
        same = 1
        for i in tl.static_range(GRAM):
            one = tl.load(tokens + row * MOST + at + i)
            same &= (one == tl.load(tokens + row * MOST + length - GRAM + i)).to(tl.int32)
        matched = same
        at -= 1
    count = 0
    for i in tl.static_range(COUNT):
        place = at + 1 + GRAM + i
        taken = (matched != 0) & (place < length)
        tl.store(drafts + row * COUNT + i, tl.load(tokens + row * MOST + place, taken, -1))
        count += taken.to(tl.int32)
    tl.store(found + row, count)


@triton.jit
def _gated(gate, value, gate2, value2):
    return gate * gate2, value * gate2 + value2


@xtarget.kernel(name="b.gated_recurrence", grid="BATCH, cdiv(D, BD)", complete=True,
                constants={"BD": 8, "BT": lambda c: next_power_of_2(c.T)})  # fmt: skip
@triton.jit
def gated_recurrence(
    x: In["E", "BATCH", "T", "D"],
    gate: In["E", "BATCH", "T", "D"],
    begin: In["float32", "BATCH", "D"] | None,
    out: Out["E", "BATCH", "T", "D"],
    end: InOut["float32", "BATCH", "D"] | None,
    T,
    D,
    REVERSED: tl.constexpr = False,
    BD: tl.constexpr = 1,
    BT: tl.constexpr = 1,
):
    """h = gate h + x along time, from a state that may be given, to one that may be wanted."""
    batch, t, d = tl.program_id(0), tl.arange(0, BT), tl.program_id(1) * BD + tl.arange(0, BD)
    time = T - 1 - t if REVERSED else t
    inside = (t < T)[:, None] & (d < D)[None, :]
    at = (batch * T + time[:, None]) * D + d[None, :]
    g = tl.load(gate + at, inside, 1).to(tl.float32)
    whole, h = tl.associative_scan((g, tl.load(x + at, inside, 0).to(tl.float32)), 0, _gated)
    if begin is not None:
        h += whole * tl.load(begin + batch * D + d, d < D, 0)[None, :]
    tl.store(out + at, h.to(out.dtype.element_ty), inside)
    if end is not None:
        last = tl.sum(tl.where((t == T - 1)[:, None], h, 0.0), 0)
        tl.store(end + batch * D + d, last, d < D)
