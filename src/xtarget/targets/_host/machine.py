"""This machine: its CPU, for machine code that is kept, and where its shared libraries lie. None is
loaded: a broken one may block or print."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

__all__ = ["cpu_identity", "find_library_file"]

_LOADER_CACHE = Path("/etc/ld.so.cache")
_DEFAULT_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu")


def cpu_identity(
    switches: tuple[str, ...], without: Collection[str] = (), compilers: str = ""
) -> str:
    """The instruction sets of this machine, and what the environment says of a run time: machine
    code for one CPU may not run on another that the run time calls by the same name.

    Args:
        switches: how names of the run time's environment variables begin.
        without: those of them that do not change machine code.
        compilers: what makes the machine code.
    """
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = ""
    given = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(switches) and name not in without
    ]
    return sha256("\n".join([flags, compilers, *given]).encode()).hexdigest()[:16]


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
