"""The memory that arrays of a call reach."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from .._arrays import is_scalar, view_of
from .._launch import lookup

__all__ = ["meets", "reach"]


#: By dtype and layout of an array, as a call's key has them: where its first byte and the one after
#: its last lie, from its address on.
_spans: dict[Hashable, tuple[int, int]] = {}
_MOST_SPANS = 1024


def reach(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    stands = lookup.adopted("", "", array, written=False)
    address, part = lookup.described(stands)
    span = _spans.get(part)
    if span is None:
        layout = view_of(array).type
        low, high = layout.span
        span = low * layout.itemsize, high * layout.itemsize
        if len(_spans) >= _MOST_SPANS:
            _spans.clear()
        _spans[part] = span
    return address + span[0], address + span[1]


def meets(out: Any, args: Sequence[Any]) -> bool:
    """Whether a result may share memory with an argument."""
    low, high = reach(out)
    others = (reach(arg) for arg in args if arg is not None and not is_scalar(arg))
    return any(low < end and begin < high for begin, end in others)
