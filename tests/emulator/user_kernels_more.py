"""Kernels as users write them: of language models, signal processing, sparse and graph work."""

import triton
import triton.language as tl


@triton.jit
def rotary(x, cos, sin, o, heads, half: tl.constexpr):
    """Rotates the two halves of each head of a position."""
    position, head = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, half)
    at = (position * heads + head) * 2 * half
    first, second = tl.load(x + at + i), tl.load(x + at + half + i)
    c, s = tl.load(cos + position * half + i), tl.load(sin + position * half + i)
    tl.store(o + at + i, first * c - second * s)
    tl.store(o + at + half + i, second * c + first * s)


@triton.jit
def cross_entropy(logits, labels, loss, gradient, n, block: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, block)
    x = tl.load(logits + row * n + i, mask=i < n, other=-float("inf"))
    label = tl.load(labels + row)
    top = tl.max(x, 0)
    power = tl.exp(x - top)
    total = tl.sum(power, 0)
    tl.store(loss + row, tl.log(total) + top - tl.load(logits + row * n + label))
    share = power / total
    tl.store(gradient + row * n + i, tl.where(i == label, share - 1, share), mask=i < n)


@triton.jit
def four_bit_product(x, packed, scale, o, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr,
                     group: tl.constexpr):  # fmt: skip
    """Weights of 4 bits, eight in a word, with a scale for each group of rows."""
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    word = tl.load(packed + (inner[:, None] // 8) * n + columns[None, :])
    weight = ((word >> ((inner[:, None] % 8) * 4)) & 15) - 8
    s = tl.load(scale + (inner[:, None] // group) * n + columns[None, :])
    b = (weight.to(tl.float32) * s).to(tl.float16)
    a = tl.load(x + rows[:, None] * k + inner[None, :])
    tl.store(o + rows[:, None] * n + columns[None, :], tl.dot(a, b))


@triton.jit
def paged_attention(q, keys, values, table, lengths, o, page: tl.constexpr, d: tl.constexpr,
                    pages: tl.constexpr):  # fmt: skip
    """One query a sequence; keys and values lie in pages that a table names."""
    sequence = tl.program_id(0)
    i, j = tl.arange(0, d), tl.arange(0, page)
    query = tl.load(q + sequence * d + i)
    length = tl.load(lengths + sequence)
    top, total = -float("inf"), 0.0
    out = tl.zeros([d], tl.float32)
    for number in range(tl.cdiv(length, page)):
        base = tl.load(table + sequence * pages + number) * page * d
        k = tl.load(keys + base + j[:, None] * d + i[None, :])
        score = tl.sum(k * query[None, :], 1)
        score = tl.where(number * page + j < length, score, -float("inf"))
        new = tl.maximum(top, tl.max(score, 0))
        p, old = tl.exp(score - new), tl.exp(top - new)
        v = tl.load(values + base + j[:, None] * d + i[None, :])
        out = out * old + tl.sum(p[:, None] * v, 0)
        total, top = total * old + tl.sum(p, 0), new
    tl.store(o + sequence * d + i, out / total)


@triton.jit
def _compose(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def state_space(decay, x, o, steps: tl.constexpr, channels: tl.constexpr):
    """h[t] = decay[t] * h[t - 1] + x[t], by an associative scan."""
    t, c = tl.arange(0, steps), tl.arange(0, channels)
    at = t[:, None] * channels + c[None, :]
    _, h = tl.associative_scan((tl.load(decay + at), tl.load(x + at)), 0, _compose)
    tl.store(o + at, h)


@triton.jit
def _butterflies(re, im, n: tl.constexpr, half: tl.constexpr):
    a, b = tl.split(tl.permute(tl.reshape(re, [n // (2 * half), 2, half]), [0, 2, 1]))
    c, d = tl.split(tl.permute(tl.reshape(im, [n // (2 * half), 2, half]), [0, 2, 1]))
    angle = -3.141592653589793 * tl.arange(0, half).to(tl.float32) / half
    w, v = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    x, y = b * w - d * v, b * v + d * w
    re = tl.reshape(tl.permute(tl.join(a + x, a - x), [0, 2, 1]), [n])
    return re, tl.reshape(tl.permute(tl.join(c + y, c - y), [0, 2, 1]), [n])


@triton.jit
def fourier(real, imaginary, o_real, o_imaginary, n: tl.constexpr, bits: tl.constexpr):
    """Radix-2 butterflies on the elements in the order of their reversed bits."""
    i = tl.arange(0, n)
    turned = tl.zeros([n], tl.int32)
    for b in tl.static_range(bits):
        turned |= ((i >> b) & 1) << (bits - 1 - b)
    re, im = tl.load(real + turned), tl.load(imaginary + turned)
    for stage in tl.static_range(bits):
        re, im = _butterflies(re, im, n, 1 << stage)
    tl.store(o_real + i, re)
    tl.store(o_imaginary + i, im)


@triton.jit
def sparse_rows(start, column, value, x, o, block: tl.constexpr):
    """A sparse matrix (CSR) times a vector; rows have any length."""
    row = tl.program_id(0)
    place, end = tl.load(start + row), tl.load(start + row + 1)
    total = tl.zeros([block], tl.float32)
    while place < end:
        i = place + tl.arange(0, block)
        there = i < end
        at = tl.load(column + i, mask=there, other=0)
        total += tl.load(value + i, mask=there, other=0.0) * tl.load(x + at, mask=there)
        place += block
    tl.store(o + row, tl.sum(total, 0))


@triton.jit
def scatter_rows(index, gradient, table, d: tl.constexpr):
    """The backward of an embedding: rows are added where an index says."""
    i = tl.arange(0, d)
    at = tl.load(index + tl.program_id(0))
    tl.atomic_add(table + at * d + i, tl.load(gradient + tl.program_id(0) * d + i))


@triton.jit
def convolution(x, w, o, channels: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
                filters: tl.constexpr):  # fmt: skip
    """3 x 3, padded, as one product: (pixels) x (channels * 9) by (channels * 9) x (filters)."""
    pixel = tl.arange(0, height * width)
    k, f = tl.arange(0, 16 * channels), tl.arange(0, filters)
    tap = k % 16  # nine of sixteen are used
    y = (pixel // width)[:, None] + (tap // 3 - 1)[None, :]
    z = (pixel % width)[:, None] + (tap % 3 - 1)[None, :]
    there = (tap < 9)[None, :] & (y >= 0) & (y < height) & (z >= 0) & (z < width)
    at = (k // 16)[None, :] * height * width + y * width + z
    a = tl.load(x + at, mask=there, other=0.0)
    weight = w + (k // 16)[:, None] * 9 * filters + tap[:, None] * filters + f[None, :]
    b = tl.load(weight, mask=(tap < 9)[:, None], other=0.0)
    tl.store(o + pixel[:, None] * filters + f[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def split_product(a, b, o, m: tl.constexpr, n: tl.constexpr, k, part: tl.constexpr):
    """Each block multiplies a part of k and adds to the result."""
    rows, columns = tl.arange(0, m), tl.arange(0, n)
    inner = tl.program_id(0) * part + tl.arange(0, part)
    x = tl.load(a + rows[:, None] * k + inner[None, :], mask=inner[None, :] < k, other=0.0)
    y = tl.load(b + inner[:, None] * n + columns[None, :], mask=inner[:, None] < k, other=0.0)
    tl.atomic_add(o + rows[:, None] * n + columns[None, :], tl.dot(x, y), sem="relaxed")


@triton.jit
def whole_numbers(x, y, o, n: tl.constexpr):
    """64-bit quotients and remainders, upper halves of products, bits."""
    i = tl.arange(0, n)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, a // b)
    tl.store(o + n + i, a % b)
    tl.store(o + 2 * n + i, tl.umulhi(a.to(tl.uint64), b.to(tl.uint64)).to(tl.int64))
    tl.store(o + 3 * n + i, (a << (b & 63)) ^ (a >> (b & 31)))


@triton.jit
def best_of_row(x, o, index, n: tl.constexpr, k: tl.constexpr):
    """The k largest with their places, one after the other."""
    row, i = tl.program_id(0), tl.arange(0, n)
    value = tl.load(x + row * n + i)
    for rank in tl.static_range(k):
        top, place = tl.max(value, 0, return_indices=True)
        tl.store(o + row * k + rank, top)
        tl.store(index + row * k + rank, place)
        value = tl.where(i == place, -float("inf"), value)


@triton.jit
def grouped_product(x, w, expert, o, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    """Blocks of rows go through the weights of the expert that they were given to."""
    block = tl.program_id(0)
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    weights = w + tl.load(expert + block) * k * n
    a = tl.load(x + (block * m + rows)[:, None] * k + inner[None, :])
    b = tl.load(weights + inner[:, None] * n + columns[None, :])
    at = o + (block * m + rows)[:, None] * n + columns[None, :]
    tl.store(at, tl.dot(a, b).to(o.dtype.element_ty))


@triton.jit
def quantized(x, o, scale, n: tl.constexpr):
    """Rows to 8 bits, rounded to the nearest, with a scale each."""
    row, i = tl.program_id(0), tl.arange(0, n)
    value = tl.load(x + row * n + i).to(tl.float32)
    s = tl.max(tl.abs(value), 0) / 127
    tl.store(scale + row, s)
    tl.store(o + row * n + i, tl.floor(value / s + 0.5).to(tl.int8))


@triton.jit
def group_norm(x, w, b, o, channels: tl.constexpr, pixels: tl.constexpr):
    """One group of channels of one image a block."""
    c, p = tl.arange(0, channels), tl.arange(0, pixels)
    at = tl.program_id(0) * channels * pixels + c[:, None] * pixels + p[None, :]
    value = tl.load(x + at)
    mean = tl.sum(value) / (channels * pixels)
    away = value - mean
    inverse = tl.rsqrt(tl.sum(away * away) / (channels * pixels) + 1e-5)
    scaled = away * inverse * tl.load(w + c)[:, None] + tl.load(b + c)[:, None]
    tl.store(o + at, scaled)
