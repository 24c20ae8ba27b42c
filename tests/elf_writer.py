"""Writes small ELF files for the tests of what reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["make_elf"]


def make_elf(
    sections: Sequence[tuple[str, int, bytes]], machine: int = 224, flags: int = 0x54C
) -> bytes:
    """A file with the given (name, type, bytes) sections, a null section and a name table."""
    rows = [("", 0, b""), *sections, (".shstrtab", 3, b"")]
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in rows[1:])
    rows[-1] = (".shstrtab", 3, names)
    body, headers, name_at = b"", b"", 1
    for name, kind, data in rows:
        offset = 64 + len(body) if kind else 0
        where = name_at if name else 0
        headers += struct.pack("<IIQQQQIIQQ", where, kind, 0, 0, offset, len(data), 0, 3, 1, 0)
        name_at += len(name) + 1 if name else 0
        body += data
    fields = (machine, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, len(rows), len(rows) - 1)
    ident = b"\x7fELF" + bytes((2, 1, 1, 64, 3)) + bytes(7)
    return ident + struct.pack("<HHIQQQI6H", 3, *fields) + body + headers
