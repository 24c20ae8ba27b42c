"""A result against the right answer in float64, within what its dtype and kernel allow."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays.dtypes import numpy_dtype
from .._values.errors import ArgumentError
from .._values.types import DTYPES
from .._values.value_classes import value_class

__all__ = [
    "Comparison",
    "compare",
    "difference",
    "errors_in_ulp",
    "on_the_host",
    "units_in_the_last_place",
    "worst",
]

#: Allowed error of a kernel that does not say its own, relative to the value and, for values that
#: cancel to nearly nothing, to the mean magnitude of the result. A few units in the last place of
#: the dtype; float32 sums and dot products over some thousand terms lose about 100.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2.5e-2}


@value_class(frozen=True, slots=True)
class Comparison:
    """How a result differs from the right answer.

    Attributes:
        ok: nothing is wrong.
        wrong: elements beyond what is allowed; NaN and infinities in other places count.
        size: elements in all.
        max_abs_error: largest absolute error of the finite elements.
        max_ulp: largest error in units in the last place of the result's dtype (0.5: rounded
            rightly); 0 of integers.
        of_tolerance: largest error relative to what is allowed: 1 is just allowed.
        tolerance: what is allowed relative to the value; 0: every bit counts.
    """

    ok: bool
    wrong: int
    size: int
    max_abs_error: float
    max_ulp: float
    of_tolerance: float
    tolerance: float


def units_in_the_last_place(values: Any, dtype: str) -> Any:
    """The distance of neighbours of `dtype` at each value of a float64 array."""
    smallest, _ = _limits(dtype)
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 1.0))
    lowest = int(np.frexp(smallest)[1])
    exponent = np.where(values == 0, lowest, np.maximum(exponent, lowest))
    return np.ldexp(1.0, exponent - 1 - int(_finfo(dtype).nmant))


def errors_in_ulp(got: Any, want: Any, dtype: str) -> Any:
    """How far float64 numbers are from each other, in units in the last place of `dtype`."""
    return np.abs(got - want) / units_in_the_last_place(want, dtype)


def compare(result: Any, expected: Any, tolerance: tuple[float, float] | None = None) -> Comparison:
    """Compare with the reference's answer: floats within what is allowed, all else exactly. NaN and
    infinities have to be in the same places.

    Args:
        result: a NumPy array.
        expected: the answer, in float64 if it is a float.
        tolerance: `KernelSpec.tolerance`; None: `TOLERANCE` of the dtype.

    Raises:
        ArgumentError: the shapes differ.
    """
    if result.shape != np.shape(expected):
        raise ArgumentError(
            f"the result has shape {result.shape}, the reference gives {np.shape(expected)}."
        )
    name = result.dtype.name
    if DTYPES[name].kind != "f":
        return _compare_exactly(result, expected)
    with np.errstate(all="ignore"):
        # what overflows the dtype is an infinity in the right answer too
        representable = np.asarray(expected).astype(result.dtype).astype(np.float64)
        got, want = result.astype(np.float64), np.asarray(expected, np.float64)
        finite = np.isfinite(got) & np.isfinite(representable)
        same = (got == representable) | (np.isnan(got) & np.isnan(representable))
        if tolerance is not None:  # beside the largest number, rounding may go to infinity
            near = np.abs(want) > _limits(name)[1] * (1 - 64 * _unit(name))
            same |= np.isfinite(want) & near & (np.sign(got) == np.sign(want))
        ulp = errors_in_ulp(got, want, name)[finite]
        got, want, representable = got[finite], want[finite], representable[finite]
        error = np.abs(got - want)
        relative, allowed = _allowed(name, want, tolerance)
        share = np.divide(error, allowed, out=np.zeros_like(error), where=allowed > 0)
        share[(allowed == 0) & (error > 0)] = np.inf
        share[got == representable] = 0
    elsewhere = int(np.count_nonzero(~finite & ~same))
    wrong = elsewhere + int(np.count_nonzero(share > 1))
    return Comparison(
        wrong == 0,
        wrong,
        result.size,
        float(error.max(initial=0.0)),
        float(ulp.max(initial=0.0)),
        np.inf if elsewhere else float(share.max(initial=0.0)),
        relative,
    )


def difference(result: Any, expected: Any, tolerance: tuple[float, float] | None) -> str:
    """How a result differs from the right answer, as a sentence; empty where it does not.

    Args:
        result, expected, tolerance: as for `compare`.

    Raises:
        ArgumentError: the shapes differ.
    """
    found = compare(result, expected, tolerance)
    if found.ok:
        return ""
    place = worst(result, expected)
    right = np.asarray(expected)[place]
    return (
        f"{found.wrong} of {found.size} elements of {result.dtype.name}{list(result.shape)} are "
        f"off. The worst, at {list(place)}, is {result[place]!s} and not {right!s}: "
        f"{found.max_ulp:.3g} units in the last place, {found.of_tolerance:.3g} times what is "
        "allowed."
    )


def on_the_host(result: Any) -> Any:
    """As a NumPy array, also what lies on a device."""
    for method in ("detach", "cpu", "get"):
        if not isinstance(result, np.ndarray) and hasattr(result, method):
            result = getattr(result, method)()
    if not isinstance(result, np.ndarray) and str(getattr(result, "dtype", "")) == "torch.bfloat16":
        import ml_dtypes

        return result.float().numpy().astype(ml_dtypes.bfloat16)
    return np.asarray(result)


def worst(result: Any, expected: Any) -> tuple[int, ...]:
    """The place of the element that is farthest from the right answer, relative to that."""
    with np.errstate(all="ignore"):
        got, want = result.astype(np.float64), np.asarray(expected, np.float64)
        error = np.abs(got - want) / np.maximum(np.abs(want), np.finfo(np.float64).tiny)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.where(same, 0, np.where(np.isnan(error), np.inf, error))
    return tuple(int(index) for index in np.unravel_index(int(np.argmax(error)), error.shape))


def _allowed(dtype: str, want: Any, tolerance: tuple[float, float] | None) -> tuple[float, Any]:
    """The allowed error relative to the values, and the absolute error that this is for each."""
    if tolerance is None:
        relative = TOLERANCE[dtype]
        magnitude = float(np.abs(want).mean()) if want.size else 0.0
        return relative, relative * (np.abs(want) + magnitude)
    relative, absolute = tolerance
    if relative == absolute == 0:
        return 0.0, np.zeros_like(want)
    # half types are computed in float32: only the last rounding is in their own unit
    inner = min(_unit(dtype), 2.0**-24)
    largest = np.abs(want).max(initial=0.0)
    rounding = 1.01 * _unit(dtype)
    allowed = rounding * np.abs(want) + inner * (relative * np.abs(want) + absolute * largest)
    # GPUs may take subnormal numbers for 0
    return rounding + inner * relative, allowed + _limits(dtype)[0]


def _unit(dtype: str) -> float:
    """Half a unit in the last place, relative."""
    return float(2.0 ** -(_finfo(dtype).nmant + 1))


def _limits(dtype: str) -> tuple[float, float]:
    """The smallest normal number and the largest."""
    return float(_finfo(dtype).smallest_normal), float(_finfo(dtype).max)


def _finfo(dtype: str) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(numpy_dtype(dtype))


def _compare_exactly(result: Any, expected: Any) -> Comparison:
    exact = np.asarray(expected).astype(result.dtype)
    wrong = int(np.count_nonzero(result != exact))
    off = np.abs(result.astype(np.float64) - exact.astype(np.float64))
    worst = float(off.max(initial=0.0))
    return Comparison(
        wrong == 0, wrong, result.size, worst, 0.0, float("inf") if wrong else 0.0, 0.0
    )
