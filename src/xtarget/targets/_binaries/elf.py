"""A bounds-checked reader of 64-bit little-endian ELF files: what cubin and hsaco are made of.

Every offset and count of the file is checked before it is used: damaged input ends in a
`LoadError` that says what is wrong, and costs no more than a small multiple of its own size.

Source: System V ABI, chapters 4 "Object Files" and 5 "Program Loading" (note section).
"""

from __future__ import annotations

import struct
from dataclasses import field
from itertools import pairwise

from ..._values.errors import LoadError
from ..._values.value_classes import value_class

__all__ = ["Elf", "Note", "Section", "Symbol"]

_HEADER = struct.Struct("<4s5B7xHHIQQQI6H")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")

_NULL, _SYMTAB, _NOTE_SECTION, _NOBITS, _DYNSYM = 0, 2, 7, 8, 11
_LONGEST_NAME = 4096


@value_class(frozen=True, slots=True)
class Section:
    """A section; `data` is a view into the file from `offset` (empty for one
    without content, which still has a `size`)."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    data: memoryview = field(repr=False)


@value_class(frozen=True, slots=True)
class Symbol:
    """A symbol; `section` is the index of the section it is defined in, 0 for an undefined one."""

    name: str
    value: int
    size: int
    section: int
    info: int


@value_class(frozen=True, slots=True)
class Note:
    """A record of a note section: vendor name, type number, payload."""

    name: str
    type: int
    data: memoryview = field(repr=False)


@value_class(frozen=True, slots=True)
class Elf:
    """A parsed file.

    Attributes:
        machine: e_machine (190 is CUDA, 224 is AMD GPU).
        os_abi, abi_version: bytes 7 and 8 of the identification.
        flags: e_flags; the vendor's meaning.
        sections: all sections, in the order of the file, the null section included.
    """

    machine: int
    os_abi: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...]

    @classmethod
    def parse(cls, data: bytes) -> Elf:
        """Read the header and the section table.

        Raises:
            LoadError: not an ELF64 little-endian file, or damaged.
        """
        view = memoryview(data).cast("B").toreadonly()
        if bytes(view[:4]) != b"\x7fELF":
            raise LoadError(
                f"this is not an ELF file: it starts with {bytes(view[:8]).hex(' ') or 'nothing'}. "
                "Compile the kernel again."
            )
        if len(view) < _HEADER.size:
            raise _damaged(f"it ends inside its header, after {len(view)} bytes")
        (
            _magic,
            bits,
            order,
            _version,
            os_abi,
            abi_version,
            _type,
            machine,
            _e_version,
            _entry,
            program_offset,
            offset,
            flags,
            _header_size,
            program_size,
            program_count,
            entry_size,
            count,
            names_index,
        ) = _HEADER.unpack_from(view)
        if (bits, order) != (2, 1):
            raise LoadError(
                f"this ELF file has class {bits} and byte order {order}; GPU binaries are 64-bit "
                "little-endian (2 and 1). Compile the kernel again."
            )
        _slice(view, program_offset, program_size * program_count, "its program table")
        raw = []
        if count:
            if entry_size != _SECTION.size:
                raise _damaged(f"its section headers have {entry_size} bytes instead of 64")
            table = _slice(view, offset, count * _SECTION.size, "its section table")
            raw = list(_SECTION.iter_unpack(table))
        contents = [
            view[:0] if kind in (_NULL, _NOBITS) else _slice(view, start, size, f"section {index}")
            for index, (_n, kind, _f, _a, start, size, *_rest) in enumerate(raw)
        ]
        if raw and names_index >= len(raw):
            raise _damaged(f"its section names are in section {names_index} of {len(raw)}")
        return cls(
            machine,
            os_abi,
            abi_version,
            flags,
            tuple(
                Section(
                    _string(contents[names_index], name), k, f, a, start, size, link, info, content
                )
                for (name, k, f, a, start, size, link, info, *_), content in zip(
                    raw, contents, strict=True
                )
            ),
        )

    def section(self, name: str) -> Section | None:
        """The first section of that name, or None."""
        return next((s for s in self.sections if s.name == name), None)

    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of the first symbol table, or else of the first dynamic one."""
        for wanted in (_SYMTAB, _DYNSYM):
            for section in self.sections:
                if section.type != wanted:
                    continue
                if section.link >= len(self.sections) or len(section.data) % _SYMBOL.size:
                    raise _damaged(f"its symbol table {section.name!r} has a wrong size or link")
                names = self.sections[section.link].data
                return tuple(
                    Symbol(_string(names, name), value, size, index, info)
                    for name, info, _other, index, value, size in _SYMBOL.iter_unpack(section.data)
                )
        return ()

    def notes(self) -> tuple[Note, ...]:
        """The records of all note sections.

        Raises:
            LoadError: a record reaches beyond its section, or note sections overlap.
        """
        notes = []
        sections = [s for s in self.sections if s.type == _NOTE_SECTION]
        # overlapping sections would let a small file hold a huge number of notes
        ordered = sorted(sections, key=lambda s: s.offset)
        for before, after in pairwise(ordered):
            if before.offset + len(before.data) > after.offset:
                raise _damaged(f"its sections {before.name!r} and {after.name!r} overlap")
        for section in sections:
            position = 0
            while position + _NOTE.size <= len(section.data):
                name_size, size, kind = _NOTE.unpack_from(section.data, position)
                where = f"a note of section {section.name!r}"
                name = _slice(section.data, position + _NOTE.size, name_size, where)
                start = position + _NOTE.size + _padded(name_size)
                data = _slice(section.data, start, size, where)
                text = bytes(name[:_LONGEST_NAME]).rstrip(b"\0").decode("utf-8", "replace")
                notes.append(Note(text, kind, data))
                position = start + _padded(size)
        return tuple(notes)


def _padded(size: int) -> int:
    """Names and payloads of notes start on 4 bytes."""
    return -(-size // 4) * 4


def _damaged(what: str) -> LoadError:
    return LoadError(f"this ELF file is damaged: {what}. Compile the kernel again.")


def _slice(view: memoryview, start: int, size: int, what: str) -> memoryview:
    if start + size > len(view):
        raise _damaged(f"{what} needs bytes {start} to {start + size} of {len(view)}")
    return view[start : start + size]


def _string(table: memoryview, offset: int) -> str:
    """The zero-terminated string at `offset`."""
    if not len(table) and not offset:
        return ""
    if offset >= len(table):
        raise _damaged(f"a name starts at byte {offset} of a string table of {len(table)}")
    text, end, _ = bytes(table[offset : offset + _LONGEST_NAME]).partition(b"\0")
    if not end:
        raise _damaged(f"the name at byte {offset} of a string table does not end")
    return text.decode("utf-8", "replace")
