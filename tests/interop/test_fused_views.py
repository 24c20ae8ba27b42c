"""Operators that move nothing cost nothing in a fused function: what needs their result reads their
argument through other strides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_functions import grow, seeds

import xtarget
from xtarget import ArgumentError
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import Target
from xtarget.spec import ArrayType

run = xtarget.run
RANDOM = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(np.float32)


def turned(x: Any, b: Any) -> Any:
    return run("permute", x * 2) + b


def flat(x: Any, b: Any) -> Any:
    return run("reshape", run("exp", x), shape=(-1,)) + 1


def spread(x: Any, b: Any) -> Any:
    return run("expand_dims", b * 2, axis=1) * x


def repeated(x: Any, b: Any) -> Any:
    return run("broadcast_to", b + 1, shape=(3, 6)) * 2


def last_axes(x: Any, b: Any) -> Any:
    whole = run("reshape", x, shape=(2, 3, -1))
    return run("sqrt", run("sum", whole * whole, axis=(1, 2)))


def all_of_it(x: Any, b: Any) -> Any:
    return run("mean", run("abs", x)) + 1


def weighed(x: Any, b: Any) -> Any:
    return run("relu", x @ run("permute", x) + b)


ALL = (turned, flat, spread, repeated, last_axes, all_of_it, weighed)


@pytest.mark.parametrize("function", ALL)
def test_it_is_one_launch(device: str, launched: list[str], function: Any) -> None:
    fused = xtarget.fuse(function)
    x, b = floats(6, 9), floats(6)
    found = fused(x, b)
    assert len(launched) == 1
    wanted = function(x, b)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    launched.clear()
    y = floats(6, 18)[:, ::2]  # strides of another kind, which the elements in order do not have
    np.testing.assert_allclose(fused(y, b), function(y, b), rtol=1e-5, atol=1e-5)


def test_other_sizes_are_neither_traced_nor_made_anew(device: str) -> None:
    times: list[int] = []
    traced = 0

    def function(x: Any) -> Any:
        times.append(1)
        return run("sum", run("permute", x, axes=(2, 0, 1)) * 2, axis=0), run("permute", x + 1)

    fused = xtarget.fuse(function)
    for shape in ((3, 4, 5), (6, 2, 9), (4, 4, 4)):
        x = floats(*shape)
        rows, whole = fused(x)
        np.testing.assert_allclose(rows, (x * 2).sum(2), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(whole, (x + 1).T)
        traced = traced or len(times)
    assert len(times) == traced == 1
    rows, _ = fused(floats(3, 4, 1))  # rows of one element, where they had more
    assert rows.shape == (3, 4)


def test_a_kernel_of_its_own_reads_a_view(device: str, launched: list[str]) -> None:
    def heads(x: Any) -> Any:
        parts = run("permute", run("reshape", x, shape=(2, 5, 3, 8)), axes=(0, 2, 1, 3))
        return run("attention", parts, parts, parts)

    x = floats(2, 5, 24)
    found = xtarget.fuse(heads)(x)
    assert not [name for name in launched if "copy" in name or "transpose" in name]
    np.testing.assert_allclose(found, heads(x), rtol=1e-5, atol=1e-6)
    said = xtarget.fuse(heads).explain(x)
    assert "Launches: 1," in said
    assert "query is a view: reshape(shape=(2, 5, 3, 8)), then permute(axes=(0, 2, 1, 3))." in said


def test_out_may_be_what_a_view_is_of(device: str) -> None:
    fused = xtarget.fuse(lambda x: run("permute", x * 2))
    x = floats(5, 5)
    wanted = x.T * 2
    assert fused(x, out=x) is x
    np.testing.assert_array_equal(x, wanted)


def test_a_view_that_is_a_result_is_an_array_of_its_own(device: str) -> None:
    fused = xtarget.fuse(lambda x: (run("permute", x), run("reshape", x, shape=(-1,)), x + 1))
    x = floats(3, 4)
    turned, flat, more = fused(x)
    assert not np.shares_memory(turned, x)
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_array_equal(flat, x.reshape(-1))
    np.testing.assert_array_equal(more, x + 1)


def test_one_array_in_two_views(device: str, launched: list[str]) -> None:
    fused = xtarget.fuse(lambda x: (x - run("permute", x)) * x)
    x = floats(7, 7)
    np.testing.assert_array_equal(fused(x), (x - x.T) * x)
    assert len(launched) == 1


def test_a_shape_that_another_size_does_not_have_is_refused(device: str) -> None:
    fused = xtarget.fuse(lambda x: run("reshape", x * 2, shape=(3, 4)))
    fused(floats(12))
    with pytest.raises(ArgumentError, match=r"has 10 elements, which shape \(3, 4\) does not have"):
        fused(floats(10))


def test_operators_that_are_views_are_among_the_operators() -> None:
    listed, _ = xtarget.fuse(turned).operators(floats(6, 9), floats(6))
    assert [spec.name for spec, *_ in listed] == ["mul", "permute", "add"]


@pytest.mark.parametrize("added", [False, True])
def test_gemm_and_what_follows_are_one_launch(
    device: str, launched: list[str], added: bool
) -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        y = run("gemm", a, b, c, alpha=0.5, beta=2, trans_b=1)
        return run("gelu", y) if added else y

    a, b, c = floats(5, 8), floats(7, 8), floats(7)
    found = xtarget.fuse(function)(a, b, c)
    assert len(launched) == 1
    np.testing.assert_allclose(found, function(a, b, c), rtol=1e-5, atol=1e-5)


def test_a_linear_layer_alone_is_one_launch(device: str, launched: list[str]) -> None:
    function = lambda x, w, b: run("linear", x, w, b, activation="relu")  # noqa: E731
    x, w, b = floats(4, 5, 8), floats(7, 8), floats(7)
    found = xtarget.fuse(function)(x, w, b)
    assert len(launched) == 1
    np.testing.assert_allclose(found, function(x, w, b), rtol=1e-5, atol=1e-5)


def test_an_argument_is_a_number_and_then_an_array(device: str) -> None:
    fused = xtarget.fuse(lambda x, y: run("mul", x, run("neg", y)))
    x = floats(3)
    np.testing.assert_array_equal(fused(x, 2.0), x * -2)  # the value is part of the code
    np.testing.assert_array_equal(fused(x, x), x * -x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:] * 2,
        lambda x: x[0] + x[-1],
        lambda x: x[:, None, ..., 2] - 1,
        lambda x: (x * 2)[..., :3].reshape(-1),
        lambda x: x[::2, 1:-1].sum(axis=-1),
        lambda x: np.sum(x * 2, axis=0, keepdims=True),
        lambda x: np.mean(x) + x.reshape(3, 20).prod(1),
        lambda x: (x[None] > 0).any(),
        lambda x: x[:, :, 3:4].squeeze(-1).flatten() * 1,
        lambda x: x[9:] + 1,
    ],
)
def test_methods_and_slices_are_numpys(device: str, function: Any) -> None:
    x = floats(5, 4, 3).reshape(4, 3, 5)
    found, wanted = xtarget.fuse(function)(x), function(x)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


SHAPES: tuple[tuple[int, ...], ...] = ((5, 1, 7), (3, 7), (7,), (), (2, 3, 4), (0, 3), (1, 1))
UNARY = ("abs", "neg", "exp", "isnan", "square", "tanh", "floor", "logical_not")
BINARY = ("add", "sub", "mul", "maximum", "lt", "logical_and", "remainder")
FOLDS = ("sum", "mean", "max", "any", "logsumexp")


def moved(draw: random.Random, x: Any) -> Any:
    """An operator that moves nothing, or one of those beside them that do."""
    ndim = x.ndim
    kind = draw.choice(["permute", "permute", "expand", "squeeze", "reshape", "flatten", "slice",
                        "swap", "move", "flip"])  # fmt: skip
    if kind == "permute":
        return run("permute", x, axes=tuple(draw.sample(range(ndim), ndim)))
    if kind == "swap":
        return run("swapaxes", x, axis1=draw.randint(-ndim, ndim), axis2=0)
    if kind == "move":
        return run("moveaxis", x, source=draw.randint(0, ndim), destination=-1)
    if kind == "expand":
        return run("expand_dims", x, axis=draw.randint(-ndim - 1, ndim))
    if kind == "squeeze":
        return run("squeeze", x, axis=draw.randint(-ndim, ndim))
    if kind == "reshape":
        return run("reshape", x, shape=draw.choice([(-1,), (-1, 1), (7, -1)]))
    if kind == "flatten":
        first = draw.randint(0, ndim)
        return run("flatten", x, start=first, end=draw.randint(first, ndim))
    if kind == "slice":
        stops, steps = draw.choice([None, (2,), (-1,)]), draw.choice([None, (2,)])
        return run("strided_slice", x, starts=(draw.choice([0, 1]),), stops=stops, steps=steps)
    return run("flip", x, axis=draw.randint(0, ndim))


def reduced(draw: random.Random, x: Any) -> Any:
    axes = tuple(sorted(draw.sample(range(x.ndim), draw.randint(1, max(x.ndim, 1)))))
    axis = draw.choice([None, axes, axes[0]])
    return run(draw.choice(FOLDS), x, axis=axis, keepdims=draw.random() < 0.5)


def program_of(seed: int) -> Callable[..., Any]:
    """A function of random operators."""

    def function(x: Any, y: Any, number: Any) -> Any:
        def step(draw: random.Random, made: list[Any], own: Any) -> Any:
            kind = draw.random()
            if kind < 0.25:
                return run(draw.choice(UNARY), own)
            if kind < 0.5:
                return run(draw.choice(BINARY), own, draw.choice([*made, number, 2, 0.25]))
            if kind < 0.85 and own.ndim < 5:
                return moved(draw, own)
            return reduced(draw, own) if own.ndim else None

        draw = random.Random(seed)
        made = grow(draw, (x, y), draw.randint(4, 14), step)
        return run("add", made[-1], 0), run("neg", run("cast", made[len(made) // 2], dtype="int32"))

    return function


@pytest.mark.sample(4)
@seeds(4, 200)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_programs(device: str, seed: int) -> None:
    draw = random.Random(3000 + seed)
    function = program_of(seed)
    fused = xtarget.fuse(function)
    shape = draw.choice(SHAPES)
    dtypes = [draw.choice(["float32", "float64", "int32", "uint8", "bool"]) for _ in range(2)]
    for times in (1, 2):
        own = tuple(n if n < 2 else n * times for n in shape)
        other = draw.choice([own, own[-1:], ()])
        x, y = (
            np.asarray((RANDOM.normal(size=one) * 3).round(1), dtype)
            for one, dtype in zip((own, other), dtypes, strict=True)
        )
        x = draw.choice([x, np.asfortranarray(x), x[::-1] if own else x])
        for found, wanted in zip(fused(x, y, 1.5), function(x, y, 1.5), strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942"])
def test_it_compiles_for_every_vendor(target: str) -> None:
    x, b = floats(64, 48), floats(64)
    for function in (turned, last_axes):
        (artifact,) = xtarget.fuse(function).compile(x, b, target=target)
        assert str(artifact.target) == target


def test_rows_across_memory_are_not_walked_along() -> None:
    for function in (
        lambda x: run("sum", x * x, axis=0),
        lambda x: run("sum", run("permute", x) * 2, axis=-1),
    ):
        said = xtarget.fuse(function).explain(floats(64, 64))
        assert "sum (as it is)" in said
        assert "spread" not in said


def test_another_implementation_of_a_kernel_reads_views_too() -> None:
    """On sm_90 attention has kernels of its own, which serve fused functions too."""
    views = ((("permute", {"axes": (0, 2, 1, 3)}),),) * 3
    name = "fused attention of views for a test"
    libraries.register_through_views(name, "attention", views)
    kernel = libraries.find(name)
    heads = ArrayType("bfloat16", (4, 4096, 32, 128), (4096 * 4096, 4096, 128, 1))

    def sources(target: str) -> set[str]:
        goal = Target.parse(target)
        call = planning.call_of(kernel, [heads] * 3, {}, goal, 132, aligned=[True] * 4)
        return {launch.source for launch in planning.make_plan(kernel, call).launches}

    assert any("hopper" in source for source in sources("nvidia:sm_90"))
    assert not any("hopper" in source for source in sources("nvidia:sm_80"))
