"""A value that was never written decides nothing: what is stored, where, and which way is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import ARCHS, compiled, run

from xtarget import KernelFault

_BLOCK = 128
_FILE = Path(__file__).with_name("uninitialised_kernels.py")
#: Kernel to the end of what is said of it: what the undefined value would have decided.
_FAULTS = {
    "chooses": "to write it to global memory",
    "masks_a_store": "(to decide which lanes go on|as an address)",
    "masks_a_load": "(to decide which lanes go on|as an address)",
    "masks_an_atomic": "(to decide which lanes go on|as an address)",
    "branches": "to decide where to go on",
    "branches_on_all": "to decide (where to|which lanes) go on",
    "loops": "to decide where to go on",
    "loops_until": "to decide where to go on",
    "counts": "to write it to global memory",
    "sorts": "to write it to global memory",
    "divides": "to write it to global memory",
    "adds_wide": "to write it to global memory",
}
_RIGHT = ("right_where", "right_mask", "right_sum", "right_any", "right_unused",
          "right_copy_in_private", "right_swap")  # fmt: skip
_ARCHS = [
    pytest.param(arch, marks=() if arch in ("gfx1100", "gfx942") else pytest.mark.long)
    for arch in ARCHS
]


def _run(name: str, arch: str, n: int = 50) -> Any:
    code = compiled(name, "u:*i32 o:*i32 n:i32", arch, constants=(("block", _BLOCK),), path=_FILE)
    empty, o = np.zeros(_BLOCK, np.int32), np.arange(_BLOCK, dtype=np.int32)
    return run(code, (1,), empty, o, n, blank=(0,))[1]


@pytest.mark.sample(2, each=("name", "arch"))
@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("name", list(_FAULTS))
def test_what_an_unwritten_value_decides_is_a_fault_that_names_its_load(
    name: str, arch: str
) -> None:
    with pytest.raises(
        KernelFault,
        match=rf"^{name} on {arch}, block \(0, 0, 0\), warp \d, lane \d+: .* uses (\w+|a mask), "
        rf"which holds no value that was ever written .*, {_FAULTS[name]}; uninitialised "
        r"memory was read before by \w*load\w* at 0x\w+ of a buffer \(512 bytes at 0x\w+, argum",
    ):
        _run(name, arch)


@pytest.mark.parametrize("arch", _ARCHS)
def test_an_atomic_operation_on_what_was_never_written(arch: str) -> None:
    with pytest.raises(KernelFault, match=r"changes what was never written, in a buffer .*argum"):
        _run("counts_in_it", arch)


@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("name", _RIGHT)
def test_an_unwritten_value_that_decides_nothing_is_none(name: str, arch: str) -> None:
    i = np.arange(_BLOCK)
    inside = i < 50
    expected = {
        "right_where": np.where((i > 0) & inside, 1, 2),
        "right_mask": np.where(inside, 7, i),
        "right_sum": np.where(i == 0, i[3:50].sum(), i),
        "right_any": np.where(i == 0, 9, i),
        "right_unused": np.full(_BLOCK, 4),
        "right_copy_in_private": np.where(_BLOCK - 1 - i < 50, _BLOCK - 1 - i, i),
        "right_swap": np.full(_BLOCK, 3),
    }[name]
    np.testing.assert_array_equal(_run(name, arch), expected)
