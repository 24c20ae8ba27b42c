"""More of Triton's language, by the items that are hard on SPIR-V: 8-bit floats, descriptors,
atomics, and the dots of `spirv_products`. Cases as in `spirv_kernels`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import spirv_products
import triton
import triton.language as tl
from spirv_cases import VERSION, Case, dtypes, empty, normal, rng
from spirv_products import FLOAT8

CASES: dict[str, Case] = dict(spirv_products.CASES)

# ------------------------------------------------------------------------------------ 8-bit floats


@triton.jit
def float8_casts(x, wide, narrow, again, half, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(wide + i, v.to(tl.float32))
    tl.store(half + i, v.to(tl.float16))
    tl.store(again + i, tl.load(narrow + i).to(x.dtype.element_ty))


for _type, _dtype in FLOAT8.items():
    CASES[f"float8_casts_{_type}"] = Case(
        float8_casts,
        {"x": "*" + _type, "wide": "*fp32", "narrow": "*fp32", "again": "*" + _type,
         "half": "*fp16"},
        {"B": 256},
        lambda d=_dtype: [np.arange(256).astype(np.uint8).view(d), empty(256),
                          np.clip(normal(256) * 8, -200, 200), empty(256, dtype=np.uint8).view(d),
                          empty(256, dtype=np.float16)],
        lambda x, w, n, a, h, rounds_once=VERSION >= (3, 8) or _type != "fp8e4b8": [
            (1, x.astype(np.float32)),
            (4, x.astype(np.float32).astype(np.float16)),
            *([(3, n.astype(x.dtype))] if rounds_once else ()),  # else twice, by float16
        ],
    )  # fmt: skip


@triton.jit
def float8_b15(x, wide, narrow, again, half, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i).to(tl.float8e4b15, bitcast=True)
    tl.store(wide + i, v.to(tl.float32))
    tl.store(half + i, v.to(tl.float16))
    tl.store(again + i, tl.load(narrow + i).to(tl.float8e4b15).to(tl.uint8, bitcast=True))


def _b15(x: Any) -> Any:
    """Exponent of 4 bits with a bias of 15, 3 bits of mantissa, no infinity or NaN."""
    exponent, mantissa = (x >> 3 & 15).astype(int), (x & 7) / 8
    size = np.where(exponent == 0, mantissa * 2.0**-14, (1 + mantissa) * 2.0 ** (exponent - 15))
    return np.where(x & 128, -size, size)


def _to_b15(v: Any) -> Any:
    """To nearest of the value cut to fp16, ties away, at most 1.75."""
    table = _b15(np.arange(128, dtype=np.uint8))[:127]
    at = np.abs(v.astype(np.float64))[:, None]
    gap = np.abs(at - table[None, :])
    best = 126 - np.argmin(gap[:, ::-1], 1)
    return (best + np.where(np.signbit(v), 128, 0)).astype(np.uint8)


CASES["float8_b15"] = Case(
    float8_b15,
    {"x": "*u8", "wide": "*fp32", "narrow": "*fp32", "again": "*u8", "half": "*fp16"},
    {"B": 256},
    lambda: [np.arange(256).astype(np.uint8), empty(256),
             normal(256, dtype=np.float16).astype(np.float32), empty(256, dtype=np.uint8),
             empty(256, dtype=np.float16)],
    lambda x, w, n, a, h: [(1, _b15(x)), (3, _to_b15(n)), (4, _b15(x))],
)  # fmt: skip

# ------------------------------------------------------------------------------------- descriptors


@triton.jit
def descriptor_rows(x, rows, o, m, n, B: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [m, n], [n, 1], [1, B])
    e = tl.make_tensor_descriptor(o, [m, n], [n, 1], [1, B])
    r = tl.load(rows + tl.arange(0, 8))
    e.scatter(d.gather(r, 4) * 2, r, 4)


CASES["descriptor_rows"] = Case(
    descriptor_rows,
    {"x": "*fp32", "rows": "*i32", "o": "*fp32", "m": "i32", "n": "i32"},
    {"B": 16},
    lambda: [normal(20, 36), np.array([3, 1, 19, 7, 0, 2, 11, 5], np.int32), empty(20, 36), 20, 36],
    lambda x, rows, o, m, n: [(2, _scattered(x, rows, o))],
)


def _scattered(x: Any, rows: Any, o: Any) -> Any:
    o = o.copy()
    o[rows, 4:20] = x[rows, 4:20] * 2
    return o


@triton.jit
def descriptor_sums(x, o, low, high, m, n, B: tl.constexpr):
    v = tl.make_tensor_descriptor(x, [m, n], [n, 1], [B, B]).load([0, tl.program_id(0) * B])
    tl.make_tensor_descriptor(o, [m, B], [B, 1], [B, B]).atomic_add([0, 0], v)
    tl.make_tensor_descriptor(low, [m, B], [B, 1], [B, B]).atomic_min([0, 0], v)
    tl.make_tensor_descriptor(high, [m, B], [B, 1], [B, B]).atomic_max([0, 0], v)


CASES["descriptor_sums"] = Case(
    descriptor_sums,
    {"x": "*i32", "o": "*i32", "low": "*i32", "high": "*i32", "m": "i32", "n": "i32"},
    {"B": 16},
    lambda: [(normal(10, 64) * 99).astype(np.int32), empty(10, 16, dtype=np.int32),
             empty(10, 16, dtype=np.int32), empty(10, 16, dtype=np.int32), 10, 64],
    lambda x, o, low, high, m, n: [
        (1, x.reshape(10, 4, 16).sum(1) + 77),
        (2, np.minimum(x.reshape(10, 4, 16).min(1), 77)),
        (3, np.maximum(x.reshape(10, 4, 16).max(1), 77)),
    ],
    grid=(4, 1, 1),
)  # fmt: skip


@triton.jit
def descriptor_nan(x, o, m, B: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [m], [1], [B], padding_option="nan")
    tl.store(o + tl.arange(0, B), d.load([0]))


CASES["descriptor_nan"] = Case(
    descriptor_nan,
    {"x": "*fp32", "o": "*fp32", "m": "i32"},
    {"B": 64},
    lambda: [normal(50), empty(64), 50],
    lambda x, o, m: [(1, np.concatenate([x, np.full(14, np.nan)]))],
)

# ----------------------------------------------------------------------------------------- atomics


@triton.jit
def atomics_of(p, v, old, B: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(v + i)
    tl.atomic_add(p + i % 4, x, sem=SEM, scope=SCOPE)
    tl.atomic_max(p + 4 + i % 4, x, sem=SEM, scope=SCOPE)
    tl.atomic_min(p + 8 + i % 4, x, sem=SEM, scope=SCOPE)
    tl.store(old + i, tl.atomic_xchg(p + 12 + i, x, sem=SEM, scope=SCOPE))


def _atomics_of(p: Any, v: Any, old: Any) -> Any:
    by4 = v.reshape(-1, 4)
    wide = by4.astype(np.float64) if p.dtype.kind not in "iu" else by4
    add = (p[:4].astype(wide.dtype) + wide.sum(0)).astype(p.dtype)
    low, high = np.minimum(p[8:12], by4.min(0)), np.maximum(p[4:8], by4.max(0))
    return [(0, np.concatenate([add, high, low, v])), (2, p[12:])]


for _type, _dtype, _sem, _scope in (
    ("i32", np.int32, "relaxed", "gpu"),
    ("u32", np.uint32, "acquire", "cta"),
    ("i64", np.int64, "release", "sys"),
    ("u64", np.uint64, "acq_rel", "gpu"),
    ("fp32", np.float32, "acq_rel", "cta"),
    ("fp64", np.float64, "relaxed", "sys"),
):
    CASES[f"atomics_of_{_type}"] = Case(
        atomics_of,
        {"p": "*" + _type, "v": "*" + _type, "old": "*" + _type},
        {"B": 64, "SEM": _sem, "SCOPE": _scope},
        lambda d=_dtype: [np.full(76, 9, d), np.abs(normal(64) * 9).astype(np.int32).astype(d),
                          np.zeros(64, d)],
        _atomics_of,
    )  # fmt: skip


@triton.jit
def atomic_bits(p, v, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(v + i)
    tl.atomic_and(p + i % 4, x, mask=i < 60)
    tl.atomic_or(p + 4 + i % 4, x, mask=i < 60)
    tl.atomic_xor(p + 8 + i % 4, x, mask=i < 60)


for _type, _dtype in dtypes("i32", "i64"):
    CASES[f"atomic_bits_{_type}"] = Case(
        atomic_bits,
        {"p": "*" + _type, "v": "*" + _type},
        {"B": 64},
        lambda d=_dtype: [np.full(12, 0x5555, d), rng.integers(0, 1 << 30, 64).astype(d)],
        lambda p, v: [(0, np.concatenate([
            p[:4] & np.bitwise_and.reduce(v[:60].reshape(-1, 4)),
            p[4:8] | np.bitwise_or.reduce(v[:60].reshape(-1, 4)),
            p[8:] ^ np.bitwise_xor.reduce(v[:60].reshape(-1, 4))]))],
    )  # fmt: skip


@triton.jit
def atomic_exchange(p, expected, v, old, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(old + i, tl.atomic_cas(p + i, tl.load(expected + i), tl.load(v + i)))


for _type, _dtype in dtypes("i16", "i32", "i64", "fp16", "bf16", "fp32", "fp64"):
    CASES[f"atomic_exchange_{_type}"] = Case(
        atomic_exchange,
        {"p": "*" + _type, "expected": "*" + _type, "v": "*" + _type, "old": "*" + _type},
        {"B": 32},
        lambda d=_dtype: [np.arange(32).astype(d), (np.arange(32) // 2 * 2).astype(d),
                          (np.arange(32) + 50).astype(d), np.zeros(32, d)],
        lambda p, e, v, old: [(0, np.where(p == e, v, p)), (3, p)],
    )  # fmt: skip


@triton.jit
def atomic_small_floats(h, b, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(h + i % 5, tl.full([B], 0.25, tl.float16), mask=i < 50)
    tl.atomic_add(b + i % 5, tl.full([B], 0.25, tl.bfloat16), mask=i < 50)


CASES["atomic_small_floats"] = Case(
    atomic_small_floats,
    {"h": "*fp16", "b": "*bf16"},
    {"B": 64},
    lambda: [np.zeros(6, np.float16), np.zeros(6, ml_dtypes.bfloat16)],
    lambda h, b: [(0, [2.5] * 5 + [0]), (1, [2.5] * 5 + [0])],
)

# ------------------------------------------------------------------------------ signs, joins, sorts


@triton.jit
def zeros_of_pairs(x, y, low, high, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    w = tl.load(y + i)
    tl.store(low + i, tl.minimum(v, w, propagate_nan=tl.PropagateNan.ALL))
    tl.store(high + i, tl.maximum(v, w, propagate_nan=tl.PropagateNan.ALL))


# older Tritons do not order -0 and 0
for _type, _dtype in dtypes("fp16", "bf16", "fp32", "fp64") if VERSION >= (3, 9) else ():
    # as bits, which tell them apart
    CASES[f"zeros_of_pairs_{_type}"] = Case(
        zeros_of_pairs,
        {"x": "*" + _type, "y": "*" + _type, "low": "*" + _type, "high": "*" + _type},
        {"B": 16},
        lambda d=_dtype: [a.astype(d).view(f"i{np.dtype(d).itemsize}") for a in (
            np.tile([0.0, -0.0, 1.0, -0.0], 4), np.tile([-0.0, 0.0, -0.0, -0.0], 4),
            np.zeros(16), np.zeros(16))],
        lambda x, y, low, high, d=_dtype: [
            (2, np.tile([-0.0, -0.0, -0.0, -0.0], 4).astype(d).view(x.dtype)),
            (3, np.tile([0.0, 0.0, 1.0, -0.0], 4).astype(d).view(x.dtype))],
    )  # fmt: skip


@triton.jit
def joined(x, y, o, B: tl.constexpr, R: tl.constexpr):
    i = tl.arange(0, B)
    both = tl.cat(tl.load(x + i), tl.load(y + i), can_reorder=R)
    tl.store(o + tl.arange(0, 2 * B), tl.sort(both))


for _size, _warps in ((128, 1), (16, 4)):
    for _reorder in (True,) if VERSION < (3, 7) else (True, False):
        CASES[f"joined_{_size}_{_warps}_{_reorder}"] = Case(
            joined,
            {"x": "*i32", "y": "*i32", "o": "*i32"},
            {"B": _size, "R": _reorder},
            lambda n=_size: [rng.permutation(n).astype(np.int32),
                             (rng.permutation(n) + 200).astype(np.int32),
                             empty(2 * n, dtype=np.int32)],
            lambda x, y, o: [(2, np.sort(np.concatenate([x, y])))],
            num_warps=_warps,
        )  # fmt: skip


@triton.jit
def counted(x, o, m, B: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    i = tl.arange(0, N)
    tl.store(o + i, tl.histogram(v, N))
    tl.store(m + i, tl.histogram(v, N, mask=v != 2))


for _warp in (8, 16, 32):
    CASES[f"counted_{_warp}"] = Case(
        counted,
        {"x": "*i32", "o": "*i32", "m": "*i32"},
        {"B": 256, "N": 16},
        lambda: [rng.integers(0, 16, 256).astype(np.int32), empty(16, dtype=np.int32),
                 empty(16, dtype=np.int32)],
        lambda x, o, m: [
            (1, np.bincount(x, minlength=16)), (2, np.bincount(x[x != 2], minlength=16))],
        warp_size=_warp,
    )  # fmt: skip


@triton.jit
def picked(x, at, o, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(at + i), A))


for _axis in (0, 1):
    CASES[f"picked_{_axis}"] = Case(
        picked,
        {"x": "*fp16", "at": "*i32", "o": "*fp16"},
        {"M": 16, "N": 16, "A": _axis},
        lambda: [normal(16, 16, dtype=np.float16), rng.integers(0, 16, (16, 16)).astype(np.int32),
                 empty(16, 16, dtype=np.float16)],
        lambda x, at, o, a=_axis: [(2, np.take_along_axis(x, at, a))],
    )  # fmt: skip


@triton.jit
def drawn(u, n, k, w, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(u + i, tl.rand(seed, i))
    tl.store(n + i, tl.randn(seed, i))
    tl.store(k + i, tl.randint(seed, i))
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(w + i, a ^ b ^ c ^ d)


def _philox(seed: int, count: int) -> list[Any]:
    """Salmon and others 2011, "Parallel random numbers: as easy as 1, 2, 3": Philox4x32-10."""
    c = [np.arange(count, dtype=np.uint64)] + [np.zeros(count, np.uint64) for _ in range(3)]
    k0, k1, word = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high, low = np.uint64(32), word
        c = [(b >> high) ^ c[1] ^ np.uint64(k0), b & low, (a >> high) ^ c[3] ^ np.uint64(k1),
             a & low]  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [x.astype(np.uint32) for x in c]


def _uniform(x: Any) -> Any:
    signed = x.view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float64) * 4.6566127342e-10


def _drawn(u: Any, n: Any, k: Any, w: Any, seed: int) -> Any:
    a, b, c, d = _philox(seed, 128)
    radius = np.sqrt(-2 * np.log(np.maximum(1e-7, _uniform(a))))
    return [(0, _uniform(a)), (1, radius * np.cos(2 * np.pi * _uniform(b))), (2, a.view(np.int32)),
            (3, (a ^ b ^ c ^ d).view(np.int32))]  # fmt: skip


CASES["drawn"] = Case(
    drawn,
    {"u": "*fp32", "n": "*fp32", "k": "*i32", "w": "*i32", "seed": "i64"},
    {"B": 128},
    lambda: [empty(128), empty(128), empty(128, dtype=np.int32), empty(128, dtype=np.int32),
             0x123456789ABC],
    _drawn,
    2e-5,
)  # fmt: skip


@triton.jit(noinline=True)
def _pair(v, n):
    return v * 2, n + 1


@triton.jit
def static_and_called(x, o, n, B: tl.constexpr):
    tl.static_assert(B == 32)
    tl.static_print("B is", B)
    i = tl.arange(0, B)
    v = tl.load(x + i)
    for k in tl.static_range(3):
        v += k
    doubled, more = _pair(tl.program_id(0), n)
    for k in tl.range(0, 4, num_stages=3):
        v += tl.load(x + i) * k
    tl.store(o + i, v + doubled + more)


CASES["static_and_called"] = Case(
    static_and_called,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 32},
    lambda: [normal(32), empty(32), 5],
    lambda x, o, n: [(1, x * 7 + 9)],
    1e-5,
)


@triton.jit
def _times(i, few, factors):
    if len(factors) > 0:
        i = i * factors[0]
    return i


@triton.jit
def tuples_of_other_lengths(out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, _times(i, (), (n,)))
    tl.store(out + B + i, _times(i, (n,), ()))


# Triton 3.6 names both calls alike (targets/_triton/front_end_fixes.py)
CASES["tuples_of_other_lengths"] = Case(
    tuples_of_other_lengths,
    {"out": "*i32", "n": "i32"},
    {"B": 32},
    lambda: [np.zeros(64, np.int32), 3],
    lambda out, n: [(0, np.concatenate([np.arange(32) * n, np.arange(32)]).astype(np.int32))],
)
