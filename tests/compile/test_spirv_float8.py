"""Casts to floats of 8 bits: rounded once, and what is too large becomes the largest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case
from spirv_run import run

COUNT = 1 << 16
BLOCK = 1024


@triton.jit
def cast(x, fn, e5, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(fn + i, v.to(tl.float8e4nv).to(tl.uint8, bitcast=True))
    tl.store(e5 + i, v.to(tl.float8e5).to(tl.uint8, bitcast=True))


def halves(dtype: Any) -> Any:
    """All values of a type of 16 bits."""
    return np.arange(COUNT, dtype=np.uint16).view(dtype)


def between(dtype: Any) -> Any:
    """Neighbours of what lies halfway between two floats of 8 bits, and random ones."""
    rng = np.random.default_rng(11)
    some = rng.standard_normal(COUNT) * 10.0 ** rng.integers(-9, 9, COUNT)
    for start, values in enumerate((ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)):
        all_ = np.sort(np.arange(255, dtype=np.uint8).view(values).astype(np.float64))
        all_ = all_[np.isfinite(all_)]
        ties = ((all_[1:] + all_[:-1]) / 2).astype(dtype)
        around = [ties, np.nextafter(ties, dtype(1e9)), np.nextafter(ties, dtype(-1e9))]
        some[start * 2000 :][: ties.size * 3] = np.concatenate(around)
    some[-8:] = [464, 464.5, 480, 61440, 61441, np.inf, -np.inf, np.nan]
    return some.astype(dtype)


def saturated(x: Any, type_: Any) -> Any:
    """Rounded once to nearest even (ml_dtypes goes from float64 by float32); what is too large
    becomes the largest, NaN stays.
    """
    codes = np.arange(128, dtype=np.uint8)
    table = codes.view(type_).astype(np.longdouble)
    codes, table = codes[np.isfinite(table)], table[np.isfinite(table)]
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs
        wide = x.astype(np.longdouble)
    size = np.minimum(np.abs(wide), table[-1])
    above = np.clip(np.searchsorted(table, np.nan_to_num(size)), 1, len(table) - 1)
    up, down = table[above] - size, size - table[above - 1]
    odd = codes[above - 1] % 2 == 1
    rounded = np.where((up < down) | ((up == down) & odd), table[above], table[above - 1])
    signed = np.copysign(rounded, wide)
    return np.where(np.isnan(size), np.nan, signed).astype(np.float32)


@pytest.mark.sample(3, each=("values",))
@pytest.mark.parametrize("warps", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        ("fp16", np.float16, halves),
        ("bf16", ml_dtypes.bfloat16, halves),
        ("fp32", np.float32, between),
        ("fp64", np.float64, between),
    ],
)
def test_casts_saturate(name: str, dtype: Any, values: Any, warps: int) -> None:
    x = values(dtype)
    fn, e5 = np.zeros(COUNT, np.uint8), np.zeros(COUNT, np.uint8)
    signature = {"x": f"*{name}", "fn": "*u8", "e5": "*u8"}
    grid = (COUNT // BLOCK, 1, 1)
    run(Case(cast, signature, {"B": BLOCK}, lambda: [x, fn, e5], grid=grid, num_warps=warps))
    for out, type_ in ((fn, ml_dtypes.float8_e4m3fn), (e5, ml_dtypes.float8_e5m2)):
        np.testing.assert_array_equal(out.view(type_).astype(np.float32), saturated(x, type_))
