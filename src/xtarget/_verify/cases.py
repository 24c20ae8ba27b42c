"""The calls that `xtarget verify` makes of a kernel: hard shapes, values and layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._arrays.dtypes import numpy_dtype
from .._values.types import DTYPES
from .._values.value_classes import value_class

__all__ = ["EXTENTS", "LONG_SHAPES", "SHAPES", "Case", "cases", "meaningful", "values"]

#: How much is called: `quick` stays with calls that mostly share one binary.
EXTENTS = ("quick", "usual", "long")

#: Beside blocks and warps: one element, one more than a block, rows of one, no element at all.
SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (0,),
    (1,),
    (1025,),
    (3, 0),
    (7, 129),
    (130, 33),
    (2, 3, 5, 4),
)
LONG_SHAPES: tuple[tuple[int, ...], ...] = (
    (2**20 + 1,),
    (1, 65_537),
    (65_537, 1),
    (1023, 257),
    (31, 1, 65, 3),
    (17, 4097),
)
_QUICK_SHAPES: tuple[tuple[int, ...], ...] = ((3, 0), (7, 129), (2, 3, 5, 7))
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 88.5, -90.0, 1e3, -1e-3)


@value_class(frozen=True, slots=True)
class Case:
    """One call of a kernel with its default options.

    Attributes:
        shape: what the inputs' shapes are made from (`KernelSpec.examples`).
        values: `normal` (both signs), `special` (NaN, infinities, zeros, large and small numbers),
            `extreme` (the ends of an integer's range).
        layout: `contiguous`, `reversed` (negative strides) or `transposed`.
    """

    dtype: str
    shape: tuple[int, ...]
    values: str
    layout: str

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        return f"{self.dtype}[{shape}] {self.values} {self.layout}"


def cases(dtype: str, extent: str) -> Iterator[Case]:
    """The calls of one dtype, short ones first.

    Args:
        extent: one of `EXTENTS`.
    """
    chosen = {"f": "special", "i": "extreme", "u": "extreme"}.get(DTYPES[dtype].kind)
    if extent == "quick":
        for shape in _QUICK_SHAPES:
            yield Case(dtype, shape, "normal", "contiguous")
        if chosen:
            yield Case(dtype, (13, 21), chosen, "contiguous")
        return
    for shape in (*SHAPES, *(LONG_SHAPES if extent == "long" else ())):
        yield Case(dtype, shape, "normal", "contiguous")
    if chosen:
        yield Case(dtype, (257,), chosen, "contiguous")
        yield Case(dtype, (13, 21), chosen, "contiguous")
    yield Case(dtype, (67, 35), "normal", "reversed")
    yield Case(dtype, (67, 35), "normal", "transposed")


def values(case: Case, shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """An array for one input.

    Args:
        dtype: the input's own, which may be another one than the case's.
    """
    rng = np.random.default_rng([seed, *shape])
    stored = shape[::-1] if case.layout == "transposed" else shape
    array = _numbers(rng, case.values, stored, dtype)
    if case.layout == "transposed":
        return array.T
    if case.layout == "reversed":
        return array[(slice(None, None, -1),) * array.ndim]
    return array


def meaningful(name: str, array: Any, most: int) -> Any:
    """Values that an input of this name takes: indices and classes below `most`, probabilities,
    signs, elements in order, finite scales; any values for others."""
    if name in ("ordered", "boundaries", "bins", "edges"):
        if DTYPES[array.dtype.name].kind == "f":  # NumPy does not know where a half type's nan goes
            return np.sort(array.astype(np.float64), axis=-1).astype(array.dtype)
        return np.sort(array, axis=-1)
    if name in ("index", "lengths", "table", "target", "targets"):
        return np.mod(array, max(most, 1))
    if name == "input_lengths":  # more steps than labels, and no more than examples have
        return 8 - np.mod(array, 3)
    if name == "target_lengths":
        return np.mod(array, 4)
    if name in ("starts_q", "starts_k", "starts"):  # of one sequence after the other
        return np.sort(np.mod(array, max(most, 1)))
    if name == "segment":  # sorted
        return np.sort(np.mod(array, max(most, 1)))
    if name in ("probability", "variance"):
        return (0.5 + 0.45 * np.tanh(array.astype(np.float64))).astype(array.dtype)
    if name == "scales":  # of sums: an infinite one times numbers of both signs has no one value
        return np.where(np.isinf(array), 1, array).astype(array.dtype)
    if name == "sign":
        return np.where(array < 0, -1, 1).astype(array.dtype)
    return array


def _numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...], dtype: str) -> Any:
    family, type_ = DTYPES[dtype].kind, numpy_dtype(dtype)
    if family == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if family == "f":
        # around 0.5: sums do not cancel to nearly nothing, of which no digit would be right
        normal = np.asarray(rng.standard_normal(shape) + 0.5)
        if kind == "special":
            normal = np.where(rng.random(shape) < 0.4, rng.choice(_SPECIAL, shape), normal)
        return normal.astype(type_)
    if kind == "extreme":
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1], dtype)
        return np.asarray(rng.choice(ends, shape))
    return np.asarray(rng.integers(-100 if family == "i" else 0, 101, shape)).astype(type_)
