"""Kernels that use more of Triton's language than the library's and the first users' do."""

import triton
import triton.language as tl
from collatz import steps_of
from triton.language.extra import libdevice


@triton.jit
def _longer(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@triton.jit
def _affine(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def reductions(x, o, m: tl.constexpr, n: tl.constexpr):
    """Eight results for each row, of which one is a user's own way to combine."""
    rows = tl.arange(0, m)
    value = tl.load(x + rows[:, None] * n + tl.arange(0, n)[None, :])
    whole = (value * 8).to(tl.int32)
    tl.store(o + 0 * m + rows, tl.min(value, 1))
    tl.store(o + 1 * m + rows, tl.max(value, 1))
    tl.store(o + 2 * m + rows, tl.argmin(value, 1).to(tl.float32))
    tl.store(o + 3 * m + rows, tl.xor_sum(whole, 1).to(tl.float32))
    tl.store(o + 4 * m + rows, tl.reduce(value, 1, _longer))
    tl.store(o + 5 * m + rows, tl.reduce_or(whole, 1).to(tl.float32))
    best, place = tl.max(value, 1, return_indices=True)
    tl.store(o + 6 * m + rows, best + place)
    tl.store(o + 7 * m + rows, tl.sum(tl.where(value > 0, 1, 0), 1).to(tl.float32))


@triton.jit
def reduced_columns(x, o, m: tl.constexpr, n: tl.constexpr):
    columns = tl.arange(0, n)
    value = tl.load(x + tl.arange(0, m)[:, None] * n + columns[None, :])
    tl.store(o + columns, tl.sum(value, 0))
    tl.store(o + n + columns, tl.max(value, 0))
    tl.store(o + 2 * n + columns, tl.argmax(value, 0).to(value.dtype))
    tl.store(o + 3 * n, tl.sum(value))


@triton.jit
def scans(x, o, m: tl.constexpr, n: tl.constexpr):
    place = tl.arange(0, m)[:, None] * n + tl.arange(0, n)[None, :]
    value = tl.load(x + place)
    tl.store(o + place, tl.cumsum(value, 1))
    tl.store(o + m * n + place, tl.cumsum(value, 1, reverse=True))
    tl.store(o + 2 * m * n + place, tl.cumprod(1 + value * 0.01, 0))
    a, b = tl.associative_scan((1 - value * 0.1, value), 1, _affine)
    tl.store(o + 3 * m * n + place, a + b)


@triton.jit
def batched_product(a, b, o, s: tl.constexpr, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    each, rows = tl.arange(0, s)[:, None, None], tl.arange(0, m)[None, :, None]
    x = tl.load(a + each * m * k + rows * k + tl.arange(0, k)[None, None, :])
    inner, columns = tl.arange(0, k)[None, :, None], tl.arange(0, n)[None, None, :]
    y = tl.load(b + each * k * n + inner * n + columns)
    result = tl.dot(x, y, input_precision="ieee")
    tl.store(o + each * m * n + rows * n + columns, result)


@triton.jit
def long_integers(x, y, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1)
    b = tl.load(y + i, mask=inside, other=1)
    tl.store(o + 0 * n + i, a * b, mask=inside)
    tl.store(o + 1 * n + i, a // b, mask=inside)
    tl.store(o + 2 * n + i, a % b, mask=inside)
    tl.store(o + 3 * n + i, (a >> (b & 63)) ^ (a << (b & 31)), mask=inside)
    tl.store(o + 4 * n + i, tl.maximum(a, b) - tl.minimum(a, b), mask=inside)
    tl.store(o + 5 * n + i, a.to(tl.float64).to(tl.int64), mask=inside)
    tl.store(o + 6 * n + i, tl.umulhi(a.to(tl.uint64), b.to(tl.uint64)).to(tl.int64), mask=inside)
    tl.store(o + 7 * n + i, a.to(tl.float32).to(tl.int64), mask=inside)
    tl.store(o + 8 * n + i, tl.cumsum(a, 0), mask=inside)
    total = tl.sum(a, 0)
    tl.store(o + 9 * n + i, total + (a < b).to(tl.int64), mask=inside)


@triton.jit
def unsigned_integers(x, y, o, block: tl.constexpr):
    i = tl.arange(0, block)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + 0 * block + i, a // b)
    tl.store(o + 1 * block + i, a % b)
    tl.store(o + 2 * block + i, tl.umulhi(a, b))
    tl.store(o + 3 * block + i, a >> (b & 31))
    tl.store(o + 4 * block + i, tl.maximum(a, b))
    tl.store(o + 5 * block + i, a.to(tl.float32).to(tl.uint32, bitcast=True))
    tl.store(o + 6 * block + i, tl.where(a > b, a - b, ~a))


@triton.jit
def small_integers(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    a = tl.load(x + i)
    tl.store(o + 0 * block + i, a + a)
    tl.store(o + 1 * block + i, a * a)
    tl.store(o + 2 * block + i, a >> 2)
    tl.store(o + 3 * block + i, tl.maximum(a, -a))
    tl.store(o + 4 * block + i, (a.to(tl.float16) * 0.5).to(a.dtype))
    tl.store(o + 5 * block + i, tl.where(a > 3, a // 3, a % 3 + 7))


@triton.jit
def functions(x, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1.0)
    tl.store(o + 0 * n + i, tl.sin(a), mask=inside)
    tl.store(o + 1 * n + i, tl.cos(a), mask=inside)
    tl.store(o + 2 * n + i, tl.exp(a), mask=inside)
    tl.store(o + 3 * n + i, tl.log(tl.abs(a) + 0.5), mask=inside)
    tl.store(o + 4 * n + i, tl.sqrt(tl.abs(a)), mask=inside)
    tl.store(o + 5 * n + i, tl.rsqrt(tl.abs(a) + 0.5), mask=inside)
    tl.store(o + 6 * n + i, tl.floor(a) + tl.ceil(a), mask=inside)
    tl.store(o + 7 * n + i, tl.fma(a, a, a), mask=inside)
    tl.store(o + 8 * n + i, tl.erf(a), mask=inside)
    tl.store(o + 9 * n + i, a / (1 + tl.abs(a)), mask=inside)
    tl.store(o + 10 * n + i, tl.clamp(a, -1.0, 1.0), mask=inside)
    tl.store(o + 11 * n + i, tl.exp2(a), mask=inside)
    tl.store(o + 12 * n + i, tl.log2(tl.abs(a) + 0.5), mask=inside)


@triton.jit
def libdevice_functions(x, o, block: tl.constexpr):
    i = tl.arange(0, block)
    a = tl.load(x + i)
    tl.store(o + 0 * block + i, libdevice.tanh(a))
    tl.store(o + 1 * block + i, libdevice.pow(tl.abs(a) + 0.5, a))
    tl.store(o + 2 * block + i, libdevice.atan2(a, a + 3))
    tl.store(o + 3 * block + i, libdevice.log1p(tl.abs(a)))
    tl.store(o + 4 * block + i, libdevice.expm1(a))
    tl.store(o + 5 * block + i, libdevice.tan(a))
    tl.store(o + 6 * block + i, libdevice.asin(a / 8))
    tl.store(o + 7 * block + i, libdevice.atan(a))
    tl.store(o + 8 * block + i, libdevice.trunc(a) + libdevice.nearbyint(a))
    tl.store(o + 9 * block + i, libdevice.fmod(a, tl.full((block,), 0.75, a.dtype)))
    tl.store(o + 10 * block + i, libdevice.erfc(a))
    tl.store(o + 11 * block + i, libdevice.lgamma(tl.abs(a) + 0.5))
    tl.store(o + 12 * block + i, libdevice.hypot(a, a + 2))
    tl.store(o + 13 * block + i, libdevice.sinh(a))


@triton.jit
def shuffles(x, o, block: tl.constexpr):
    """The same elements in other orders."""
    i = tl.arange(0, block)
    a = tl.load(x + i)
    b = tl.load(x + block + i)
    both = tl.join(a, b)
    first, second = tl.split(both)
    tl.store(o + i, first - second)
    wide = tl.arange(0, 2 * block)
    tl.store(o + block + wide, tl.interleave(a, b))
    tl.store(o + 3 * block + i, tl.flip(a, 0))
    table = tl.reshape(both, (block // 4, 8))
    tl.store(o + 4 * block + tl.arange(0, 8), tl.sum(table, 0))
    square = tl.reshape(a, (16, block // 16))
    turned = tl.reshape(tl.trans(square), (block,))
    tl.store(o + 5 * block + i, turned)
    three = tl.permute(tl.reshape(a, (4, 8, block // 32)), (2, 0, 1))
    tl.store(o + 6 * block + i, tl.reshape(three, (block,)))
    spread = tl.broadcast_to(tl.sum(square, 1)[:, None], (16, block // 16))
    tl.store(o + 7 * block + i, tl.reshape(spread, (block,)))
    joined = tl.cat(a, b, can_reorder=True)
    tl.store(o + 8 * block, tl.sum(joined, 0))


@triton.jit
def gathers(x, index, o, m: tl.constexpr, n: tl.constexpr):
    rows, columns = tl.arange(0, m)[:, None], tl.arange(0, n)[None, :]
    place = rows * n + columns
    value, at = tl.load(x + place), tl.load(index + place)
    tl.store(o + place, tl.gather(value, at % n, 1))
    tl.store(o + m * n + place, tl.gather(value, at % m, 0))


@triton.jit
def orders(x, o, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    rows = tl.arange(0, m)[:, None]
    value = tl.load(x + rows * n + tl.arange(0, n)[None, :])
    tl.store(o + rows * n + tl.arange(0, n)[None, :], tl.sort(value, 1))
    tl.store(o + m * n + rows * n + tl.arange(0, n)[None, :], tl.sort(value, 1, descending=True))
    tl.store(o + 2 * m * n + rows * k + tl.arange(0, k)[None, :], tl.topk(value, k, 1))


@triton.jit
def loops(x, o, n, block: tl.constexpr):
    """Loops whose ends are data: Collatz's, by lane and by program, and one within another."""
    i = tl.arange(0, block)
    value = tl.load(x + i)
    steps = tl.zeros((block,), tl.int32)
    while tl.max((value > 1).to(tl.int32), 0) > 0:
        steps += (value > 1).to(tl.int32)
        value = tl.where(value > 1, tl.where(value % 2 == 0, value // 2, 3 * value + 1), value)
    tl.store(o + i, steps)
    tl.store(o + block, steps_of(tl.load(x + n)))
    found = 0
    for a in range(n):
        for b in range(a, n, 2):
            found += a * b
    for c in tl.static_range(3):
        found += c
    tl.store(o + block + 1, found)


@triton.jit
def atomics_of_all_kinds(x, o, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = (i < n) & (i % 3 != 0)
    value = tl.load(x + i, mask=i < n, other=0)
    place = i % 16
    tl.atomic_add(o + place, value, mask=inside)
    tl.atomic_max(o + 16 + place, tl.abs(value).to(x.dtype.element_ty), mask=inside)
    tl.atomic_min(o + 32 + place, -tl.abs(value).to(x.dtype.element_ty), mask=inside)
    tl.atomic_and(o + 48 + place, value, mask=inside)
    tl.atomic_or(o + 64 + place, value, mask=inside)
    tl.atomic_xor(o + 80 + place, value, mask=inside)
    tl.atomic_add(o + 96, tl.sum(tl.where(inside, value, 0), 0), sem="relaxed")


@triton.jit
def atomic_answers(x, o, old, block: tl.constexpr):
    """The old values: one lane of each place sees the beginning."""
    i = tl.arange(0, block)
    before = tl.atomic_xchg(o + i, tl.load(x + i), mask=i % 2 == 0)
    tl.store(old + i, before, mask=i % 2 == 0)
    seen = tl.atomic_cas(o + block + i, tl.full((block,), 5, tl.int32), tl.load(x + i))
    tl.store(old + block + i, seen)
    ticket = tl.atomic_add(o + 2 * block + 0 * i, tl.full((block,), 1, tl.int32))
    tl.store(old + 2 * block + i, ticket)


@triton.jit
def exchanges(x, o, old, block: tl.constexpr):
    """Each lane has several cells that lie apart."""
    i = tl.arange(0, block)
    value = tl.load(x + i)
    tl.store(old + i, tl.atomic_cas(o + (block - 1 - i) * 2, value, value + 1))


@triton.jit
def atomics_of_floats(x, o, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i)
    tl.atomic_add(o + i % 8, value, mask=i % 5 != 0)
    tl.atomic_max(o + 8 + i % 8, value)
    tl.atomic_min(o + 16 + i % 8, value)


@triton.jit
def random_numbers(seed, o, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(o + i, tl.rand(seed, i))
    tl.store(o + block + i, tl.randn(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(o + 2 * block + i, ((a ^ b ^ c ^ d) & 0xFFFF).to(tl.float32))
    tl.store(o + 3 * block + i, (tl.randint(seed + 1, i) & 0xFFFF).to(tl.float32))


@triton.jit
def attention_backward(q, k, v, do, dq, dk, dv, scale, m: tl.constexpr, n: tl.constexpr,
                       d: tl.constexpr):  # fmt: skip
    """One block of flash attention's backward pass: five products, each of the one before."""
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, d)
    left, right = rows[:, None] * d + inner[None, :], columns[:, None] * d + inner[None, :]
    query, gradient = tl.load(q + left), tl.load(do + left)
    key, value = tl.load(k + right), tl.load(v + right)
    score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    power = tl.exp(score - tl.max(score, 1)[:, None])
    share = power / tl.sum(power, 1)[:, None]
    out = tl.dot(share.to(value.dtype), value, input_precision="ieee")
    delta = tl.sum(out * gradient, 1)
    of_share = tl.dot(gradient, tl.trans(value), input_precision="ieee")
    of_score = (share * (of_share - delta[:, None]) * scale).to(query.dtype)
    tl.store(dv + right, tl.dot(tl.trans(share.to(query.dtype)), gradient, input_precision="ieee"))
    tl.store(dk + right, tl.dot(tl.trans(of_score), query, input_precision="ieee"))
    tl.store(dq + left, tl.dot(of_score, key, input_precision="ieee"))


@triton.jit
def staged_product(a, b, o, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr,
                   precision: tl.constexpr):  # fmt: skip
    """A product whose loads run ahead, with masks at every edge and programs in groups."""
    pid = tl.program_id(0)
    across = tl.cdiv(n, bn)
    down, right = tl.swizzle2d(pid // across, pid % across, tl.cdiv(m, bm), across, 2)
    rows, columns, inner = (
        down * bm + tl.arange(0, bm),
        right * bn + tl.arange(0, bn),
        tl.arange(0, bk),
    )
    total = tl.zeros((bm, bn), tl.float32)
    for start in range(0, k, bk):
        at = start + inner
        x = tl.load(a + rows[:, None] * k + at[None, :],
                    mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)  # fmt: skip
        y = tl.load(b + at[:, None] * n + columns[None, :],
                    mask=(at[:, None] < k) & (columns[None, :] < n), other=0.0)  # fmt: skip
        total = tl.dot(x, y, total, input_precision=precision)
    tl.store(o + rows[:, None] * n + columns[None, :], total,
             mask=(rows[:, None] < m) & (columns[None, :] < n))  # fmt: skip


@triton.jit
def row_softmax(x, o, n, block: tl.constexpr):
    i = tl.arange(0, block)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    power = tl.exp(row - tl.max(row, 0))
    tl.store(o + tl.program_id(0) * n + i, power / tl.sum(power, 0), mask=i < n)


@triton.jit
def welford(x, o, n, block: tl.constexpr):
    """Mean and variance in one pass over blocks."""
    count = 0.0
    mean = tl.zeros((block,), tl.float32)
    square = tl.zeros((block,), tl.float32)
    for start in range(0, n, block):
        value = tl.load(x + start + tl.arange(0, block))
        count += 1
        change = value - mean
        mean += change / count
        square += change * (value - mean)
    total = tl.sum(mean, 0) / block
    spread = tl.sum(square + count * (mean - total) * (mean - total), 0) / n
    tl.store(o, total)
    tl.store(o + 1, spread)


@triton.jit
def descriptors(x, o, m, n, bm: tl.constexpr, bn: tl.constexpr):
    source = tl.make_tensor_descriptor(x, (m, n), (n, 1), (bm, bn))
    goal = tl.make_tensor_descriptor(o, (m, n), (n, 1), (bm, bn))
    for column in range(0, n, bn):
        goal.store(
            [tl.program_id(0) * bm, column], source.load([tl.program_id(0) * bm, column]) * 2
        )


@triton.jit
def conversions(x, o, small, block: tl.constexpr, kind: tl.constexpr):
    """To a type and back."""
    i = tl.arange(0, block)
    narrow = tl.load(x + i).to(kind)
    tl.store(small + i, narrow)
    tl.store(o + i, narrow.to(tl.float32))
