"""Launch arguments as bytes."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtarget._values.types import COMPUTED, DTYPES
from xtarget.targets._objects.scalars import PACK

_DTYPES = {
    d.triton: np.dtype(ml_dtypes.bfloat16 if d.name == "bfloat16" else d.name)
    for d in map(DTYPES.__getitem__, COMPUTED)
}


def test_every_dtype_has_its_size() -> None:
    assert {d.triton: len(PACK[d.triton](1)) for d in map(DTYPES.__getitem__, COMPUTED)} == {
        d.triton: d.itemsize for d in map(DTYPES.__getitem__, COMPUTED)
    }


@pytest.mark.parametrize("type_", [t for t in _DTYPES if t[0] in "iu" and t != "i1"])
def test_integers_are_the_bytes_of_numpy(type_: str) -> None:
    info = np.iinfo(_DTYPES[type_])
    for value in (info.min, info.min + 1, -1 if info.min else 1, 0, 1, info.max):
        assert PACK[type_](int(value)) == np.array(value, _DTYPES[type_]).tobytes()


@pytest.mark.parametrize("value", [True, False, 0, 1, 2, -1])
def test_bool_is_one_whole_byte(value: int) -> None:
    assert PACK["i1"](value) == (b"\1" if value else b"\0")


@given(st.floats(width=32))
def test_floats_are_the_bits_of_numpy(value: float) -> None:
    with np.errstate(over="ignore"):
        for type_ in ("fp16", "bf16", "fp32", "fp64"):
            expected = np.array(value).astype(_DTYPES[type_])
            packed = np.frombuffer(PACK[type_](value), _DTYPES[type_])[0]
            if math.isnan(value):
                assert np.isnan(packed)
            else:
                assert packed.tobytes() == expected.tobytes()


@pytest.mark.parametrize("type_", ["fp16", "bf16", "fp32"])
def test_too_large_is_infinite(type_: str) -> None:
    for value in (1e300, -1e300, math.inf):
        packed = np.frombuffer(PACK[type_](value), _DTYPES[type_])[0]
        assert float(packed) == math.copysign(math.inf, value)
