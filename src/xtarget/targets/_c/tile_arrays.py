"""The arrays in which a block's values are kept, and the places of elements in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .values import DType, RefusedError, Value

__all__ = ["TileArrays", "common_shape", "flat"]

#: Bytes of arrays that a block of one thread may have, on its stack.
_MOST_BYTES = 256 << 10
#: What each of several threads may keep.
_MOST_OWN = 4 << 10
#: What arrays begin at multiples of, in memory that the launch asks for.
_APART = 16
#: An element of an array, in a place where the thread has made it itself.
_OWN = re.compile(r"(\w+)_@own\[([^\]]*)\]")


class TileArrays:
    """Arrays by name.

    Args:
        threads: of a block.
        most_shared: bytes that several threads may share.
        most_asked: the same, if the launch asks for them.

    Attributes:
        asked: bytes that the launch has to ask for, once the arrays are declared.
        kept: those that are needed.
        shared: those of which a thread needs elements that others made.
    """

    def __init__(self, threads: int, most_shared: int, most_asked: int) -> None:
        self._threads = threads
        self._most_shared = _MOST_BYTES if threads == 1 else most_shared
        self._most_asked = 0 if threads == 1 else most_asked
        self.asked = 0
        self._sizes: dict[str, tuple[str, int, int]] = {}
        self.kept: set[str] = set()
        self.shared: set[str] = set()

    def add(self, name: str, type_: str, size: int, dtype: DType) -> None:
        """Take the C type and number of the elements."""
        self._sizes[name] = type_, size, max(1, dtype.bits // 8)

    def declared(self) -> list[str]:
        """The lines that declare those that are needed.

        Raises:
            RefusedError: they are too large.
        """
        own = shared = 0
        lines, together, places = [], [], []
        for name, (type_, size, each) in self._sizes.items():
            if name not in self.kept:
                continue
            if self._is_own(name):
                size = -(-size // self._threads)
                own += size * each
                lines.append(f"  {type_} {name}_[{size}];")
                continue
            together.append(f"  {'' if self._threads == 1 else 'SHARED '}{type_} {name}_[{size}];")
            places.append(f"  {type_}* const {name}_ = ({type_}*)(xt_shared + {self.asked});")
            shared += size * each
            self.asked += -(-size * each // _APART) * _APART
        if own > _MOST_OWN:
            raise RefusedError(f"blocks of {own} bytes for each thread")
        if shared <= self._most_shared:
            self.asked = 0
            return together + lines
        if self.asked > self._most_asked:
            raise RefusedError(f"blocks of {shared} bytes")
        whole = f"  extern SHARED __align__({_APART}) unsigned char xt_shared[];"
        return [whole, *places, *lines]

    def placed(self, line: str) -> str:
        """A line with the places of own elements (`NAME_@own[PLACE]`)."""
        return _OWN.sub(self._place, line)

    def _place(self, found: re.Match[str]) -> str:
        name, place = found.groups()
        return (
            f"{name}_[({place}) / {self._threads}]" if self._is_own(name) else f"{name}_[{place}]"
        )

    def _is_own(self, name: str) -> bool:
        """Return whether each thread keeps its elements of an array."""
        return self._threads > 1 and name not in self.shared


def flat(sizes: tuple[int, ...], index: Sequence[str] | None = None) -> str:
    """The place of an index in an array of these sizes."""
    given = [f"i{axis}" for axis in range(len(sizes))] if index is None else index
    text = ""
    for size, one in zip(sizes, given, strict=True):
        text = f"({text}) * {size} + {one}" if text else one
    return text


def common_shape(parts: Sequence[Value]) -> tuple[int, ...]:
    """The shape that values have together.

    Raises:
        RefusedError: there is none.
    """
    shapes = [part.dims for part in parts]
    rank = max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    found = []
    for lengths in zip(*aligned, strict=True):
        others = {length for length in lengths if length != 1}
        if len(others) > 1:
            raise RefusedError("values of shapes that do not fit")
        found.append(others.pop() if others else 1)
    return tuple(found)
