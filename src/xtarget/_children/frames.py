"""Messages between a process and its child on two pipes.

A frame: 4 bytes length of the header, the header (JSON), then the parts whose lengths the header
lists. Standard library only: a child starts faster.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Frame", "pack", "read_frame", "unpack"]

#: A header and its parts.
Frame = tuple[dict[str, Any], list[bytes]]

_LENGTH = struct.Struct("<I")


def pack(
    header: dict[str, Any],
    parts: Sequence[bytes] = (),
    default: Callable[[Any], Any] | None = None,
) -> bytes:
    """A frame as bytes.

    Args:
        default: makes what JSON takes of other values.
    """
    lengths = {"parts": [len(part) for part in parts]}
    data = json.dumps({**header, **lengths}, default=default).encode()
    return b"".join([_LENGTH.pack(len(data)), data, *parts])


def _unpack_header(data: bytes) -> tuple[dict[str, Any], list[int]]:
    header = json.loads(data)
    return header, [int(length) for length in header.pop("parts")]


def unpack(data: bytearray) -> Frame | None:
    """Take the first frame out of `data`; None while it is incomplete."""
    start = _LENGTH.size
    if len(data) < start:
        return None
    end = start + _LENGTH.unpack(data[:start])[0]
    if len(data) < end:
        return None
    header, lengths = _unpack_header(bytes(data[start:end]))
    if len(data) < end + sum(lengths):
        return None
    parts = []
    for length in lengths:
        parts.append(bytes(data[end : end + length]))
        end += length
    del data[:end]
    return header, parts


def read_frame() -> Frame:
    """Read the next frame of standard input, unbuffered, so that `poll` sees the remaining bytes.
    At the end of input the parent has ended, so the process exits."""
    header, lengths = _unpack_header(_read(_LENGTH.unpack(_read(_LENGTH.size))[0]))
    return header, [_read(length) for length in lengths]


def _read(length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = os.read(0, length - len(data))
        if not chunk:
            sys.exit(0)
        data += chunk
    return bytes(data)
