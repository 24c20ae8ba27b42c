"""libdevice's jn, yn, erfcinv and normcdfinv against mpmath's and Python's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
pytest.importorskip("mpmath", reason="mpmath is not installed, and it is what is right")
sys.path.insert(0, str(Path(__file__).parent))
import mpmath
import triton
import triton.language as tl
from spirv_cases import Case, empty
from spirv_run import run
from triton.language.extra import libdevice

BLOCK = 64
TYPES = {"fp32": np.float32, "fp64": np.float64}


@triton.jit
def orders(n, x, o, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    k = tl.load(n + i)
    v = tl.load(x + i)
    tl.store(o + i, libdevice.jn(k, v))
    tl.store(o + N + i, libdevice.yn(k, v))


@triton.jit
def inverses(x, o, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, libdevice.erfcinv(v))
    tl.store(o + N + i, libdevice.normcdfinv(v))


def bessel(n: list[int], x: list[float], type_: str) -> tuple[Any, Any, Any]:
    count = -(-len(n) // BLOCK) * BLOCK
    order, given = np.zeros(count, np.int32), np.ones(count, TYPES[type_])
    order[: len(n)], given[: len(n)] = n, x
    out = empty(2, count, dtype=TYPES[type_])
    signature = {"n": "*i32", "x": f"*{type_}", "o": f"*{type_}", "N": "i32"}
    arguments = [order, given, out, count]
    grid = (count // BLOCK, 1, 1)
    run(Case(orders, signature, {"B": BLOCK}, lambda: arguments, grid=grid, num_warps=2))
    return given[: len(n)], *out[:, : len(n)]


@pytest.mark.parametrize("type_", TYPES)
def test_bessels_functions_of_every_order(type_: str) -> None:
    rng = np.random.default_rng(11)
    n = [*range(12), *rng.integers(2, 300, 180).tolist(), 50, 50, 200, 2, 2, 300, 3, 7, 1000, 1000]
    x = [0.5] * 12 + (10.0 ** rng.uniform(-3, 3, 180)).tolist()
    x += [50.0, 49.99, 1e-3, 1e-9, 1e-30, 300.0, -2.5, -40.0, 999.0, 1500.0]
    given, first, second = bessel(n, x, type_)
    about = np.finfo(TYPES[type_])
    with mpmath.workdps(40):
        for k, v, j, y in zip(n, given.tolist(), first.tolist(), second.tolist(), strict=True):
            for got, function in ((j, mpmath.besselj), (y, mpmath.bessely)):
                if function is mpmath.bessely and v < 0:
                    assert np.isnan(got), (k, v)
                    continue
                want = function(k, mpmath.mpf(v)).real
                if abs(want) > float(about.max):
                    assert np.isinf(got), (function, k, v)
                    continue
                wave = mpmath.sqrt(2 / mpmath.pi / abs(v)) if abs(v) > k else 0
                limit = 40 * float(about.eps) * (max(abs(want), wave)) + float(about.tiny)
                limit *= 1 if type_ == "fp32" else 1 + abs(v) / 40 + k / 40
                assert abs(got - want) <= limit, (function, k, v, got, want)


@pytest.mark.parametrize("type_", TYPES)
def test_bessels_functions_at_the_ends(type_: str) -> None:
    inf, nan = np.inf, np.nan
    n = [2, 2, 2, 3, 3, -1, -1, 2, 0, 5, 2_000_000_000, 2_000_000_000, 2]
    x = [0.0, inf, nan, -inf, -0.0, 1.0, 0.0, -1.0, 0.0, inf, 1.0, nan, 1e-300]
    _, first, second = bessel(n, x, type_)
    np.testing.assert_array_equal(
        first, [0, 0, nan, 0, 0, nan, nan, first[7], first[8], 0, 0, nan, 0]
    )
    assert abs(first[8] - 1) <= 2 * np.finfo(TYPES[type_]).eps
    assert abs(first[7] - 0.1149034849319) < 1e-6
    expected = [-inf, 0, nan, nan, -inf, nan, nan, nan, -inf, 0, -inf, nan, -inf]
    np.testing.assert_array_equal(second, expected)


@pytest.mark.parametrize("type_", TYPES)
def test_inverses(type_: str) -> None:
    about = np.finfo(TYPES[type_])
    rng = np.random.default_rng(12)
    lowest = -44 if type_ == "fp32" else -323
    x = np.concatenate([
        rng.uniform(0, 2, 200), 10.0 ** rng.uniform(lowest, 0, 250),
        1 + 10.0 ** -rng.uniform(1, 15, 50),
        [about.smallest_subnormal, about.tiny, 1 - about.eps, 1.0, 2 - 2 * about.eps, 0.5],
        [0.0, 2.0, -0.0, -1e-30, 2.5, np.nan],
    ]).astype(TYPES[type_])  # fmt: skip
    assert x.size == 512
    out = empty(2, 512, dtype=TYPES[type_])
    signature = {"x": f"*{type_}", "o": f"*{type_}", "N": "i32"}
    run(Case(inverses, signature, {"B": BLOCK}, lambda: [x, out, 512], grid=(8, 1, 1), num_warps=2))
    with mpmath.workdps(40):
        for v, complement, normal in zip(x.tolist(), *out.tolist(), strict=True):
            for got, p, factor in ((complement, v, 1), (normal, 2 * v, -mpmath.sqrt(2))):
                if not 0 < p < 2:
                    end = {0: np.inf, 2: -np.inf}.get(p, np.nan) * float(np.sign(factor))
                    np.testing.assert_equal(got, end)
                    continue
                want = factor * complementary(p)
                assert abs(got - want) <= 8 * float(about.eps) * abs(want), (v, got, want)


def complementary(p: float) -> Any:
    """The inverse of erfc, by Newton's steps on its logarithm."""
    if p > 1:
        return -complementary(2 - mpmath.mpf(p))
    if p > 0.01:
        return mpmath.erfinv(1 - mpmath.mpf(p))
    target = mpmath.log(p)
    z = mpmath.sqrt(-target)
    for _ in range(8):
        e = mpmath.erfc(z)
        z += (mpmath.log(e) - target) * e * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(z * z)
    return z
