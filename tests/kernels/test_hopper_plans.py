"""The launches of calls on sm_90, where that differs from other GPUs, beside products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from test_choices import HOPPER, plan_of

import xtarget
from xtarget.spec import ArrayType, Launch


def array(dtype: str, *shape: int) -> ArrayType:
    steps = np.empty(shape, np.int8).strides if 0 not in shape else ()
    return ArrayType(dtype, shape, tuple(steps))


def gradient(dtype: str, n: int, target: str = HOPPER) -> Launch:
    types = array(dtype), array(dtype, 64, n), array("int64", 64)
    return plan_of("cross_entropy_backward", *types, target=target).launches[-1]


def test_the_beginning_of_long_rows_of_logits_stays_in_registers() -> None:
    for n, held in ((128256, 2), (16384, 2), (9000, 1), (4096, 0)):
        launch = gradient("bfloat16", n)
        assert launch.constants["HELD"] == held
        assert launch.options.get("maxnreg") == (128 if held else None)
    assert gradient("float32", 128256).constants["HELD"] == 0
    assert gradient("bfloat16", 128256, "nvidia:sm_80").constants["HELD"] == 0
    assert gradient("bfloat16", 128256, "amd:gfx942").constants["HELD"] == 0


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}])
def test_what_stays_in_registers_is_not_spilled(options: Any) -> None:
    args = np.ones((), np.float16), np.empty((4, 128256), np.float16), np.zeros(4, np.int64)
    made = xtarget.compile("cross_entropy_backward", *args, target=HOPPER, **options)[-1]
    assert made.entry == "cross_entropy_backward"
    assert made.resources.spilled_registers == 0


@pytest.mark.parametrize(
    ("target", "dtype", "neighbours"),
    [(HOPPER, "float32", "wr"), (HOPPER, "bfloat16", "wc"), ("amd:gfx942", "float32", "wc")],
)
def test_weights_of_a_convolution_are_copied_as_the_units_want_them(
    target: str, dtype: str, neighbours: str
) -> None:
    types = array(dtype, 8, 64, 56, 56), array(dtype, 64, 64, 3, 3)
    launch = plan_of("conv2d", *types, target=target).launches[-1]
    assert launch.source == "convolution:tapped"
    assert [name for name in ("wr", "wc") if launch.constants.get(name) == 1] == [neighbours]
