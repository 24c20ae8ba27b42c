"""Arguments that are given by name: the compiled core makes such calls too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl
from core_calls import hot

import xtarget
from xtarget.spec import cdiv

NAME = "k.scaled"
_REST: dict[str, Any] = {
    "grid": lambda c: (cdiv(c.n, 64),),
    "sizes": {"n": lambda c: c.x.size},
    "constants": {"BLOCK": 64},
    "complete": True,
    "scalars": ("factor",),
}


@triton.jit
def scaled(x, shift, factor, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n) * factor
    if shift is not None:
        value += tl.load(shift + i, i < n)
    tl.store(out + i, value, i < n)


@triton.jit
def turned(shift, x, factor, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n) * factor + tl.load(shift + i, i < n)
    tl.store(out + i, value, i < n)


def register(function: Any, *inputs: str) -> None:
    xtarget.kernel(name=NAME, inputs=inputs, outputs={"out": "x"}, **_REST)(function)


register(scaled, "x", "shift?")


def ramp(device: str) -> tuple[Any, Any]:
    values = np.arange(90, dtype=np.float32)
    return values, xtarget.asarray(values, device=device)


def test_arguments_by_name_in_any_order(core: Any, device: str) -> None:
    values, x = ramp(device)
    for given in (
        lambda **out: hot(core, NAME, x, x, factor=2.0, **out),
        lambda **out: hot(core, NAME, x, factor=2.0, shift=x, **out),
        lambda **out: hot(core, NAME, factor=2.0, shift=x, x=x, **out),
    ):
        out = xtarget.asarray(np.zeros(90, np.float32), device=device)
        assert given() == 2
        assert given(out=out) == 2
        np.testing.assert_array_equal(out.numpy(), values * 3)


def test_one_that_is_left_out_before_one_by_name(core: Any, device: str) -> None:
    values, x = ramp(device)
    assert hot(core, NAME, x, factor=2.0) == 2
    for factor in (2.0, 3.0, 4.0):
        np.testing.assert_array_equal(xtarget.run(NAME, x, factor=factor).numpy(), values * factor)
        found = xtarget.run(NAME, x, factor=factor, shift=None)
        np.testing.assert_array_equal(found.numpy(), values * factor)
    before = core.statistics()[0]
    for n in range(30, 60):  # sizes never seen
        found = xtarget.run(NAME, factor=2.0, x=x[:n])
        np.testing.assert_array_equal(found.numpy(), values[:n] * 2)
    assert core.statistics()[0] - before > 20


def test_what_is_wrong_is_said_warm_as_cold(core: Any, device: str) -> None:
    _, x = ramp(device)
    assert hot(core, NAME, x, factor=2.0) == 2
    assert hot(core, NAME, x, x, factor=2.0) == 2
    wrong: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
        ((x, x), {"factor": 2.0, "x": x}, "x is given twice, as argument 1 and by name"),
        ((x,), {"shift": x}, "takes 2 to 3 arguments|factor"),
        ((), {"factor": 2.0}, "x"),
        ((x,), {"facto": 2.0}, "takes 2 to 3 arguments"),
    )
    for args, named, words in wrong:
        for _ in range(4):
            with pytest.raises(xtarget.ArgumentError, match=words):
                xtarget.run(NAME, *args, **named)


def test_names_of_a_replaced_kernel_are_the_new_ones(core: Any, device: str) -> None:
    values, x = ramp(device)
    one = xtarget.asarray(np.ones(90, np.float32), device=device)
    try:
        assert hot(core, NAME, x, factor=2.0, shift=one) == 2
        register(turned, "shift", "x")
        for _ in range(4):
            found = xtarget.run(NAME, one, factor=2.0, x=x)
            np.testing.assert_array_equal(found.numpy(), values * 2 + 1)
    finally:
        register(scaled, "x", "shift?")
