"""Find a shared library without loading it: a broken one may block or print."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["find_library_file"]

_LOADER_CACHE = Path("/etc/ld.so.cache")
_DEFAULT_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu")


def find_library_file(name: str) -> str | None:
    """The place where the loader would find a library, or None.

    Looks where `dlopen` looks (ld.so(8)): libraries that are loaded already, LD_LIBRARY_PATH, the
    loader's cache, the default folders.
    """
    if not sys.platform.startswith("linux"):
        return name  # another loader's rules: let it try
    for line in _text(Path("/proc/self/maps")).splitlines():
        if line.endswith(f"/{name}"):
            return line[line.index("/") :]
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for folder in [*filter(None, folders), *_DEFAULT_FOLDERS]:
        path = Path(folder) / name
        if path.exists():
            return str(path)
    try:
        cached = _LOADER_CACHE.read_bytes()
    except OSError:
        cached = b""
    # the cache holds the paths as NUL-terminated strings
    for entry in cached.split(b"\0"):
        if entry.endswith(b"/" + name.encode()):
            return os.fsdecode(entry)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
