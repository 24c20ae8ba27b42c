"""Kernels made to trip the compiler that turns a block's lanes into vectors. `Case.expect` is the
answer of NumPy where that is short; all have to give the same as with a thread for each lane.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from collatz import steps_of
from spirv_cases import Case, empty, normal, rng

CASES: dict[str, Case] = {}
I32, I64, F32 = np.int32, np.int64, np.float32


def ints(low: int, high: int, count: int, dtype: Any = I32) -> Any:
    return rng.integers(low, high, count).astype(dtype)


# ------------------------------------------------------------------------- lanes go their own ways


@triton.jit
def divisor_of(a, b):
    while b != 0:
        a, b = b, a % b
    for k in range(3):
        if a > 10 * k:
            a -= k
    return a


@triton.jit
def own_ways(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(o + i, tl.map_elementwise(steps_of, a))
    tl.store(o + B + i, tl.map_elementwise(divisor_of, a, b))


def steps_by_python(n: int) -> int:
    count = 0
    while n != 1:
        n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
    return count


def divisor_by_python(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    for k in range(3):
        a -= k if a > 10 * k else 0
    return a


if hasattr(tl, "map_elementwise"):
    CASES["own_ways"] = Case(
        own_ways,
        {"x": "*i32", "y": "*i32", "o": "*i32"},
        {"B": 64},
        lambda: [ints(1, 5000, 64), ints(0, 90, 64), empty(128, dtype=I32)],
        lambda x, y, o: [(2, [*map(steps_by_python, x.tolist()),
                              *map(divisor_by_python, x.tolist(), y.tolist())])],
    )  # fmt: skip


@triton.jit
def uniform_by_reduction(x, o, rounds, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    count = 0
    while (tl.max(v, 0) > 100) & (count < rounds):
        if tl.sum(v & 1, 0) > B // 2:
            v = tl.where(v > 100, v // 2, v + 1)
        else:
            v = tl.where(v > 100, v // 3, v)
            if tl.min(v, 0) == 0:
                v += 1
        count += 1
    tl.store(o + i, v)
    tl.store(o + B, count)


CASES["uniform_by_reduction"] = Case(
    uniform_by_reduction,
    {"x": "*i32", "o": "*i32", "rounds": "i32"},
    {"B": 32},
    lambda: [ints(0, 1_000_000, 32), empty(33, dtype=I32), 40],
)

# --------------------------------------------------------------------------------------- atomics


@triton.jit
def counted(x, o, old, once, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, 0)
    m = (i < n) & (v % 3 != 0)
    before = tl.atomic_add(o + v, 1, m)
    tl.atomic_max(o + 64 + v % 4, v, i < n, sem="relaxed")
    tl.atomic_min(o + 68 + v % 4, v, sem="acquire", scope="cta")
    tl.atomic_xor(o + 72 + i * 0, v, m)
    tl.store(old + i, tl.atomic_xchg(o + 128 + i, v, i < n), i < n)
    tl.atomic_add(o + 73, tl.sum(v, 0))
    # which of two lanes is first is not said, what comes of both is
    tl.atomic_add(o + 74, tl.sum(tl.where(m, before, 0), 0))
    first = tl.atomic_cas(once + i // 2, tl.full([B], 77, tl.int32), v)
    tl.atomic_add(o + 75, tl.sum((first == 77).to(tl.int32), 0))


def counted_by_numpy(x: Any, o: Any, old: Any, once: Any, n: int) -> list[tuple[int, Any]]:
    v = np.where(np.arange(64) < n, x, 0)
    m = (np.arange(64) < n) & (v % 3 != 0)
    o, old = o.copy(), old.copy()
    np.add.at(o, v[m], 1)
    np.maximum.at(o, 64 + v[:n] % 4, v[:n])
    np.minimum.at(o, 68 + v % 4, v)
    o[72] ^= np.bitwise_xor.reduce(v[m])
    old[:n], o[128 : 128 + n] = o[128 : 128 + n], v[:n]
    many = np.bincount(v[m])
    o[73:76] += np.array([v.sum(), (77 * many + many * (many - 1) // 2).sum(), 32])
    return [(1, o), (2, old)]


CASES["counted"] = Case(
    counted,
    {"x": "*i32", "o": "*i32", "old": "*i32", "once": "*i32", "n": "i32"},
    {"B": 64},
    lambda: [
        ints(0, 60, 64), empty(192, dtype=I32), empty(64, dtype=I32), empty(32, dtype=I32), 45
    ],
    counted_by_numpy,
)  # fmt: skip


@triton.jit
def small_sums(x, half, brain, wide, at, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.load(at + i)
    v = tl.load(x + i)
    tl.atomic_add(half + p, v.to(tl.float16), i < n)
    tl.atomic_add(brain + p, v.to(tl.bfloat16), i % 2 == 0)
    tl.atomic_add(wide + p, v.to(tl.float64))
    tl.atomic_max(wide + 8 + p, v.to(tl.float64), i < n)


CASES["small_sums"] = Case(
    small_sums,
    {"x": "*fp32", "half": "*fp16", "brain": "*bf16", "wide": "*fp64", "at": "*i32", "n": "i32"},
    {"B": 64},
    lambda: [
        ints(0, 4, 64, F32), np.zeros(8, np.float16), np.zeros(8, ml_dtypes.bfloat16),
        np.zeros(16), ints(0, 8, 64), 50,
    ],
    lambda x, half, brain, wide, at, n: [
        (1, np.bincount(at[:n], x[:n], 8)), (2, np.bincount(at[::2], x[::2], 8)),
        (3, np.concatenate([
            np.bincount(at, x, 8),
            [max([0.0, *x[:n][at[:n] == k]]) for k in range(8)],
        ])),
    ],
)  # fmt: skip


# ---------------------------------------------------------------------------------------- memory


@triton.jit
def looked_up(b, s, h, at, other, o, w, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.load(at + i)
    far = tl.load(other + i)
    tl.store(o + i, tl.load(b + p, p < n, far.to(tl.int8)))
    tl.store(o + B + i, tl.load(b + (B - 1 - i)))
    flags = tl.load(b.to(tl.pointer_type(tl.int1)) + i, (i > 3) & (i < n), False)
    tl.store(o + 2 * B + i, flags.to(tl.int8) + 2 * (flags & (p > 5)).to(tl.int8))
    short = tl.load(s + 2 * i, i < n // 2, -5)
    tl.store(w + i, short.to(tl.int64) * tl.load(h + p // 2, p % 3 != 1, 3.0).to(tl.int64))
    tl.store(w + B + (i * 7) % B, far.to(tl.int64) << (i % 60).to(tl.int64), i != 9)
    chosen = tl.where(p > 20, w + 2 * B, w + 3 * B)
    tl.store(chosen + i, p.to(tl.int64), i % 5 != 2)
    tl.store(w + 4 * B, tl.load(at + 5).to(tl.int64))


CASES["looked_up"] = Case(
    looked_up,
    {"b": "*i8", "s": "*i16", "h": "*fp16", "at": "*i32", "other": "*i32", "o": "*i8",
     "w": "*i64", "n": "i32"},
    {"B": 64},
    lambda: [
        ints(0, 2, 64, np.int8), ints(-999, 999, 128, np.int16), ints(-9, 9, 64, np.float16),
        ints(0, 64, 64), ints(-100, 100, 64), empty(192, dtype=np.int8),
        empty(4 * 64 + 1, dtype=I64), 41,
    ],
)  # fmt: skip


@triton.jit
def padded_blocks(x, o, rows, columns, M: tl.constexpr, N: tl.constexpr):
    m = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    inside = (m < rows) & (n < columns)
    v = tl.load(x + m * columns + n, inside, float("nan"))
    t = tl.trans(v)
    tl.store(o + m * N + n, tl.where(v == v, v, -1.0))
    back = tl.load(x + (rows - 1 - m) * columns + n, inside, 0.5, cache_modifier=".cg")
    tl.store(o + 1024 + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], t)
    tl.store(o + 2048 + m * N + n, back, mask=n < columns, eviction_policy="evict_first")


CASES["padded_blocks"] = Case(
    padded_blocks,
    {"x": "*fp32", "o": "*fp32", "rows": "i32", "columns": "i32"},
    {"M": 8, "N": 32},
    lambda: [normal(13 * 29), empty(3072), 13, 29],
)

# --------------------------------------------------------------------------------- numbers and NaN


@triton.jit
def odd_numbers(x, y, o, k, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(y + i)
    P: tl.constexpr = tl.PropagateNan.ALL
    tl.store(o + i, tl.maximum(a, b, propagate_nan=P))
    tl.store(o + B + i, tl.minimum(a, b))
    tl.store(o + 2 * B + i, tl.where((a < b) | (a != a), a, -b))
    tl.store(o + 3 * B + i, tl.clamp(a, -1.0, 1.0))
    tl.store(o + 4 * B + i, tl.fma(a, b, a) + tl.abs(b))
    tl.store(k + i, (a == b).to(tl.int32) + 2 * (a > b) + 4 * (a <= b) + 8 * (a != b))
    bits = a.to(tl.int32, bitcast=True)
    tl.store(k + B + i, (bits >> (i % 31)) ^ (bits.to(tl.uint32) >> 3).to(tl.int32))
    tl.store(k + 2 * B + i, tl.umulhi(bits.to(tl.uint32), 0x9E3779B9).to(tl.int32))
    tl.store(k + 3 * B, tl.argmax(a, 0))
    tl.store(k + 3 * B + 1, tl.argmin(tl.where(i > 7, b, 1.0), 0, tie_break_left=True))


ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3.5, -2.25], F32)
CASES["odd_numbers"] = Case(
    odd_numbers,
    {"x": "*fp32", "y": "*fp32", "o": "*fp32", "k": "*i32"},
    {"B": 64},
    lambda: [np.repeat(ODD, 8), np.tile(ODD, 8), empty(320), empty(194, dtype=I32)],
)


@triton.jit(noinline=True)
def apart(v, n):
    for _ in range(n):
        v = v * 0.5 + 1
    return v


@triton.jit
def staged(x, o, n, rows, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    best = tl.full([B], -1, tl.int32)
    for r in tl.range(0, rows, num_stages=3):
        v = tl.load(x + r * n + i, i < n, 0.0)
        first = tl.load(x + r * n)
        if first > 0:
            total += v * apart(first, r % 3)
        else:
            best = tl.where(v > 0.3, r, best)
    tl.store(o + i, total, i < n)
    tl.store(o + B + i, best.to(tl.float32))


CASES["staged"] = Case(
    staged,
    {"x": "*fp32", "o": "*fp32", "n": "i32", "rows": "i32"},
    {"B": 64},
    lambda: [normal(9 * 51), empty(128), 51, 9],
)

# ------------------------------------------------------------------------- values that meet others


@triton.jit
def worse(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)


@triton.jit
def joined_up(a, s, b, t):
    return a * b, s * b + t


@triton.jit
def met(x, o, k, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    v = tl.load(x + m * N + n)
    tl.store(k + m * N + n, tl.sort(v, 1, descending=True))
    tl.store(k + M * N + m * N + n, tl.cumsum(v, 0, reverse=True))
    tl.store(k + 2 * M * N + m * N + n, tl.flip(v, 1))
    tl.store(o + tl.arange(0, N), tl.max(v, 0))
    tl.store(o + 64 + tl.arange(0, M), tl.xor_sum(v, 1))
    _value, index = tl.reduce((v, tl.broadcast_to(m * N + n, [M, N])), 1, worse)
    tl.store(o + 96 + tl.arange(0, M), index)
    left, right = tl.associative_scan((v % 2 + 1, v), 1, joined_up)
    tl.store(k + 3 * M * N + m * N + n, left ^ right)
    flat = tl.reshape(v, [M * N])
    where = tl.arange(0, M * N)
    tl.store(k + 4 * M * N + where, tl.gather(flat, flat % (M * N), 0))
    lo, hi = tl.split(tl.reshape(v, [M * N // 2, 2]))
    tl.store(k + 5 * M * N + where, tl.interleave(hi, lo))
    tl.store(o + 128 + tl.arange(0, 64), tl.histogram(flat % 64, 64))


CASES["met"] = Case(
    met,
    {"x": "*i32", "o": "*i32", "k": "*i32"},
    {"M": 8, "N": 16},
    lambda: [ints(0, 60, 128), empty(192, dtype=I32), empty(6 * 128, dtype=I32)],
    lambda x, o, k: [
        (2, np.concatenate([
            -np.sort(-x.reshape(8, 16), 1).ravel(),
            np.cumsum(x.reshape(8, 16)[::-1], 0)[::-1].ravel(),
            x.reshape(8, 16)[:, ::-1].ravel(),
            scanned(x), x[x % 128], x.reshape(64, 2)[:, ::-1].ravel(),
        ])),
    ],
)  # fmt: skip


def scanned(x: Any) -> Any:
    """The rows as `joined_up` scans them."""
    rows = x.reshape(8, 16)
    a, s = rows[:, 0] % 2 + 1, rows[:, 0]
    found = [a ^ s]
    for v in rows.T[1:]:
        a, s = a * (v % 2 + 1), s * (v % 2 + 1) + v
        found.append(a ^ s)
    return np.array(found).T.ravel()
