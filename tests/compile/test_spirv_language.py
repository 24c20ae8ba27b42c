"""The harder items of Triton's language compile for SPIR-V and compute right."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import spirv_language as language
from spirv_run import check, compiled, device

#: Cases whose unrolled code takes the CPU's run time seconds, each with a smaller one of its kind
#: that every run looks at.
LONG = {
    *("dot_fp16_out", "dot_tf32x3", "dot_bf16x6", "dot_fp8e4nv", "dot_fp8e4b8", "dot_fp8e5b16"),
    *("dot_scaled_e4m3_e5m2", "dot_scaled_bf16_e4m3", "dot_scaled_e2m1_e2m1"),
    *("joined_128_1_True", "joined_128_1_False", "counted_8", "counted_32"),
}


def test_the_long_cases_exist() -> None:
    if language.VERSION >= (3, 8):  # older ones lack some of them
        assert set(LONG) <= set(language.CASES)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in language.CASES],
)
def test_result(name: str, mark_ran_on: Any) -> None:
    case = language.CASES[name]
    artifact = compiled(case)
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(case, artifact, name)
