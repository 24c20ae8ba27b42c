"""Kernels in the manner of published ones (of inference engines, trainers and tutorials), written
for these tests. None of them has a race."""

import triton
import triton.language as tl


@triton.jit
def rms_norm(x, w, o, n, eps, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v) / n + eps)
    tl.store(o + row * n + i, v * scale * tl.load(w + i, mask=i < n), mask=i < n)


@triton.jit
def rms_norm_in_place(x, w, o, n, eps, block: tl.constexpr):
    """Two passes over a row that is longer than a block."""
    row = tl.program_id(0)
    total = tl.zeros((block,), tl.float32)
    for start in range(0, n, block):
        i = start + tl.arange(0, block)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0)
        total += v * v
    scale = tl.rsqrt(tl.sum(total) / n + eps)
    for start in range(0, n, block):
        i = start + tl.arange(0, block)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0)
        tl.store(o + row * n + i, v * scale * tl.load(w + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def rms_norm_kept(x, w, o, kept, n, eps, block: tl.constexpr):
    """The scale of each row, one value that all warps store, is kept for the way back."""
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v) / n + eps)
    tl.store(kept + row, scale)
    tl.store(o + row * n + i, v * scale * tl.load(w + i, mask=i < n), mask=i < n)


@triton.jit
def fused_add_rms_norm(x, residual, w, n, eps, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    v += tl.load(residual + row * n + i, mask=i < n, other=0.0)
    tl.store(residual + row * n + i, v, mask=i < n)
    scale = tl.rsqrt(tl.sum(v * v) / n + eps)
    tl.store(x + row * n + i, v * scale * tl.load(w + i, mask=i < n), mask=i < n)


@triton.jit
def layer_norm(x, w, b, o, mean, rstd, n, eps, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    m = tl.sum(v) / n
    d = tl.where(i < n, v - m, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    y = d * r * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n)
    tl.store(o + row * n + i, y, mask=i < n)


@triton.jit
def layer_norm_backward(dy, x, w, mean, rstd, dx, dw, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    inside = i < n
    v = tl.load(x + row * n + i, mask=inside, other=0.0)
    g = tl.load(dy + row * n + i, mask=inside, other=0.0)
    r = tl.load(rstd + row)
    hat = tl.where(inside, (v - tl.load(mean + row)) * r, 0.0)
    wdy = tl.where(inside, tl.load(w + i, mask=inside, other=0.0) * g, 0.0)
    c1, c2 = tl.sum(hat * wdy) / n, tl.sum(wdy) / n
    tl.store(dx + row * n + i, (wdy - (hat * c1 + c2)) * r, mask=inside)
    tl.atomic_add(dw + i, g * hat, mask=inside)


@triton.jit
def rope(q, cos, sin, heads, half, pad: tl.constexpr):
    """In place, the halves of each head."""
    row, i = tl.program_id(0), tl.arange(0, pad)
    inside = i < half
    c = tl.load(cos + row * half + i, mask=inside, other=0.0)
    s = tl.load(sin + row * half + i, mask=inside, other=0.0)
    for head in range(heads):
        base = q + (row * heads + head) * 2 * half
        a = tl.load(base + i, mask=inside, other=0.0)
        b = tl.load(base + half + i, mask=inside, other=0.0)
        tl.store(base + i, a * c - b * s, mask=inside)
        tl.store(base + half + i, b * c + a * s, mask=inside)


@triton.jit
def rope_tiles(q, cos, sin, half: tl.constexpr, heads: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, half)[None, :]
    head = tl.arange(0, heads)[:, None]
    c, s = tl.load(cos + row * half + i), tl.load(sin + row * half + i)
    at = q + (row * heads + head) * 2 * half + i
    a, b = tl.load(at), tl.load(at + half)
    tl.store(at, a * c - b * s)
    tl.store(at + half, b * c + a * s)


@triton.jit
def softmax(x, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v))
    tl.store(o + row * n + i, e / tl.sum(e), mask=i < n)


@triton.jit
def online_softmax(x, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    top, total = -float("inf"), 0.0
    for start in range(0, n, block):
        v = tl.load(x + row * n + start + i, mask=start + i < n, other=-float("inf"))
        new = tl.maximum(top, tl.max(v))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new))
        top = new
    for start in range(0, n, block):
        v = tl.load(x + row * n + start + i, mask=start + i < n, other=0.0)
        tl.store(o + row * n + start + i, tl.exp(v - top) / total, mask=start + i < n)


@triton.jit
def log_softmax(x, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    v -= tl.max(v)
    tl.store(o + row * n + i, v - tl.log(tl.sum(tl.exp(v))), mask=i < n)


@triton.jit
def causal_softmax(x, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i <= row, other=-float("inf"))
    e = tl.exp(v - tl.max(v))
    tl.store(o + row * n + i, e / tl.sum(e), mask=i < n)


@triton.jit
def softmax_backward(y, dy, dx, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    p = tl.load(y + row * n + i, mask=i < n, other=0.0)
    g = tl.load(dy + row * n + i, mask=i < n, other=0.0)
    tl.store(dx + row * n + i, p * (g - tl.sum(p * g)), mask=i < n)


@triton.jit
def cross_entropy(x, label, loss, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    top = tl.max(v)
    total = tl.log(tl.sum(tl.exp(v - top))) + top
    tl.store(loss + row, total - tl.load(x + row * n + tl.load(label + row)))


@triton.jit
def cross_entropy_in_place(x, label, loss, n, block: tl.constexpr):
    """The gradient takes the place of the logits, behind a barrier."""
    row, i = tl.program_id(0), tl.arange(0, block)
    y = tl.load(label + row)
    mine = tl.load(x + row * n + y)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    top = tl.max(v)
    total = tl.sum(tl.exp(v - top))
    tl.store(loss + row, tl.log(total) + top - mine)
    tl.debug_barrier()
    tl.store(x + row * n + i, tl.exp(v - top) / total - tl.where(i == y, 1.0, 0.0), mask=i < n)


@triton.jit
def swiglu(a, b, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(a + i, mask=i < n, other=0.0)
    tl.store(o + i, x * tl.sigmoid(x) * tl.load(b + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def swiglu_backward(dc, a, b, n, block: tl.constexpr):
    """The gradients take the places of the operands."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    g = tl.load(dc + i, mask=i < n, other=0.0)
    x = tl.load(a + i, mask=i < n, other=0.0)
    y = tl.load(b + i, mask=i < n, other=0.0)
    s = tl.sigmoid(x)
    tl.store(a + i, g * y * (s + x * s * (1 - s)), mask=i < n)
    tl.store(b + i, g * x * s, mask=i < n)


@triton.jit
def geglu(a, b, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(a + i, mask=i < n, other=0.0)
    g = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(o + i, g * tl.load(b + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def embedding(table, index, o, d, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    k = tl.load(index + row)
    tl.store(o + row * d + i, tl.load(table + k * d + i, mask=i < d), mask=i < d)


@triton.jit
def embedding_backward(g, index, table, d, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    k = tl.load(index + row)
    tl.atomic_add(table + k * d + i, tl.load(g + row * d + i, mask=i < d, other=0.0), mask=i < d)


@triton.jit
def seeded_dropout(x, o, n, p, seed, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + i, mask=i < n, other=0.0)
    keep = tl.rand(seed, i) > p
    tl.store(o + i, tl.where(keep, v / (1 - p), 0.0) * 0 + v, mask=i < n)


@triton.jit
def quantise_rows(x, o, scale, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    s = tl.maximum(tl.max(tl.abs(v)) / 127.0, 1e-10)
    tl.store(scale + row, s)
    q = tl.floor(v / s + 0.5)
    tl.store(o + row * n + i, q.to(tl.int8), mask=i < n)


@triton.jit
def quantise_groups(x, o, scale, group: tl.constexpr, groups: tl.constexpr):
    """A scale for each group of a row."""
    row = tl.program_id(0)
    i = tl.arange(0, groups)[:, None] * group + tl.arange(0, group)[None, :]
    v = tl.load(x + row * groups * group + i)
    s = tl.maximum(tl.max(tl.abs(v), 1) / 127.0, 1e-10)
    tl.store(scale + row * groups + tl.arange(0, groups), s)
    tl.store(o + row * groups * group + i, tl.floor(v / s[:, None] + 0.5).to(tl.int8))


@triton.jit
def dequantise(q, scale, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(q + row * n + i, mask=i < n, other=0).to(tl.float32)
    tl.store(o + row * n + i, v * tl.load(scale + row), mask=i < n)


@triton.jit
def flash_attention(q, k, v, o, lse, n, scale, m: tl.constexpr, bn: tl.constexpr, d: tl.constexpr):
    rows, cols, depth = tl.arange(0, m), tl.arange(0, bn), tl.arange(0, d)
    first = tl.program_id(0) * m
    at = (first + rows)[:, None] * d + depth[None, :]
    query = tl.load(q + at)
    top = tl.full((m,), -float("inf"), tl.float32)
    total = tl.zeros((m,), tl.float32)
    acc = tl.zeros((m, d), tl.float32)
    for start in range(0, first + m, bn):
        key = tl.load(k + (start + cols)[None, :] * d + depth[:, None])
        score = tl.dot(query, key) * scale
        seen = (start + cols)[None, :] <= (first + rows)[:, None]
        score = tl.where(seen, score, -float("inf"))
        new = tl.maximum(top, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        old = tl.exp(top - new)
        total = total * old + tl.sum(p, 1)
        value = tl.load(v + (start + cols)[:, None] * d + depth[None, :])
        acc = acc * old[:, None] + tl.dot(p.to(value.dtype), value)
        top = new
    tl.store(o + at, acc / total[:, None])
    tl.store(lse + first + rows, top + tl.log(total))


@triton.jit
def decode_attention(q, k, v, o, length, scale, bn: tl.constexpr, d: tl.constexpr):
    """One query, as of a decoder's step; products without matrix units."""
    head = tl.program_id(0)
    depth, cols = tl.arange(0, d), tl.arange(0, bn)
    n = tl.load(length + head)
    query = tl.load(q + head * d + depth)
    top, total = -float("inf"), 0.0
    acc = tl.zeros((d,), tl.float32)
    for start in range(0, n, bn):
        inside = start + cols < n
        at = (start + cols)[:, None] * d + depth[None, :]
        key = tl.load(k + at, mask=inside[:, None], other=0.0)
        score = tl.where(inside, tl.sum(query[None, :] * key, 1) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(score))
        p, old = tl.exp(score - new), tl.exp(top - new)
        value = tl.load(v + at, mask=inside[:, None], other=0.0)
        acc = acc * old + tl.sum(p[:, None] * value, 0)
        total = total * old + tl.sum(p)
        top = new
    tl.store(o + head * d + depth, acc / total)


@triton.jit
def split_k(a, b, o, k, m: tl.constexpr, n: tl.constexpr, bk: tl.constexpr):
    part, parts = tl.program_id(0), tl.num_programs(0)
    rows, cols, depth = tl.arange(0, m), tl.arange(0, n), tl.arange(0, bk)
    acc = tl.zeros((m, n), tl.float32)
    for start in range(part * bk, k, parts * bk):
        x = tl.load(a + rows[:, None] * k + (start + depth)[None, :])
        y = tl.load(b + (start + depth)[:, None] * n + cols[None, :])
        acc = tl.dot(x, y, acc)
    tl.atomic_add(o + rows[:, None] * n + cols[None, :], acc)


@triton.jit
def split_k_last_adds(a, b, parts, count, o, k, m: tl.constexpr, n: tl.constexpr, bk: tl.constexpr):
    """The last part to come adds the others up."""
    part, number = tl.program_id(0), tl.num_programs(0)
    rows, cols, depth = tl.arange(0, m), tl.arange(0, n), tl.arange(0, bk)
    x = tl.load(a + rows[:, None] * k + (part * bk + depth)[None, :])
    y = tl.load(b + (part * bk + depth)[:, None] * n + cols[None, :])
    at = rows[:, None] * n + cols[None, :]
    tl.store(parts + part * m * n + at, tl.dot(x, y))
    tl.debug_barrier()
    if tl.atomic_add(count, 1) == number - 1:
        total = tl.zeros((m, n), tl.float32)
        for other in range(number):
            total += tl.load(parts + other * m * n + at)
        tl.store(o + at, total)


@triton.jit
def running_sum(x, o, n, block: tl.constexpr):
    """Of a row longer than a block, with what was before it carried on."""
    row, i = tl.program_id(0), tl.arange(0, block)
    before = 0.0
    for start in range(0, n, block):
        v = tl.load(x + row * n + start + i, mask=start + i < n, other=0.0)
        tl.store(o + row * n + start + i, tl.cumsum(v) + before, mask=start + i < n)
        before += tl.sum(v)


@triton.jit
def top_of_row(x, value, where, n, k: tl.constexpr, block: tl.constexpr):
    """The k largest, one after the other, as samplers and routers take them."""
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    for j in range(k):
        best = tl.argmax(v, 0)
        tl.store(value + row * k + j, tl.max(v))
        tl.store(where + row * k + j, best)
        v = tl.where(i == best, -float("inf"), v)


@triton.jit
def count_experts(index, count, n, experts: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    e = tl.load(index + i, mask=i < n, other=experts - 1)
    counted = tl.histogram(e, experts, mask=i < n)
    tl.atomic_add(count + tl.arange(0, experts), counted)


@triton.jit
def align_experts(index, order, count, n, experts: tl.constexpr, block: tl.constexpr):
    """Each token's place among those of its expert."""
    i = tl.arange(0, block)
    e = tl.load(index + i, mask=i < n, other=experts)
    hot = (e[:, None] == tl.arange(0, experts)[None, :]).to(tl.int32)
    rank = tl.sum(tl.cumsum(hot, 0) * hot, 1) - 1
    tl.store(order + i, rank, mask=i < n)
    tl.store(count + tl.arange(0, experts), tl.sum(hot, 0))


@triton.jit
def transposed(x, o, m, n, block: tl.constexpr):
    rows = tl.program_id(0) * block + tl.arange(0, block)
    cols = tl.program_id(1) * block + tl.arange(0, block)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    v = tl.load(x + rows[:, None] * n + cols[None, :], mask=inside)
    back = (cols[:, None] < n) & (rows[None, :] < m)
    tl.store(o + cols[:, None] * m + rows[None, :], tl.trans(v), mask=back)


@triton.jit
def adam(p, g, m, v, n, lr, b1, b2, eps, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    grad = tl.load(g + i, mask=inside, other=0.0)
    first = tl.load(m + i, mask=inside, other=0.0) * b1 + grad * (1 - b1)
    second = tl.load(v + i, mask=inside, other=0.0) * b2 + grad * grad * (1 - b2)
    tl.store(m + i, first, mask=inside)
    tl.store(v + i, second, mask=inside)
    old = tl.load(p + i, mask=inside, other=0.0)
    tl.store(p + i, old - lr * first / (tl.sqrt(second) + eps), mask=inside)


@triton.jit
def norm_of_all(x, partial, count, o, n, block: tl.constexpr):
    """A gradient's norm: the last block to come has it."""
    me, i = tl.program_id(0), tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(partial + me, tl.sum(v * v))
    tl.debug_barrier()
    if tl.atomic_add(count, 1) == tl.num_programs(0) - 1:
        total = 0.0
        for k in range(tl.num_programs(0)):
            total += tl.load(partial + k)
        tl.store(o, tl.sqrt(total))


@triton.jit
def fill_cache(key, slot, cache, d, block: tl.constexpr):
    """A paged cache; negative slots are padding."""
    row, i = tl.program_id(0), tl.arange(0, block)
    at = tl.load(slot + row)
    if at >= 0:
        tl.store(cache + at * d + i, tl.load(key + row * d + i, mask=i < d), mask=i < d)


@triton.jit
def convolve_causal(x, w, o, n, width: tl.constexpr, block: tl.constexpr):
    channel = tl.program_id(0)
    i = tl.arange(0, block)
    total = tl.zeros((block,), tl.float32)
    for j in tl.static_range(width):
        at = i - (width - 1) + j
        v = tl.load(x + channel * n + at, mask=(at >= 0) & (at < n), other=0.0)
        total += v * tl.load(w + channel * width + j)
    tl.store(o + channel * n + i, total * tl.sigmoid(total), mask=i < n)


@triton.jit
def pooled(x, start, o, d, block: tl.constexpr):
    """Sums of ragged rows."""
    bag, i = tl.program_id(0), tl.arange(0, block)
    total = tl.zeros((block,), tl.float32)
    for row in range(tl.load(start + bag), tl.load(start + bag + 1)):
        total += tl.load(x + row * d + i, mask=i < d, other=0.0)
    tl.store(o + bag * d + i, total, mask=i < d)


@triton.jit
def kl_divergence(p, q, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    a = tl.load(p + row * n + i, mask=i < n, other=0.0)
    b = tl.load(q + row * n + i, mask=i < n, other=1.0)
    tl.store(o + row, tl.sum(tl.where(a > 0, a * (tl.log(a) - tl.log(b)), 0.0)))


@triton.jit
def penalised(logits, seen, o, n, penalty, block: tl.constexpr):
    """A sampler's penalty for tokens that were there before."""
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(logits + row * n + i, mask=i < n)
    there = tl.load(seen + row * n + i, mask=i < n, other=0) != 0
    v = tl.where(there, tl.where(v > 0, v / penalty, v * penalty), v)
    tl.store(o + row * n + i, v, mask=i < n)


@triton.jit
def sampled(probability, u, o, n, block: tl.constexpr):
    """From a distribution, by its running sum."""
    row, i = tl.program_id(0), tl.arange(0, block)
    p = tl.load(probability + row * n + i, mask=i < n, other=0.0)
    below = (tl.cumsum(p) <= tl.load(u + row)) & (i < n)
    tl.store(o + row, tl.sum(below.to(tl.int32)))


@triton.jit
def lora(x, a, b, o, index, d: tl.constexpr, r: tl.constexpr):
    """An adapter of its own for each row, as servers of many have them; -1 is none."""
    row = tl.program_id(0)
    k = tl.load(index + row)
    if k < 0:
        return
    i, j = tl.arange(0, d), tl.arange(0, r)
    v = tl.load(x + row * d + i)
    small = tl.sum(tl.load(a + k * d * r + j[:, None] * d + i[None, :]) * v[None, :], 1)
    wide = tl.sum(tl.load(b + k * d * r + i[:, None] * r + j[None, :]) * small[None, :], 1)
    tl.store(o + row * d + i, tl.load(o + row * d + i) + wide)


@triton.jit
def sorted_rows(x, o, n, block: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, block)
    v = tl.load(x + row * n + i, mask=i < n, other=float("inf"))
    tl.store(o + row * n + i, tl.sort(v), mask=i < n)
