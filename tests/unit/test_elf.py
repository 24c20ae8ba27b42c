"""The ELF and MessagePack readers: right on good files, a `LoadError` on every bad one."""

from __future__ import annotations

import struct

import pytest
from elf_writer import make_elf
from hypothesis import given, settings
from hypothesis import strategies as st

from xtarget._values import errors
from xtarget.targets._binaries import elf as _elf
from xtarget.targets._binaries import msgpack

NOTE = struct.pack("<III", 7, 5, 32) + b"AMDGPU\0\0" + b"\x81\xa1a\x01\xc0\0\0\0"


GOOD = make_elf([(".text", 1, b"code"), (".note", 7, NOTE), (".bss", 8, b"")])


def everything(data):
    elf = _elf.Elf.parse(data)
    elf.symbols()
    for note in elf.notes():
        msgpack.unpack(note.data)
    return elf


def test_a_good_file():
    elf = everything(GOOD)
    assert (elf.machine, elf.flags, elf.os_abi, elf.abi_version) == (224, 0x54C, 64, 3)
    assert [s.name for s in elf.sections] == ["", ".text", ".note", ".bss", ".shstrtab"]
    text = elf.section(".text")
    assert text is not None
    assert bytes(text.data) == b"code"
    assert text.info == 3
    assert elf.section(".nothing") is None
    (note,) = elf.notes()
    assert (note.name, note.type, msgpack.unpack(note.data)) == ("AMDGPU", 32, {"a": 1})


def test_symbols():
    rows = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0) + struct.pack("<IBBHQQ", 1, 2, 0, 1, 16, 4)
    data = bytearray(make_elf([("main", 2, rows)]))
    table = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<I", data, table + 64 + 40, 2)  # link: the section with the names
    (_, symbol) = _elf.Elf.parse(bytes(data)).symbols()
    assert (symbol.name, symbol.value, symbol.size, symbol.section) == ("main", 16, 4, 1)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "starts with nothing"),
        (b"#!/bin/sh", "not an ELF file"),
        (GOOD[:40], "ends inside its header"),
        (GOOD[:4] + b"\x01" + GOOD[5:], "class 1 and byte order 1"),
        (GOOD[:-10], "its section table needs bytes"),
        (GOOD[:58] + b"\x20" + GOOD[59:], "section headers have 32 bytes"),
        (GOOD[:62] + b"\x99" + GOOD[63:], "section names are in section 153 of 5"),
    ],
)
def test_bad_files_say_what_is_wrong(data, sentence):
    with pytest.raises(errors.LoadError, match=sentence):
        everything(data)


def test_a_note_beyond_its_section():
    with pytest.raises(errors.LoadError, match=r"a note of section '\.note' needs bytes"):
        everything(make_elf([(".note", 7, struct.pack("<III", 7, 1 << 31, 32) + b"AMDGPU\0\0")]))


def test_overlapping_notes_are_refused():
    data = bytearray(make_elf([("a", 7, NOTE), ("b", 7, NOTE)]))
    table = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<Q", data, table + 2 * 64 + 24, 68)
    with pytest.raises(errors.LoadError, match="'a' and 'b' overlap"):
        everything(bytes(data))


def packed(value):
    """MessagePack with the widest encodings, the reader's counterpart."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return b"\xd3" + struct.pack(">q", value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
        case bytes():
            return b"\xc6" + struct.pack(">I", len(value)) + value
        case list():
            return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(packed, value))
        case dict():
            items = b"".join(packed(k) + packed(v) for k, v in value.items())
            return b"\xdf" + struct.pack(">I", len(value)) + items
    raise TypeError(value)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.binary(max_size=9)
)
values = st.recursive(
    scalars,
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=5), v, max_size=4),
    max_leaves=20,
)


@given(values)
def test_msgpack_round_trip(value):
    assert msgpack.unpack(packed(value) + b"\0\0") == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x7f", 127),
        (b"\xff", -1),
        (b"\xa2hi", "hi"),
        (b"\x92\x01\x02", [1, 2]),
        (b"\x81\xa1k\xcd\x01\x00", {"k": 256}),
        (b"\xd0\x80", -128),
        (b"\xd9\x01x", "x"),
        (b"\xdc\x00\x01\xc3", [True]),
        (b"\xde\x00\x01\xa1k\xc2", {"k": False}),
        (b"\xc4\x01\xff", b"\xff"),
        (b"\xca\x3f\x80\x00\x00", 1.0),
    ],
)
def test_msgpack_short_forms(data, value):
    assert msgpack.unpack(data) == value


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "needs 1 bytes"),
        (b"\xdf\xff\xff\xff\xff", "needs 1 bytes"),
        (b"\x91" * 100 + b"\xc0", "deeper than 32"),
        (b"\x81\x01\x01", "a map has the key 1"),
        (b"\xc7\x01\x05a", "byte 0xc7"),
        (b"\xdb\x00\x00\x10\x00abc", "needs 4096 bytes"),
    ],
)
def test_bad_metadata_says_what_is_wrong(data, sentence):
    with pytest.raises(errors.LoadError, match=sentence):
        msgpack.unpack(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_never_crash(data):
    """Byte flips, truncations and garbage: parsed or refused, nothing else, and quickly."""
    broken = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 8))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(broken)) | st.just(len(broken)))
    refuse_or_read(bytes(broken[:cut]))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_garbage_never_crashes(garbage, with_magic):
    for read in (everything, msgpack.unpack):
        refuse_or_read((GOOD[:16] if with_magic else b"") + garbage, read)


def refuse_or_read(data, read=everything):
    try:
        read(data)
    except errors.LoadError as error:
        message = str(error)
    else:
        return
    assert message.endswith("Compile the kernel again.")


@pytest.mark.parametrize("beyond", [0, 1])
def test_many_headers_for_one_long_name(beyond):
    """A name is read up to a limit: thousands of sections that point at the same bytes cost no more
    than so many names of the limit."""
    count, longest = 6_000, _elf._LONGEST_NAME - 1 + beyond
    row = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, longest + 1, 0, 0, 1, 0)
    head = bytearray(GOOD[:64])
    struct.pack_into("<Q", head, 40, 64 + longest + 1)
    struct.pack_into("<HH", head, 60, count, 0)
    data = bytes(head) + b"x" * longest + b"\0" + row * count
    if beyond:
        with pytest.raises(errors.LoadError, match="does not end"):
            _elf.Elf.parse(data)
    else:
        assert len(_elf.Elf.parse(data).sections) == count
