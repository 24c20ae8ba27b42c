"""Reading a bundle (`.xtb`): docs/bundle-format.md says what each of its bytes means, and
`_bundle.writer` writes them.

Parts of the file are read when they are asked for (not mapped: what is cut while it is mapped ends
the process that reads it). Every offset and size is checked before it is used and every part has
its sha256 in the part above it, so nothing is believed before it was checked: header → manifest →
table → record → binary. The index and the call records are for C (`_bundle.calls`); they are only
verified here.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from .._values.errors import LoadError, XTargetError
from .._values.types import Target
from .._values.value_classes import value_class
from .calls import read_index, read_table
from .manifest import (
    MOST_DICTIONARY,
    MOST_INDEX,
    MOST_MANIFEST,
    MOST_RECORD,
    MOST_ROWS,
    Mark,
    check_facts,
    check_kernels,
    check_record,
    most_unpacked,
    target_of,
)
from .packing import VERSION_ZSTD, kind_of, unpacker

__all__ = ["HEADER", "MAGIC", "ROW", "VERSION", "BundleFile", "Section"]

#: Not text, and damaged by whatever converts line ends or strips the eighth bit (as PNG's).
MAGIC: Final = b"\x89xtb\r\n\x1a\n"
#: The newest one.
VERSION: Final = VERSION_ZSTD
#: magic, version, header size, file size, manifest offset, size and sha256, signature offset, size
HEADER: Final = struct.Struct("<8sIIQQQ32sQQ")
#: One row of a table: sha256 of the class's key, offset, packed size, size, sha256 of the record.
ROW: Final = struct.Struct("<32sQII32s")
#: Ed25519: public key and signature.
_SIGNATURE: Final = 32 + 64


@value_class(frozen=True, slots=True)
class Section:
    """The part of a bundle for one target, as the manifest describes it, checked.

    Attributes:
        start, size: its position in the file.
        calls: the table of its call records, if it has any.
    """

    target: Target
    start: int
    size: int
    dictionary: Mark
    table: Mark
    count: int
    kernels: Mapping[str, Any]
    calls: Mark | None = None


class BundleFile:
    """An opened bundle.

    Raises:
        LoadError: from every member, for a file that is not what it says of itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # a pipe is not waited for
            self._file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", 0)  # noqa: SIM115 - `close`
        except OSError as error:
            raise LoadError(
                f"the bundle {path} cannot be opened: {error.strerror or error}. Give the path of "
                "a file that `xtarget bundle build` wrote."
            ) from error
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> None:
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            self._refuse("it is not a regular file")
        if not status.st_size:
            self._refuse("it is empty")
        self.nbytes = status.st_size
        self._tables: dict[Target, tuple[bytes, bytes]] = {}
        self._read_header()
        self.manifest, self.sections = self._read_manifest()

    def _refuse(self, why: str) -> NoReturn:
        raise LoadError(
            f"the bundle {self.path} is refused: {why}. Copy it again from where it was built, or "
            "build it again."
        )

    def _at(self, offset: int, size: int) -> bytes:
        """Bytes of the file; `size` was compared with a limit before."""
        parts = []
        try:
            while size > 0:
                part = os.pread(self._file.fileno(), size, offset)
                if not part:
                    self._refuse("it became shorter while it was read")
                parts.append(part)
                offset, size = offset + len(part), size - len(part)
        except (OSError, ValueError) as error:  # ValueError: it was closed
            why = getattr(error, "strerror", None) or error
            raise LoadError(f"the bundle {self.path} cannot be read: {why}. Try again.") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_header(self) -> None:
        data = self._at(0, min(self.nbytes, HEADER.size))
        if data[: len(MAGIC)] != MAGIC:
            self._refuse("it is not a bundle, it does not begin with the mark of one")
        if len(data) < HEADER.size:
            self._refuse(f"it has {len(data)} bytes, less than a header")
        _, version, own, size, offset, length, digest, sig_at, sig_size = HEADER.unpack_from(data)
        if version > VERSION:
            raise LoadError(
                f"the bundle {self.path} has format version {version}; this xtarget reads versions "
                f"up to {VERSION}. Update xtarget, or build the bundle with this one."
            )
        if version < 1 or own != HEADER.size:
            self._refuse(f"its header says version {version} and {own} bytes of header")
        if size != self.nbytes:
            self._refuse(f"it has {self.nbytes} bytes and was written with {size}")
        if length > MOST_MANIFEST:
            self._refuse(f"its manifest has {length} bytes, more than {MOST_MANIFEST}")
        if version > 1 and offset - own > MOST_INDEX:
            self._refuse(f"its index has {offset - own} bytes, more than {MOST_INDEX}")
        self.compression = kind_of(version)
        try:
            self._unpack = unpacker(self.compression, f"the bundle {self.path}")
        except XTargetError as error:
            raise LoadError(str(error)) from error
        if self.compression == "zlib" and (offset == own) != (version == 1):
            self._refuse("its manifest is said to lie outside the file")
        if not own <= offset <= size - length:
            self._refuse("its manifest is said to lie outside the file")
        if sig_size not in (0, _SIGNATURE):
            self._refuse(f"its signature is said to have {sig_size} bytes, not {_SIGNATURE}")
        self.base = offset + length
        if sig_at + sig_size != (size if sig_size else 0) or (sig_size and sig_at < self.base):
            self._refuse("its signature is said to lie where none can be")
        self.end = sig_at if sig_size else size
        self.signed, self.signature = data, self._at(self.end, size - self.end)
        described = self._at(own, offset - own + length)
        self._index, self._manifest = described[: offset - own], described[offset - own :]
        if hashlib.sha256(described).digest() != digest:
            self._refuse("its manifest has another sha256 than when it was written")

    def _read_manifest(self) -> tuple[Mapping[str, Any], Mapping[Target, Section]]:
        try:
            manifest = json.loads(self._manifest)
            check_facts(manifest)
            sections: dict[Target, Section] = {}
            for part in manifest["targets"]:
                section = Section(
                    target_of(part["target"]),
                    *self._part(part["offset"], part["size"]),
                    Mark.of(part["dictionary"], MOST_DICTIONARY),
                    Mark.of(part["table"], MOST_ROWS * ROW.size),
                    part["count"],
                    check_kernels(part["kernels"]),
                    Mark.of(part["calls"], MOST_RECORD) if "calls" in part else None,
                )
                if type(section.count) is not int or not 0 <= section.count <= MOST_ROWS:
                    raise ValueError(f"its part for {section.target} has no number of rows")
                self._inside(section, section.dictionary)
                self._inside(section, section.table)
                if section.calls is not None:
                    self._inside(section, section.calls)
                if section.table.size != section.count * ROW.size or section.target in sections:
                    raise ValueError(f"its part for {section.target} contradicts itself")
                for mark in (section.table, section.dictionary, section.calls):
                    if mark is not None and mark.raw != mark.size:
                        raise ValueError("a table or a dictionary is never packed")
                sections[section.target] = section
            self._check_index(sections)
            if sum(section.count for section in sections.values()) > MOST_ROWS:
                raise ValueError(f"it has more than {MOST_ROWS} rows")
        except LoadError:
            raise
        except Exception as error:  # JSON of any shape, and no shape is trusted
            self._refuse(f"its manifest cannot be read ({type(error).__name__}: {error})")
        at = self.base
        for section in sorted(sections.values(), key=lambda section: section.start):
            if section.start != at:
                self._refuse(f"its part for {section.target} does not follow the one before it")
            at += section.size
        if at != self.end:
            self._refuse(f"{self.end - at} bytes of it belong to no target")
        return manifest, sections

    def _check_index(self, sections: Mapping[Target, Section]) -> None:
        """That it says of the sections what the manifest says."""
        index = read_index(self._index)
        said = {
            str(section.target): (
                section.start - self.base, section.size, section.dictionary, section.calls,
            )
            for section in sections.values()
            if section.calls is not None
        }  # fmt: skip
        if index != said:
            raise ValueError("its index contradicts its manifest")

    def _part(self, offset: Any, size: Any) -> tuple[int, int]:
        """Return the start and size of a section in the file."""
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in (offset, size)):
            raise ValueError("an offset or size is not a number from 0 on")
        if self.base + offset + size > self.end:
            self._refuse(f"a part of it (from {offset}, {size} bytes) lies outside the file")
        return self.base + offset, size

    def _inside(self, section: Section, mark: Mark) -> None:
        if mark.offset + mark.size > section.size:
            self._refuse(
                f"a part of it (from {mark.offset}, {mark.size} bytes) lies outside the part for "
                f"{section.target}"
            )

    def _bytes(self, target: Target, mark: Mark, dictionary: bytes | None, what: str) -> bytes:
        """Checked and unpacked; `dictionary` None is for what is never packed."""
        section = self.sections[target]
        self._inside(section, mark)
        raw = self._at(section.start + mark.offset, mark.size)
        # of the packed bytes: nothing that was not written is unpacked
        if hashlib.sha256(raw).hexdigest() != mark.sha256:
            self._refuse(f"{what} has another sha256 than when it was written")
        if dictionary is not None:
            try:
                raw = self._unpack(raw, dictionary, mark.raw)
            except ValueError as error:
                self._refuse(f"{what} {error}")
        if len(raw) != mark.raw:
            self._refuse(f"{what} has another size than its mark says")
        return raw

    def _table(self, target: Target) -> tuple[bytes, bytes]:
        found = self._tables.get(target)
        if found is None:
            section = self.sections[target]
            found = (
                self._bytes(target, section.table, None, f"the table for {target}"),
                self._bytes(target, section.dictionary, None, f"the dictionary for {target}"),
            )
            self._tables[target] = found
        return found

    def record(self, target: Target, key: bytes) -> Mapping[str, Any] | None:
        """The record of a class for a target, or None."""
        table, _ = self._table(target)
        low, high = 0, len(table) // ROW.size
        while low < high:
            middle = (low + high) // 2
            if table[middle * ROW.size : middle * ROW.size + 32] < key:
                low = middle + 1
            else:
                high = middle
        if table[low * ROW.size : low * ROW.size + 32] != key:
            return None
        return self._record(target, low)

    def records(self, target: Target) -> Iterator[Mapping[str, Any]]:
        """Every record for a target."""
        left = most_unpacked(self.nbytes)
        for index in range(self.sections[target].count):
            record, nbytes = self._sized_record(target, index)
            left = self._less(left, nbytes)
            yield record

    def verify(self) -> Iterator[tuple[Target, Mapping[str, Any]]]:
        """Read everything; gives each variant once its bytes are checked. Equal bytes are read
        once, and the sum has a limit: a small file does not keep its reader for hours.
        """
        left, done = most_unpacked(self.nbytes), set()
        for target, section in self.sections.items():
            before = b""
            for index in range(section.count):
                record, nbytes = self._sized_record(target, index)
                left = self._less(left, nbytes)
                key = bytes.fromhex(record["key"])
                if key <= before:
                    self._refuse(f"the table for {target} is not in order")
                before = key
                for variant in record["variants"]:
                    for name in ("binary", "portable"):
                        if name not in variant:
                            continue
                        mark = Mark.of(variant[name])
                        if (target, mark) not in done:
                            left = self._less(left, mark.raw)
                            self.binary(target, variant[name])
                            done.add((target, mark))
                    yield target, variant
            for _, _, mark in self.call_records(target):
                left = self._less(left, mark.raw)
                self.binary(target, mark.json())

    def call_records(self, target: Target) -> Iterator[tuple[str, str, Mark]]:
        """Kernel, dtype and place of each call record for a target."""
        section = self.sections[target]
        if section.calls is None:
            return
        what = f"the table of call records for {target}"
        content = self._bytes(target, section.calls, None, what)
        try:
            yield from read_table(content)
        except ValueError as error:
            self._refuse(f"{what} cannot be read ({error})")

    def _less(self, left: int, nbytes: int) -> int:
        if nbytes > left:
            self._refuse(f"it unpacks to more than {most_unpacked(self.nbytes)} bytes")
        return left - nbytes

    def _record(self, target: Target, index: int) -> Mapping[str, Any]:
        return self._sized_record(target, index)[0]

    def _sized_record(self, target: Target, index: int) -> tuple[Mapping[str, Any], int]:
        table, dictionary = self._table(target)
        key, offset, size, raw, digest = ROW.unpack_from(table, index * ROW.size)
        place = {"offset": offset, "size": size, "raw": raw, "sha256": digest.hex()}
        try:
            mark = Mark.of(place, MOST_RECORD)
        except ValueError as error:
            self._refuse(f"a record for {target} is none: {error}")
        text = self._bytes(target, mark, dictionary, f"a record for {target}")
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._refuse(f"a record for {target} cannot be read ({error})")
        if not isinstance(record, dict) or record.get("key") != key.hex():
            self._refuse(f"a record for {target} stands in the place of another one")
        try:
            check_record(record)
        except ValueError as error:
            self._refuse(
                f"a record for {target} is not of the form that version {VERSION} has: {error}"
            )
        return record, raw

    def binary(self, target: Target, mark: Any) -> bytes:
        """The bytes that a record's mark stands for."""
        _, dictionary = self._table(target)
        try:
            checked = Mark.of(mark)
        except (ValueError, KeyError, TypeError) as error:
            self._refuse(f"a record for {target} cannot be read ({error})")
        return self._bytes(target, checked, dictionary, f"a binary for {target}")

    def close(self) -> None:
        self._file.close()
