"""Fused functions around convolutions and scans: what follows is done before results are stored."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from random_functions import grow, seeds

import xtarget

run = xtarget.run
RANDOM = np.random.default_rng(5)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(dtype)


def close(found: Any, wanted: Any) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    bound = {"float16": 4e-3, "float64": 1e-12}.get(str(found.dtype), 2e-5)
    own, other = found.astype("float64"), wanted.astype("float64")
    np.testing.assert_allclose(own, other, rtol=bound, atol=bound * max(1, np.abs(other).max()))


def said(function: Any, *args: Any) -> str:
    return xtarget.fuse(function).explain(*args)


def residual(x: Any, w: Any, b: Any, r: Any) -> Any:
    return run("relu", run("conv2d", x, w, b, padding=1) * 0.5 + r)


def normalized(x: Any, w: Any, scale: Any, shift: Any) -> Any:
    """A batch_norm that is part of the weights in all but name, and a silu."""
    return run("silu", run("conv2d", x, w, stride=2) * scale + shift)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.long)])
@pytest.mark.parametrize("channels", [3, pytest.param(32, marks=pytest.mark.long)])
def test_a_convolution_and_what_follows_are_one_kernel(
    device: str, launched: list[str], channels: int, dtype: str
) -> None:
    x, w = floats(2, channels, 9, 9, dtype=dtype), floats(8, channels, 3, 3, dtype=dtype)
    w /= 9
    b, r = floats(8, dtype=dtype), floats(2, 8, 9, 9, dtype=dtype)
    wanted = residual(x, w, b, r)
    launched.clear()
    close(xtarget.fuse(residual)(x, w, b, r), wanted)
    assert {name.split()[0] for name in launched} == {"fused"}
    assert "Launches: 1, of which 1 are fused" in said(residual, x, w, b, r)
    scale, shift = floats(8, 1, 1, dtype=dtype), floats(8, 1, 1, dtype=dtype)
    close(xtarget.fuse(normalized)(x, w, scale, shift), normalized(x, w, scale, shift))


def test_what_stands_beside_a_convolution_may_lie_in_any_way(device: str) -> None:
    fused = xtarget.fuse(residual)
    x, w, b = floats(2, 3, 6, 8), floats(4, 3, 3, 3), floats(4)
    for r in (
        floats(2, 4, 6, 8),
        floats(2, 6, 8, 4).transpose(0, 3, 1, 2),
        floats(4, 1, 1),
        floats(8),
        floats(2, 1, 6, 8),
        floats(1),
        floats(2, 2, 4, 6, 8),
    ):
        close(fused(x, w, b, r), residual(x, w, b, r))
    out = np.empty((2, 4, 6, 16), np.float32)[..., ::2]
    r = floats(2, 4, 6, 8)
    assert fused(x, w, b, r, out=out) is out
    close(out, residual(x, w, b, r))
    wanted = residual(x, w, b, r)
    assert fused(x, w, b, r, out=r) is r
    close(r, wanted)


def test_channels_may_be_the_last_axis(device: str) -> None:
    def function(x: Any, w: Any, r: Any) -> Any:
        return run("tanh", run("conv2d", x, w, channels_last=True) * r)

    fused = xtarget.fuse(function)
    x, w = floats(2, 6, 8, 3), floats(5, 3, 3, 3)
    for r in (floats(5), floats(4, 1, 1), floats(2, 4, 6, 5), floats(4, 6, 1)):
        close(fused(x, w, r), function(x, w, r))


@pytest.mark.sample(3, each=("name",))
@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("conv1d", (4, 3, 5), {"dilation": 2}),
        ("conv_transpose2d", (3, 4, 3, 3), {"stride": 2}),
        ("conv2d", (6, 1, 3, 3), {"groups": 3}),
        ("conv2d", (4, 3, 1, 1), {}),  # a product of matrices
    ],
)
def test_other_convolutions(device: str, name: str, shape: Any, options: Any) -> None:
    def function(x: Any, w: Any, n: float) -> Any:
        y = run(name, x, w, **options)
        return run("where", y > 0, y, y * n)

    x = floats(2, 3, *(11,) * (len(shape) - 2))
    w = floats(*shape)
    close(xtarget.fuse(function)(x, w, 0.25), function(x, w, 0.25))


@pytest.mark.sample(3, each=("name", "axis"))
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_scan_and_what_follows_are_one_kernel(
    device: str, launched: list[str], name: str, axis: int
) -> None:
    def function(x: Any, r: Any, n: float) -> Any:
        return run("tanh", run(name, x, axis=axis) * n) + r

    fused = xtarget.fuse(function)
    for shape in ((5, 70), (3, 20, 4)):
        x = floats(*shape)
        for r in (floats(*shape), floats(shape[-1]), floats(1)):
            wanted = function(x, r, 0.5)
            launched.clear()
            close(fused(x, r, 0.5), wanted)
            if r.shape != (shape[-1],):
                assert {own.split()[0] for own in launched} == {"fused"}
        assert "Launches: 1, of which 1 are fused" in said(function, x, x, 0.5)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_that_leaves_out_its_own_element(device: str, reverse: bool) -> None:
    """The first result of a row is no element's, and goes through the operators too."""

    def function(x: Any, r: Any) -> Any:
        return (run("cumsum", x, exclusive=True, reverse=reverse) + 1) * r

    for shape in ((3, 40), (1, 9000)):
        x, r = floats(*shape), floats(*shape)
        close(xtarget.fuse(function)(x, r), function(x, r))


@pytest.mark.sample(3)
@pytest.mark.parametrize("axis", [0, -1])
def test_a_scan_of_what_operators_give_is_one_kernel(
    device: str, launched: list[str], axis: int
) -> None:
    def function(x: Any, r: Any, n: float) -> Any:
        return run("cumsum", run("relu", x * r) + n, axis=axis)

    fused = xtarget.fuse(function)
    for shape in ((5, 70), (3, 20, 4), (1, 9000)):
        x = floats(*shape)
        for r in (floats(*shape), floats(1), floats(shape[-1]), floats(2, *shape)):
            launched.clear()
            found = fused(x, r, 0.5)
            assert r.shape not in (shape, (1,)) or {n.split()[0] for n in launched} == {"fused"}
            close(found, function(x, r, 0.5))
        assert "Launches: 1, of which 1 are fused" in said(function, x, x, 0.5)
    out = floats(5, 70)
    wanted = function(out, out, 0.5)
    assert fused(out, out, 0.5, out=out) is out
    close(out, wanted)


def test_a_scan_of_all_elements_between_operators(device: str) -> None:
    def function(x: Any, r: Any, s: Any) -> Any:
        return run("cumsum", x * r, axis=None) * s

    fused = xtarget.fuse(function)
    for x in (floats(4, 6), floats(6, 4).T, floats(24)):
        for r in (floats(*x.shape), floats(x.shape[-1]), floats(1)):
            s = floats(x.size)
            close(fused(x, r, s), function(x, r, s))
            out = np.empty(x.size, np.float32)
            assert fused(x, r, s, out=out) is out
            close(out, function(x, r, s))


@pytest.mark.sample(3, each=("kernel",))
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("cumsum", {"axis": -1}),
        ("cumsum", {"axis": 0, "exclusive": True, "reverse": True}),
        ("cumprod", {"axis": -1}),
    ],
)
def test_what_comes_before_a_scan_and_what_follows_are_one_kernel(
    device: str, launched: list[str], kernel: str, options: Any
) -> None:
    def function(x: Any, r: Any, n: float, s: Any) -> Any:
        return run("tanh", run(kernel, run("sigmoid", x * r) + n, **options) * s)

    fused = xtarget.fuse(function)
    for shape in ((5, 70), (1, 9000), (2, 0)):
        x = floats(*shape) if 0 not in shape else np.zeros(shape, np.float32)
        for r, s in ((x, x), (floats(1), x), (x, floats(shape[-1])), (floats(2, *shape), x)):
            launched.clear()
            found = fused(x, r, 0.25, s)
            together = r.shape in (shape, (1,)) and s.shape == shape
            assert not together or {name.split()[0] for name in launched} <= {"fused"}
            assert not together or len(set(launched)) < 2
            wanted = function(x, r, 0.25, s)
            assert found.shape == wanted.shape
            if x.size:
                close(found, wanted)
    x = floats(5, 70)
    assert "Launches: 1, of which 1 are fused" in said(function, x, x, 0.25, x)
    wanted = function(x, x, 0.25, x)
    assert fused(x, x, 0.25, x, out=x) is x
    close(x, wanted)


def test_what_a_scan_and_what_follows_read_is_computed_once(device: str) -> None:
    def function(x: Any) -> Any:
        y = run("tanh", x)
        return run("cumsum", y) + y

    x = floats(5, 70)
    close(xtarget.fuse(function)(x), function(x))
    assert "Launches: 2," in said(function, x)


@pytest.mark.parametrize("options", [{"exclusive": True}, {"reverse": True}])
def test_conditions_are_counted(device: str, launched: list[str], options: Any) -> None:
    def function(x: Any, mask: Any, least: float) -> Any:
        return run("cumsum", (x > least) & mask, axis=-1, **options)

    x = floats(4, 33)
    found = xtarget.fuse(function)(x, x < 1, -0.5)
    np.testing.assert_array_equal(found, function(x, x < 1, -0.5))
    assert found.dtype == np.int64


def test_integers_and_conditions_beside_a_scan(device: str) -> None:
    def function(x: Any, m: Any) -> Any:
        return run("where", m, run("cumsum", x), -1)

    x = RANDOM.integers(-9, 9, (4, 33)).astype("int32")
    m = x > 0
    found = xtarget.fuse(function)(x, m)
    np.testing.assert_array_equal(found, function(x, m))
    assert found.dtype == np.int64


def test_where_they_are_cut() -> None:
    x, w = floats(2, 3, 5, 5), floats(4, 3, 3, 3)
    twice = said(lambda x, w: run("conv2d", x, w) + run("conv2d", x * 2, w), x, w)
    assert "a launch has one product of matrices, convolution, scan or attention" in twice
    assert "conv2d reads it" in twice
    many = said(lambda x, a, b, c, d: run("cumsum", x) + a + b + c + d, *[floats(4, 5)] * 5)
    assert "cumsum has no more than 3 operands beside it" in many or "Launches: 1," in many
    rows = said(lambda x: run("softmax", run("cumsum", x)), floats(4, 5))
    assert "rows that are reduced are not those of a tile of a product" in rows


@pytest.mark.sample(3)
@seeds(3, 60)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_programs(device: str, seed: int) -> None:
    draw = random.Random(9000 + seed)
    kind, before = draw.choice(["scan", "conv"]), draw.random() < 0.5
    axis, exclusive = draw.choice([0, 1, -1]), draw.random() < 0.3
    options = {"stride": draw.choice([1, 2]), "padding": draw.choice([0, 1])}
    program = draw.randrange(1 << 30)

    def function(x: Any, w: Any, a: Any, b: Any, number: float) -> Any:
        own = random.Random(program)

        def step(draw: random.Random, made: list[Any], last: Any) -> Any:
            if draw.random() < 0.4:
                return run(draw.choice(("tanh", "relu", "neg", "sigmoid", "abs")), last)
            other = draw.choice([*made, a, b, number, 2])
            return run(draw.choice(("add", "sub", "mul", "maximum")), last, other)

        if kind == "scan":
            given = grow(own, (x,), own.randint(0, 3), step)[-1] if before else x
            given = given + x if given.shape != x.shape else given
            first = run("cumsum", given, axis=axis, exclusive=exclusive)
        else:
            first = run("conv2d", x, w, **options)
        after = 0 if kind == "scan" and before else own.randint(1, 6)
        return grow(own, (first,), after, step)[-1]

    dtype = draw.choice(["float32", "float64", "float16"])
    for _ in range(2):
        x = floats(draw.randint(1, 3), 3, draw.randint(4, 9), draw.randint(4, 9), dtype=dtype)
        w = floats(draw.choice([1, 6]), 3, 3, 3, dtype=dtype) / 8
        whole = run("cumsum", x) if kind == "scan" else run("conv2d", x, w, **options)
        shapes = (whole.shape, whole.shape[-1:], (whole.shape[1], 1, 1), (1,))
        a, b = (floats(*draw.choice(shapes), dtype=dtype) for _ in range(2))
        x = draw.choice([x, np.asfortranarray(x)])
        args = x, w, a, b, 0.5
        close(xtarget.fuse(function)(*args), function(*args))


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942"])
def test_it_compiles_for_every_vendor(target: str) -> None:
    pytest.importorskip("triton")
    x, w, b = (np.zeros(own, "float16") for own in ((2, 32, 14, 14), (32, 32, 3, 3), (32,)))
    made = xtarget.fuse(residual).compile(x, w, b, x, target=target)
    assert made[-1].entry == "fused_mul_add_relu"
    assert not made[-1].resources.spilled_registers
