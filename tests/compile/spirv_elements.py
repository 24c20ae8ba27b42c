"""Kernels that go element by element: arithmetic, casts, the types of numbers."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from spirv_cases import VERSION, Case, dtypes, empty, normal, rng
from triton.language.extra import libdevice

erf = np.vectorize(math.erf)
CASES: dict[str, Case] = {}


@triton.jit
def add_masked(a, b, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(a + i, m) + tl.load(b + i, m), m)


for _type, _dtype in dtypes("fp32", "fp16", "bf16", "fp64", "i8", "i64", "u16"):
    CASES[f"add_{_type}"] = Case(
        add_masked,
        {"a": "*" + _type, "b": "*" + _type, "o": "*" + _type, "n": "i32"},
        {"B": 256},
        lambda d=_dtype: [(normal(1000) * 9).astype(d), (normal(1000) * 9).astype(d),
                          empty(1024, dtype=d), 1000],
        lambda a, b, o, n: [(2, np.concatenate([a + b, np.full(24, 77, a.dtype)]))],
        grid=(4, 1, 1),
    )  # fmt: skip


@triton.jit
def write_rows(o, i, B: tl.constexpr, rows):
    """Element `i` of each row, the rows after one another."""
    for row in tl.static_range(len(rows)):
        tl.store(o + row * B + i, rows[row])


@triton.jit
def math32(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    write_rows(o, i, B, (
        tl.exp(v), tl.log(v), tl.sin(v), tl.cos(v), tl.erf(v), tl.rsqrt(v), tl.sqrt(v),
        tl.exp2(v), tl.log2(v), tl.floor(v), tl.ceil(v), tl.abs(-v), tl.sigmoid(v),
        tl.fma(v, v, v), v / 3.0,
    ))  # fmt: skip


def _math(x: Any, precise: Any) -> Any:
    v = x.astype(precise)
    return np.concatenate([
        np.exp(v), np.log(v), np.sin(v), np.cos(v), erf(v), 1 / np.sqrt(v), np.sqrt(v), np.exp2(v),
        np.log2(v), np.floor(v), np.ceil(v), v, 1 / (1 + np.exp(-v)), v * v + v, v / 3,
    ])  # fmt: skip


for _type, _dtype, _tolerance in (("fp32", np.float32, 2e-6), ("fp64", np.float64, 1e-14)):
    CASES[f"math_{_type}"] = Case(
        math32,
        {"x": "*" + _type, "o": "*" + _type},
        {"B": 256},
        lambda d=_dtype: [np.abs(normal(256, dtype=d)) * 3 + d(0.01), empty(15 * 256, dtype=d)],
        lambda x, o: [(1, _math(x, np.longdouble))],
        _tolerance,
    )


@triton.jit
def library_calls(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    write_rows(o, i, B, (
        libdevice.tanh(v), libdevice.asin(v), libdevice.atan2(v, v + 2), libdevice.log1p(v),
        libdevice.expm1(v), libdevice.pow(v + 2, v), libdevice.cosh(v), libdevice.hypot(v, v),
        libdevice.trunc(v * 9), libdevice.fmod(v * 9, v + 2), libdevice.rint(v * 9),
        libdevice.isnan(v).to(tl.float32),
    ))  # fmt: skip


def _library(x: Any) -> Any:
    v = x.astype(np.float64)
    nine, two = (x * np.float32(9)).astype(np.float64), (x + np.float32(2)).astype(np.float64)
    return np.concatenate([
        np.tanh(v), np.arcsin(v), np.arctan2(v, two), np.log1p(v), np.expm1(v), two**v, np.cosh(v),
        np.hypot(v, v), np.trunc(nine), np.fmod(nine, two), np.rint(nine), np.isnan(v),
    ])  # fmt: skip


if VERSION >= (3, 8):  # before, Triton's names for AMD's library miss some of these
    CASES["library_calls"] = Case(
        library_calls,
        {"x": "*fp32", "o": "*fp32"},
        {"B": 128},
        lambda: [(rng.random(128) * 1.8 - 0.9).astype(np.float32), empty(12 * 128)],
        lambda x, o: [(1, _library(x))],
        2e-6,
    )


@triton.jit
def rounded_right(a, b, o, q, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    y = tl.load(b + i)
    tl.store(o + i, tl.div_rn(x, y))
    tl.store(q + i, tl.sqrt_rn(tl.abs(x)))


def _denormals(count: int) -> Any:
    return (rng.standard_normal(count) * 2.0 ** rng.integers(-140, 20, count)).astype(np.float32)


CASES["rounded_right"] = Case(
    rounded_right,
    {"a": "*fp32", "b": "*fp32", "o": "*fp32", "q": "*fp32"},
    {"B": 4096},
    lambda: [_denormals(4096), normal(4096) + np.float32(0.1), empty(4096), empty(4096)],
    lambda a, b, o, q: [(2, a / b), (3, np.sqrt(np.abs(a)))],
)


@triton.jit
def denormal_product(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(a + i) * 0.5)


CASES["denormal_product"] = Case(
    denormal_product,
    {"a": "*fp32", "o": "*fp32"},
    {"B": 1024},
    lambda: [_denormals(1024), empty(1024)],
    lambda a, o: [(1, a * np.float32(0.5))],
)


@triton.jit
def casts(x, h, b, i32, i8, i64, d, u8, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(h + i, v.to(tl.float16))
    tl.store(b + i, v.to(tl.bfloat16))
    tl.store(i32 + i, v.to(tl.int32))
    tl.store(i8 + i, v.to(tl.int8))
    tl.store(i64 + i, v.to(tl.int64))
    tl.store(d + i, v.to(tl.float64))
    tl.store(u8 + i, tl.abs(v).to(tl.uint8))


CASES["casts"] = Case(
    casts,
    {"x": "*fp32", "h": "*fp16", "b": "*bf16", "i32": "*i32", "i8": "*i8", "i64": "*i64",
     "d": "*fp64", "u8": "*u8"},
    {"B": 256},
    lambda: [(rng.random(256) * 250 - 125).astype(np.float32), empty(256, dtype=np.float16),
             empty(256, dtype=ml_dtypes.bfloat16), empty(256, dtype=np.int32),
             empty(256, dtype=np.int8), empty(256, dtype=np.int64), empty(256, dtype=np.float64),
             empty(256, dtype=np.uint8)],
    lambda x, *rest: [
        (1, x.astype(np.float16)), (2, x.astype(ml_dtypes.bfloat16)), (3, x.astype(np.int32)),
        (4, x.astype(np.int8)), (5, x.astype(np.int64)), (6, x.astype(np.float64)),
        (7, np.abs(x).astype(np.uint8))],
)  # fmt: skip


@triton.jit
def bfloat_operations(x, y, o, d, c, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    w = tl.load(y + i)
    tl.store(o + i, v * w)
    tl.store(o + B + i, v - w)
    tl.store(o + 2 * B + i, tl.where(v > w, -v, tl.abs(w)))
    tl.store(o + 3 * B + i, (v / w).to(tl.bfloat16))
    tl.store(o + 4 * B + i, tl.maximum(v, w))
    tl.store(o + 5 * B + i, (tl.load(d + i)).to(tl.bfloat16))
    tl.store(o + 6 * B + i, i.to(tl.bfloat16))
    tl.store(c + i, v.to(tl.int32))


def _bfloat(x: Any, y: Any, o: Any, d: Any, c: Any) -> Any:
    v, w, b = x.astype(np.float32), y.astype(np.float32), ml_dtypes.bfloat16
    parts = [v * w, v - w, np.where(v > w, -v, np.abs(w)), v / w, np.maximum(v, w)]
    whole = [p.astype(b) for p in parts] + [_round_once(d), np.arange(128).astype(b)]
    return [(2, np.concatenate(whole)), (4, v.astype(np.int32))]


def _round_once(x: Any) -> Any:
    """float64 to bfloat16 to nearest even without float32 in between."""
    bits = x.view(np.uint64)
    half = np.uint64((1 << 44) - 1) + ((bits >> np.uint64(45)) & np.uint64(1))
    return (
        (((bits + half) >> np.uint64(45)) << np.uint64(45))
        .view(np.float64)
        .astype(ml_dtypes.bfloat16)
    )


CASES["bfloat_operations"] = Case(
    bfloat_operations,
    {"x": "*bf16", "y": "*bf16", "o": "*bf16", "d": "*fp64", "c": "*i32"},
    {"B": 128},
    lambda: [normal(128, dtype=ml_dtypes.bfloat16), normal(128, dtype=ml_dtypes.bfloat16),
             empty(7 * 128, dtype=ml_dtypes.bfloat16),
             normal(128, dtype=ml_dtypes.bfloat16).astype(np.float64) * (1 + 2.0**-9 + 2.0**-40),
             empty(128, dtype=np.int32)],
    _bfloat,
)  # fmt: skip


@triton.jit
def float8(x, a, b, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(a + i, v.to(tl.float8e4nv))
    tl.store(b + i, v.to(tl.float8e5))
    tl.store(o + i, v.to(tl.float8e4nv).to(tl.float32))
    tl.store(o + B + i, v.to(tl.float8e5).to(tl.float32))


CASES["float8"] = Case(
    float8,
    {"x": "*fp32", "a": "*fp8e4nv", "b": "*fp8e5", "o": "*fp32"},
    {"B": 128},
    lambda: [normal(128), empty(128, dtype=np.uint8), empty(128, dtype=np.uint8), empty(256)],
    lambda x, a, b, o: [
        (1, x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)),
        (2, x.astype(ml_dtypes.float8_e5m2).view(np.uint8)),
        (3, np.concatenate([x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32),
                            x.astype(ml_dtypes.float8_e5m2).astype(np.float32)])),
    ],
)  # fmt: skip


@triton.jit
def nan_of_pairs(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    w = tl.load(y + i)
    tl.store(o + i, tl.minimum(v, w, propagate_nan=tl.PropagateNan.ALL))
    tl.store(o + B + i, tl.maximum(v, w, propagate_nan=tl.PropagateNan.ALL))
    tl.store(o + 2 * B + i, tl.minimum(v, w))
    tl.store(o + 3 * B + i, tl.maximum(v, w))
    tl.store(o + 4 * B + i, tl.where((v != v) | (w != w), v + w, tl.where(v > w, v, w)))
    tl.store(o + 5 * B + i, tl.clamp(v, -0.5, 0.5))


def _with_nan(dtype: Any, step: int) -> Any:
    x = normal(128)
    x[::step] = np.nan
    x[1::13] = np.inf
    return x.astype(dtype)


def _nan(x: Any, y: Any, o: Any) -> Any:
    known = np.where(np.isnan(x), -np.inf, x)
    with np.errstate(invalid="ignore"):
        parts = [np.minimum(x, y), np.maximum(x, y), np.fmin(x, y), np.fmax(x, y),
                 np.maximum(x, y), np.clip(known, -0.5, 0.5)]  # fmt: skip
    return [(2, np.concatenate([p.astype(x.dtype) for p in parts]))]


for _type, _dtype in dtypes("fp32", "fp16", "fp64", "bf16"):
    CASES[f"nan_of_pairs_{_type}"] = Case(
        nan_of_pairs,
        {"x": "*" + _type, "y": "*" + _type, "o": "*" + _type},
        {"B": 128},
        lambda d=_dtype: [_with_nan(d, 5), _with_nan(d, 7), empty(6 * 128, dtype=d)],
        _nan,
    )


@triton.jit
def integers(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    w = tl.load(y + i)
    tl.store(o + i, v // w)
    tl.store(o + B + i, v % w)
    tl.store(o + 2 * B + i, v << 3)
    tl.store(o + 3 * B + i, v >> 2)
    tl.store(o + 4 * B + i, v ^ w | 5)
    tl.store(o + 5 * B + i, tl.umulhi(v, w))


def _integers(x: Any, y: Any, o: Any) -> Any:
    bits = x.dtype.itemsize * 8
    high = [((int(a) % 2**bits) * (int(b) % 2**bits)) >> bits for a, b in zip(x, y, strict=True)]
    quotient = np.trunc(x / y.astype(np.float64)).astype(x.dtype)
    parts = [quotient, x - quotient * y, x << 3, x >> 2, (x ^ y) | 5]
    unsigned = np.array(high, dtype=f"u{bits // 8}").view(x.dtype)
    return [(2, np.concatenate([*parts, unsigned]))]


for _type, _dtype in dtypes("i32", "i64"):
    CASES[f"integers_{_type}"] = Case(
        integers,
        {"x": "*" + _type, "y": "*" + _type, "o": "*" + _type},
        {"B": 128},
        lambda d=_dtype: [rng.integers(-(10**9), 10**9, 128).astype(d),
                          rng.integers(1, 999, 128).astype(d), empty(6 * 128, dtype=d)],
        _integers,
    )  # fmt: skip
