"""Casts of floats of 8 bits: every code, and every float16, against torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._arrays.dtypes import numpy_dtype
from xtarget._kernels import libraries
from xtarget._values.float8 import FLOAT8
from xtarget._values.types import COMPUTED, DTYPES
from xtarget.spec import ArgumentError

torch = pytest.importorskip("torch")
NARROW = [name for name in DTYPES if name in FLOAT8]
CODES = np.arange(256, dtype=np.uint8)
#: Halfway between two numbers or next to that, beyond the largest, below the smallest.
HARD = np.array(
    [0.0, -0.0, 448, 464, 464.01, 480, -1e9, np.inf, -np.inf, np.nan, 57344, 61439.9, 61440, -61441]
    + [sign * 2.0**-power * by for power in (6, 9, 10, 14, 16, 17) for sign in (1, -1)
       for by in (1, 1.0625, 1.1875, 1.25, 1.3, 1.5, 0.999)]
)  # fmt: skip


def _same_as_torch(other: str) -> None:
    if other == "float8_e4m3fn" and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        pytest.skip("torch before 2.13 gives nan for what is beyond the largest float8_e4m3fn")


def _some(dtypes: Iterable[str], *short: str) -> list[Any]:
    return [d if d in short else pytest.param(d, marks=pytest.mark.long) for d in dtypes]


def _torch(x: np.ndarray[Any, Any]) -> Any:
    if x.dtype.isbuiltin == 1:
        return torch.from_numpy(x)
    bits = x.view(np.int16 if x.itemsize == 2 else np.int8)
    return torch.from_numpy(bits).view(getattr(torch, x.dtype.name))


def _values(dtype: str) -> np.ndarray[Any, Any]:
    type_ = numpy_dtype(dtype)
    if dtype == "bool":
        return np.array([False, True])
    if DTYPES[dtype].kind != "f":
        info = np.iinfo(dtype)
        all_ = np.linspace(float(info.min), float(info.max) * 0.99, 999).astype(type_)
        return np.concatenate([all_, np.arange(0, 128, dtype=type_)])
    with np.errstate(all="ignore"):
        if type_.itemsize == 2:
            return np.arange(2**16, dtype=np.uint16).view(type_)
        return np.concatenate([HARD, np.nextafter(HARD.astype("f4"), 0)]).astype(type_)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("other", _some(DTYPES, "bool", "int32", "float16", *NARROW))
def test_every_code_is_cast_as_torch_does(device: str, dtype: str, other: str) -> None:
    _same_as_torch(other)
    codes = CODES
    if DTYPES[other].kind in "iu":  # what is beyond the integers gives any value
        value = np.nan_to_num(codes.view(numpy_dtype(dtype)).astype(float), nan=np.inf)
        info = np.iinfo(other)
        codes = codes[(np.trunc(value) >= info.min) & (np.trunc(value) < float(info.max))]
    x = codes.view(numpy_dtype(dtype))
    found = xtarget.run("cast", x, dtype=other, device=device)
    assert found.dtype == numpy_dtype(other)
    right = _torch(x).to(getattr(torch, other))
    torch.testing.assert_close(
        _torch(found).double(), right.double(), rtol=0, atol=0, equal_nan=True
    )
    if other != "float8_e4m3fn":  # torch takes the largest number for inf, ml_dtypes nan
        theirs = x.astype(numpy_dtype(other)).astype(float)
        np.testing.assert_array_equal(found.astype(float), theirs)


@pytest.mark.parametrize("dtype", _some(COMPUTED, "int64", "bfloat16", "float64"))
@pytest.mark.parametrize("other", NARROW)
def test_every_dtype_becomes_the_codes_of_torch(device: str, dtype: str, other: str) -> None:
    _same_as_torch(other)
    x = _values(dtype)
    found = xtarget.run("cast", x, dtype=other, device=device)
    assert found.dtype == numpy_dtype(other)
    right = _torch(x).to(getattr(torch, other)).view(torch.uint8).numpy()
    np.testing.assert_array_equal(found.view(np.uint8), right)
    reference = libraries.find("cast").spec.reference
    assert reference is not None
    np.testing.assert_array_equal(reference(x, dtype=other).astype(float), found.astype(float))


@pytest.mark.parametrize("dtype", NARROW)
def test_views_results_and_arrays_of_others(device: str, dtype: str) -> None:
    x = np.arange(120).astype(numpy_dtype(dtype)).reshape(5, 6, 4)[::-1, 1:5, ::2]
    wide = xtarget.run("cast", x, dtype="float32", device=device)
    np.testing.assert_array_equal(wide, x.astype(np.float32))
    out = np.zeros((5, 4, 2), numpy_dtype(dtype)).transpose(0, 1, 2)
    assert xtarget.run("cast", wide, dtype=dtype, out=out, device=device) is out
    np.testing.assert_array_equal(out.astype(float), x.astype(float))
    ours = xtarget.asarray(x, device)
    assert ours.dtype == x.dtype
    np.testing.assert_array_equal(ours[1:, 0].numpy().astype(float), x[1:, 0].astype(float))
    if device == "cpu":
        exported = torch.from_dlpack(ours)
        assert exported.dtype == getattr(torch, dtype)
        assert xtarget.run("cast", exported, dtype="float32").tolist() == wide.tolist()


@pytest.mark.parametrize("dtype", NARROW)
def test_what_does_not_take_them_says_what_does(device: str, dtype: str) -> None:
    x = CODES[:8].view(numpy_dtype(dtype))
    with pytest.raises(ArgumentError, match=f"add does not take {dtype}.*Cast it to float16 first"):
        xtarget.run("add", x, x, device=device)
    with pytest.raises(ArgumentError, match=f"a number of dtype {dtype} is not supported. Give fl"):
        xtarget.run("cast", x[3], dtype="float32", device=device)
    chain = xtarget.fuse(lambda q: xtarget.run("exp", xtarget.run("cast", q, dtype="float32")))
    right = np.exp(x.astype(np.float32))
    np.testing.assert_allclose(chain(x, device=device), right, rtol=1e-6)  # a cast may be fused
