"""Look through a folder of entries without reading them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .._system import files

__all__ = ["Found", "arch_folders", "scan", "scan_folder"]


@dataclass(slots=True)
class Found:
    """An entry, as far as the listing of its folder shows it.

    Attributes:
        stamp: when it was last used (ns), 0 without a mark.
        joined: names of its files with / between them: a list each would be 100,000 more objects.
    """

    folder: str
    stem: str
    stamp: int = 0
    joined: str = ""

    @property
    def names(self) -> list[str]:
        return self.joined.split("/")

    @property
    def mark(self) -> Path:
        return Path(self.folder, f"{self.stem}.json")

    def measure(self) -> tuple[int, int]:
        """Bytes of its files, and when the newest of them was changed (ns)."""
        nbytes = newest = 0
        for name in self.names:
            with contextlib.suppress(OSError):
                status = os.lstat(f"{self.folder}/{name}")
                nbytes += status.st_size
                newest = max(newest, status.st_mtime_ns)
        return nbytes, newest

    @property
    def nbytes(self) -> int:
        return self.measure()[0]


def scan(base: Path) -> Iterator[Found]:
    """All entries below a folder, and files that belong to no entry. Files that vanish meanwhile
    are left out. Links are not followed."""
    if os.path.islink(base):
        return
    for folder in arch_folders(base):
        yield from scan_folder(folder)


def arch_folders(base: Path) -> Iterator[str]:
    """The folders in which entries lie: one for each arch of each vendor."""
    for vendor in _folders(str(base)):
        yield from _folders(vendor)


def _folders(path: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(path) as there:
        return sorted(
            e.path for e in there if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)
        )
    return []


def scan_folder(folder: str) -> Iterator[Found]:
    """The entries of one folder. Only marks are examined: most entries are asked for their stamps
    alone."""
    found: dict[str, Found] = {}
    others: list[str] = []
    with contextlib.suppress(OSError):
        # by descriptor: the kernel looks for a name in the folder, not for a path
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with os.scandir(descriptor) as there:
                for file in there:
                    name = file.name
                    if name.endswith(".json") and not name.startswith("."):
                        stem = name[:-5]
                        stamp = 0
                        with contextlib.suppress(OSError):
                            stamp = file.stat(follow_symlinks=False).st_mtime_ns
                        found[stem] = Found(folder, stem, stamp, name)
                    else:
                        others.append(name)
        finally:
            files.close(descriptor)
    for name in others:
        stem = name.partition(".")[0] or name  # a temporary file stands for itself
        entry = found.get(stem)
        if entry is None:
            found[stem] = Found(folder, stem, joined=name)
        else:
            entry.joined += "/" + name
    yield from found.values()
