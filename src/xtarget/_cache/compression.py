"""Bytes packed by gzip or zstd, and unpacked with a limit."""

from __future__ import annotations

import gzip
import importlib
import io
from typing import Any, Final

from .._values.errors import XTargetError

__all__ = ["KINDS", "pack", "unpack", "zstd_module"]

#: Ways to pack; the word is what OCI's media types end in.
KINDS: Final = ("gzip", "zstd")
_INSTALL: Final = 'pip install "xtarget[zstd]"'
#: Of zstd's 22: binaries shrink little beyond it.
_LEVEL: Final = 12
_BEGINS: Final = b"\x28\xb5\x2f\xfd"


def zstd_module(why: str) -> Any:
    """Python's own module from 3.14 on, or its backport.

    Raises:
        XTargetError: there is neither.
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name.partition(".")[0] != (error.name or "").partition(".")[0]:
                raise
    raise XTargetError(f"{why} zstd, which Python has from 3.14 on. Install it with: {_INSTALL}")


def pack(data: bytes, kind: str) -> bytes:
    """The bytes packed; equal bytes are equal packed.

    Raises:
        XTargetError: zstd is not installed.
    """
    if kind == "gzip":
        return gzip.compress(data, mtime=0)
    packed: bytes = zstd_module("packing takes").compress(data, _LEVEL)
    return packed


def unpack(data: bytes, most: int) -> bytes:
    """Return what was packed by either.

    Raises:
        ValueError: it unpacks to more than `most` bytes, or is damaged.
        EOFError, OSError: it is damaged.
        XTargetError: it is packed by zstd, which is not installed.
    """
    if not data.startswith(_BEGINS):
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
            plain = unpacked.read(most + 1)
    else:
        zstd = zstd_module("this is packed by")
        try:
            with zstd.ZstdFile(io.BytesIO(data)) as unpacked:
                plain = unpacked.read(most + 1)
        except zstd.ZstdError as error:
            raise ValueError(f"zstd: {error}") from error
    if len(plain) > most:
        raise ValueError(f"it unpacks to more than {most} bytes")
    return plain
