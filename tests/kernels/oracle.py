"""Input, the right answer, and what may be missing from it."""

from __future__ import annotations

from typing import Any

import numpy as np

import xtarget
from xtarget._arrays.dtypes import numpy_dtype

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, *FLOATS)

#: Rounding unit of each dtype: half a unit in the last place, relative.
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}

#: Allowed error of a kernel's result, as (in units of the value, in units of the largest magnitude
#: in the result), on top of half a unit for the final rounding.
#: - add, sub, mul, div, maximum, relu, where: correctly rounded.
#: - exp: up to 2 ulp of the vendors' own functions.
#: - gelu: 1 + erf(x) cancels for x < 0, so its error is relative to x, not to the result.
#: - sum: up to 64 additions in turn (128 of columns), then what these give without a loss.
#: - norms and softmax: mean or sum, division, root; the quotient's numerator may cancel.
#: - matmul: one unit per product in the worst case; random signs give about its root.
ALLOWED = {
    "exp": (8, 0),
    "gelu": (16, 4),
    "sum": (16, 16),
    "softmax": (32, 0),
    "layer_norm": (32, 32),
    "rms_norm": (16, 0),
    "matmul": (8, 64),
}


def sample(dtype: str, *shape: int, seed: int = 0) -> Any:
    """Normal deviates, whole numbers with sign where there is one, or coin tosses."""
    rng = np.random.default_rng([seed, *shape])
    kind = numpy_dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(-100 if kind == "i" else 0, 101, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(numpy_dtype(dtype))


def specials(dtype: str) -> Any:
    """The values where arithmetic is not ordinary."""
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5.0, -5.0, 88.5, -90.0, 1e3, -1e3, 0.3]
    return np.array(values).astype(numpy_dtype(dtype))


def wide(value: Any, *, integers: bool = False) -> Any:
    """Floating arrays as float64, others as they are unless `integers`."""
    if isinstance(value, np.ndarray) and (integers or value.dtype.name in FLOATS):
        return value.astype(np.float64)
    return value


def expected(name: str, args: Any, options: dict[str, Any]) -> Any:
    """The reference's answer, in float64 where the result is floating."""
    reference = xtarget.catalog()[name].reference
    assert reference is not None
    with np.errstate(all="ignore"):
        return np.asarray(reference(*(wide(a, integers=name == "exp") for a in args), **options))


def compare(name: str, result: Any, right: Any) -> None:
    """Assert that `result` is `right` within what the kernel is allowed.

    NaN and infinities have to be in the same places.
    """
    assert isinstance(result, np.ndarray)
    assert result.shape == right.shape
    dtype = result.dtype.name
    if dtype not in FLOATS:
        np.testing.assert_array_equal(result, right.astype(result.dtype))
        return
    relative, absolute = ALLOWED.get(name, (0, 0))
    # accumulation is in float32 for the small ones: only the final rounding is in their own unit
    inner = max(UNIT[dtype], 2.0**-53) if dtype == "float64" else 2.0**-24
    with np.errstate(all="ignore"):
        rounded = right.astype(result.dtype).astype(np.float64)
        got = result.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
        finite = np.isfinite(rounded) & np.isfinite(got)
        # next to the largest finite value, rounding decides between it and infinity
        near = np.abs(right) > float(_largest(dtype)) * (1 - 64 * UNIT[dtype])
        np.testing.assert_array_equal(got[~finite & ~near], rounded[~finite & ~near])
        right, got, rounded = right[finite], got[finite], rounded[finite]
        top = np.abs(right).max(initial=0.0)
        smallest = float(_smallest(dtype))
        allowed = (
            UNIT[dtype] * np.abs(right) * (1 if relative == absolute == 0 else 1.01)
            + inner * (relative * np.abs(right) + absolute * top)
            + smallest
        )
        if relative == absolute == 0:
            np.testing.assert_array_equal(got, rounded)
            return
        wrong = np.abs(got - right) > allowed
        if wrong.any():
            share = np.abs(got - right) / allowed
            worst = int(np.argmax(share))
            raise AssertionError(
                f"{name} of {dtype}: {wrong.sum()} of {wrong.size} elements are off; the worst is "
                f"{got[worst]!r}, not {right[worst]!r}: {share[worst]:.3g} times what is allowed"
            )


def _largest(dtype: str) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(numpy_dtype(dtype)).max)


def _smallest(dtype: str) -> float:
    """Below this, numbers are subnormal, which GPUs may flush to zero."""
    import ml_dtypes

    return float(ml_dtypes.finfo(numpy_dtype(dtype)).smallest_normal)


def check(name: str, *args: Any, device: str, out: Any = None, **options: Any) -> Any:
    """Run a kernel and compare with NumPy's answer in float64; returns the result."""
    result = xtarget.run(name, *args, out=out, device=device, **options)
    right = expected(name, args, options)
    compare(name, result, right)
    if out is not None:
        assert result is out
    return result
