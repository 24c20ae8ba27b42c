"""The memory that arrays of a call reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._arrays import is_scalar, kind_of, view_of
from .._launch import lookup

__all__ = ["meets", "reach"]


def reach(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    layout = view_of(array).type
    address = kind_of(lookup.adopted("", "", array, written=False)).describe(array)[0]
    low, high = layout.span
    return address + low * layout.itemsize, address + high * layout.itemsize


def meets(out: Any, args: Sequence[Any]) -> bool:
    """Whether a result may share memory with an argument."""
    low, high = reach(out)
    others = (reach(arg) for arg in args if arg is not None and not is_scalar(arg))
    return any(low < end and begin < high for begin, end in others)
