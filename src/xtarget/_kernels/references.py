"""The results of a kernel's reference, in float64 where its inputs are floating."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._values.types import DTYPES
from ..spec import KernelSpec

__all__ = ["answers"]


def answers(
    spec: KernelSpec, args: Sequence[Any], options: Mapping[str, Any], *, floating: bool
) -> tuple[Any, ...]:
    """The reference's answers, in float64 where the inputs are floating.

    Args:
        floating: the kernel's result is: integers come as float64 too, of which NumPy makes half
            types otherwise.
    """
    assert spec.reference is not None
    if not spec.exact:
        args = [
            _wide(arg, floating and label.rstrip("?") not in spec.apart)
            for label, arg in zip(spec.inputs, args, strict=False)
        ]
    # a division by zero and the mean of nothing are the input's, and compared
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        # run takes lists too, and NumPy no list as an axis
        told = {name: _frozen(options[name]) for name in spec.options if name in options}
        answer = spec.reference(*args, **{**spec.options, **told})
    return tuple(map(np.asarray, answer)) if isinstance(answer, tuple) else (np.asarray(answer),)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _wide(value: Any, integers: bool) -> Any:
    kinds = "fiu" if integers else "f"
    if isinstance(value, np.ndarray) and DTYPES[value.dtype.name].kind in kinds:
        with np.errstate(invalid="ignore"):  # of a signalling nan
            return value.astype(np.float64) * 1.0  # a signalling nan would be one there, too
    return value
