"""Fused functions with several results from one launch, and reductions over other axes than the
last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xtarget

run = xtarget.run
RANDOM = np.random.default_rng(11)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(dtype)


def same(found: Any, wanted: Any) -> None:
    """Each result is that of the operators one by one, but for the order of sums."""
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        return
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    bound = {"float16": 2e-3, "float64": 1e-12}.get(str(found.dtype), 2e-5)
    np.testing.assert_allclose(
        found.astype("float64"), wanted.astype("float64"), rtol=bound, atol=bound
    )


def launches(function: Callable[..., Any], *args: Any) -> int:
    return int(xtarget.fuse(function).explain(*args).split("Launches: ")[1].split(",")[0])


def residual_norm(x: Any, r: Any, w: Any) -> Any:
    h = x + r
    return run("rms_norm", h, w), h


def residual_used_later(x: Any, r: Any, w: Any) -> Any:
    h = x + r
    y = run("rms_norm", h, w)
    return h * 2 + y, y


def moments(x: Any, r: Any, w: Any) -> Any:
    mean = run("mean", x, axis=-1, keepdims=True)
    apart = x - mean
    variance = run("mean", apart * apart, axis=-1, keepdims=True)
    return apart / np.sqrt(variance + 1e-5) * w, mean, variance


def of_one_row(x: Any, r: Any, w: Any) -> Any:
    return run("sum", x, axis=-1), run("max", x, axis=-1), run("mean", x * r, axis=-1)


def siblings(x: Any, r: Any, w: Any) -> Any:
    return np.sin(x + r), np.cos(x), x * w


def chain(x: Any, r: Any, w: Any) -> Any:
    y = x * r
    z = np.tanh(y + w)
    return y, z, z * y


@pytest.mark.parametrize(
    "function", [residual_norm, residual_used_later, moments, of_one_row, siblings, chain]
)
def test_results_come_from_one_launch(function: Callable[..., Any]) -> None:
    fused = xtarget.fuse(function)
    for rows, n in ((5, 7), (3, 300)):
        args = floats(rows, n), floats(rows, n), floats(n)
        same(fused(*args), function(*args))
        assert launches(function, *args) == 1


def test_results_of_different_shapes_are_right_by_the_same_trace() -> None:
    """One trace serves (m, n) and (1, n): they have as many dimensions."""

    def function(a: Any, b: Any) -> Any:
        return np.sin(a), np.cos(a) + b

    fused = xtarget.fuse(function)
    for shape, other in (((4, 6), (4, 6)), ((1, 6), (4, 6)), ((4, 1), (4, 6)), ((4, 6), (1, 1))):
        args = floats(*shape), floats(*other)
        same(fused(*args), function(*args))

    def rows(a: Any, b: Any) -> Any:
        h = a * 2
        return h, run("sum", h + b, axis=-1), run("max", h, axis=-1, keepdims=True)

    fused = xtarget.fuse(rows)
    for shape, other in (((4, 6), (4, 6)), ((1, 6), (4, 6)), ((4, 6), (1, 6)), ((4, 6), (4, 1))):
        args = floats(*shape), floats(*other)
        same(fused(*args), rows(*args))


def test_dtypes_differ_among_the_results() -> None:
    def function(x: Any) -> Any:
        y = run("cast", x, dtype="float16")
        return y, x > 0, y * 2

    x = floats(33, 5)
    same(xtarget.fuse(function)(x), function(x))
    assert launches(function, x) == 1


def test_no_launch_waits_for_itself() -> None:
    """One launch writes what another one reads, which writes what the first would need."""

    def function(x: Any, w: Any) -> Any:
        h = x * 2
        product = h @ w
        total = h + product
        return run("softmax", total), run("sum", h * total, axis=-1), h

    args = floats(8, 8), floats(8, 8)
    same(xtarget.fuse(function)(*args), function(*args))


def test_the_callers_memory_is_written() -> None:
    x, r, w = floats(6, 40), floats(6, 40), floats(40)
    outs = np.empty_like(x), np.empty_like(x)
    found = xtarget.fuse(residual_norm)(x, r, w, out=outs)
    assert found[0] is outs[0]
    same(outs, residual_norm(x, r, w))


def test_explain_says_what_is_written_and_why() -> None:
    text = xtarget.fuse(residual_norm).explain(floats(4, 8), floats(4, 8), floats(8))
    assert "That of add is written too: it is a result." in text
    # the sum is written, and not read again: 4 * 8 * 4 bytes
    assert "Bytes that are not moved: 128." in text


@pytest.mark.parametrize(
    ("name", "axis", "dtype", "count"),
    [
        ("sum", 0, "float32", 1),
        ("mean", (0, 1), "float32", 3),  # b is broadcast along both: they do not become one
        ("max", 1, "float16", 2),  # the axis is put back by a copy
        ("any", -2, "float64", 1),
    ],
)
def test_reductions_over_other_axes(name: str, axis: Any, dtype: str, count: int) -> None:
    def function(x: Any, b: Any) -> Any:
        y = run(name, np.maximum(x * b, 0), axis=axis, keepdims=name == "max")
        return y if name in ("any", "max") else y * 2

    fused = xtarget.fuse(function)
    for shape in ((6, 5, 40), (1, 7, 3), (20, 1, 90)):
        args = floats(*shape, dtype=dtype), floats(shape[-1], dtype=dtype)
        same(fused(*args), function(*args))
    assert launches(function, floats(6, 5, 40), floats(40)) == count


def test_long_columns_have_their_own_kernel() -> None:
    def function(x: Any) -> Any:
        return run("sum", x * 2, axis=0)

    fused = xtarget.fuse(function)
    for shape, count in (((30, 200), 1), ((200, 30), 2)):
        x = floats(*shape)
        same(fused(x), function(x))
        assert launches(function, x) == count
