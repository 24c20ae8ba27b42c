"""Calls of several launches, with memory between them, and numbers of half precision: the compiled
core makes them, and gives what Python gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from core_calls import TWIN, made
from threads import in_threads

import xtarget
from xtarget import ArgumentError
from xtarget._launch import run as launching
from xtarget._launch.known import classes
from xtarget._launch.passing import Chained

#: More than half of the lengths that `linear:panels` wants, so that there are two launches.
SIDE = 48


@pytest.fixture
def core(device: str) -> Iterator[Any]:
    if launching._native is None:
        pytest.skip("the compiled core is not built, or XTARGET_CORE=python")
    if not xtarget.device(device).info.host_memory:
        pytest.skip(f"{device} copies the host's arrays, which is Python's")
    launching.forget_calls()
    yield launching._native
    launching.forget_calls()


def chained() -> int:
    """Classes that take more than one plain launch."""
    found = [entry._loaded for entry in classes.entries()]
    return sum(one is not None and isinstance(one[1], Chained) for one in found)


def test_products_of_shapes_never_seen_are_the_cores(core: Any, device: str) -> None:
    rng = np.random.default_rng(5)
    whole = rng.standard_normal((400, 2 * SIDE)).astype(np.float32)
    b = rng.standard_normal((SIDE, SIDE)).astype(np.float32)
    results = np.empty((400, SIDE + 3), np.float32)
    lengths = [int(n) for n in rng.permutation(np.arange(40, 390))[:60]]
    for n in (40, 41, 48, 64, 300):
        xtarget.run("matmul", whole[:n, :SIDE], b, out=results[:n, :SIDE], device=device)
    assert chained() or xtarget.device(device).info.vendor != "cpu"
    before = made(core)
    for n in lengths:
        for a in (whole[:n, :SIDE], whole[:n, ::2], whole[n - 1 :: -1, :SIDE]):
            results[:] = 7
            out = results[:n, :SIDE]
            assert xtarget.run("matmul", a, b, out=out, device=device) is out
            expected = TWIN("matmul", a, b, device=device)
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_allclose(expected, a @ b, rtol=1e-4, atol=1e-4)
            assert (results[:n, SIDE:] == 7).all()
            assert (results[n:] == 7).all()
        np.testing.assert_array_equal(
            xtarget.run("matmul", whole[:n, :SIDE], b, device=device),
            TWIN("matmul", whole[:n, :SIDE], b, device=device),
        )
    assert made(core) - before > 3 * len(lengths)


def test_products_that_come_again_are_the_cores(core: Any, device: str) -> None:
    a, b = np.ones((70, SIDE), np.float32), np.ones((SIDE, SIDE), np.float32)
    for _ in range(12):
        np.testing.assert_array_equal(xtarget.run("matmul", a, b, device=device), SIDE)
    before = made(core)
    for factor in range(1, 6):
        a[:] = factor
        np.testing.assert_array_equal(xtarget.run("matmul", a, b, device=device), SIDE * factor)
    assert made(core) - before == 5


def test_a_product_over_its_own_operand_is_refused(core: Any, device: str) -> None:
    memory = np.ones(SIDE * 900, np.float32)
    b = np.ones((SIDE, SIDE), np.float32)
    for n in range(70, 90):
        a = memory[: n * SIDE].reshape(n, SIDE)
        out = memory[400 * SIDE :][: n * SIDE].reshape(n, SIDE)
        xtarget.run("matmul", a, b, out=out, device=device)
    a = memory[: 95 * SIDE].reshape(95, SIDE)
    with pytest.raises(ArgumentError, match="overlaps argument 1"):
        xtarget.run("matmul", a, b, out=memory[SIDE:][: 95 * SIDE].reshape(95, SIDE), device=device)
    with pytest.raises(ArgumentError, match="do not fit"):
        xtarget.run("matmul", a[:, 1:], b, device=device)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_of_half_precision_are_rounded_once(core: Any, device: str, dtype: str) -> None:
    """Ties, subnormal numbers, what is too large, and what float32 would round first."""
    of: Any = np.dtype("float16")
    if dtype == "bfloat16":
        of = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    x, out = np.ones(600, of), np.empty(600, of)
    numbers = [
        0.0, -0.0, 1.0, 65504.0, 65519.99, 65520.0, -65520.0, 3.4e38, -1e300, 5.96e-8, 2.98e-8,
        2.9802322387695313e-08 * (1 + 2**-40), 1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 3 * 2**-11,
        1 + 2**-8, 1 + 2**-8 + 2**-40, 1e-40, 9.2e-41, float("inf"), float("-inf"), float("nan"),
        *np.random.default_rng(2).standard_normal(40).tolist(),
    ]  # fmt: skip
    for n in (401, 400, 402):
        xtarget.run("mul", x[:n], 1.5, out=out[:n], device=device)
    before = made(core)
    for n, number in enumerate(numbers, 403):
        with np.errstate(all="ignore"):
            expected = TWIN("mul", x[:n], number, device=device)
            if dtype == "float16":  # ml_dtypes rounds to float32 first
                np.testing.assert_array_equal(expected, x[:n] * of.type(number))
        found = xtarget.run("mul", x[:n], number, out=out[:n], device=device)
        np.testing.assert_array_equal(found.view(np.int16), expected.view(np.int16))
    assert made(core) - before == len(numbers)


def test_threads_multiply_while_all_is_forgotten(core: Any, device: str) -> None:
    wrong: list[Any] = []
    b = np.ones((SIDE, SIDE), np.float32)

    def work(number: int) -> None:
        for n in range(40, 120):
            a = np.full((n, SIDE), number, np.float32)
            if not (xtarget.run("matmul", a, b, device=device) == number * SIDE).all():
                wrong.append((number, n))
            if number == 1 and n % 20 == 0:
                launching.forget_calls()

    in_threads(work, (1, 2, 3))
    assert not wrong


def test_a_class_whose_code_was_unloaded_loads_it_again(
    core: Any, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_MODULES", "2")
    b = np.ones((SIDE, SIDE), np.float32)
    for n in range(50, 60):
        a = np.full((n, SIDE), n, np.float32)
        np.testing.assert_array_equal(xtarget.run("matmul", a, b, device=device), n * SIDE)
        for kernel in ("add", "mul", "sub"):
            values = xtarget.run(kernel, a[0], 2, device=device)
            np.testing.assert_array_equal(
                values, {"add": n + 2, "mul": 2 * n, "sub": n - 2}[kernel]
            )
