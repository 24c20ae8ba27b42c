"""How the parts of a section are packed: by zlib (formats 1 and 2) or zstd (format 3), either with
the section's dictionary."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

from .._cache.compression import zstd_module

__all__ = ["KINDS", "VERSION", "VERSION_ZSTD", "kind_of", "packer", "packing", "unpacker"]

KINDS: Final = ("zlib", "zstd")
#: What is written without zstd. Version 1 has no index before its manifest, and is still written
#: where there is nothing to put into it.
VERSION: Final = 2
VERSION_ZSTD: Final = 3
#: 9 takes seven times as long for 1.4 % less (2,025 binaries of five targets).
_ZLIB_LEVEL: Final = 7
#: 12 takes half the time for 7 % more; 22 gives no less (2,832 binaries of sm_90).
_ZSTD_LEVEL: Final = 19
#: Bytes of the shortest dictionary that Python's zstd takes.
_SHORTEST: Final = 8


def kind_of(version: int) -> str:
    return "zstd" if version >= VERSION_ZSTD else "zlib"


def packing(kind: str) -> str:
    """Return what decides a section's bytes beside its content.

    Raises:
        XTargetError: zstd is not installed.
    """
    if kind == "zlib":
        return f"{VERSION} {_ZLIB_LEVEL} zlib {zlib.ZLIB_RUNTIME_VERSION}"
    return f"{VERSION_ZSTD} {_ZSTD_LEVEL} zstd {zstd_module('packing takes').zstd_version}"


def packer(kind: str, dictionary: bytes) -> Callable[[bytes], bytes]:
    """A function that packs; equal bytes are equal packed.

    Raises:
        XTargetError: zstd is not installed.
    """
    if kind == "zstd":
        zstd = zstd_module("packing takes")
        words = _words(zstd, dictionary)
        return lambda raw: bytes(zstd.compress(raw, _ZSTD_LEVEL, zstd_dict=words))

    def pack(raw: bytes) -> bytes:
        made = zlib.compressobj(_ZLIB_LEVEL, zdict=dictionary)
        return made.compress(raw) + made.flush()

    return pack


def _words(zstd: Any, dictionary: bytes) -> Any:
    """The dictionary as content, whatever it begins with."""
    return zstd.ZstdDict(dictionary, is_raw=True) if len(dictionary) >= _SHORTEST else None


def unpacker(kind: str, what: str) -> Callable[[bytes, bytes, int], bytes]:
    """A function of packed bytes, dictionary and size that unpacks at most one byte more.

    It raises ValueError for what is damaged, cut, or followed by other bytes.

    Args:
        what: is packed, for the error.

    Raises:
        XTargetError: zstd is not installed.
    """
    zstd = zstd_module(f"{what} is packed by") if kind == "zstd" else None
    damage = zlib.error if zstd is None else zstd.ZstdError

    def unpack(packed: bytes, dictionary: bytes, size: int) -> bytes:
        reader: Any
        if zstd is None:
            reader = zlib.decompressobj(zdict=dictionary)
        else:  # a frame that asks for more memory than it unpacks to is refused
            longest = {zstd.DecompressionParameter.window_log_max: max(10, size.bit_length())}
            reader = zstd.ZstdDecompressor(_words(zstd, dictionary), longest)
        try:
            raw: bytes = reader.decompress(packed, size + 1)
        except damage as error:
            raise ValueError(f"cannot be unpacked ({error})") from error
        if not reader.eof or reader.unused_data:
            raise ValueError("is cut or followed by what does not belong to it")
        return raw

    return unpack
