"""Input, the right answer, and what may be missing from it."""

from __future__ import annotations

from typing import Any

import numpy as np

import xtarget
from xtarget._arrays.dtypes import numpy_dtype
from xtarget._kernels.references import answers
from xtarget._verify import comparison

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, *FLOATS)


def specials(dtype: str) -> Any:
    """The values where arithmetic is not ordinary."""
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5.0, -5.0, 88.5, -90.0, 1e3, -1e3, 0.3]
    return np.array(values).astype(numpy_dtype(dtype))


def expected(name: str, args: Any, options: dict[str, Any], *, floating: bool = False) -> Any:
    """The reference's answer, in float64 where the result is floating.

    Args:
        floating: integers come as float64 too, as the result is floating.
    """
    answer = answers(xtarget.catalog()[name], args, options, floating=floating)
    return answer if len(answer) > 1 else answer[0]


def compare(name: str, result: Any, right: Any) -> None:
    """Assert that `result`, or each of several, is `right` within what the kernel is allowed.

    NaN and infinities have to be in the same places.
    """
    if isinstance(result, tuple):
        for one, other in zip(result, right, strict=True):
            compare(name, one, other)
        return
    assert isinstance(result, np.ndarray)
    found = comparison.compare(result, right, xtarget.catalog()[name].tolerance)
    assert found.ok, (
        f"{name} of {result.dtype}: {found.wrong} of {found.size} elements are off, by "
        f"{found.max_abs_error:.3g} at most ({found.max_ulp:.3g} ulp, "
        f"{found.of_tolerance:.3g} times what is allowed): {result!r}, not {right!r}"
    )


def check(name: str, *args: Any, device: str, out: Any = None, **options: Any) -> Any:
    """Run a kernel and compare with NumPy's answer in float64; returns the result."""
    result = xtarget.run(name, *args, out=out, device=device, **options)
    first = result[0] if isinstance(result, tuple) else result
    right = expected(name, args, options, floating=first.dtype.name in FLOATS)
    compare(name, result, right)
    if out is not None:
        assert result is out
    return result
