"""Reading a bundle (`.xtb`): docs/bundle-format.md says what each of its bytes means, and
`_bundle_write` writes them.

The file is mapped, not read. Every offset and size is checked before it is used and every part has
its sha256 in the part above it, so nothing is believed before it was checked: header → manifest →
table → record → binary.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from ._errors import LoadError
from ._types import Target

__all__ = ["HEADER", "MAGIC", "ROW", "VERSION", "BundleFile", "Mark", "Section"]

#: Not text, and damaged by whatever converts line ends or strips the eighth bit (as PNG's).
MAGIC: Final = b"\x89xtb\r\n\x1a\n"
VERSION: Final = 1
#: magic, version, header size, file size, manifest offset, size and sha256, signature offset, size
HEADER: Final = struct.Struct("<8sIIQQQ32sQQ")
#: One row of a table: sha256 of the class's key, offset, packed size, size, sha256 of the record.
ROW: Final = struct.Struct("<32sQII32s")
_MOST_MANIFEST: Final = 16 << 20
_MOST_RAW: Final = 256 << 20
#: Ed25519: public key and signature.
_SIGNATURE: Final = 32 + 64


@dataclass(frozen=True, slots=True)
class Mark:
    """Where some bytes are (from the start of their section on), and what they must be: `size`
    bytes of that `sha256`, which unpack to `raw` bytes."""

    offset: int
    size: int
    raw: int
    sha256: str

    @classmethod
    def of(cls, value: Any) -> Mark:
        offset, size, raw, sha256 = (value[n] for n in ("offset", "size", "raw", "sha256"))
        numbers = (offset, size, raw)
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in numbers):
            raise ValueError("an offset or size is not a number from 0 on")
        if not isinstance(sha256, str) or len(sha256) != 64:
            raise ValueError("a sha256 has not 64 digits")
        if raw > _MOST_RAW:
            raise ValueError(f"{raw} bytes are more than any binary has")
        return cls(offset, size, raw, sha256)

    def json(self) -> dict[str, Any]:
        return {"offset": self.offset, "size": self.size, "raw": self.raw, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class Section:
    """What a bundle holds for one target: the manifest's words, checked.

    Attributes:
        start, size: its part of the file.
    """

    target: Target
    start: int
    size: int
    dictionary: Mark
    table: Mark
    count: int
    kernels: Mapping[str, Any]


class BundleFile:
    """An opened bundle.

    Raises:
        LoadError: from every member, for a file that is not what it says of itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                if not path.stat().st_size:
                    self._refuse("it is empty")
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise LoadError(
                f"the bundle {path} cannot be opened: {error.strerror or error}. Give the path of "
                "a file that `xtarget bundle build` wrote."
            ) from error
        self._tables: dict[Target, tuple[bytes, bytes]] = {}
        self._read_header()
        self.manifest, self.sections = self._read_manifest()

    def _refuse(self, why: str) -> NoReturn:
        raise LoadError(
            f"the bundle {self.path} is refused: {why}. Copy it again from where it was built, or "
            "build it again."
        )

    def _read_header(self) -> None:
        data = self._data
        if data[: len(MAGIC)] != MAGIC:
            self._refuse("it is no bundle, it does not begin with the mark of one")
        if len(data) < HEADER.size:
            self._refuse(f"it has {len(data)} bytes, less than a header")
        _, version, own, size, offset, length, digest, sig_at, sig_size = HEADER.unpack_from(data)
        if version > VERSION:
            raise LoadError(
                f"the bundle {self.path} has format version {version}; this xtarget reads versions "
                f"up to {VERSION}. Update xtarget, or build the bundle with this one."
            )
        if version != VERSION or own != HEADER.size:
            self._refuse(f"its header says version {version} and {own} bytes of header")
        if size != len(data):
            self._refuse(f"it has {len(data)} bytes and was written with {size}")
        if offset != own or length > min(_MOST_MANIFEST, size - own):
            self._refuse("its manifest is said to lie outside the file")
        if sig_size not in (0, _SIGNATURE):
            self._refuse(f"its signature is said to have {sig_size} bytes, not {_SIGNATURE}")
        self.base = offset + length
        if sig_at + sig_size != (size if sig_size else 0) or (sig_size and sig_at < self.base):
            self._refuse("its signature is said to lie where none can be")
        self.end = sig_at if sig_size else size
        self.signed, self.signature = bytes(data[:own]), bytes(data[self.end : size])
        self._manifest = bytes(data[offset : self.base])
        if hashlib.sha256(self._manifest).digest() != digest:
            self._refuse("its manifest has another sha256 than when it was written")

    def _read_manifest(self) -> tuple[Mapping[str, Any], Mapping[Target, Section]]:
        try:
            manifest = json.loads(self._manifest)
            sections = {}
            for part in manifest["targets"]:
                section = Section(
                    Target.parse(part["target"]),
                    *self._part(part["offset"], part["size"]),
                    Mark.of(part["dictionary"]),
                    Mark.of(part["table"]),
                    int(part["count"]),
                    dict(part["kernels"]),
                )
                if not all(map(_is_kernel, section.kernels.values())):
                    raise ValueError("what it says of a kernel is not of the form that it has")
                self._inside(section, section.dictionary)
                self._inside(section, section.table)
                if section.table.size != section.count * ROW.size or section.target in sections:
                    raise ValueError(f"its part for {section.target} contradicts itself")
                if section.table.raw != section.table.size:
                    raise ValueError("a table is never packed")
                sections[section.target] = section
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

    def _part(self, offset: Any, size: Any) -> tuple[int, int]:
        """Where a section is in the file."""
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
        raw = self._data[section.start + mark.offset : section.start + mark.offset + mark.size]
        # of the packed bytes: nothing that was not written is unpacked
        if hashlib.sha256(raw).hexdigest() != mark.sha256:
            self._refuse(f"{what} has another sha256 than when it was written")
        if dictionary is not None:
            try:
                unpack = zlib.decompressobj(zdict=dictionary)
                raw = unpack.decompress(raw, mark.raw + 1)
            except zlib.error as error:
                self._refuse(f"{what} cannot be unpacked ({error})")
            if not unpack.eof or unpack.unused_data:
                self._refuse(f"{what} is cut or followed by what does not belong to it")
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
        for index in range(self.sections[target].count):
            yield self._record(target, index)

    def _record(self, target: Target, index: int) -> Mapping[str, Any]:
        table, dictionary = self._table(target)
        key, offset, size, raw, digest = ROW.unpack_from(table, index * ROW.size)
        if raw > _MOST_RAW:
            self._refuse("a record is said to be larger than any record is")
        mark = Mark(offset, size, raw, digest.hex())
        text = self._bytes(target, mark, dictionary, f"a record for {target}")
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._refuse(f"a record for {target} cannot be read ({error})")
        if not isinstance(record, dict) or record.get("key") != key.hex():
            self._refuse(f"a record for {target} stands in the place of another one")
        if not _is_record(record):
            self._refuse(f"a record for {target} is not of the form that version {VERSION} has")
        return record

    def binary(self, target: Target, mark: Any) -> bytes:
        """The bytes that a record's mark stands for."""
        _, dictionary = self._table(target)
        try:
            checked = Mark.of(mark)
        except (ValueError, KeyError, TypeError) as error:
            self._refuse(f"a record for {target} cannot be read ({error})")
        return self._bytes(target, checked, dictionary, f"a binary for {target}")

    def close(self) -> None:
        self._data.close()


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_kernel(value: Any) -> bool:
    """Whether it is what a manifest says of one kernel."""
    return (
        isinstance(value, dict)
        and all(_texts(value.get(name)) for name in ("sources", "dtypes"))
        and all(type(value.get(name)) is int for name in ("variants", "bytes"))
    )


def _is_record(record: Mapping[str, Any]) -> bool:
    """Whether its members have their types; what is in `artifact` is looked at when it is used."""
    pairs = [record.get(name) for name in ("parts", "kernels")]
    variants = record.get("variants")
    return (
        all(isinstance(p, list) and all(_texts(t) and len(t) == 2 for t in p) for p in pairs)
        and isinstance(record.get("source"), str)
        and isinstance(record.get("constants"), dict)
        and isinstance(variants, list)
        and all(
            isinstance(v, dict)
            and _texts(v.get("aligned"))
            and isinstance(v.get("artifact"), dict)
            and isinstance(v.get("binary"), dict)
            for v in variants
        )
    )
