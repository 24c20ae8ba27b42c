"""Values for the elementwise rows of the table: ordinary ones, and those where functions differ."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from operators import dtypes_of, sample

from xtarget._arrays.dtypes import numpy_dtype
from xtarget.spec import KernelSpec

__all__ = ["arguments", "edges", "other_options"]

#: Rows of several steps, where an intermediate result may overflow or vanish and the answer not.
_STEPS = (
    "silu_mul",
    "rel_entr",
    "addcmul",
    "addcdiv",
    "lerp",
    "xlog1py",
    "j0",
    "j1",
    "y0",
    "y1",
    "reglu",
    "geglu",
    "silu_backward",
    "tanh_backward",
    "sigmoid_backward",
    "gelu_backward",
    "elu_backward",
    "hardswish_backward",
    "softplus_backward",
    "isclose",
)
_RANDOM = 600


def edges(dtype: str, *, extremes: bool = True) -> Any:
    """Special values of a dtype; `extremes`: the largest and smallest numbers too."""
    kind = numpy_dtype(dtype).kind
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        limits = np.iinfo(dtype)
        most, least = limits.max, limits.min
        return np.array([least, least + 1, most, most - 1, most // 2, 0, 1, 2, 3, 7], dtype)
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.25, 0.5, -0.5, 1.5, 2.5, -2.5]
    values += [0.9, 1e-3, -1e-3, 3.0, -3.0, 10.0, -10.0, 30.0, 88.0, -88.0, 1e3, -1e3, 1e4]
    if extremes:
        info = ml_dtypes.finfo(numpy_dtype(dtype))
        most, normal, least = map(float, (info.max, info.smallest_normal, info.smallest_subnormal))
        values += [most, -most, normal, least, -3 * least]
    else:
        values = [v for v in values if np.isfinite(v)] + [np.nan]
    return np.array(values).astype(numpy_dtype(dtype))


def _ordinary(dtype: str, seed: int) -> Any:
    """Whole numbers, or normal deviates of three sizes."""
    values = sample(dtype, _RANDOM, seed=seed)
    if numpy_dtype(dtype).kind in "biu":
        return values
    sizes = np.repeat([1.0, 5.0, 0.1], _RANDOM // 3)
    return (values.astype(np.float64) * sizes).astype(values.dtype)


def arguments(spec: KernelSpec, dtype: str) -> list[Any]:
    """Arrays of one dimension and odd length: ordinary values, then special ones, all pairs of
    them for two arguments.
    """
    kinds = dtypes_of(spec, dtype)
    special = [edges(kind, extremes=spec.name not in _STEPS) for kind in kinds]
    if spec.name == "pow" and numpy_dtype(dtype).kind == "i":  # NumPy raises an error
        special[1] = special[1][special[1] >= 0]
    if len(kinds) < 3:
        pairs = [grid.ravel() for grid in np.meshgrid(*special, indexing="ij")]
    else:
        rng = np.random.default_rng(len(spec.name))
        pairs = [rng.choice(own, _RANDOM + 1) for own in special]
    found = []
    for seed, (kind, own) in enumerate(zip(kinds, pairs, strict=True)):
        usual = _ordinary(kind, seed)
        if spec.name == "pow" and seed == 1 and numpy_dtype(kind).kind == "i":
            usual = abs(usual)
        found.append(np.concatenate([usual, own, usual[: 1 - len(own) % 2]]))
    return found


def other_options(spec: KernelSpec) -> dict[str, Any]:
    """Options that are not the defaults: numbers near them, the last of some words."""
    return {
        name: 1.75 if value is None else value + 0.75
        for name, value in spec.options.items()
        if value is None or isinstance(value, float)
    }
