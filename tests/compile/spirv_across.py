"""Kernels whose elements meet: reductions, scans, sorts, shapes, products."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from spirv_cases import Case, empty, normal, rng

erf = np.vectorize(math.erf)
CASES: dict[str, Case] = {}


@triton.jit
def _most(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@triton.jit
def reductions(x, rows, columns, M: tl.constexpr, N: tl.constexpr):
    r = tl.arange(0, M)
    c = tl.arange(0, N)
    v = tl.load(x + r[:, None] * N + c[None, :])
    tl.store(rows + r, tl.sum(v, 1))
    tl.store(rows + M + r, tl.max(v, 1))
    tl.store(rows + 2 * M + r, tl.argmax(v, 1).to(v.dtype))
    tl.store(rows + 3 * M + r, tl.reduce(v, 1, _most))
    tl.store(columns + c, tl.sum(v, 0))
    tl.store(columns + N + c, tl.min(v, 0))
    tl.store(columns + 2 * N + c, tl.argmin(v, 0).to(v.dtype))


def _reductions(x: Any, rows: Any, columns: Any) -> Any:
    v = x.astype(np.float64)
    most = np.take_along_axis(v, np.abs(v).argmax(1)[:, None], 1)[:, 0]
    return [
        (1, np.concatenate([v.sum(1), v.max(1), v.argmax(1), most])),
        (2, np.concatenate([v.sum(0), v.min(0), v.argmin(0)])),
    ]


def _distinct(dtype: Any) -> Any:
    """Numbers whose magnitudes all differ."""
    signs = rng.integers(0, 2, 1024) * 2 - 1
    return ((rng.permutation(1024) + 1) * signs).astype(dtype).reshape(16, 64)


for _warp in (8, 16, 32):
    for _type, _dtype, _all_warps in (
        ("fp32", np.float32, (1, 4)),
        ("fp64", np.float64, (4,)),
        ("i32", np.int32, (1,)),
    ):
        for _warps in _all_warps:
            CASES[f"reductions_{_type}_{_warp}_{_warps}"] = Case(
                reductions,
                {"x": "*" + _type, "rows": "*" + _type, "columns": "*" + _type},
                {"M": 16, "N": 64},
                lambda d=_dtype: [_distinct(d), empty(64, dtype=d), empty(192, dtype=d)],
                _reductions,
                1e-6,
                warp_size=_warp,
                num_warps=_warps,
            )


@triton.jit
def scans(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.cumsum(v, 0))
    tl.store(o + B + i, tl.cumsum(v, 0, reverse=True))


for _type, _dtype, _warp in (
    ("fp32", np.float32, 16),
    ("i64", np.int64, 32),
    ("fp32", np.float32, 8),
):
    CASES[f"scans_{_type}_{_warp}"] = Case(
        scans,
        {"x": "*" + _type, "o": "*" + _type},
        {"B": 512},
        lambda d=_dtype: [rng.integers(-50, 50, 512).astype(d), empty(1024, dtype=d)],
        lambda x, o: [(1, np.concatenate([np.cumsum(x), np.cumsum(x[::-1])[::-1]]))],
        warp_size=_warp,
    )


@triton.jit
def sorted_and_flipped(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))
    tl.store(o + B + i, tl.flip(v, 0))


CASES["sorted_and_flipped"] = Case(
    sorted_and_flipped,
    {"x": "*fp32", "o": "*fp32"},
    {"B": 64},
    lambda: [normal(64), empty(128)],
    lambda x, o: [(1, np.concatenate([np.sort(x), x[::-1]]))],
)


@triton.jit
def histogram_and_gather(x, o, g, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + tl.arange(0, 32), tl.histogram(v, 32))
    tl.store(g + i, tl.gather(v, v, 0))


CASES["histogram_and_gather"] = Case(
    histogram_and_gather,
    {"x": "*i32", "o": "*i32", "g": "*i32"},
    {"B": 64},
    lambda: [rng.integers(0, 32, 64).astype(np.int32), empty(32, dtype=np.int32),
             empty(64, dtype=np.int32)],
    lambda x, o, g: [(1, np.bincount(x, minlength=32)), (2, x[x])],
    warp_size=32,  # Triton's histogram wants 32 or 64
)  # fmt: skip


@triton.jit
def shapes(x, o, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    flat = tl.reshape(tl.trans(v), (M * N,))
    a, b = tl.split(tl.reshape(flat, (M * N // 2, 2)))
    p = tl.permute(tl.reshape(tl.join(a, b), (4, M // 4, N)), (2, 0, 1))
    tl.store(o + tl.arange(0, M * N), tl.reshape(p, (M * N,)) + flat)


CASES["shapes"] = Case(
    shapes,
    {"x": "*fp32", "o": "*fp32"},
    {"M": 32, "N": 16},
    lambda: [normal(32, 16), empty(512)],
    lambda x, o: [(1, x.T.reshape(4, 8, 16).transpose(2, 0, 1).reshape(-1) + x.T.reshape(-1))],
)


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
            D: tl.constexpr):  # fmt: skip
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K // 2)
    total = tl.zeros((M, N), dtype=D)
    for step in range(0, K, K // 2):
        x = tl.load(a + m[:, None] * K + (step + k)[None, :])
        y = tl.load(b + (step + k)[:, None] * N + n[None, :])
        total = tl.dot(x, y, total, input_precision=P, out_dtype=D)
    tl.store(c + m[:, None] * N + n[None, :], total)


for _type, _out, _precision, _acc, _dtype, _odtype, _tolerance in (
    ("fp32", "fp32", "ieee", tl.float32, np.float32, np.float32, 5e-5),
    ("fp32", "fp32", "tf32", tl.float32, np.float32, np.float32, 5e-5),
    ("fp16", "fp32", "ieee", tl.float32, np.float16, np.float32, 5e-5),
    ("bf16", "fp32", "ieee", tl.float32, ml_dtypes.bfloat16, np.float32, 5e-5),
    ("i8", "i32", "ieee", tl.int32, np.int8, np.int32, 0.0),
    ("fp64", "fp64", "ieee", tl.float64, np.float64, np.float64, 1e-12),
):
    CASES[f"product_{_type}_{_precision}"] = Case(
        product,
        {"a": "*" + _type, "b": "*" + _type, "c": "*" + _out},
        {"M": 16, "N": 16, "K": 32, "P": _precision, "D": _acc},
        lambda d=_dtype, e=_odtype: [(normal(16, 32) * 5).astype(d), (normal(32, 16) * 5).astype(d),
                                     empty(16, 16, dtype=e)],
        lambda a, b, c: [(2, a.astype(np.float64) @ b.astype(np.float64))],
        _tolerance,
    )  # fmt: skip
