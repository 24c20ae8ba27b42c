"""The bytes of a bundle (`.xtb`): docs/bundle-format.md says what each of them means.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from ._errors import LoadError
from ._types import Target

__all__ = ["HEADER", "MAGIC", "VERSION", "BundleFile", "Entry", "Mark", "Section", "write_bundle"]

#: Not text, and damaged by whatever converts line ends or strips the eighth bit (as PNG's).
MAGIC: Final = b"\x89xtb\r\n\x1a\n"
VERSION: Final = 1
#: magic, version, header size, file size, manifest offset, size and sha256, signature offset, size
HEADER: Final = struct.Struct("<8sIIQQQ32sQQ")
#: One row of a table: sha256 of the class's key, offset, packed size, size, sha256 of the record.
_ROW: Final = struct.Struct("<32sQII32s")
_MOST_MANIFEST: Final = 16 << 20
_MOST_RAW: Final = 256 << 20
#: Ed25519: public key and signature.
_SIGNATURE: Final = 32 + 64
_DICTIONARY: Final = 32 << 10  # zlib's window; a longer dictionary is not looked at


@dataclass(frozen=True, slots=True)
class Mark:
    """Where some bytes are (from the end of the manifest on), and what they must be: `size` bytes
    of that `sha256`, which unpack to `raw` bytes."""

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
    """What a bundle holds for one target: the manifest's words, checked."""

    target: Target
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
                    self._inside(Mark.of(part["dictionary"])),
                    self._inside(Mark.of(part["table"])),
                    int(part["count"]),
                    dict(part["kernels"]),
                )
                if section.table.size != section.count * _ROW.size or section.target in sections:
                    raise ValueError(f"its part for {section.target} contradicts itself")
                if section.table.raw != section.table.size:
                    raise ValueError("a table is never packed")
                sections[section.target] = section
        except LoadError:
            raise
        except Exception as error:  # JSON of any shape, and no shape is trusted
            self._refuse(f"its manifest cannot be read ({type(error).__name__}: {error})")
        return manifest, sections

    def _inside(self, mark: Mark) -> Mark:
        if mark.offset + mark.size > self.end - self.base:
            self._refuse(
                f"a part of it (from {mark.offset}, {mark.size} bytes) lies outside the file"
            )
        return mark

    def _bytes(self, mark: Mark, dictionary: bytes | None, what: str) -> bytes:
        """Checked and unpacked; `dictionary` None is for what is never packed."""
        self._inside(mark)
        raw = self._data[self.base + mark.offset : self.base + mark.offset + mark.size]
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
                self._bytes(section.table, None, f"the table for {target}"),
                self._bytes(section.dictionary, None, f"the dictionary for {target}"),
            )
            self._tables[target] = found
        return found

    def record(self, target: Target, key: bytes) -> Mapping[str, Any] | None:
        """The record of a class for a target, or None."""
        table, _ = self._table(target)
        low, high = 0, len(table) // _ROW.size
        while low < high:
            middle = (low + high) // 2
            if table[middle * _ROW.size : middle * _ROW.size + 32] < key:
                low = middle + 1
            else:
                high = middle
        if table[low * _ROW.size : low * _ROW.size + 32] != key:
            return None
        return self._record(target, low)

    def records(self, target: Target) -> Iterator[Mapping[str, Any]]:
        """Every record for a target."""
        for index in range(self.sections[target].count):
            yield self._record(target, index)

    def _record(self, target: Target, index: int) -> Mapping[str, Any]:
        table, dictionary = self._table(target)
        key, offset, size, raw, digest = _ROW.unpack_from(table, index * _ROW.size)
        if raw > _MOST_RAW:
            self._refuse("a record is said to be larger than any record is")
        mark = Mark(offset, size, raw, digest.hex())
        text = self._bytes(mark, dictionary, f"a record for {target}")
        try:
            record = json.loads(text)
        except ValueError as error:
            self._refuse(f"a record for {target} cannot be read ({error})")
        if not isinstance(record, dict) or record.get("key") != key.hex():
            self._refuse(f"a record for {target} stands in the place of another one")
        return record

    def binary(self, target: Target, mark: Any) -> bytes:
        """The bytes that a record's mark stands for."""
        _, dictionary = self._table(target)
        try:
            checked = Mark.of(mark)
        except (ValueError, KeyError, TypeError) as error:
            self._refuse(f"a record for {target} cannot be read ({error})")
        return self._bytes(checked, dictionary, f"a binary for {target}")

    def close(self) -> None:
        self._data.close()


# ---------------------------------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True)
class Entry:
    """A class of specializations: its key, its record without marks, and each variant's bytes by
    the name under which the record's variant gets their mark."""

    key: bytes
    record: Mapping[str, Any]
    binaries: Sequence[Mapping[str, bytes]]


def _dictionary(entries: Sequence[Entry]) -> bytes:
    """What zlib may refer back to: small binaries of many kernels, the records' words last, where
    references are shortest."""
    texts = [_text(entry.record) for entry in entries[:: max(1, len(entries) // 6)]]
    tail = b"".join(texts)[-_DICTIONARY // 4 :]
    samples: list[bytes] = []
    room = _DICTIONARY - len(tail)
    binaries = sorted({b for e in entries for v in e.binaries for b in v.values()}, key=_by_size)
    for binary in binaries[:: max(1, len(binaries) // 12)]:
        if len(binary) <= room:
            samples.append(binary)
            room -= len(binary)
    return b"".join([*reversed(samples), tail])


def _by_size(binary: bytes) -> tuple[int, bytes]:
    return len(binary), binary


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class _Body:
    """What comes behind the manifest, as it grows. Equal binaries are kept once for a target."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, raw: bytes, dictionary: bytes | None = None) -> Mark:
        packed = raw
        if dictionary is not None:
            packer = zlib.compressobj(9, zdict=dictionary)
            packed = packer.compress(raw) + packer.flush()
        mark = Mark(self.size, len(packed), len(raw), hashlib.sha256(packed).hexdigest())
        self.parts.append(packed)
        self.size += len(packed)
        return mark


def write_bundle(
    facts: Mapping[str, Any],
    targets: Mapping[Target, tuple[Mapping[str, Any], Sequence[Entry]]],
    sign: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """The bytes of a bundle: the same for the same content, in whatever order it was made.

    Args:
        facts: further members of the manifest.
        targets: what the manifest says of each target's kernels, and the target's entries.
        sign: from the header to the signature.
    """
    body = _Body()
    listed = []
    for target in sorted(targets):
        kernels, entries = targets[target]
        entries = sorted(entries, key=lambda entry: entry.key)
        dictionary = _dictionary(entries)
        where = body.add(dictionary)
        seen: dict[bytes, Mark] = {}
        rows = []
        for entry in entries:
            variants = []
            for variant, binaries in zip(entry.record["variants"], entry.binaries, strict=True):
                marks = {}
                for name, binary in sorted(binaries.items()):
                    if binary not in seen:
                        seen[binary] = body.add(binary, dictionary)
                    marks[name] = seen[binary].json()
                variants.append({**variant, **marks})
            record = {**entry.record, "key": entry.key.hex(), "variants": variants}
            mark = body.add(_text(record), dictionary)
            sha = bytes.fromhex(mark.sha256)
            rows.append(_ROW.pack(entry.key, mark.offset, mark.size, mark.raw, sha))
        table = body.add(b"".join(rows))
        listed.append(
            {
                "target": str(target),
                "count": len(rows),
                "dictionary": where.json(),
                "table": table.json(),
                "kernels": kernels,
            }
        )
    manifest = json.dumps({**facts, "targets": listed}, indent=1, sort_keys=True).encode() + b"\n"
    base = HEADER.size + len(manifest)
    digest = hashlib.sha256(manifest).digest()

    def header(signature: int) -> bytes:
        end = base + body.size
        place = (end if signature else 0, signature)
        return HEADER.pack(
            MAGIC, VERSION, HEADER.size, end + signature, HEADER.size, len(manifest), digest, *place
        )

    if sign is None:
        return b"".join([header(0), manifest, *body.parts])
    size = len(sign(header(0)))  # a signature's size does not depend on what is signed
    first = header(size)
    return b"".join([first, manifest, *body.parts, sign(first)])
