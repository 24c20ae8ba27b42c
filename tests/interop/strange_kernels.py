"""Kernels of all sorts as users of Triton write them, each with what NumPy says of it: arithmetic,
shapes and reductions. `strange_programs` has those with loops, locks and tables.

`CASES` is the table: a name, and a function that draws shapes and values, launches and compares.
Nothing here knows xtarget. `test_strange_kernels` runs them with several seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl

Rng = np.random.Generator
Case = Callable[[Rng], None]
CASES: dict[str, Case] = {}
#: Names of those that take long, or much memory.
LONG: set[str] = set()
BFLOAT16 = ml_dtypes.bfloat16
INTEGERS = tuple(np.dtype(f"{kind}{bits}").type for bits in (1, 2, 4, 8) for kind in "iu")


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def long_case(function: Case) -> Case:
    LONG.add(function.__name__)
    return case(function)


def power(rng: Rng, low: int, high: int) -> int:
    """A power of 2, from 2**low to below 2**high."""
    return 1 << int(rng.integers(low, high))


def warps(rng: Rng) -> int:
    return power(rng, 0, 4)


def same(made: Any, wanted: Any, about: object = "") -> None:
    """Equal to the bit; one NaN is like another."""
    with np.errstate(invalid="ignore"):  # it is told of signalling NaNs
        nan, made_nan = np.isnan(wanted.astype(np.float64)), np.isnan(made.astype(np.float64))
    np.testing.assert_array_equal(made_nan, nan, err_msg=str(about))
    bits = f"u{made.itemsize}"
    np.testing.assert_array_equal(made.view(bits)[~nan], wanted.view(bits)[~nan], str(about))


def wild(rng: Rng, count: int) -> Any:
    """float32: half of any bits, half of ordinary size, and some of special interest."""
    x = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32).copy()
    x[::2] = rng.standard_normal(count // 2) * np.exp2(rng.integers(-30, 20, count // 2))
    x[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520, -1e-45]
    return x


# ------------------------------------------------------------------------------------- arithmetic


@triton.jit
def _integer_steps(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a + b)
    tl.store(out + N + i, a * b)
    tl.store(out + 2 * N + i, a // b)
    tl.store(out + 3 * N + i, a % b)
    tl.store(out + 4 * N + i, (a << (b & 7)) - (a >> (b & 7)))
    tl.store(out + 5 * N + i, tl.maximum(a, b) ^ tl.minimum(a, ~b))


@case
def integers_wrap_and_divide_like_c(rng: Rng) -> None:
    for dtype in rng.choice(INTEGERS, 4, replace=False):
        info = np.iinfo(dtype)
        x, y = rng.integers(info.min, info.max, (2, 128), dtype=dtype, endpoint=True)
        y[:64] = rng.integers(1, 6, 64)
        y[y == 0] = 3
        if info.min < 0:
            y[(x == info.min) & (y == -1)] = 3  # the one quotient that does not fit
        out = np.zeros((6, 128), dtype)
        _integer_steps[(1,)](x, y, out, 128, num_warps=warps(rng))
        pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
        quotients = [abs(a) // abs(b) * (1 if a * b >= 0 else -1) for a, b in pairs]
        quotient = np.array(quotients, object).astype(dtype)
        shift = y & dtype(7)
        with np.errstate(over="ignore"):
            wanted = (
                *(x + y, x * y, quotient, x - quotient * y, (x << shift) - (x >> shift)),
                np.maximum(x, y) ^ np.minimum(x, ~y),
            )
        np.testing.assert_array_equal(out, np.stack(wanted), err_msg=str(dtype))


@triton.jit
def _high_halves(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.umulhi(tl.load(x + i), tl.load(y + i)))


@case
def high_halves_of_products(rng: Rng) -> None:
    for bits in (32, 64):
        x, y = rng.integers(0, 2**bits, (2, 64), dtype=f"u{bits // 8}")
        out = np.zeros_like(x)
        _high_halves[(1,)](x, y, out, 64)
        wanted = [int(a) * int(b) >> bits for a, b in zip(x, y, strict=True)]
        np.testing.assert_array_equal(out, np.array(wanted, x.dtype))


@triton.jit
def _cast(x, out, N: tl.constexpr, ROUNDING: tl.constexpr = None):
    i = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + i).to(out.dtype.element_ty, fp_downcast_rounding=ROUNDING)
    tl.store(out + i, value)


@case
def every_half_is_the_same_float_there_and_back(rng: Rng) -> None:
    every = np.arange(2**16, dtype=np.uint16)
    for dtype in (np.float16, BFLOAT16):
        x = every.view(dtype)
        wide, again = np.zeros(2**16, np.float32), np.zeros(2**16, dtype)
        _cast[(16,)](x, wide, 2**12)
        _cast[(16,)](wide, again, 2**12)
        same(wide, x.astype(np.float32), dtype)
        same(again, x, dtype)


@case
def floats_are_rounded_to_nearest_or_to_zero(rng: Rng) -> None:
    x = wild(rng, 1024)
    for dtype in (np.float16, BFLOAT16):
        near, zero = np.zeros((2, 1024), dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = x.astype(dtype)
        _cast[(1,)](x, near, 1024)
        same(near, wanted, dtype)
        finite = np.isfinite(x)
        _cast[(1,)](x, zero, 1024, "rtz")
        with np.errstate(invalid="ignore"):
            exact = np.abs(x.astype(np.float64))
        bits = wanted.view(np.uint16).copy()
        bits[np.abs(wanted.astype(np.float64)) > exact] -= 1
        same(zero[finite], bits.view(dtype)[finite], dtype)


@case
def integers_become_the_nearest_floats(rng: Rng) -> None:
    for dtype in rng.choice([np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64], 2):
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, 128, dtype=dtype, endpoint=True)
        for wide in (np.float32, np.float64):
            out = np.zeros(128, wide)
            _cast[(1,)](x, out, 128)
            same(out, x.astype(wide), (dtype, wide))
            fitting = x // dtype(2) // dtype(2)  # rounded up they would not fit any more
            out = np.zeros(128, dtype)
            _cast[(1,)](fitting.astype(wide), out, 128)
            np.testing.assert_array_equal(out, fitting.astype(wide).astype(dtype))


@triton.jit
def _rounded(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.div_rn(a, b))
    tl.store(out + N + i, tl.sqrt_rn(tl.abs(a)))
    tl.store(out + 2 * N + i, tl.fma(a, b, a))


@case
def quotients_roots_and_fused_products_are_rounded_once(rng: Rng) -> None:
    x, y = wild(rng, 512), wild(rng, 512)[::-1].copy()
    out = np.zeros((3, 512), np.float32)
    _rounded[(1,)](x, y, out, 512)
    with np.errstate(all="ignore"):
        same(out[0], x / y)
        same(out[1], np.sqrt(np.abs(x)))
        wide = x.astype(np.longdouble)
        fused = (wide * y + wide).astype(np.float32)
    near = np.isnan(fused) | np.isinf(fused) | (out[2] == fused)
    assert near.mean() > 0.99  # 64 bits are not enough for the last of them
    np.testing.assert_allclose(out[2][~near], fused[~near], rtol=2e-7)


# --------------------------------------------------------------------------- shapes and reductions


@triton.jit
def _after(scale, shift, scale2, shift2):
    """One affine map after another; they do not commute."""
    return scale2 * scale, scale2 * shift + shift2


@triton.jit
def _affine(scale, shift, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr,
            REVERSE: tl.constexpr):  # fmt: skip
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    given = (tl.load(scale + i), tl.load(shift + i))
    scales, shifts = tl.associative_scan(given, AXIS, _after, reverse=REVERSE)
    tl.store(out + i, scales)
    tl.store(out + M * N + i, shifts)


@case
def scans_of_pairs_keep_their_order(rng: Rng) -> None:
    for axis, reverse in ((0, False), (1, True), (int(rng.integers(2)), bool(rng.integers(2)))):
        m, n = power(rng, 0, 6), power(rng, 0, 7)
        dtype = rng.choice([np.int32, np.int64, np.int16])
        pair = rng.integers(-5, 6, (2, m, n)).astype(dtype)
        out = np.zeros_like(pair)
        _affine[(1,)](*pair, out, m, n, axis, reverse, num_warps=warps(rng))
        wanted = np.moveaxis(pair, axis + 1, 1)[:, :: -1 if reverse else 1].copy()
        with np.errstate(over="ignore"):
            for k in range(1, wanted.shape[1]):
                wanted[1, k] += wanted[0, k] * wanted[1, k - 1]
                wanted[0, k] *= wanted[0, k - 1]
        wanted = np.moveaxis(wanted[:, :: -1 if reverse else 1], 1, axis + 1)
        np.testing.assert_array_equal(out, wanted, err_msg=str((m, n, dtype, axis, reverse)))


@triton.jit
def _joined(mean, square, count, mean2, square2, count2):
    d, total = mean2 - mean, count + count2
    share = tl.where(total == 0, 0.0, count2 / total)
    return mean + d * share, square + square2 + d * d * count * share, total


@triton.jit
def _moments(x, out, M: tl.constexpr, N: tl.constexpr):
    values = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    ones = tl.full((M, N), 1.0, tl.float32)
    mean, square, count = tl.reduce((values, tl.zeros_like(values), ones), 1, _joined)
    i = tl.arange(0, M)
    tl.store(out + i, mean)
    tl.store(out + M + i, square / count)


@case
def mean_and_variance_in_one_pass(rng: Rng) -> None:
    m, n = power(rng, 0, 6), power(rng, 0, 9)
    x, out = rng.standard_normal((m, n)).astype(np.float32), np.zeros((2, m), np.float32)
    _moments[(1,)](x, out, m, n, num_warps=warps(rng))
    np.testing.assert_allclose(out, [x.mean(1), x.var(1)], atol=1e-5)


@triton.jit
def _extremes(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, K: tl.constexpr):
    values = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    i = tl.arange(0, K)
    tl.store(out + i, tl.argmax(values, AXIS))
    tl.store(out + K + i, tl.argmin(values, AXIS))
    tl.store(out + 2 * K + i, tl.max(values, AXIS).to(tl.int32))


@case
def the_first_of_equals_is_found(rng: Rng) -> None:
    for dtype in (np.int8, np.int64, np.float16, np.float32):
        m, n, axis = power(rng, 0, 6), power(rng, 0, 8), int(rng.integers(2))
        x = rng.integers(-4, 4, (m, n)).astype(dtype)
        out = np.zeros((3, x.shape[1 - axis]), np.int32)
        _extremes[(1,)](x, out, m, n, axis, out.shape[1], num_warps=warps(rng))
        wanted = [x.argmax(axis), x.argmin(axis), x.max(axis)]
        np.testing.assert_array_equal(out, wanted, err_msg=str((dtype, m, n, axis)))


@triton.jit
def _turned(x, out, small, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
            E: tl.constexpr):  # fmt: skip
    a, b = tl.arange(0, A)[:, None, None, None, None], tl.arange(0, B)[None, :, None, None, None]
    c, d = tl.arange(0, C)[None, None, :, None, None], tl.arange(0, D)[None, None, None, :, None]
    values = tl.load(x + (((a * B + b) * C + c) * D + d) * E + tl.arange(0, E))
    flat = tl.reshape(tl.permute(values, (4, 2, 0, 3, 1)), (A * B * C * D * E,))
    tl.store(out + tl.arange(0, A * B * C * D * E), flat)
    less = tl.reshape(tl.max(tl.sum(values, 2), 0), (B * D * E,))
    tl.store(small + tl.arange(0, B * D * E), less)


@case
def five_dimensions_are_turned_and_reduced(rng: Rng) -> None:
    shape = tuple(power(rng, 0, 4) for _ in range(5))
    x = rng.integers(-99, 99, shape).astype(np.int32)
    out, small = np.zeros(x.size, np.int32), np.zeros(x.sum(2).max(0).size, np.int32)
    _turned[(1,)](x, out, small, *shape, num_warps=warps(rng))
    np.testing.assert_array_equal(out, x.transpose(4, 2, 0, 3, 1).ravel(), err_msg=str(shape))
    np.testing.assert_array_equal(small, x.sum(2).max(0).ravel(), err_msg=str(shape))


@triton.jit
def _ordered(x, falling, most, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    values = tl.load(x + m * N + tl.arange(0, N)[None, :])
    tl.store(falling + m * N + tl.arange(0, N)[None, :], tl.sort(values, descending=True))
    tl.store(most + m * K + tl.arange(0, K)[None, :], tl.topk(values, K))


@case
def rows_are_sorted_and_their_largest_found(rng: Rng) -> None:
    for dtype in (np.float32, np.int8, np.uint32):
        m, k = power(rng, 0, 4), power(rng, 0, 4)
        n = k * power(rng, 0, 4)
        x = rng.integers(0, 128, (m, n)).astype(dtype)
        falling, most = np.zeros_like(x), np.zeros((m, k), dtype)
        _ordered[(1,)](x, falling, most, m, n, k, num_warps=warps(rng))
        wanted = np.sort(x, 1)[:, ::-1]
        np.testing.assert_array_equal(falling, wanted, err_msg=str((dtype, m, n)))
        np.testing.assert_array_equal(most, wanted[:, :k], err_msg=str((dtype, m, n, k)))


@triton.jit
def _counted(x, out, n, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    values = tl.load(x + i, i < n, other=0)
    tl.store(out + tl.arange(0, BINS), tl.histogram(values, BINS, mask=i < n))


@case
def histograms_leave_out_what_is_masked(rng: Rng) -> None:
    for _ in range(2):
        block, bins = power(rng, 0, 10), power(rng, 0, 8)
        n = int(rng.integers(0, block + 1))
        x, out = rng.integers(0, bins, block).astype(np.int32), np.zeros(bins, np.int32)
        _counted[(1,)](x, out, n, block, bins, num_warps=warps(rng))
        wanted = np.bincount(x[:n], minlength=bins)
        np.testing.assert_array_equal(out, wanted, err_msg=str((block, bins, n)))
