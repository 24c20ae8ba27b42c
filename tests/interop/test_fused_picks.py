"""Gathers are read in the launch of the elementwise operators that need their elements."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_functions import grow, seeds

import xtarget
from xtarget import ArgumentError

run = xtarget.run
RANDOM = np.random.default_rng(12)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(dtype)


def tokens(table: Any, index: Any, other: Any) -> Any:
    return run("embedding", index, table) * 2 + other


def two_tables(table: Any, index: Any, other: Any) -> Any:
    return run("embedding", index, table) + run("embedding", index, other)


def columns(table: Any, index: Any, other: Any) -> Any:
    return run("gelu", run("take", table, index, axis=1))


def beside_its_index(table: Any, index: Any, other: Any) -> Any:
    taken = run("take", table, index, axis=-1)
    return run("where", run("gt", taken, 0), taken * 0.5, index)


def each(table: Any, index: Any, other: Any) -> Any:
    places = run("broadcast_to", index, shape=(1, 7))
    return run("gather", table, run("cast", places, dtype="int32"), axis=1) * 3


def along(table: Any, index: Any, other: Any) -> Any:
    return run("neg", run("take_along_axis", table, run("expand_dims", index, axis=0), axis=1))


ONE = (tokens, two_tables, columns, beside_its_index)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.long)])
@pytest.mark.parametrize("function", [*ONE, each, along])
def test_it_is_what_it_is_unfused(
    device: str, launched: list[str], function: Any, dtype: str
) -> None:
    fused = xtarget.fuse(function)
    table, other = floats(9, 6, dtype=dtype), floats(4, 6, dtype=dtype)[:, :6]
    index = np.array([3, -1, 5, 0, -6, 80, 2])  # below 0 from the end, too large the last one
    given = other if function is two_tables else other[0]
    found = fused(table, index, given)
    assert len(launched) == 1 or function not in ONE
    wanted = function(table, index, given)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    table, index = floats(6, 9, dtype=dtype).T, np.array([[1, 2], [0, 0]], np.int32)[:, ::-1]
    if function in (tokens, two_tables, columns):  # another rank of indices, another way to lie
        np.testing.assert_array_equal(fused(table, index, given), function(table, index, given))


def test_other_sizes_are_not_traced_again(device: str) -> None:
    times: list[int] = []
    traced = 0

    def function(table: Any, index: Any) -> Any:
        times.append(1)
        return run("embedding", index, table) * 2

    fused = xtarget.fuse(function)
    for rows, n, count in ((5, 3, 4), (70, 33, 9), (1, 1, 1), (6, 8, 2)):
        table, index = floats(rows, n), RANDOM.integers(-rows, rows, count)
        np.testing.assert_array_equal(fused(table, index), table[index] * 2)
        traced = traced or len(times)
    assert len(times) == traced <= 2
    assert fused(floats(3, 2), np.zeros(0, np.int64)).shape == (0, 2)
    with pytest.raises(ArgumentError, match="nothing can be taken from an axis of length 0"):
        fused(floats(0, 2), np.zeros(3, np.int64))


def test_indices_that_are_checked_are_a_launch_of_their_own(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = xtarget.fuse(lambda table, index: run("take", table, index, axis=0) * 2)
    table = floats(5, 2)
    np.testing.assert_array_equal(fused(table, np.array([7])), table[[4]] * 2)
    monkeypatch.setenv("XTARGET_CHECK", "1")
    with pytest.raises(ArgumentError, match=r"index\[0\] is 7, for an axis of length 5"):
        fused(table, np.array([7]))


def test_out_may_be_the_table(device: str) -> None:
    fused = xtarget.fuse(lambda table, index: run("take", table, index, axis=0) * 2)
    table = floats(4, 3)
    wanted = table[::-1] * 2
    fused(table, np.arange(4)[::-1], out=table)
    np.testing.assert_array_equal(table, wanted)


def test_what_is_computed_before_is_a_launch_of_its_own(device: str, launched: list[str]) -> None:
    fused = xtarget.fuse(lambda x, index: run("take", x * 2, index + 1, axis=0) + 1)
    x, index = floats(6, 3), np.array([0, 3, 4])
    np.testing.assert_array_equal(fused(x, index), x[index + 1] * 2 + 1)
    assert len(launched) == 3
    said = fused.explain(x, index)
    assert "mul (as it is). Its result is written: take reads it." in said
    assert "a_ = picked(a, b, i, mask, n, shape, sa, sb, la, pa, TA)" in said


def program_of(seed: int) -> Callable[..., Any]:
    """A function of random gathers and elementwise operators."""

    def function(x: Any, y: Any, index: Any) -> Any:
        def step(draw: random.Random, made: list[Any], own: Any) -> Any:
            if draw.random() < 0.5:
                return run("take", own, index, axis=draw.randint(-2, 1))
            if draw.random() < 0.5:
                return run(draw.choice(("neg", "abs", "tanh", "permute")), own)
            return run(draw.choice(("add", "mul", "maximum")), own, draw.choice([*made, 2, index]))

        draw = random.Random(seed)
        made = grow(draw, (x, y), draw.randint(2, 8), step)
        return made[-1] + 0, run("neg", made[len(made) // 2])

    return function


@pytest.mark.sample(3)
@seeds(3, 100)
def test_random_programs(device: str, seed: int) -> None:
    draw = random.Random(4000 + seed)
    function = program_of(seed)
    fused = xtarget.fuse(function)
    x, y = floats(4, 5), floats(*draw.choice([(4, 5), (5,), (1, 5)]))
    index = draw.choice([RANDOM.integers(-4, 9, 3), np.array(2), np.array([[0, 1]], np.uint8)])
    for found, wanted in zip(fused(x, y, index), function(x, y, index), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942"])
def test_it_compiles_for_every_vendor(target: str) -> None:
    (artifact,) = xtarget.fuse(tokens).compile(
        floats(64, 48), np.arange(8), floats(48), target=target
    )
    assert str(artifact.target) == target
