"""NumPy's type rules, with bfloat16 from ml_dtypes, by dtype name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .._values.errors import ArgumentError, shortened
from .._values.float8 import FLOAT8, way_out
from .._values.types import DTYPES

__all__ = [
    "NumpyRules",
    "is_whole",
    "name_of",
    "name_of_number",
    "natural_scalar",
    "numpy_dtype",
    "promote",
    "weak_scalar",
]

#: Types of whole numbers that stand for themselves, with their limits.
_INTEGERS = (
    ("int32", -(2**31), 2**31),
    ("int64", -(2**63), 2**63),
    ("uint64", 0, 2**64),
)


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of that name, `bfloat16` and floats of 8 bits included."""
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        name = getattr(ml_dtypes, name)
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


@cache
def name_of(dtype: Any) -> str:
    """Our name of a NumPy dtype.

    Raises:
        ArgumentError: it is none that kernels can take (complex, strings, objects, other endian).
    """
    name = str(dtype.name)
    if name not in DTYPES or not dtype.isnative:
        raise ArgumentError(
            f"dtype {dtype} is not supported; kernels take {', '.join(DTYPES)} in native byte "
            f"order. {way_out(name, '.view(np.uint8)', 'Convert the array with .astype().')}"
        )
    return name


@cache
def is_whole(value: Any) -> bool:
    """Whether a number is an integer or a bool, Python's or NumPy's."""
    return isinstance(value, int | np.integer | np.bool_)


def name_of_number(dtype: Any) -> str:
    """Our name of the dtype of a NumPy number.

    Raises:
        ArgumentError: it is none that a number can have for kernels.
    """
    name = name_of(dtype)
    if name in FLOAT8:
        raise ArgumentError(
            f"a number of dtype {name} is not supported. Give float(...) of it, or an array."
        )
    return name


@cache
def promote(names: frozenset[str] | tuple[str, ...]) -> str:
    """The dtype of NumPy's `+` for arrays of these dtypes.

    Raises:
        ArgumentError: there is none.
    """
    dtypes = [numpy_dtype(name) for name in sorted(set(names))]
    try:
        return name_of(np.result_type(*dtypes))
    except TypeError:
        # bfloat16 has no promotion with most of NumPy's dtypes, but its ufuncs know what to do
        try:
            return name_of(functools.reduce(_sum_dtype, dtypes))
        except TypeError as error:
            raise ArgumentError(
                f"NumPy has no common dtype for {' and '.join(sorted(names))}; convert one "
                "argument with .astype()."
            ) from error


def _sum_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.add(np.zeros(1, a), np.zeros(1, b)).dtype
    return dtype


class NumpyRules:
    """`xtarget.spec.DtypeRules` by asking NumPy."""

    def promote(self, *dtypes: str) -> str:
        """The common dtype, without what was left out (`spec.ABSENT`, whose dtype is "none")."""
        return promote(tuple(dtype for dtype in dtypes if dtype != "none"))

    def floating(self, dtype: str) -> str:
        """Source: the loops of numpy.exp (`np.exp.types`): the smallest float that holds it."""
        kind = DTYPES[dtype]
        if kind.kind == "f":
            return dtype
        return {1: "float16", 2: "float32"}.get(kind.itemsize, "float64")

    def accumulated(self, dtype: str) -> str:
        return name_of(np.add.reduce(np.zeros(0, numpy_dtype(dtype))).dtype)


def weak_scalar(value: bool | int | float, dtypes: tuple[str, ...]) -> str:
    """The dtype a Python scalar takes among arrays of `dtypes` (NEP 50: it yields to them as long
    as its kind fits).

    Raises:
        ArgumentError: an integer out of the range of the integer dtype it would take.
    """
    kind = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f"
    arrays = [DTYPES[name] for name in dtypes]
    promoted = promote(dtypes) if arrays else ""
    have = DTYPES[promoted].kind if arrays else ""
    if not arrays:
        name = {"b": "bool", "i": "int64", "f": "float64"}[kind]
    elif kind == "b" or have == "f" or (kind == "i" and have in "iu"):
        name = promoted
    elif kind == "i":  # an integer among bools
        name = "int64"
    else:
        name = "float64"
    if kind == "i" and DTYPES[name].kind == "f" and int(value).bit_length() > 1024:
        raise ArgumentError(
            f"an integer of {int(value).bit_length()} bits is too large for {name}. Convert it to "
            "a float first."
        )
    if kind == "i" and DTYPES[name].kind in "iu":
        info = np.iinfo(name)
        if not info.min <= value <= info.max:
            raise ArgumentError(
                f"the scalar {shortened(value)} does not fit {name}, the dtype it is computed in "
                f"({info.min} to {info.max}). Convert the arrays with .astype() first."
            )
    return name


def natural_scalar(value: Any, dtypes: Sequence[str]) -> str:
    """The type of a number that stands for itself.

    Args:
        dtypes: of the arrays beside it.

    Raises:
        ArgumentError: it is a whole number of more than 64 bits.
    """
    if hasattr(value, "dtype"):  # NumPy's float64 is a Python float too
        return name_of_number(value.dtype)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):  # as Triton has it
        for dtype, low, high in _INTEGERS:
            if low <= value < high:
                return dtype
        raise ArgumentError(
            f"the number {shortened(value)} does not fit 64 bits. Give a smaller one, or a float."
        )
    return "float64" if "float64" in dtypes else "float32"
