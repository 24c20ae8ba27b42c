"""A bool in memory is true for every byte but 0: a view of other memory as bool (a mask of 0 and
255, random bytes) means what `!= 0` does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import compare, expected

import xtarget


def _bytes(*shape: int, seed: int = 0) -> Any:
    """Random bytes, a third of them 0, as bool."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.integers(1, 256, shape).astype(np.uint8)
    return np.where(rng.random(shape) < 0.33, np.uint8(0), values).view(bool)


def _truth(value: Any) -> Any:
    given = isinstance(value, np.ndarray) and value.dtype.kind == "b"
    return value.view(np.uint8) != 0 if given else value


def _check(name: str, *args: Any, device: str, **options: Any) -> None:
    found = xtarget.run(name, *args, device=device, **options)
    if found.dtype == bool:  # what a kernel writes is 0 or 1
        assert (found.view(np.uint8) <= 1).all()
    compare(name, found, expected(name, [_truth(a) for a in args], options))


@pytest.mark.parametrize("name", ["add", "mul", "maximum", "div"])
def test_operators(device: str, name: str) -> None:
    x, y = _bytes(37, 41), _bytes(37, 41, seed=1)
    _check(name, x, y, device=device)
    _check(name, x, True, device=device)
    _check(name, x[::2, ::-1], y[::2, 1::2][:, :1], device=device)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_beside_other_dtypes(device: str, dtype: str) -> None:
    _check("add", _bytes(500), sample(dtype, 500), device=device)
    _check("maximum", sample(dtype, 500), _bytes(500), device=device)


def test_a_condition(device: str) -> None:
    x, y = sample("int16", 33, 20), sample("int16", 33, 20, seed=1)
    _check("where", _bytes(33, 40)[:, ::2], x, y[0], device=device)
    _check("where", _bytes(500), _bytes(500, seed=1), _bytes(500, seed=2), device=device)


def test_a_mask_of_0_and_255_counts_as_numpy_does(device: str) -> None:
    mask = np.array([255, 0, 255, 255, 255, 255], np.uint8).view(bool)
    assert xtarget.run("sum", mask, device=device) == 5
    assert xtarget.run("max", mask, device=device)
    both = xtarget.run("add", mask, np.ones(6, bool), device=device)
    assert both.tolist() == [True] * 6


@pytest.mark.parametrize("axis", [None, (0, 2), -1])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_reductions(device: str, name: str, axis: Any) -> None:
    x = _bytes(9, 70, 12)
    _check(name, x, axis=axis, device=device)
    _check(name, x & False, axis=axis, device=device)


@pytest.mark.parametrize(("a", "b"), [((9,), (9,)), ((70, 33), (33, 50)), ((3, 4, 9), (9, 5))])
def test_products(device: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    _check("matmul", _bytes(*a), _bytes(*b, seed=1), device=device)
    _check("matmul", sample("float32", *a), _bytes(*b), device=device)


def test_functions(device: str) -> None:
    _check("exp", _bytes(300), device=device)


@examples(15)
@given(st.binary(min_size=64, max_size=64), st.sampled_from(["add", "mul", "maximum"]))
def test_any_bytes(device: str, data: bytes, name: str) -> None:
    x = np.frombuffer(data, np.uint8).view(bool).copy()
    _check(name, x, np.flip(x).copy(), device=device)
    _check("sum", x, device=device)
    _check("max", x, device=device)


def test_the_initial_value_of_a_reduction_of_bool_is_one(device: str) -> None:
    x = np.arange(40).reshape(4, 10) > 15
    for name, initial in (("min", -2), ("min", 3), ("max", 7), ("max", 0)):
        found = xtarget.run(name, x, axis=1, initial=initial, device=device)
        np.testing.assert_array_equal(found, getattr(x, name)(1, initial=initial), strict=True)
