"""`xtarget verify --every-value`: the largest error of elementwise kernels, and where it is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from command_line import here

import xtarget
from xtarget._verify import every_value as module
from xtarget._verify.every_value import every_value


def test_all_values_of_half_types_come_and_pairs_are_of_all_values() -> None:
    for dtype, type_ in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        one = module._numbers(dtype, 1 << 16, 0)
        assert one.dtype == type_
        assert len(np.unique(one.view(np.uint16))) == 1 << 16
        two = module._numbers(dtype, 1 << 16, 1)
        assert np.array_equal(np.sort(two.view(np.uint16)), one.view(np.uint16))
        assert not np.array_equal(two.view(np.uint16), one.view(np.uint16))
    wide = module._numbers("float32", 1 << 18, 0)
    assert len(np.unique(wide.view(np.uint32) >> 23)) == 512  # of both signs, each exponent


def test_the_worst_value_of_a_kernel_is_named(device: str) -> None:
    """A reference that is off by two units at one number: as if the kernel were."""

    def off(x: Any) -> Any:
        return np.where(x == 1.5, 1.5 + 2 * 2.0**-10, x)

    spec = dataclasses.replace(xtarget.catalog()["positive"], reference=off)
    [row] = every_value([spec], ["float16"], device)
    assert (row.status, row.max_ulp, row.worst_at) == ("wrong", 2.0, "1.5")
    assert row.wrong == ["float16[65536] every value: 1 of 65536 elements"]


def test_the_report_has_a_row_for_each_dtype(device: str, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "a.json"
    words = ("verify", "add", "--every-value", "--dtype", "bfloat16", "--device", device)
    assert here(capsys, *words, "--report", str(file))[0] == 0
    found = json.loads(file.read_text())
    assert (found["extent"], len(found["rows"])) == ("every value", 1)
    assert found["rows"][0]["max_ulp"] == pytest.approx(0.5, abs=0.01)
    assert len(found["rows"][0]["worst_at"].split(", ")) == 2
    code, _, err = here(capsys, "verify", "softmax", "--every-value", "--device", device)
    assert code == 1
    assert "softmax is not an elementwise kernel" in err
