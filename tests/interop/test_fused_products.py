"""Fused functions around a product of matrices: what follows it is done to its tiles."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError

run = xtarget.run
RANDOM = np.random.default_rng(11)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(dtype)


@pytest.fixture
def launched() -> Iterator[list[str]]:
    found: list[str] = []
    with xtarget.hooks.add(exit=lambda launch: found.append(launch.kernel)):
        yield found


def close(found: Any, wanted: Any) -> None:
    """Equal but for the order of sums, in units of the type that is rounded to."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    bound = 4e-3 if found.dtype == "float16" else 3e-5
    own, other = found.astype("float64"), wanted.astype("float64")
    np.testing.assert_allclose(
        own, other, rtol=bound, atol=bound * max(1, np.abs(other).max(initial=0))
    )


def bias_gelu(x: Any, w: Any, b: Any, r: Any) -> Any:
    return run("gelu", run("add", run("matmul", x, w), b))


def dense(x: Any, w: Any, b: Any, r: Any) -> Any:
    y = run("xw_plus_b", x, w, b, activation="silu")
    return run("add", run("mul", run("relu", y), 0.5), r)


def scaled(x: Any, w: Any, r: Any, scale: float) -> Any:
    return run("sub", run("mul", run("matmul", x, w), scale), r)


def gate(x: Any, w: Any, b: Any, r: Any) -> Any:
    y = run("matmul", x, w)
    return run("mul", run("mul", y, run("sigmoid", y)), run("exp", r))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (bias_gelu, "float32"),
        (dense, "float16"),
        *(pytest.param(f, t, marks=pytest.mark.long)
          for f, t in ((bias_gelu, "float16"), (dense, "float32"), (gate, "float16"))),
    ],
)  # fmt: skip
def test_a_product_and_what_follows_are_one_launch(
    device: str, launched: list[str], function: Any, dtype: str
) -> None:
    fused = xtarget.fuse(function)
    n = 50
    for shape in ((40, 96), (2, 3, 33)):
        x, w, b = (floats(*own, dtype=dtype) for own in (shape, (shape[-1], n), (n,)))
        r = floats(*shape[:-1], n, dtype=dtype)
        launched.clear()
        found = fused(x, w, b, r)
        assert len({*launched}) == 1, launched
        close(found, function(x, w, b, r))
        close(fused(x, w.T.copy().T, b, r[..., ::-1]), function(x, w, b, r[..., ::-1].copy()))


def test_what_stands_beside_may_be_repeated_and_lie_in_any_way(device: str) -> None:
    f = xtarget.fuse(scaled)

    def check(x: Any, w: Any, r: Any) -> None:
        close(f(x, w, r, 2.0), scaled(x, w, r, 2.0))

    x, w = floats(6, 20), floats(20, 9)
    for r in (floats(9, 6).T, floats(6, 1), floats(9)):
        check(x, w, r)
    # by the same trace: more results than products, and nothing to add up or at all
    for shapes in (
        ((1, 20), (20, 9), (6, 9)),
        ((6, 0), (0, 9), (6, 9)),
        ((0, 20), (20, 9), (1, 9)),
    ):
        check(*(floats(*shape) for shape in shapes))
    for shapes in (
        ((4, 3, 5, 8), (3, 8, 6), (3, 1, 6)),
        ((4, 3, 5, 8), (8, 6), (4, 1, 1, 6)),
        ((8,), (8, 6), (6,)),
        ((4, 20000), (20000, 3), (3,)),  # several blocks add to each element
    ):
        check(*(floats(*shape) for shape in shapes))


@pytest.mark.long
def test_further_shapes_of_what_stands_beside(device: str) -> None:
    f = xtarget.fuse(scaled)
    for shapes in (
        ((6, 20), (20, 9), (1, 9)), ((6, 20), (20, 9), (1, 1)), ((6, 20), (20, 1), (6, 9)),
        ((1, 20), (20, 9), (1, 9)), ((4, 3, 5, 8), (3, 8, 6), (4, 3, 5, 6)),
        ((4, 3, 5, 8), (3, 8, 6), (4, 1, 1, 1)), ((4, 3, 5, 8), (3, 8, 6), (2, 1, 1, 1, 1)),
        ((5, 8), (8,), (5,)), ((8,), (8,), (1,)),
    ):  # fmt: skip
        x, w, r = (floats(*shape) for shape in shapes)
        close(f(x, w, r, 2.0), scaled(x, w, r, 2.0))


def test_factors_and_what_is_added(device: str, launched: list[str]) -> None:
    def function(c: Any, a: Any, b: Any) -> Any:
        y = run("addmm", c, a, b, alpha=0.5, beta=2.0)
        return run("tanh", run("add", y, a))

    c, a, b = floats(30), floats(30, 30), floats(30, 30)
    found = xtarget.fuse(function)(c, a, b)
    assert len({*launched}) == 1
    close(found, function(c, a, b))


def test_integers_wrap_as_they_do_unfused(device: str) -> None:
    a, b = (RANDOM.integers(-100, 100, shape).astype("int8") for shape in ((9, 30), (30, 8)))
    function = lambda a, b: run("abs", run("add", run("matmul", a, b), 1))  # noqa: E731
    np.testing.assert_array_equal(xtarget.fuse(function)(a, b), function(a, b))


def test_what_cannot_follow_is_cut() -> None:
    x, w, b = floats(8, 8), floats(8, 8), floats(8)

    def said(function: Any) -> str:
        return xtarget.fuse(function).explain(x, w, b)

    before = said(lambda x, w, b: run("add", run("matmul", run("mul", b, 2), w), b))
    assert "Operators: 3. Launches: 2," in before
    assert "mul (as it is). Its result is written: matmul reads it." in before
    two = said(lambda x, w, b: run("add", run("matmul", x, w), run("matmul", w, x)))
    assert "Operators: 3. Launches: 2," in two
    assert "a launch has one product of matrices" in two
    rows = said(lambda x, w, b: run("softmax", run("add", run("matmul", x, w), b)))
    assert "matmul (as it is). Its result is written: softmax" not in rows
    assert "rows that are reduced are not those of a tile of a product" in rows
    wider = said(lambda x, w, b: run("add", run("matmul", x, b), w))
    assert "its result is written: its shape is not that of add" in wider.replace("Its", "its")


def test_a_bias_of_another_length_is_refused(device: str) -> None:
    fused = xtarget.fuse(lambda x, w, b: run("relu", run("linear", x, w, b)))
    x, w = floats(4, 6), floats(5, 6)
    fused(x, w, floats(5))
    for b in (floats(1), floats(4)):
        with pytest.raises(ArgumentError, match=r"bias has shape"):
            fused(x, w, b)


def test_out_may_be_what_stands_beside(device: str) -> None:
    def function(x: Any, w: Any, b: Any, r: Any) -> Any:
        return dense(x, w, b, r)

    x, w, b, r = floats(33, 40), floats(40, 40), floats(40), floats(33, 40)
    wanted = function(x, w, b, r)
    assert xtarget.fuse(function)(x, w, b, r, out=r) is r
    close(r, wanted)
    square = floats(40, 40)
    wanted = run("relu", run("add", run("matmul", square, w), b))
    fused = xtarget.fuse(lambda x, w, b: run("relu", run("add", run("matmul", x, w), b)))
    close(fused(square, w, b, out=square), wanted)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 40))]
)
def test_random_programs(device: str, seed: int) -> None:
    def function(x: Any, w: Any, others: Any, number: Any) -> Any:
        draw = random.Random(seed)
        made = [run("matmul", x, w)]
        for _ in range(draw.randint(1, 5)):
            if draw.random() < 0.4:
                made.append(run(draw.choice(("tanh", "relu", "neg", "sigmoid")), made[-1]))
            else:
                other = draw.choice([*others, number, made[0]])
                made.append(run(draw.choice(("add", "sub", "mul", "maximum")), made[-1], other))
        return made[-1]

    draw = random.Random(3000 + seed)
    fused = xtarget.fuse(lambda x, w, a, b, c, number: function(x, w, (a, b, c), number))
    for _ in range(2):
        m, n, k = (draw.choice([1, 2, 17, 64]) for _ in range(3))
        front = draw.choice([(), (3,), (2, 3)])
        dtype = draw.choice(["float32", "float16", "float64"])
        others = [floats(*draw.choice([(*front, m, n), (n,), (m, 1), (1,)]), dtype=dtype)
                  for _ in range(3)]  # fmt: skip
        x, w = floats(*front, m, k, dtype=dtype), floats(k, n, dtype=dtype)
        close(fused(x, w, *others, 0.5), function(x, w, others, 0.5))


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942"])
@pytest.mark.parametrize("n", [512, pytest.param(1000, marks=pytest.mark.long)])
def test_it_compiles_for_every_vendor(target: str, n: int) -> None:
    pytest.importorskip("triton")
    x, w, b = (np.zeros(shape, "float16") for shape in ((n, n), (n, n), (n,)))
    (made,) = xtarget.fuse(bias_gelu).compile(x, w, b, x, target=target)
    assert made.entry == "fused_add_gelu"
    assert str(made.target) == target
    assert made.resources is not None
    assert not made.resources.local_bytes


@pytest.mark.long
@pytest.mark.parametrize(
    ("emulated", "function"), [("emu:gfx942", bias_gelu), ("emu:gfx1100", dense)]
)
def test_it_runs_on_amds_machine_code(emulated: str, function: Any) -> None:
    x, w, b, r = (floats(*own, dtype="float16") for own in ((5, 9), (9, 7), (7,), (5, 7)))
    close(xtarget.fuse(function)(x, w, b, r, device=emulated), function(x, w, b, r))
