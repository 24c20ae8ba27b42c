"""A bounds-checked MessagePack decoder, for the metadata notes of AMD code objects.

Source: the MessagePack specification (formats), without extension types, which these notes do not
use.
"""

from __future__ import annotations

import struct
from typing import Any

from ..._values.errors import LoadError

__all__ = ["unpack"]

_DEEPEST = 32
#: First byte of the formats with a fixed-size number: its struct format.
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
#: First byte of the formats with a length: (kind, struct format of the length).
_LENGTHS = {
    0xC4: ("bin", ">B"),
    0xC5: ("bin", ">H"),
    0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"),
    0xDA: ("str", ">H"),
    0xDB: ("str", ">I"),
    0xDC: ("array", ">H"),
    0xDD: ("array", ">I"),
    0xDE: ("map", ">H"),
    0xDF: ("map", ">I"),
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def unpack(data: bytes | memoryview) -> Any:
    """Decode one object; bytes behind it are padding and are ignored.

    Raises:
        LoadError: truncated, nested deeper than 32, or of a type that metadata has no use for.
    """
    return _Decoder(bytes(data)).value(0)


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._data):
            raise _bad(
                f"it needs {count} bytes at byte {self._position}, and has {len(self._data)} in all"
            )
        piece = self._data[self._position : end]
        self._position = end
        return piece

    def _number(self, format: str) -> Any:
        return struct.unpack(format, self._take(struct.calcsize(format)))[0]

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _bad(f"it is nested deeper than {_DEEPEST} levels")
        first = self._take(1)[0]
        if first < 0x80:
            return first
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._array(first & 0x0F, depth)
        if first < 0xC0:
            return self._text(first & 0x1F)
        if first >= 0xE0:
            return first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        if first not in _LENGTHS:
            raise _bad(f"byte 0x{first:02x} starts no type that metadata uses")
        kind, format = _LENGTHS[first]
        length = int(self._number(format))
        if kind == "str":
            return self._text(length)
        if kind == "bin":
            return self._take(length)
        return self._array(length, depth) if kind == "array" else self._map(length, depth)

    def _text(self, length: int) -> str:
        return self._take(length).decode("utf-8", "replace")

    def _array(self, length: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[str, Any]:
        result = {}
        for _ in range(length):
            key = self.value(depth + 1)
            if not isinstance(key, str):
                raise _bad(f"a map has the key {key!r}, which is not text"[:200])
            result[key] = self.value(depth + 1)
        return result


def _bad(what: str) -> LoadError:
    return LoadError(
        f"the metadata of this binary cannot be read: {what}. Compile the kernel again."
    )
