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


@pytest.mark.parametrize("name", language.CASES)
def test_result(name: str, mark_ran_on: Any) -> None:
    case = language.CASES[name]
    artifact = compiled(case)
    info = device().info
    mark_ran_on("cpu", info.runs_on, info.product)
    check(case, artifact, name)
