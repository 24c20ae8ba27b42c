"""Products of what operators give in both factors: in one launch where one of them has few rows or
columns, which each tile makes again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_functions import seeds

import xtarget
from xtarget._arrays.dtypes import numpy_dtype

run = xtarget.run
RANDOM = np.random.default_rng(41)
#: Of results, in the least step of their dtype.
CLOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5}


def floats(*shape: int, dtype: str = "float16") -> Any:
    return (RANDOM.standard_normal(shape) / 2).astype(dtype)


def bytes_of(*shape: int) -> Any:
    return RANDOM.integers(-8, 8, shape).astype(np.int8)


def close(got: Any, want: Any, dtype: str = "") -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    bound, want = CLOSE[dtype or str(got.dtype)], want.astype("float64")
    most = float(np.abs(want).max(initial=0))
    np.testing.assert_allclose(got.astype("float64"), want, rtol=bound, atol=bound * most)


def plain(x: Any, w: Any) -> Any:
    return run("relu", x) @ run("abs", w)


def dequantised(x: Any, by_row: Any, w: Any, by_column: Any) -> Any:
    x = run("cast", x, dtype="float16") * by_row
    return x @ (run("cast", w, dtype="float16") * by_column)


def layer(x: Any, gate: Any, w: Any, scale: Any, bias: Any, residual: Any) -> Any:
    w = run("cast", w, dtype="float16") * scale
    return run("gelu", run("linear", run("relu", x) * gate, w, bias)) + residual


def cases() -> list[Any]:
    return [
        pytest.param(plain, (floats(5, 33), floats(33, 24)), id="few rows"),
        pytest.param(plain, (floats(70, 40), floats(40, 9)), id="few columns"),
        pytest.param(plain, (floats(1, 1), floats(1, 1)), id="one element"),
        pytest.param(
            plain, (floats(70, 40, dtype="float32").T, floats(70, 9, dtype="float32")),
            id="float32, lies by columns",
        ),
        pytest.param(
            dequantised, (bytes_of(9, 40), floats(9, 1), bytes_of(40, 24), floats(24)), id="int8"
        ),
        pytest.param(
            dequantised, (bytes_of(9, 40), floats(1, 40), bytes_of(40, 24), floats(40, 1)),
            id="int8, a number for each along K",
        ),
        pytest.param(
            layer,
            (floats(9, 40), floats(9, 40), bytes_of(70, 40), floats(70, 1), floats(70), floats(70)),
            id="layer",
        ),
        pytest.param(
            layer,
            (floats(2, 3, 40), floats(2, 3, 1), bytes_of(70, 40), floats(70, 1), floats(70),
             floats(2, 3, 70)),
            id="rows of a batch",
        ),
    ]  # fmt: skip


@pytest.mark.sample(2, each=("function",))
@pytest.mark.parametrize(("function", "args"), cases())
def test_both_factors_are_made_in_the_products_launch(
    device: str, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    fused = xtarget.fuse(function)
    close(fused(*args), function(*args))
    assert "Launches: 1, of which 1 are fused" in fused.explain(*args)


@pytest.mark.sample(3, each=("on", "rows"))
@pytest.mark.parametrize("rows", [3, 40])
def test_it_runs_on_units_of_matrices(on: str, rows: int) -> None:
    args = (floats(rows, 40), floats(rows, 1), bytes_of(12, 40), floats(12, 1), floats(12),
            floats(rows, 12))  # fmt: skip
    launched: list[str] = []
    with xtarget.hooks.add(exit=lambda launch: launched.append(launch.kernel)):
        got = xtarget.fuse(layer)(*args, device=on)
    close(got, layer(*args))
    assert on.startswith("cpu") or len(launched) == 1


def test_of_floats_of_8_bits_one_factor_is_made_there(device: str) -> None:
    pytest.importorskip("ml_dtypes")
    kind = numpy_dtype("float8_e4m3fn")

    def scaled(x: Any, s: Any, w: Any, t: Any) -> Any:
        return run("linear", run("cast", x, dtype="float32") * s,
                   run("cast", w, dtype="float32") * t)  # fmt: skip

    args = (floats(5, 48).astype(kind), floats(5, 1, dtype="float32"),
            floats(33, 48).astype(kind), floats(33, 1, dtype="float32"))  # fmt: skip
    fused = xtarget.fuse(scaled)
    close(fused(*args), scaled(*args))
    assert "Launches: 2," in fused.explain(*args)
    many = (np.repeat(args[0], 14, 0), np.repeat(args[1], 14, 0), np.repeat(args[2], 4, 0),
            np.repeat(args[3], 4, 0))  # fmt: skip
    more = xtarget.fuse(scaled)
    assert "linear takes floats of 8 bits apart for no more than 64" in more.explain(*many)
    close(more(*many), scaled(*many))
    close(fused(*many), scaled(*many))  # the same trace, of more rows


def test_the_order_of_the_functions_lines_does_not_decide(device: str) -> None:
    def turned(x: Any, w: Any) -> Any:
        w = run("abs", w)
        return run("relu", x) @ w

    args = floats(5, 33), floats(33, 600)
    assert "Launches: 1, of which 1 are fused" in xtarget.fuse(turned).explain(*args)
    assert "Launches: 1, of which 1 are fused" in xtarget.fuse(plain).explain(*args)
    close(xtarget.fuse(turned)(*args), turned(*args))


def test_explain_says_why_a_factor_is_made_first(device: str) -> None:
    fused = xtarget.fuse(plain)
    args = floats(70, 33), floats(33, 80)
    said = fused.explain(*args)
    assert "Launches: 2, of which 1 are fused" in said
    assert "only where one has no more than 16 rows or columns" in said
    close(fused(*args), plain(*args))

    def costly(x: Any, w: Any) -> Any:
        return run("gelu", x) @ run("abs", w)

    args = floats(7, 33), floats(33, 80)
    assert "is made by sums, products and the like" in xtarget.fuse(costly).explain(*args)
    close(xtarget.fuse(costly)(*args), costly(*args))

    def both_read(x: Any, w: Any) -> Any:
        y = run("tanh", x)
        return y @ run("mul", y, w)

    x = floats(8, 8)
    assert "matmul reads it, and mul" in xtarget.fuse(both_read).explain(x, x)
    close(xtarget.fuse(both_read)(x, x), both_read(x, x))

    def with_itself(x: Any) -> Any:
        y = run("tanh", x)
        return y @ y

    assert "Launches: 2," in xtarget.fuse(with_itself).explain(x)
    close(xtarget.fuse(with_itself)(x), with_itself(x))

    def matrices(x: Any, w: Any) -> Any:
        return run("exp", x) @ run("tanh", w)

    x, w = floats(2, 5, 8), floats(2, 8, 7)
    assert "matmul reads it once for each matrix" in xtarget.fuse(matrices).explain(x, w)
    close(xtarget.fuse(matrices)(x, w), matrices(x, w))


def test_other_sizes_of_the_same_trace_are_right(device: str) -> None:
    fused = xtarget.fuse(layer)
    for m, k, n in ((4, 8, 8), (65, 33, 70), (300, 16, 600), (1, 16, 3), (0, 4, 3), (2, 0, 3)):
        args = (floats(m, k), floats(m, 1), bytes_of(n, k), floats(n, 1), floats(n), floats(n))
        close(fused(*args), layer(*args))
    one = floats(1, 40), floats(5, 40), bytes_of(9, 40), floats(9, 1), floats(9), floats(9)
    close(fused(*one), layer(*one))  # the first array broadcasts in this call


@pytest.mark.parametrize(
    ("target", "room", "dtype", "rows", "columns"),
    [
        ("nvidia:sm_90", 227, "float32", 16, 4096),
        ("nvidia:sm_89", 99, "float64", 16, 4096),
        pytest.param("nvidia:sm_90", 227, "float64", 14336, 16, marks=pytest.mark.long),
        ("amd:gfx942", 64, "float64", 4096, 16),
    ],
)
def test_what_both_are_made_of_has_room_in_shared_memory(
    target: str, room: int, dtype: str, rows: int, columns: int
) -> None:
    pytest.importorskip("triton")

    def of_three(x: Any, w: Any) -> Any:
        x = run("cast", x * x + x, dtype="float16")
        return x @ run("cast", w * w + w, dtype="float16")

    x, w = np.zeros((rows, 4096), dtype), np.zeros((4096, columns), dtype)
    (made,) = xtarget.fuse(of_three).compile(x, w, target=target)
    assert made.shared_bytes <= room * 1024


@pytest.mark.sample(3)
@seeds(3, 80)
def test_random_factors(device: str, seed: int) -> None:
    draw = random.Random(seed)
    m, k, n = (draw.choice(own) for own in ((1, 3, 33, 70), (1, 5, 40, 64), (1, 2, 24, 90)))
    dtype = draw.choice(("float16", "float32"))
    batch = draw.choice(((), (), (2,), (1, 3)))
    linear = draw.random() < 0.5
    shapes = (*batch, m, k), (n, k) if linear else (k, n), (*batch, m, n)

    def beside(shape: tuple[int, ...]) -> Any:
        return draw.choice((
            floats(*shape, dtype=dtype), floats(shape[-1], dtype=dtype), 0.5,
            floats(shape[-2], 1, dtype=dtype), floats(1, 1, dtype=dtype),
        ))  # fmt: skip

    names = [
        [draw.choice(("add", "mul", "maximum")) for _ in range(draw.randrange(3))] for _ in shapes
    ]
    given = [[beside(shape) for _ in own] for own, shape in zip(names, shapes, strict=True)]

    first = [draw.choice(("abs", "relu", "neg", "tanh")) for _ in range(2)]

    def function(x: Any, w: Any, *others: Any) -> Any:
        left = list(others)

        def through(y: Any, own: list[str]) -> Any:
            for name in own:
                y = run(name, left.pop(0), y) if seed % 2 else run(name, y, left.pop(0))
            return y

        x, w = through(run(first[0], x), names[0]), through(run(first[1], w), names[1])
        return through(run("linear" if linear else "matmul", x, w), names[2])

    x, w = floats(*shapes[0], dtype=dtype), floats(*shapes[1], dtype=dtype)
    if draw.random() < 0.3:  # it lies by columns
        w = np.ascontiguousarray(w.T).T
    flat = [one for own in given for one in own]

    def named(x: Any, w: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        return function(x, w, a, b, c, d, e, f)

    args = x, w, *[*flat, *[1.0] * 6][:6]
    got, want = xtarget.fuse(named)(*args), named(*args)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    bound, most = 3 * CLOSE[dtype], float(np.abs(want.astype("float64")).max())
    np.testing.assert_allclose(
        got.astype("float64"), want.astype("float64"), rtol=bound, atol=bound * most
    )
