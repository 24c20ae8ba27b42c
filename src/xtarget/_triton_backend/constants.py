"""Constants as Triton's launching tells them apart.

Triton looks a call's kernel up in a dictionary by the values of its constants, and to Python 1, 1.0
and True are equal, as are 0.0 and -0.0: the kernel of the first would serve all of them. Here
constants get an equality of their own before Triton looks.
"""

from __future__ import annotations

from math import copysign
from typing import Any

__all__ = ["tell_apart"]


class _Number:
    """A number that equals nothing but itself; there is one object of each."""

    __slots__ = ("_text",)

    def __init__(self, value: float) -> None:
        self._text = repr(value)

    def __repr__(self) -> str:
        """Triton makes the rest of its key of this."""
        return self._text


class _Exact:
    """A constant that equals those of its type and text only."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not _Exact or type(self.value) is not type(other.value):
            return False
        mine, its = self.value, other.value
        return repr(mine) == repr(its) and (mine is its or bool(mine == its))

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


_FALSE, _TRUE = _Number(False), _Number(True)
_NAN, _MINUS_ZERO = _Number(float("nan")), _Number(-0.0)
#: Whole numbers that are floats.
_whole: dict[float, _Number] = {}
#: What equals nothing of another type. So does a float that is not a whole number.
_PLAIN = frozenset((int, str, type(None)))


def tell_apart(specialization: list[Any]) -> None:
    """Put exact constants into what Triton's binder tells of a call's arguments.

    Args:
        specialization: (type, value or attribute) of each parameter; changed in place.
    """
    for index, pair in enumerate(specialization):
        if type(pair[1]) not in _PLAIN:
            specialization[index] = pair[0], _exact(pair[1])


def _exact(value: Any) -> Any:
    cls = type(value)
    if cls is bool:
        return _TRUE if value else _FALSE
    if cls is float:
        return _float(value)
    if cls in _PLAIN:
        return value
    if isinstance(value, tuple):
        each = map(_exact, value)
        # Triton looks for functions in them, and compares their elements
        return cls(*each) if hasattr(value, "_fields") else tuple(each)
    if hasattr(value, "cache_key"):  # a function of Triton's, which takes its place in the key
        return value
    return _Exact(value)


def _float(value: float) -> Any:
    if value.is_integer():
        if value == 0 and copysign(1.0, value) < 0:
            return _MINUS_ZERO
        known = _whole.get(value)
        if known is None:
            known = _whole[value] = _Number(value)
        return known
    return value if value == value else _NAN
