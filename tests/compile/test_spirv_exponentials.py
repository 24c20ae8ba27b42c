"""Powers of two that are written out for CPUs, over all of their range."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent))
from spirv_cases import Case, empty
from spirv_run import run

COUNT, BLOCK = 3989, 64


@triton.jit
def powers(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.exp2(tl.load(x + i, i < n, other=0)), i < n)


def values() -> np.ndarray[Any, Any]:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 128.0, 127.99999, -126.0, -126.5]
    special += [-148.9, -149.0, -149.5, -150.0, -151.0, -1000.0, 129.0, 1000.0, 0.5, -0.5, 1e-30]
    rest = np.linspace(-152, 130, COUNT - len(special))
    return np.concatenate([special, rest]).astype(np.float32)


@pytest.mark.usefixtures("a_cpu")
@pytest.mark.parametrize("num_warps", [1, 4])
def test_powers_of_two_are_right_to_a_unit_in_the_last_place(num_warps: int) -> None:
    case = Case(
        powers,
        {"x": "*fp32", "o": "*fp32", "n": "i32"},
        {"B": BLOCK},
        lambda: [values(), empty(COUNT), COUNT],
        grid=(-(-COUNT // BLOCK), 1, 1),
        num_warps=num_warps,
    )
    _, out, _ = run(case)
    with np.errstate(over="ignore"):
        exact = np.exp2(values().astype(np.float64))
        near = exact.astype(np.float32)
    finite = np.isfinite(near)
    assert np.array_equal(np.isnan(out), np.isnan(near))
    assert np.array_equal(out[np.isinf(near)], near[np.isinf(near)])
    error = np.abs(out[finite].astype(np.float64) - exact[finite])
    assert (error <= np.spacing(near[finite])).all()
