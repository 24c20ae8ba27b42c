"""NumPy's type rules by name."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xtarget import ArgumentError
from xtarget._arrays.dtypes import NumpyRules, name_of, numpy_dtype, weak_scalar
from xtarget._values.types import COMPUTED, DTYPES

RULES = NumpyRules()


@pytest.mark.parametrize("name", DTYPES)
def test_names_and_numpy_dtypes_agree(name: str) -> None:
    assert name_of(numpy_dtype(name)) == name
    assert numpy_dtype(name).itemsize == DTYPES[name].itemsize


def test_bfloat16_is_ml_dtypes() -> None:
    assert numpy_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("a", [n for n in COMPUTED if n != "bfloat16"])
@pytest.mark.parametrize("b", ["bool", "int8", "uint8", "int64", "float16", "float64"])
def test_promotion_is_numpys(a: str, b: str) -> None:
    assert RULES.promote(a, b) == np.result_type(a, b).name


def test_bfloat16_meets_float32_and_itself() -> None:
    assert RULES.promote("bfloat16", "bfloat16") == "bfloat16"
    assert RULES.promote("bfloat16", "float32") == "float32"


def test_float16_and_bfloat16_have_no_common_dtype_or_a_float() -> None:
    try:
        assert RULES.promote("float16", "bfloat16") == "float32"
    except ArgumentError as error:
        assert "astype" in str(error)  # noqa: PT017 (either answer is NumPy's to give)


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "bfloat16"])
def test_float_functions_and_sums_give_numpys_dtype(name: str) -> None:
    assert RULES.floating(name) == np.exp(np.ones(1, name)).dtype.name
    assert RULES.accumulated(name) == np.sum(np.ones(1, name)).dtype.name


@pytest.mark.parametrize("array", ["bool", "int8", "uint8", "int64", "float16", "float64"])
@pytest.mark.parametrize("scalar", [True, 1, 2.5])
def test_python_scalars_yield_to_arrays_as_in_numpy(array: str, scalar: bool | int | float) -> None:
    assert weak_scalar(scalar, (array,)) == np.result_type(np.dtype(array), scalar).name


@pytest.mark.parametrize(
    ("array", "scalar"), [("int8", 128), ("int8", -129), ("uint8", -1), ("uint8", 256)]
)
def test_a_scalar_out_of_range_is_refused(array: str, scalar: int) -> None:
    with pytest.raises(ArgumentError, match=f"{scalar} does not fit {array}"):
        weak_scalar(scalar, (array,))


@pytest.mark.parametrize("dtype", ["complex64", "U3", "datetime64[s]", "O", ">f4", "S2"])
def test_other_dtypes_are_refused_with_the_list(dtype: str) -> None:
    with pytest.raises(ArgumentError, match="bfloat16"):
        name_of(np.dtype(dtype))
