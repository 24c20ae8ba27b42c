"""Files that travel in a unit: on the worker, a folder with their content."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path

from .._system import files
from .._system.scratch import Folder
from .._values.errors import XTargetError

__all__ = ["MOST_BYTES", "are_here", "digest_of", "laid"]

#: Of a file that travels.
MOST_BYTES = 64 << 20
#: The folders of files that came, by the digest of these.
_folders: dict[str, Folder] = {}
_guard = threading.Lock()


def digest_of(contents: Mapping[str, bytes]) -> str:
    """sha256 (hex) of names and contents."""
    total = hashlib.sha256()
    for name, content in sorted(contents.items()):
        total.update(f"{len(name)}:{name}:{len(content)}:".encode() + content)
    return total.hexdigest()


def are_here(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether this machine has equal files at the same place."""
    try:
        return all(
            files.read_regular(folder / name, MOST_BYTES) == content
            for name, content in contents.items()
        )
    except OSError:
        return False


def laid(contents: Mapping[str, bytes]) -> Path:
    """A folder with these files, which lives as long as this process.

    Raises:
        XTargetError: a name leads out of it.
    """
    digest = digest_of(contents)
    with _guard:
        if digest not in _folders:
            folder = Folder("unit")
            for name, content in contents.items():
                path = folder.path / name
                if not path.resolve().is_relative_to(folder.path.resolve()):
                    raise XTargetError(f"a unit names the file {name!r}, outside of its folder.")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            _folders[digest] = folder
        return _folders[digest].path
