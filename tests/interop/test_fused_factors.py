"""Products of what elementwise operators give: in one launch where few rows or columns read it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_functions import seeds

import xtarget

run = xtarget.run
RANDOM = np.random.default_rng(14)
#: Of results, in the least step of their dtype.
CLOSE = {"float16": 4e-3, "float32": 2e-5}


def floats(*shape: int, dtype: str = "float16") -> Any:
    return (RANDOM.standard_normal(shape) / 2).astype(dtype)


def gelu_first(x: Any, w: Any) -> Any:
    return run("gelu", x) @ w


def scaled_rows(x: Any, scale: Any, w: Any, bias: Any) -> Any:
    return run("relu", run("linear", x * scale + 1.0, w, bias))


def dequantised(x: Any, w: Any, scale: Any) -> Any:
    return run("linear", x, run("cast", w, dtype="float16") * scale)


def gated(u: Any, v: Any, w: Any, residual: Any) -> Any:
    return run("silu", u) * v @ w + residual


def number_first(x: Any, by: Any, w: Any) -> Any:
    return run("exp", x * by) @ w


def dequantised_columns(x: Any, w: Any, scale: Any) -> Any:
    return x @ (run("cast", w, dtype="float16") * scale) + 1


def added(c: Any, a: Any, b: Any) -> Any:
    return run("addmm", c, run("tanh", a), b, alpha=0.5)


def cases() -> list[Any]:
    whole = RANDOM.integers(-8, 8, (24, 40)).astype(np.int8)
    return [
        pytest.param(gelu_first, (floats(50, 40), floats(40, 24)), id="gelu"),
        pytest.param(gelu_first, (floats(3, 33, 20), floats(20, 7)), id="batch of rows"),
        pytest.param(gelu_first, (floats(2, 9, 20), floats(2, 20, 7)), id="batch"),
        pytest.param(
            gelu_first, (floats(40, 70, dtype="float32").T, floats(40, 9, dtype="float32")),
            id="lies by columns, float32",
        ),
        pytest.param(
            scaled_rows, (floats(33, 40), floats(33, 1), floats(24, 40), floats(24)), id="a row's"
        ),
        pytest.param(
            scaled_rows, (floats(33, 40), floats(40), floats(24, 40), floats(24)), id="a column's"
        ),
        pytest.param(dequantised, (floats(5, 40), whole, floats(24, 1)), id="weights"),
        pytest.param(dequantised_columns, (floats(5, 24), whole, floats(40)), id="columns"),
        pytest.param(
            gated, (floats(33, 40), floats(33, 40), floats(40, 24), floats(24)), id="gate"
        ),
        pytest.param(number_first, (floats(33, 37), 0.5, floats(37, 24)), id="odd k"),
        pytest.param(added, (floats(24), floats(33, 40), floats(40, 24)), id="addmm"),
    ]  # fmt: skip


@pytest.mark.parametrize(("function", "args"), cases())
def test_a_product_of_what_operators_give_is_one_launch_and_as_they_are_one_by_one(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    fused = xtarget.fuse(function)
    got, want = fused(*args), function(*args)
    assert "Launches: 1," in fused.explain(*args)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(
        got.astype("float64"), want.astype("float64"), rtol=CLOSE[str(got.dtype)],
        atol=CLOSE[str(got.dtype)] * float(np.abs(want.astype("float64")).max()),
    )  # fmt: skip


def test_what_many_columns_read_is_computed_first() -> None:
    fused = xtarget.fuse(gelu_first)
    said = fused.explain(floats(8, 16), floats(16, 2048))
    assert "Launches: 2," in said
    assert "matmul reads it more than once" in said


def test_what_the_tail_reads_too_is_computed_first() -> None:
    @xtarget.fuse
    def block(x: Any, w: Any) -> Any:
        y = run("tanh", x)
        return y @ w + y

    x, w = floats(16, 16), floats(16, 16)
    assert "Launches: 2," in block.explain(x, w)
    np.testing.assert_allclose(
        np.asarray(block(x, w), "float32"), np.asarray(block.function(x, w), "float32"), atol=4e-3
    )


def test_other_sizes_of_the_same_trace_are_right() -> None:
    fused = xtarget.fuse(gated)
    for m, k, n in ((4, 8, 8), (65, 33, 600), (1, 16, 3), (3, 1, 5)):
        args = floats(m, k), floats(m, k), floats(k, n), floats(n)
        np.testing.assert_allclose(
            np.asarray(fused(*args), "float32"), np.asarray(gated(*args), "float32"), atol=8e-3
        )
    u, v = floats(1, 16), floats(5, 16)  # the first one broadcasts in this call
    args = u, v, floats(16, 3), floats(3)
    np.testing.assert_allclose(
        np.asarray(fused(*args), "float32"), np.asarray(gated(*args), "float32"), atol=8e-3
    )


def test_no_elements_and_no_length_are_right() -> None:
    fused = xtarget.fuse(gelu_first)
    assert fused(floats(0, 8), floats(8, 3)).shape == (0, 3)
    np.testing.assert_array_equal(fused(floats(2, 0), floats(0, 3)), np.zeros((2, 3)))


def halves_of_three(x: Any, g: Any, h: Any, w: Any) -> Any:
    return run("cast", x * g + h, dtype="float16") @ w


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("target", "room", "dtype", "rows", "columns"),
    [
        ("nvidia:sm_90", 227, "float32", 14336, 16),
        pytest.param("nvidia:sm_90", 227, "float64", 4096, 256, marks=pytest.mark.long),
        ("nvidia:sm_89", 99, "float32", 4096, 256),
        ("amd:gfx942", 64, "float64", 4096, 256),
    ],
)
def test_what_a_factor_is_made_of_has_room_in_shared_memory(
    target: str, room: int, dtype: str, rows: int, columns: int
) -> None:
    pytest.importorskip("triton")
    whole = np.zeros((rows, 4096), dtype)
    w = np.zeros((4096, columns), "float16")
    (made,) = xtarget.fuse(halves_of_three).compile(whole, whole, whole, w, target=target)
    assert made.shared_bytes <= room * 1024


@pytest.mark.sample(3)
@seeds(2, 60)
def test_random_factors(seed: int) -> None:
    draw = random.Random(seed)
    m, k, n = (draw.choice(own) for own in ((1, 3, 33, 64), (1, 5, 40, 64), (1, 2, 24, 70)))
    dtype = draw.choice(("float16", "float32"))
    kernel = draw.choice(("first", "second", "linear"))
    shape = {"first": (m, k), "second": (k, n), "linear": (n, k)}[kernel]
    batch = (2,) if kernel == "first" and draw.random() < 0.3 else ()
    beside = [
        draw.choice((floats(*shape, dtype=dtype), floats(shape[1], dtype=dtype), 0.5,
                     floats(shape[0], 1, dtype=dtype), floats(1, 1, dtype=dtype)))
        for _ in range(draw.choice((0, 1, 2)))
    ]  # fmt: skip
    before = [draw.choice(("exp", "tanh", "cos")), *(draw.choice(("add", "mul")) for _ in beside)]
    after = draw.choice(("", "relu", "add"))

    def function(x: Any, other: Any, r: Any, e: Any, f: Any) -> Any:
        x = run(before[0], x)
        for operator, own in zip(before[1:], (e, f), strict=False):
            x = run(operator, own, x)
        factors = (x, other) if kernel == "first" else (other, x)
        y = run("linear" if kernel == "linear" else "matmul", *factors)
        return y if not after else run(after, y, *([r] if after == "add" else []))

    x = floats(*batch, *shape, dtype=dtype)
    if draw.random() < 0.3:  # it lies by columns
        x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    other = floats(k, n, dtype=dtype) if kernel == "first" else floats(m, k, dtype=dtype)
    e, f = [*beside, 1.0, 1.0][:2]
    args = x, other, floats(n, dtype=dtype), e, f
    got, want = xtarget.fuse(function)(*args), function(*args)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(
        got.astype("float64"), want.astype("float64"), rtol=3 * CLOSE[dtype],
        atol=3 * CLOSE[dtype] * float(np.abs(want.astype("float64")).max()),
    )  # fmt: skip
