"""Check the manifest and the records of a bundle.

This module has their shapes, and the limits that hold before memory is allocated.
docs/bundle-format.md describes both.

Nothing here trusts a file: content of any other shape is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .._values.types import Target
from .._values.value_classes import value_class

__all__ = [
    "MOST_BINARY",
    "MOST_DICTIONARY",
    "MOST_INDEX",
    "MOST_MANIFEST",
    "MOST_RECORD",
    "MOST_ROWS",
    "MOST_TARGETS",
    "MOST_VARIANTS",
    "Mark",
    "check_facts",
    "check_kernels",
    "check_record",
    "check_section",
    "most_unpacked",
    "target_of",
]

#: Bytes of the manifest, of a dictionary, and what a record and a binary unpack to. All kernels of
#: the catalog on 12 targets have a manifest of 0.2 MiB, records below 0.1 and binaries below 1.
MOST_MANIFEST: Final = 8 << 20
MOST_DICTIONARY: Final = 32 << 10
MOST_INDEX: Final = 1 << 20
MOST_RECORD: Final = 1 << 20
MOST_BINARY: Final = 64 << 20
#: Targets of a bundle, rows of all its tables together, variants of a record.
MOST_TARGETS: Final = 256
MOST_ROWS: Final = 1 << 18
MOST_VARIANTS: Final = 1024


def most_unpacked(nbytes: int) -> int:
    """Return how many bytes a bundle of `nbytes` may unpack to when all of it is read."""
    return MOST_BINARY + 256 * nbytes


@value_class(frozen=True, slots=True)
class Mark:
    """A range of bytes in a section, and its check values.

    The offset counts from the start of the section. The range has `size` bytes with that `sha256`,
    and they unpack to `raw` bytes."""

    offset: int
    size: int
    raw: int
    sha256: str

    @classmethod
    def of(cls, value: Any, most: int = MOST_BINARY) -> Mark:
        """Raises:
        ValueError: it is not a mark, or is one of more than `most` bytes.
        """
        names = {"offset", "size", "raw", "sha256"}
        if not isinstance(value, dict) or set(value) != names:
            raise ValueError("a mark has offset, size, raw and sha256, and nothing else")
        offset, size, raw = (_number(value[n], 1 << 62) for n in ("offset", "size", "raw"))
        sha256 = value["sha256"]
        if not isinstance(sha256, str) or len(sha256) != 64 or set(sha256) - set(_HEX):
            raise ValueError("a sha256 has 64 hexadecimal digits")
        if raw > most:
            raise ValueError(f"{raw} bytes are more than the {most} that there may be")
        if size > raw + raw // 1000 + 64:  # zlib adds less to what it cannot pack
            raise ValueError(f"{size} bytes are not a packed form of {raw}")
        return cls(offset, size, raw, sha256)

    def json(self) -> dict[str, Any]:
        return {"offset": self.offset, "size": self.size, "raw": self.raw, "sha256": self.sha256}


_HEX: Final = "0123456789abcdef"
_LONGEST: Final = 1 << 16  # characters of one word


def _number(value: Any, most: int = 1 << 31) -> int:
    if type(value) is not int or not 0 <= value < most:
        raise ValueError("a count, an offset or a size is not a number from 0 on")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError("a word is none")
    value.encode()  # half a surrogate pair cannot be printed
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("a list of words is none")
    return [_text(each) for each in value]


def _pairs(value: Any) -> None:
    if not isinstance(value, list) or any(len(_texts(pair)) != 2 for pair in value):
        raise ValueError("a list of pairs of words is none")


def target_of(value: Any) -> Target:
    """A target, written as targets are.

    Raises:
        ValueError: it is not.
        UnknownTargetError: it is none.
    """
    target = Target.parse(_text(value))
    if str(target) != value or not value.isascii():
        raise ValueError(f"{value[:80]!r} is not how a target is written")
    return target


def check_facts(manifest: Any) -> None:
    """The words of a manifest beside its targets.

    Raises:
        ValueError: one is not of its kind.
    """
    if not isinstance(manifest, dict) or not isinstance(manifest.get("targets"), list):
        raise ValueError("it has no list of targets")
    for name in ("format", "made_by", "inputs", "coverage", "depth"):
        _text(manifest.get(name, ""))
    _texts(manifest.get("dtypes", []))
    if len(manifest["targets"]) > MOST_TARGETS:
        raise ValueError(f"it has more than {MOST_TARGETS} targets")


def check_kernels(value: Any) -> Mapping[str, Any]:
    """Check the part of a manifest that lists a target's kernels.

    Raises:
        ValueError: it does not have the right form.
    """
    if not isinstance(value, dict):
        raise ValueError("what it says of its kernels is none")
    for name, kernel in value.items():
        _text(name)
        if not isinstance(kernel, dict):
            raise ValueError("what it says of a kernel is none")
        _texts(kernel.get("sources"))
        _texts(kernel.get("dtypes"))
        _number(kernel.get("variants"))
        _number(kernel.get("bytes"), 1 << 62)
    return value


def check_section(listed: Mapping[str, Any], target: Target) -> None:
    """Check the cache's description of a target's section, which has no position.

    Raises:
        ValueError: it does not have the right form.
    """
    if set(listed) - {"calls"} != {"target", "count", "dictionary", "table", "kernels"}:
        raise ValueError("it has other members")
    if listed["target"] != str(target):
        raise ValueError("it is another target's")
    _number(listed["count"], MOST_ROWS + 1)
    Mark.of(listed["dictionary"], MOST_DICTIONARY)
    Mark.of(listed["table"])
    if "calls" in listed:
        Mark.of(listed["calls"], MOST_RECORD)
    check_kernels(listed["kernels"])


def check_record(record: Mapping[str, Any]) -> None:
    """That a record's members have their types. What is in `artifact` is looked at when it is used.

    Raises:
        ValueError: they have not.
    """
    _pairs(record.get("parts"))
    _pairs(record.get("kernels"))
    _text(record.get("source"))
    _texts(record.get("valid_for", []))
    constants, variants = record.get("constants"), record.get("variants")
    if not isinstance(constants, dict) or not isinstance(variants, list):
        raise ValueError("it has no constants or no variants")
    for name, constant in constants.items():
        _text(name)
        _constant(constant)
    if len(variants) > MOST_VARIANTS:
        raise ValueError(f"it has {len(variants)} variants, more than {MOST_VARIANTS}")
    for variant in variants:
        if not isinstance(variant, dict) or not isinstance(variant.get("artifact"), dict):
            raise ValueError("a variant is none")
        _texts(variant.get("aligned"))
        Mark.of(variant.get("binary"))
        if type(variant.get("arch_specific", False)) is not bool:
            raise ValueError("a word for yes or no is neither")
        if not re.fullmatch("(sm_[0-9]{1,4})?", _text(variant.get("portable_arch", ""))):
            raise ValueError("the arch of a portable form is none")
        if "portable" in variant:
            Mark.of(variant["portable"])
            if variant.get("portable_format") != "ptx" or not variant.get("portable_arch"):
                raise ValueError("a portable form is none")


def _constant(value: Any) -> None:
    if isinstance(value, dict):
        if set(value) != {"dtype"}:
            raise ValueError("a constant is none")
        _text(value["dtype"])
    elif isinstance(value, list):
        for each in value:
            _constant(each)
    elif isinstance(value, str):
        _text(value)
