"""Kernels over the breadth of Triton's language, each with arguments and, where NumPy can say it,
the right result. Imported by tests that have Triton.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
rng = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    """A kernel and how to run it.

    Attributes:
        fn, signature, constants: as for Triton; parameters not in the signature are constants.
        arguments: arrays and scalars for the non-constant parameters.
        expect: from the arguments to (index of the argument, expected array) pairs; None where the
            kernel is only compiled.
        tolerance: relative, and absolute where the expected value is below 1.
        grid: blocks.
        warp_size, num_warps: of the compilation.
    """

    fn: Any
    signature: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)
    arguments: Callable[[], list[Any]] | None = None
    expect: Callable[..., list[tuple[int, Any]]] | None = None
    tolerance: float = 0.0
    grid: tuple[int, int, int] = (1, 1, 1)
    warp_size: int = 16
    num_warps: int = 2

    def given(self) -> list[Any]:
        """The arguments, made anew."""
        assert self.arguments is not None, "the kernel is only compiled"
        return self.arguments()


CASES: dict[str, Case] = {}
_DTYPES = {
    **{f"i{bits}": np.dtype(f"i{bits // 8}").type for bits in (8, 16, 32, 64)},
    "u16": np.uint16,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "fp64": np.float64,
}


def dtypes(*names: str) -> list[tuple[str, Any]]:
    """Triton's names of types, each with NumPy's type."""
    return [(name, _DTYPES[name]) for name in names]


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def empty(*shape: int, dtype: Any = np.float32) -> Any:
    return np.full(shape, 77, dtype)


erf = np.vectorize(math.erf)

# ------------------------------------------------------------------------------- element by element


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

# --------------------------------------------------------------------------------- across a block


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

# --------------------------------------------------------------------------- control and interfaces


@triton.jit
def control(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    k = 0
    while k < n:
        if k % 2 == 0:
            total += tl.load(x + k * B + i, mask=i < 100, other=0.0)
        else:
            total -= tl.load(x + k * B + i, mask=i < 100, other=1.0)
        k += 1 + tl.program_id(2)
    tl.store(o + i + tl.program_id(1) * B, total + tl.num_programs(1), mask=i < 120)


def _control(x: Any, o: Any, n: int) -> Any:
    rows = x.reshape(5, 128).astype(np.float64)
    total = np.where(np.arange(128) < 100, rows[0] - rows[1] + rows[2] - rows[3] + rows[4], -2) + 3
    return [(1, np.tile(np.where(np.arange(128) < 120, total, 77), 3))]


CASES["control"] = Case(
    control,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 128},
    lambda: [normal(5 * 128), empty(3 * 128), 5],
    _control,
    1e-5,
    grid=(1, 3, 1),
)


@triton.jit
def scalars(x, o, f, h, b, d, c, s, wide, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    if f:
        v += h.to(tl.float32) + b.to(tl.float32) + d.to(tl.float32) + c + s + wide
    tl.store(o + i, v)


CASES["scalars"] = Case(
    scalars,
    {"x": "*fp32", "o": "*fp32", "f": "i1", "h": "fp16", "b": "bf16", "d": "fp64", "c": "i8",
     "s": "i16", "wide": "i64"},
    {"B": 32},
    lambda: [normal(32), empty(32), 1, 2.5, 3.0, 4.25, -5, 600, -70000],
    lambda x, o, *rest: [(1, x + np.float32(2.5 + 3 + 4.25 - 5 + 600 - 70000))],
    1e-6,
)  # fmt: skip


@triton.jit
def tuples(x, o, shape, strides, nothing, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.program_id(0).to(tl.int64)
    m = i < shape[1]
    v = tl.load(x + row * strides[0] + i * strides[1], m) * len(shape) + len(nothing)
    tl.store(o + row * shape[1] + i, v, m)


CASES["tuples"] = Case(
    tuples,
    {"x": "*fp32", "o": "*fp32", "shape": ("i32", "i32"), "strides": ("i64", "i64"), "nothing": ()},
    {"B": 64},
    lambda: [normal(50, 7), empty(7 * 50), 7, 50, 1, 7],
    lambda x, o, *rest: [(1, (x.T * 2).reshape(-1))],
    grid=(7, 1, 1),
)


@triton.jit
def descriptors(x, o, m, n, B: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [m, n], [n, 1], [B, B])
    c = tl.make_tensor_descriptor(o, [m, n], [n, 1], [B, B])
    at = [tl.program_id(0) * B, tl.program_id(1) * B]
    c.store(at, a.load(at) * 2)


CASES["descriptors"] = Case(
    descriptors,
    {"x": "*fp32", "o": "*fp32", "m": "i32", "n": "i32"},
    {"B": 16},
    lambda: [normal(20, 36), empty(20, 36), 20, 36],
    lambda x, o, *rest: [(1, x * 2)],
    grid=(2, 3, 1),
)


@triton.jit
def atomics(i32, f32, f16, f64, i64, b16, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(i32 + i % 8, i)
    tl.atomic_max(i32 + 8 + i % 8, i)
    tl.atomic_xchg(i32 + 16 + i, i)
    tl.atomic_cas(i32 + 16 + B, 77, 5)
    tl.atomic_add(f32 + i % 4, 1.0)
    tl.atomic_max(f32 + 4 + i % 4, i.to(tl.float32))
    tl.atomic_min(f32 + 8 + i % 4, i.to(tl.float32) - 5)
    tl.atomic_add(f16 + i % 4, tl.full([B], 0.5, tl.float16))
    tl.atomic_add(f64 + i % 4, i.to(tl.float64))
    tl.atomic_add(i64 + i % 4, i.to(tl.int64))
    tl.atomic_add(b16 + i % 4, tl.full([B], 1.0, tl.bfloat16))
    tl.debug_barrier()
    tl.atomic_add(i32 + 16 + B, 1, sem="relaxed", scope="cta")
    tl.atomic_add(i32 + 16 + B, 1, sem="release", scope="sys")


def _atomics(*given: Any) -> Any:
    i = np.arange(64)
    by8, by4 = i.reshape(8, 8), i.reshape(16, 4)
    words = np.concatenate([77 + by8.sum(0), np.maximum(77, by8.max(0)), i, [5 + 2]])
    floats = np.concatenate([[93.0] * 4, [77.0] * 4, by4.min(0) - 5])
    return [(0, words), (1, floats), (2, [85.0] * 4), (3, 77 + by4.sum(0)), (4, 77 + by4.sum(0)),
            (5, [93.0] * 4)]  # fmt: skip


CASES["atomics"] = Case(
    atomics,
    {"i32": "*i32", "f32": "*fp32", "f16": "*fp16", "f64": "*fp64", "i64": "*i64", "b16": "*bf16"},
    {"B": 64},
    lambda: [empty(81, dtype=np.int32), empty(12), empty(4, dtype=np.float16),
             empty(4, dtype=np.float64), empty(4, dtype=np.int64),
             empty(4, dtype=ml_dtypes.bfloat16)],
    _atomics,
)  # fmt: skip


@triton.jit
def random_numbers(o, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.rand(seed, i))
    tl.store(o + B + i, tl.randn(seed, i))


CASES["random_numbers"] = Case(random_numbers, {"o": "*fp32", "seed": "i32"}, {"B": 256})


@triton.jit
def printing(x, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_print("value", tl.load(x + i), i)


CASES["printing"] = Case(printing, {"x": "*fp32"}, {"B": 16})


@triton.jit(noinline=True)
def _twice(v):
    return v * 2


@triton.jit
def calls(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) + _twice(n))


CASES["calls"] = Case(
    calls,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 64},
    lambda: [normal(64), empty(64), 21],
    lambda x, o, n: [(1, x + 42)],
)


@triton.jit
def many_fields(x, o, n, B: tl.constexpr):
    """Several tensors of several types live through a loop."""
    i = tl.arange(0, B)
    best = tl.full((B,), float("-inf"), tl.float32)
    where = tl.zeros((B,), tl.int64)
    half = tl.zeros((B,), tl.bfloat16)
    for k in range(n):
        v = tl.load(x + k * B + i)
        where = tl.where(v > best, k, where)
        best = tl.maximum(v, best)
        half = (half + 1.0).to(tl.bfloat16)
    tl.store(o + i, best)
    tl.store(o + B + i, where.to(tl.float32))
    tl.store(o + 2 * B + i, half.to(tl.float32))


CASES["many_fields"] = Case(
    many_fields,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 64},
    lambda: [normal(9, 64), empty(192), 9],
    lambda x, o, n: [(1, np.concatenate([x.max(0), x.argmax(0), np.full(64, 9.0)]))],
)

# ------------------------------------------------------------------------ what SPIR-V does not have


@triton.jit
def refused_assembly(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.inline_asm_elementwise(
        "v_mov_b32 $0, $1", "=v,v", [tl.load(x + i)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(o + i, v)


@tl.core.extern
def _unknown(value, _semantic=None):
    types = {(tl.dtype("fp32"),): ("an_unknown_function", tl.dtype("fp32"))}
    return tl.core.extern_elementwise("", "", [value], types, is_pure=True, _semantic=_semantic)


@triton.jit
def refused_library(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, _unknown(tl.load(x + i)))


REFUSED = {
    fn.fn.__name__: Case(fn, {"x": "*fp32", "o": "*fp32"}, {"B": 32})
    for fn in (refused_assembly, refused_library)
}
