"""Conversions of libdevice that round towards zero, down or up, against exact fractions."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case, empty
from spirv_run import run, written

COUNT = 256
WAYS = {"rz": 0, "rd": -np.inf, "ru": np.inf}
SOURCES = {
    "int": (np.int32, "*i32"),
    "uint": (np.uint32, "*u32"),
    "ll": (np.int64, "*i64"),
    "ull": (np.uint64, "*u64"),
    "double": (np.float64, "*fp64"),
}
TARGETS = {"float": (np.float32, "*fp32"), "double": (np.float64, "*fp64")}


def directed(value: Any, dtype: Any, way: str) -> Any:
    """The neighbour in that direction of what is not exact."""
    nearest = dtype(value)
    exact, got = Fraction(value), Fraction(float(nearest))
    beyond = {"ru": got < exact, "rd": got > exact, "rz": abs(got) > abs(exact)}[way]
    return np.nextafter(nearest, dtype(WAYS[way])) if beyond else nearest


def values(dtype: Any) -> Any:
    rng = np.random.default_rng(0)
    if dtype is np.float64:
        return rng.standard_normal(COUNT) * 10.0 ** rng.integers(-30, 30, COUNT)
    ends = np.iinfo(dtype)
    some = rng.integers(ends.min, ends.max, COUNT, dtype=dtype)
    some = (some >> rng.integers(0, 8, COUNT).astype(dtype)).astype(dtype)
    some[:4] = 0, 1, ends.max, ends.min
    return some


@pytest.mark.sample(3, each=("target",))
@pytest.mark.parametrize(
    ("source", "target"),
    [(s, t) for s in SOURCES for t in TARGETS if t == "float" or s in ("ll", "ull")],
)
def test_conversions_in_a_direction(tmp_path: Path, source: str, target: str) -> None:
    lines = ["i = tl.arange(0, B)", "v = tl.load(x + i)"]
    for row, way in enumerate(WAYS):
        call = f"tl.extra.cuda.libdevice.{source}2{target}_{way}(v)"
        lines.append(f"tl.store(o + {row} * B + i, {call})")
    kernel = written(tmp_path / "directed_kernel.py", "x, o, B: tl.constexpr", *lines)
    (given, pointer), (dtype, out_pointer) = SOURCES[source], TARGETS[target]
    x, out = values(given), empty(3, COUNT, dtype=dtype)
    signature = {"x": pointer, "o": out_pointer}
    run(Case(kernel, signature, {"B": COUNT}, lambda: [x, out], num_warps=1))
    for way, got in zip(WAYS, out, strict=True):
        expected = np.array([directed(v.item(), dtype, way) for v in x], dtype)
        np.testing.assert_array_equal(got, expected, err_msg=way)


def test_a_reciprocal_root_is_rounded_once(tmp_path: Path) -> None:
    kernel = written(
        tmp_path / "root_kernel.py",
        "x, o, B: tl.constexpr",
        "i = tl.arange(0, B)",
        "tl.store(o + i, tl.extra.cuda.libdevice.rsqrt_rn(tl.load(x + i)))",
    )
    rng = np.random.default_rng(1)
    x = rng.integers(1, 0x7F800000, 4096, dtype=np.uint32).view(np.float32)
    x[:5] = 0.0, np.inf, 1.0, 4.0, np.nan
    out = empty(4096)
    signature = {"x": "*fp32", "o": "*fp32"}
    run(Case(kernel, signature, {"B": 4096}, lambda: [x, out], num_warps=4))
    with np.errstate(divide="ignore"):
        expected = (1 / np.sqrt(x.astype(np.longdouble))).astype(np.float32)
    np.testing.assert_array_equal(out, expected)
