"""Writing a bundle: docs/bundle-format.md says what each byte means, `_bundle.format` reads them.

A section, what there is for one target, does not depend on where it lies or on the other ones: it
is made alone, and kept to be used again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from .._values.errors import CompileError
from .._values.types import Target
from .._values.value_classes import value_class
from .calls import CallRecord, index_of, table_of
from .format import HEADER, MAGIC, ROW
from .manifest import MOST_BINARY, MOST_RECORD, MOST_ROWS, MOST_VARIANTS, Mark
from .packing import VERSION, VERSION_ZSTD, packer

__all__ = ["Entry", "Packed", "pack_section", "write_bundle"]

_DICTIONARY: Final = 32 << 10  # zlib's window; a longer dictionary is not looked at


@value_class(frozen=True, slots=True)
class Entry:
    """A class of specializations: its key, its record without marks, and each variant's bytes by
    the name under which the record's variant gets their mark."""

    key: bytes
    record: Mapping[str, Any]
    binaries: Sequence[Mapping[str, bytes]]


@value_class(frozen=True, slots=True)
class Packed:
    """A section: what the manifest says of it but for its place, and its bytes."""

    listed: Mapping[str, Any]
    content: bytes


def _dictionary(entries: Sequence[Entry]) -> bytes:
    """Return the dictionary that parts are packed with.

    It holds small binaries of many kernels. The words of the records come last, where
    back-references are shortest."""
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
    """A section's bytes, as they grow."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, stored: bytes, raw: int | None = None) -> Mark:
        """Put bytes at the end; `raw` is what they unpack to, if they are packed."""
        sha256 = hashlib.sha256(stored).hexdigest()
        mark = Mark(self.size, len(stored), len(stored) if raw is None else raw, sha256)
        self.parts.append(stored)
        self.size += len(stored)
        return mark


def pack_section(
    target: Target,
    kernels: Mapping[str, Any],
    entries: Iterable[Entry],
    calls: Sequence[CallRecord] = (),
    compression: str = "zlib",
) -> Packed:
    """The same bytes for the same entries, in whatever order they were made.

    Args:
        kernels: what the manifest says of the target's kernels.
        calls: how their calls are made without Python.
        compression: `zlib` or `zstd`.

    Raises:
        XTargetError: zstd is not installed.
    """
    entries = sorted(entries, key=lambda entry: entry.key)
    dictionary = _dictionary(entries)
    pack = packer(compression, dictionary)
    body = _Body()
    where = body.add(dictionary)
    # equal binaries are kept once
    distinct = dict.fromkeys(b for e in entries for v in e.binaries for _, b in sorted(v.items()))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # both let other threads run
        packed = pool.map(pack, distinct)
        marks = {raw: body.add(p, len(raw)).json() for raw, p in zip(distinct, packed, strict=True)}
        texts = []
        for entry in entries:
            variants = [
                {**variant, **{name: marks[binary] for name, binary in binaries.items()}}
                for variant, binaries in zip(entry.record["variants"], entry.binaries, strict=True)
            ]
            texts.append(_text({**entry.record, "key": entry.key.hex(), "variants": variants}))
        rows = []
        _check_sizes(target, texts, distinct)
        _check_variants(target, entries)
        for entry, text, p in zip(entries, texts, pool.map(pack, texts), strict=True):
            mark = body.add(p, len(text))
            sha256 = bytes.fromhex(mark.sha256)
            rows.append(ROW.pack(entry.key, mark.offset, mark.size, mark.raw, sha256))
    table = body.add(b"".join(rows))
    listed = {
        "target": str(target),
        "count": len(rows),
        "dictionary": where.json(),
        "table": table.json(),
        "kernels": kernels,
    }
    if calls:
        places = []
        for call in sorted(calls, key=lambda call: (call.kernel, call.dtype)):
            raw = call.encode(lambda binary: Mark.of(marks[binary]))
            _check_sizes(target, [raw], ())
            places.append((call.kernel, call.dtype, body.add(pack(raw), len(raw))))
        listed["calls"] = body.add(table_of(places)).json()
    return Packed(listed, b"".join(body.parts))


def _check_sizes(target: Target, records: Sequence[bytes], binaries: Iterable[bytes]) -> None:
    """That a reader will take it.

    Raises:
        CompileError: it is larger than bundles are.
    """
    for what, most, sizes in (
        ("a record", MOST_RECORD, map(len, records)),
        ("a binary", MOST_BINARY, map(len, binaries)),
    ):
        largest = max(sizes, default=0)
        if largest > most:
            raise CompileError(
                f"{what} for {target} has {largest} bytes, and a bundle takes {most}. Leave that "
                "kernel out with --kernel."
            )
    if len(records) > MOST_ROWS:
        raise CompileError(
            f"there are {len(records)} classes for {target}, and a bundle takes {MOST_ROWS}. Build "
            "several bundles."
        )


def _check_variants(target: Target, entries: Iterable[Entry]) -> None:
    """That a reader will take it.

    Raises:
        CompileError: a class has more variants than bundles take.
    """
    for entry in entries:
        count = len(entry.record["variants"])
        if count > MOST_VARIANTS:
            raise CompileError(
                f"{entry.record['source']} for {target} has {count} variants of one class, and a "
                f"bundle takes {MOST_VARIANTS}. Leave that kernel out with --kernel."
            )


def write_bundle(
    facts: Mapping[str, Any],
    sections: Iterable[Packed],
    sign: Callable[[bytes], bytes] | None = None,
    compression: str = "zlib",
) -> bytes:
    """The bytes of a bundle, the same in whatever order its sections come.

    Args:
        facts: further members of the manifest.
        sign: from the header to the signature.
        compression: what all the sections are packed by.
    """
    ordered = sorted(sections, key=lambda section: str(section.listed["target"]))
    listed, size = [], 0
    for section in ordered:
        listed.append({**section.listed, "offset": size, "size": len(section.content)})
        size += len(section.content)
    manifest = json.dumps({**facts, "targets": listed}, indent=1, sort_keys=True).encode() + b"\n"
    index = index_of(listed)
    version = VERSION_ZSTD if compression == "zstd" else VERSION if index else 1
    start = HEADER.size + len(index)
    base = start + len(manifest)
    digest = hashlib.sha256(index + manifest).digest()

    def header(signature: int) -> bytes:
        end = base + size
        place = (end if signature else 0, signature)
        return HEADER.pack(
            MAGIC, version, HEADER.size, end + signature, start, len(manifest), digest, *place
        )

    body = b"".join([index, manifest, *(section.content for section in ordered)])
    if sign is None:
        return header(0) + body
    first = header(len(sign(header(0))))  # a signature's size does not depend on what is signed
    return first + body + sign(first)
