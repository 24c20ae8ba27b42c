"""A kernel of Triton with its arguments and, where NumPy can say it, the right result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import triton

VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
rng = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    """A kernel and how to run it.

    Attributes:
        fn, signature, constants: as for Triton; parameters not in the signature are constants.
        arguments: arrays and scalars for the non-constant parameters.
        expect: from the arguments to (index of the argument, expected array) pairs; None where the
            kernel is only compiled.
        tolerance: relative, and absolute where the expected value is below 1.
        grid: blocks.
        warp_size, num_warps: of the compilation.
    """

    fn: Any
    signature: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)
    arguments: Callable[[], list[Any]] | None = None
    expect: Callable[..., list[tuple[int, Any]]] | None = None
    tolerance: float = 0.0
    grid: tuple[int, int, int] = (1, 1, 1)
    warp_size: int = 16
    num_warps: int = 2

    def given(self) -> list[Any]:
        """The arguments, made anew."""
        assert self.arguments is not None, "the kernel is only compiled"
        return self.arguments()


_DTYPES = {
    **{f"i{bits}": np.dtype(f"i{bits // 8}").type for bits in (8, 16, 32, 64)},
    "u16": np.uint16,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "fp64": np.float64,
}


def dtypes(*names: str) -> list[tuple[str, Any]]:
    """Triton's names of types, each with NumPy's type."""
    return [(name, _DTYPES[name]) for name in names]


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def empty(*shape: int, dtype: Any = np.float32) -> Any:
    return np.full(shape, 77, dtype)
