"""Do two arrays have bytes in common?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec import ArrayType

__all__ = ["Overlaps"]

#: Candidates that NumPy may try for one answer (about 1 ms): views that people make take a few.
_MOST_WORK = 10_000
_MOST_KNOWN = 256
#: An address that leaves room on both sides; only the distance of two counts.
_FAR = 1 << 62

try:
    from numpy.exceptions import TooHardError
except ImportError:  # NumPy 1.24 and older
    from numpy import TooHardError  # type: ignore[attr-defined, no-redef, unused-ignore]


class _Ghost:
    """Memory at any address, that is never read."""

    def __init__(self, address: int, type: ArrayType) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": type.shape,
            "strides": tuple(stride * type.itemsize for stride in type.strides),
            "typestr": f"|V{type.itemsize}",
            "data": (address, True),
        }


class Overlaps:
    """Answers for two layouts, by the distance of their first elements.

    Args:
        types: gives the layouts; only asked where the spans of both meet.
    """

    __slots__ = ("_known", "_types")

    def __init__(self, types: Callable[[], tuple[ArrayType, ArrayType]]) -> None:
        self._types = types
        self._known: dict[int, bool] = {}

    def at(self, distance: int) -> bool:
        """Check whether the arrays share memory. Return True if that is too hard to decide.

        The first array begins `distance` bytes after the second."""
        answer = self._known.get(distance)
        if answer is None:
            answer = self._ask(distance)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[distance] = answer
        return answer

    def _ask(self, distance: int) -> bool:
        first, second = self._types()
        one: Any = np.asarray(_Ghost(_FAR + distance, first))
        other: Any = np.asarray(_Ghost(_FAR, second))
        try:
            work: Any = _MOST_WORK  # NumPy's annotation knows two of its values
            return bool(np.shares_memory(one, other, max_work=work))
        except (TooHardError, OverflowError):
            return True
