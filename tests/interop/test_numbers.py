"""Numbers by value, sizes and grids: none wraps, on any device."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget import ArgumentError


@triton.jit
def numbers_store(x, out, number):
    tl.store(out + tl.program_id(0), (tl.load(x) * 0 + number).to(out.dtype.element_ty))


@triton.jit
def numbers_size(x, out, size):
    tl.store(out, tl.load(x) * 0 + size)


def _register(name: str, dtype: str, **spec: Any) -> str:
    name = f"test.numbers.{name}"
    xtarget.kernel(
        inputs=("x",), outputs={"out": lambda c: ((1,), dtype)}, name=name,
        **{"grid": lambda c: 1, **spec},
    )(numbers_size if "sizes" in spec else numbers_store)  # fmt: skip
    return name


INTEGERS = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("number", INTEGERS)
def test_an_integer_arrives_as_it_is(device: str, number: int) -> None:
    name = _register("signed", "int64")
    assert xtarget.run(name, np.zeros(1, np.int64), number)[0] == number


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_an_integer_of_64_bits_without_a_sign_arrives(device: str, number: int) -> None:
    name = _register("unsigned", "uint64")
    zero = np.zeros(1, np.uint64)
    assert xtarget.run(name, zero, number)[0] == number
    assert xtarget.run(name, zero, np.uint64(number))[0] == number


@pytest.mark.parametrize("number", [2**64, 2**70, -(2**63) - 1, 2**1000, -(10**400), 2**5000])
def test_an_integer_of_more_than_64_bits_is_refused(device: str, number: int) -> None:
    name = _register("signed", "int64")
    x = np.zeros(1, np.int64)
    for known in (2**40, -(2**40), 2**40):
        assert xtarget.run(name, x, known)[0] == known
        with pytest.raises(ArgumentError, match="does not fit 64 bits") as caught:
            xtarget.run(name, x, number)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_numpys_scalars_keep_their_type(device: str, dtype: str) -> None:
    limits = np.iinfo(dtype)
    name = _register(f"as.{dtype}", dtype)
    for value in (limits.min, limits.max):
        result = xtarget.run(name, np.zeros(1, dtype), limits.dtype.type(value))
        assert result[0] == value
    assert xtarget.run(name, np.zeros(1, dtype), True)[0] == 1
    assert xtarget.run(name, np.zeros(1, dtype), np.True_)[0] == 1


FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("bits", [17, 65, 127, 128, 129, 1000, 1023])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_long_integer_becomes_a_float_as_in_numpy(
    device: str, dtype: Any, bits: int, sign: int
) -> None:
    number = sign * 2**bits
    with np.errstate(over="ignore"):
        expected = np.ones(3, dtype) + np.dtype(dtype).type(float(number))
    for _ in range(2):
        np.testing.assert_array_equal(xtarget.run("add", np.ones(3, dtype), number), expected)
    assert xtarget.run("add", np.ones(3, dtype), 2**1024 - 1)[0] == math.inf
    with pytest.raises(ArgumentError, match="too large"):
        xtarget.run("add", np.ones(3, dtype), sign * 2**1024)


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "bool"])
def test_an_integer_out_of_the_arrays_range_is_refused(device: str, name: str) -> None:
    limits = np.iinfo("int64" if name == "bool" else name)
    array = np.zeros(2, name)
    for fine in (limits.min, limits.max, 0):
        np.testing.assert_array_equal(xtarget.run("add", array, fine), array + fine)
        for wrong in (limits.min - 1, limits.max + 1, 2**70, -(2**70)):
            with pytest.raises(ArgumentError, match="does not fit"):
                xtarget.run("add", array, wrong)


@pytest.mark.parametrize(
    "grid",
    [(2**31,), (2**40,), (2**63,), (2**64,), (10**300,), (1, 65_536), (1, 1, 2**40)],
    ids=str,
)
def test_a_grid_that_no_device_takes_is_refused(device: str, grid: tuple[int, ...]) -> None:
    name = _register(f"grid.{str(grid)[:30]}", "float32", grid=lambda c: grid)
    with pytest.raises(ArgumentError, match=r"blocks in [xyz] is not possible"):
        xtarget.run(name, np.zeros(1, np.float32), 1.0)
    with pytest.raises(ArgumentError, match=r"blocks in [xyz] is not possible"):
        xtarget.compile(name, np.zeros(1, np.float32), 1.0, target="nvidia:sm_90")


@pytest.mark.parametrize("grid", [-1, (1, -2), 1.5, "3", None, (1, 1, 1, 1), (), math.inf, [[1]]])
def test_a_grid_that_is_none_is_refused(device: str, grid: Any) -> None:
    name = _register(f"grid.wrong.{grid}", "float32", grid=lambda c: grid)
    with pytest.raises(ArgumentError, match="grid"):
        xtarget.run(name, np.zeros(1, np.float32), 1.0)


@pytest.mark.parametrize("size", [2**31, -(2**31) - 1, 2**62, -(2**63), 2**63 - 1])
def test_a_size_arrives_as_it_is(device: str, size: int) -> None:
    name = _register(f"size.{size}", "int64", sizes={"size": lambda c: size})
    assert xtarget.run(name, np.zeros(1, np.int64))[0] == size


@pytest.mark.parametrize(
    "size",
    [2**63, 2**70, -(2**63) - 1, 0.5, math.nan, math.inf, "1", None, 10**5000],
    ids=lambda s: str(type(s)),
)
def test_a_size_that_is_none_is_refused(device: str, size: Any) -> None:
    name = _register("size.wrong", "int64", sizes={"size": lambda c: size})
    with pytest.raises(ArgumentError, match="size"):
        xtarget.run(name, np.zeros(1, np.int64))


@pytest.mark.parametrize("eps", [2**2000, 10**400, -(2**1024)], ids=["2000", "400", "1024"])
def test_options_do_not_wrap_and_are_shown_short(device: str, eps: int) -> None:
    with pytest.raises(ArgumentError) as caught:
        xtarget.run("layer_norm", np.ones((2, 8), np.float32), eps=eps)
    assert len(str(caught.value)) < 400
    for axis in (2**31, 2**63, 2**64, -(2**64), 2**5000):
        with pytest.raises(ArgumentError, match="axis") as caught:
            xtarget.run("sum", np.ones((2, 8), np.float32), axis=axis)
        assert len(str(caught.value)) < 400


def test_the_sign_of_a_zero_and_the_kind_of_a_number_are_part_of_an_option(device: str) -> None:
    for value in (0.0, -0.0, 0.0, True, -0.0):
        filled = xtarget.run("full", shape=(3,), value=value, device=device)
        np.testing.assert_array_equal(np.signbit(filled), np.signbit(float(value)))
        np.testing.assert_array_equal(filled, np.float32(value))
