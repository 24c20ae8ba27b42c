"""Bodies of kernels that were prepared when xtarget was built, so that a request fills holes only.

The file (`ci/prepare_texts.py` writes it) lies beside this module in wheels. It may be absent: what
is not in it is made of the kernel's own text, to the same bytes. The key of an entry says all that
its body depends on, so that one of an older kernel or of an older xtarget is not found.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from ..._system.package import FOLDER
from ..._values.types import CompileRequest, Parameter
from .holes import HoleError

__all__ = [
    "FILE",
    "SIZES",
    "Body",
    "Entries",
    "each_of",
    "file",
    "filled",
    "key_of",
    "packed",
    "size_of",
]

FILE: Final = os.path.join(FOLDER, "targets", "_template", "prepared.bin")
#: Constants that say how many elements a block takes, and whether results go past the caches. No
#: body in the file depends on them.
SIZES: Final = ("BLOCK", "BLOCK_M", "STEPS", "STREAM")
_MAGIC: Final = b"xtarget2"
_HEAD: Final = struct.Struct("<8sII")  # magic, number of entries, bytes of the common words
_PLACE: Final = struct.Struct("<III")  # of an entry: offset, bytes, its text's CRC-32
_RAW: Final = -15  # zlib's word for data alone, whose reader may be copied with its dictionary
_KEY_BYTES: Final = 16
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Body:
    """A kernel as a route prepares it before it knows the arch and the sizes.

    Attributes:
        holes: where values are put into `data`, by name: offset and bytes.
        data: in the route's own form.
    """

    parameters: tuple[Parameter, ...]
    holes: Mapping[str, tuple[int, int]]
    data: bytes


def key_of(route: str, request: CompileRequest) -> bytes:
    """The key of a request's body.

    Args:
        route: its format and fingerprint.
    """
    source = request.source
    constants = [one for one in request.constants if one[0] not in SIZES]
    about = repr((route, source.digest, source.name, request.signature, constants))
    return hashlib.sha256(about.encode()).digest()[:_KEY_BYTES]


def each_of(request: CompileRequest) -> int:
    """Elements of a block of the grid, of a kernel whose body is in the file."""
    constants = dict(request.constants)
    block, steps = constants[size_of(constants)], constants.get("STEPS", 1)
    assert isinstance(block, int)
    assert isinstance(steps, int)
    return block * steps


def size_of(constants: Mapping[str, object]) -> str:
    """The constant that says how many elements a block takes; empty if none does."""
    return next((name for name in ("BLOCK", "BLOCK_M") if name in constants), "")


def filled(body: Body, values: Mapping[str, int]) -> bytes:
    """A body's data with a number in each hole, least byte first.

    Raises:
        HoleError: a hole has no value, or a value no hole.
    """
    if values.keys() != body.holes.keys():
        raise HoleError(
            f"a prepared body has the holes {', '.join(sorted(body.holes))}, and values for "
            f"{', '.join(sorted(values))}."
        )
    data = bytearray(body.data)
    for name, number in values.items():
        begin, size = body.holes[name]
        data[begin : begin + size] = number.to_bytes(size, "little")
    return bytes(data)


class Entries:
    """A file of bodies, of which only what is asked for is read."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, self.count, words = _HEAD.unpack_from(self._data)
        self._places = _HEAD.size + self.count * _KEY_BYTES
        begin = self._places + self.count * _PLACE.size
        common = self._data[begin : begin + words]
        if magic != _MAGIC or len(common) != words:
            raise ValueError("it is no file of prepared texts, or a part of one")
        self._reader = zlib.decompressobj(_RAW, zdict=common)

    def get(self, key: bytes) -> Body | None:
        """An entry; None if there is none, or if it is damaged, which the log says."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) < key:
                low = middle + 1
            else:
                high = middle
        if low == self.count or self._key(low) != key:
            return None
        begin, size, sum_ = _PLACE.unpack_from(self._data, self._places + low * _PLACE.size)
        reader = self._reader.copy()
        try:
            text = reader.decompress(self._data[begin : begin + size]) + reader.flush()
            if zlib.crc32(text) != sum_:
                raise ValueError("an entry has another sum than when it was written")
            return _unpacked(text)
        except (zlib.error, ValueError) as error:
            _log.warning("%s is damaged (%s). Install xtarget again.", self._path, error)
            return None

    def _key(self, number: int) -> bytes:
        begin = _HEAD.size + number * _KEY_BYTES
        return self._data[begin : begin + _KEY_BYTES]


@cache
def file() -> Entries | None:
    """This installation's file; None if it has none."""
    try:
        return Entries(FILE)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, struct.error) as error:
        _log.warning("%s cannot be read (%s). Install xtarget again.", FILE, error)
        return None


def _unpacked(text: bytes) -> Body:
    listed, holes, data = text.split(b"\n", 2)
    return Body(_parameters(listed), json.loads(holes), data)


@lru_cache(maxsize=256)
def _parameters(listed: bytes) -> tuple[Parameter, ...]:
    """Many kernels have the same."""
    return tuple([
        Parameter(name, type_, access=access, stored=at)
        for name, type_, access, at in json.loads(listed)
    ])  # fmt: skip


def packed(bodies: Mapping[bytes, Body]) -> bytes:
    """A file's content; bodies that are equal are in it once."""
    texts = {}
    for key in sorted(bodies):
        body = bodies[key]
        listed = [[p.name, p.type, p.access, p.stored] for p in body.parameters]
        heads = [json.dumps(one, separators=(",", ":")).encode() for one in (listed, body.holes)]
        texts[key] = b"\n".join([*heads, body.data])
    # what many have in common lies in the longest of the short half
    ordered = sorted(set(texts.values()), key=lambda text: (len(text), text))
    words = b"".join(ordered[: len(ordered) // 2 + 1])[-32768:]
    begin = _HEAD.size + len(texts) * (_KEY_BYTES + _PLACE.size) + len(words)
    places: dict[bytes, bytes] = {}
    blobs = []
    for text in texts.values():
        if text not in places:
            writer = zlib.compressobj(9, wbits=_RAW, zdict=words)
            blobs.append(writer.compress(text) + writer.flush())
            places[text] = _PLACE.pack(begin, len(blobs[-1]), zlib.crc32(text))
            begin += len(blobs[-1])
    start = _HEAD.pack(_MAGIC, len(texts), len(words))
    return b"".join([start, *texts, *map(places.__getitem__, texts.values()), words, *blobs])
