"""Arrays that are made of numbers alone. Without an `out` they are NumPy arrays."""

from __future__ import annotations

from typing import Any

from xtarget.spec import KernelSpec

from ..plans import constants as plans
from .row import alike, row
from .rules import CASTABLE, FLOATS_OF_8_BITS

__all__ = ["ROWS"]


def _dtype(name: str) -> Any:
    if name == "bfloat16" or name in FLOATS_OF_8_BITS:
        import ml_dtypes

        return getattr(ml_dtypes, name)
    return name


def _held(value: Any, dtype: str) -> Any:
    """float8_e4m3fn has no infinity: what is beyond its largest number is that."""
    return max(-448.0, min(value, 448.0)) if dtype == "float8_e4m3fn" and value == value else value


def _full(fixed: int | None) -> Any:
    def reference(shape: Any = (1,), value: Any = 0, dtype: str = "float32") -> Any:
        import numpy as np

        return np.full(shape, _held(value if fixed is None else fixed, dtype), _dtype(dtype))

    return reference


def _like(fixed: int | None) -> Any:
    def reference(x: Any, value: Any = 0) -> Any:
        import numpy as np

        return np.full_like(x, _held(value if fixed is None else fixed, x.dtype.name))

    return reference


def _eye(rows: int = 1, columns: int | None = None, k: int = 0, dtype: str = "float32") -> Any:
    import numpy as np

    return np.eye(rows, columns, k).astype(_dtype(dtype))


def _arange(start: Any = 0, stop: Any = 1, step: Any = 1, dtype: str = "int64") -> Any:
    import numpy as np

    return np.arange(start, stop, step, np.float64 if "float" in dtype else dtype)


def _linspace(
    start: Any = 0, stop: Any = 1, count: int = 50, endpoint: bool = True, dtype: str = "float32"
) -> Any:
    import numpy as np

    return np.linspace(start, stop, count, endpoint)


def _scalar(value: Any = 0, dtype: str = "float32") -> Any:
    return _full(None)((), value, dtype)


def _logspace(
    start: Any = 0, stop: Any = 1, count: int = 50, base: float = 10.0, endpoint: bool = True,
    dtype: str = "float32",
) -> Any:  # fmt: skip
    import numpy as np

    return np.logspace(start, stop, count, endpoint, base)


_ALL: Any = {"category": "constant", "dtypes": CASTABLE, "examples": lambda shape: []}
_SHAPE = {"shape": (1,), "dtype": "float32"}
_LIKE: Any = {"category": "constant", "dtypes": CASTABLE, "examples": alike(1)}

ROWS: tuple[KernelSpec, ...] = (
    row("full", "", plans.fill(), "an array of one number", _full(None), aliases="fill constant",
        options={**_SHAPE, "value": 0}, **_ALL),
    row("scalar_tensor", "", plans.scalar, "an array without dimensions, of one number", _scalar,
        options={"value": 0, "dtype": "float32"}, **_ALL),
    row("zeros", "", plans.fill(0), "an array of zeros", _full(0), options=_SHAPE, **_ALL),
    row("ones", "", plans.fill(1), "an array of ones", _full(1), options=_SHAPE, **_ALL),
    row("full_like", "x", plans.fill_like(), "one number, in the form of x", _like(None),
        aliases="fill_as", options={"value": 0}, **_LIKE),
    row("zeros_like", "x", plans.fill_like(0), "zeros in the form of x", _like(0),
        aliases="zeros_as", **_LIKE),
    row("ones_like", "x", plans.fill_like(1), "ones in the form of x", _like(1), aliases="ones_as",
        **_LIKE),
    row("eye", "", plans.eye, "1 on the diagonal k of a matrix, 0 elsewhere", _eye,
        aliases="identity_matrix",
        options={"rows": 1, "columns": None, "k": 0, "dtype": "float32"}, **_ALL),
    row("arange", "", plans.arange, "start, start + step, ... below stop", _arange,
        aliases="range", options={"start": 0, "stop": 1, "step": 1, "dtype": "int64"},
        tolerance=(4, 4), **_ALL),
    row("logspace", "", plans.logspace, "count powers of base, whose exponents go from start to "
        "stop by equal steps", _logspace, aliases="log_space", options={"start": 0, "stop": 1,
        "count": 50, "base": 10.0, "endpoint": True, "dtype": "float32"}, tolerance=(128, 4),
        **_ALL),
    row("linspace", "", plans.linspace, "count numbers from start to stop, of equal distance",
        _linspace, aliases="lin_space", options={"start": 0, "stop": 1, "count": 50,
        "endpoint": True, "dtype": "float32"}, tolerance=(4, 4), **_ALL),
)  # fmt: skip
