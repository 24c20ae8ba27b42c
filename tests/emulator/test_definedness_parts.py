"""Elements of less than a register: what was written of it is apart from what was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import ARCHS, SHORT_ARCHS, compiled, run

from xtarget import KernelFault

_BLOCK = 256
_FILE = Path(__file__).with_name("part_kernels.py")
_DTYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i16": np.int16}
_FAULTS = ("copies", "takes_the_others", "computes", "decides", "adds_up", "turns_round")
_RIGHT = ("right_choice", "right_product", "right_mask", "right_sum", "right_turn", "right_split")
_ARCHS = [
    pytest.param(arch, marks=() if arch in SHORT_ARCHS else pytest.mark.long) for arch in ARCHS
]


def _run(name: str, dtype: str, arch: str) -> Any:
    signature = f"u:*{dtype} o:*{dtype} n:i32"
    # aligned, so that several elements are loaded at a time
    constants, aligned = (("block", _BLOCK),), ("u", "o")
    code = compiled(name, signature, arch, 2, constants, path=_FILE, aligned=aligned)
    empty = np.zeros(2 * _BLOCK, _DTYPES[dtype])
    return run(code, (1,), empty, empty + 7, 50, blank=(0,))[1]


@pytest.mark.sample(3, each=("name", "dtype", "arch"))
@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("dtype", list(_DTYPES))
@pytest.mark.parametrize("name", _FAULTS)
def test_an_unwritten_element_beside_a_written_one(name: str, dtype: str, arch: str) -> None:
    with pytest.raises(
        KernelFault,
        match=rf"^{name} on {arch}, block \(0, 0, 0\), warp \d, lane \d+: .* which holds no value "
        r"that was ever written .*; uninitialised memory was read before by \w*load\w* at 0x",
    ):
        _run(name, dtype, arch)


@pytest.mark.sample(3, each=("name", "dtype", "arch"))
@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("dtype", list(_DTYPES))
@pytest.mark.parametrize("name", _RIGHT)
def test_a_written_element_beside_an_unwritten_one(name: str, dtype: str, arch: str) -> None:
    even = np.arange(2 * _BLOCK) % 2 == 0
    expected = {
        "right_choice": np.where(even, 3, 0),
        "right_product": np.where(even, 12, 0),
        "right_mask": np.where(even, 3, 7),
        "right_sum": np.where(np.arange(2 * _BLOCK) == 0, 3 * _BLOCK, 7),
        "right_turn": np.where(even, 0, 3),
        "right_split": np.where(np.arange(2 * _BLOCK) < _BLOCK, 3, 7),
    }[name]
    found = _run(name, dtype, arch).astype(np.float32)
    if name == "right_sum" and dtype == "i8":
        found, expected = found[1:], expected[1:]  # 768 is not an int8
    np.testing.assert_array_equal(found, expected)
