"""Random functions of all that fused functions take, together: gathers, products, rows, views,
methods and elementwise operators."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError

run = xtarget.run
RANDOM = np.random.default_rng(13)


def simple(draw: random.Random, x: Any, made: list[Any], index: Any) -> Any:
    other = draw.choice([*made, 1.5, 2, index])
    kind = draw.choice(("unary", "binary", "where", "cast"))
    if kind == "unary":
        return run(draw.choice(("abs", "tanh", "relu", "floor", "sigmoid")), x)
    if kind == "binary":
        return run(draw.choice(("add", "sub", "mul", "minimum", "lt")), x, other)
    if kind == "where":
        return run("where", run("gt", x, 0), x, other)
    return run("cast", x, dtype=draw.choice(("float32", "float64", "int32")))


def moved(draw: random.Random, x: Any, made: list[Any], index: Any) -> Any:
    return draw.choice((
        lambda: run("permute", x),
        lambda: x.reshape(draw.choice([(-1,), (2, -1), (-1, 1, 2)])),
        lambda: x[: draw.choice([1, 3, 100, -1])],
        lambda: x[..., draw.choice([0, 1]) :: 2],
        lambda: x[None],
        lambda: run("flip", x, axis=0),
        lambda: run("broadcast_to", x, shape=(3, *x.shape)),
    ))()  # fmt: skip


def taken(draw: random.Random, x: Any, made: list[Any], index: Any) -> Any:
    places = draw.choice([index, run("cast", run("abs", draw.choice(made)), dtype="int64")])
    kind = draw.choice(("embedding", "take", "gather", "take_along_axis"))
    if kind == "embedding":
        return run(kind, places, x)
    return run(kind, x, places, axis=draw.choice([0, -1]))


def product(draw: random.Random, x: Any, made: list[Any], index: Any) -> Any:
    other, added = draw.choice(made), draw.choice(made)
    kind = draw.choice(("matmul", "turned", "linear", "gemm", "addmm"))
    if kind == "matmul":
        return run(kind, x, other)
    if kind == "turned":
        return run("matmul", x, run("permute", other))
    if kind == "linear":
        return run(kind, x, other, added, activation=draw.choice(("none", "relu")))
    if kind == "addmm":
        return run(kind, added, x, other, alpha=draw.choice([1, 2]), beta=draw.choice([0, 0.5]))
    turns = {f"trans_{one}": draw.choice([0, 1]) for one in "ab"}
    return run(kind, x, other, added, alpha=0.5, beta=draw.choice([0, 1, 2]), **turns)


def rows(draw: random.Random, x: Any, made: list[Any], index: Any) -> Any:
    axis = draw.choice([None, 0, -1, (0, 1)])
    if draw.random() < 0.3:
        return run(draw.choice(("softmax", "log_softmax")), x)
    return run(
        draw.choice(("sum", "mean", "max", "any")), x, axis=axis, keepdims=draw.random() < 0.5
    )


def program_of(seed: int, counts: list[int]) -> Callable[..., Any]:
    """A function of random operators. One that does not take what it would get is passed over.

    Args:
        counts: gets how many values there are behind each.
    """

    def function(x: Any, w: Any, b: Any, index: Any) -> Any:
        draw = random.Random(seed)
        made = [x, w, b]
        for _ in range(draw.randint(4, 12)):
            kind = draw.choice((simple, simple, moved, moved, taken, product, rows))
            own = random.Random(draw.random())
            with contextlib.suppress(ArgumentError, IndexError, ValueError):
                made.append(kind(own, own.choice(made[-4:]), made, index))
            counts.append(len(made))
        return run("add", made[-1], 0), run(
            "neg", run("cast", made[len(made) // 2], dtype="float32")
        )

    return function


def close(found: Any, wanted: Any) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    finite = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * float(finite))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_programs(device: str, seed: int) -> None:
    draw = random.Random(5000 + seed)
    counts: list[int] = []
    fused = xtarget.fuse(program_of(seed, counts))
    m, k, n = draw.choice([(4, 4, 4), (4, 6, 4), (1, 4, 4), (3, 4, 2)])
    dtype = draw.choice(["float32", "float64", "int32"])
    traced: list[int] = []
    for times in (1, 2):
        x, w, b = (
            (RANDOM.normal(size=shape) * 2).astype(dtype)
            for shape in ((m * times, k * times), (k * times, n * times), (n * times,))
        )
        index = RANDOM.integers(-3, 6, 3)
        alone: list[int] = []
        wanted = program_of(seed, alone)(x, w, b, index)
        if traced and alone != traced:
            return  # these sizes do not take the same operators: it is another function
        for one, other in zip(fused(x, w, b, index), wanted, strict=True):
            close(one, other)
        traced = counts[: len(alone)]
        assert traced == alone
