"""The operators on NumPy arrays: what `xtarget run --check` and the tests compare with.

Floating arguments come as float64. NumPy is imported when a reference is called.
"""

from __future__ import annotations

import functools
import importlib
import math
import types
from collections.abc import Callable
from typing import Any

from xtarget.spec import ArgumentError

__all__ = ["by_torch", "numpy", "of_math", "special", "torch", "written"]

_Reference = Callable[..., Any]


def numpy(name: str, **fixed: Any) -> _Reference:
    """The NumPy function of that name."""

    def reference(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        with np.errstate(all="ignore"):
            return getattr(np, name)(*arrays, **{**fixed, **options})

    return reference


@functools.cache
def _code(formula: str) -> types.CodeType:
    """Compiled when it is first needed: a catalog that is only read has no need of it."""
    return compile(formula, formula, "eval")


def written(formula: str) -> _Reference:
    """A formula of `np` and its operands `a`, `b`, `c`, or of options by their names."""

    def reference(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        operands = dict(zip("abcdefgh", map(np.asarray, arrays), strict=False))
        with np.errstate(all="ignore"):
            return eval(
                _code(formula), {"np": np, "math": math, "of_math": of_math}, operands | options
            )

    return reference


def of_math(name: str) -> _Reference:
    """The function of Python's `math`, for each element; what it refuses is nan."""
    function = getattr(math, name)

    def one(*values: float) -> float:
        try:
            return float(function(*values))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    def reference(*arrays: Any) -> Any:
        import numpy as np

        return np.vectorize(one, otypes=[np.float64])(*arrays)

    return reference


def special(name: str) -> _Reference:
    """The function of `scipy.special`, or where SciPy is not installed, of `torch.special`."""

    def reference(*arrays: Any, **options: Any) -> Any:
        try:
            function = getattr(importlib.import_module("scipy.special"), name)
        except ImportError:
            return torch(f"special.{name}")(*arrays, **options)
        import numpy as np

        with np.errstate(all="ignore"):
            return function(*arrays, **options)

    return reference


def torch(name: str) -> _Reference:
    """The function of torch, on the CPU."""

    def reference(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        try:
            found: Any = importlib.import_module("torch")
        except ImportError:
            raise ArgumentError(
                f"its reference is torch's {name}, and torch is not installed. Install torch to "
                "check the result."
            ) from None
        function = found
        for part in name.split("."):
            function = getattr(function, part)
        tensors = (found.as_tensor(np.ascontiguousarray(array)) for array in arrays)
        return (
            function(*tensors, **options)
            .numpy()
            .reshape(np.broadcast_shapes(*map(np.shape, arrays)))
        )

    return reference


def by_torch(function: Callable[..., Any]) -> _Reference:
    """A reference that calls `function(torch, *tensors, **options)` and gives arrays."""

    def reference(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        try:
            found: Any = importlib.import_module("torch")
        except ImportError:
            raise ArgumentError(
                "its reference is made of torch's functions, and torch is not installed. Install "
                "torch to check the result."
            ) from None
        tensors = [
            found.as_tensor(np.ascontiguousarray(array).reshape(np.shape(array)))
            for array in arrays
        ]
        made = function(found, *tensors, **options)
        return tuple(t.numpy() for t in made) if isinstance(made, tuple) else made.numpy()

    return reference
