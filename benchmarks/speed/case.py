"""A computation that is timed: ours, torch's, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import xtarget

__all__ = ["Case", "randn"]


def randn(*shape: int, dtype: Any) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype)


@dataclass(frozen=True)
class Case:
    """A computation.

    Attributes:
        kernel: our operator.
        inputs: makes the arrays of a call.
        theirs: the same by torch; takes `out` where `out` is set.
        work: bytes, or floating-point operations where `matrix`.
        ours: our call, of arrays and `out`; None: `run` of the kernel with `options`.
        exact: the result of the arrays in float64; None: torch's own of arrays in float64.
        allowed: relative error (of norms) that ours may have; None: twice torch's and 1e-6.
        asked: the ratio, torch's time / ours, that the issue asks for; 0: none.
        reuses: `out` of another call may not be given: ours allocates, as torch does.
    """

    name: str
    kernel: str
    inputs: Callable[[], tuple[Any, ...]]
    theirs: Callable[..., Any]
    work: float
    matrix: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    out: bool = False
    ours: Callable[..., Any] | None = None
    exact: Callable[..., Any] | None = None
    allowed: float | None = None
    asked: float = 0.0
    reuses: bool = True

    def run(self, *args: Any, out: Any = None) -> Any:
        if self.ours is not None:
            return self.ours(*args, out=out)
        if out is None:
            return xtarget.run(self.kernel, *args, **self.options)
        return xtarget.run(self.kernel, *args, out=out, **self.options)
