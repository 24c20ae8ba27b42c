"""The size cap: how much is used without looking at every file, and what goes when it is too much.

Every writer appends eight bytes to `.usage`, the size of what it is about to write; the sum is an
estimate that errs upwards when a writer dies. Above the cap one process looks at all entries,
removes the least recently used ones, and writes the exact sum. The stamp of an entry is the
modification time of its mark, which every reader sets; access times are not looked at.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import files, lock, stats

__all__ = ["Found", "Usage", "lock_path", "make_room", "remove", "scan", "sweep"]

#: Down to this share of the cap, so that the next sweep is far away.
_KEEP: Final = 0.8
#: Files without a mark are what a killed writer left, once they are this old (seconds).
_ORPHANED: Final = 3600.0
_SWEEP_LOCK: Final = "sweep"
_WAIT_FOR_ROOM: Final = 3.0


def lock_path(base: Path, stem: str) -> Path:
    return base / ".locks" / f"{stem}.lock"


class Usage:
    """Bytes in use below a folder, as far as its `.usage` knows."""

    def __init__(self, base: Path, max_bytes: int | None) -> None:
        self.path = base / ".usage"
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._seen: tuple[int, int] = (0, 0)  # inode and length of what `_total` is the sum of
        self._total = 0

    def add(self, nbytes: int) -> tuple[int, int]:
        """Note what is going to be written.

        Returns:
            the sum of all notes, and which generation of notes this is: a sweep begins a new one.

        Raises:
            OSError: it cannot be written.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with self._lock:
            descriptor = files.patiently(os.open, self.path, flags, 0o600)
            try:
                if nbytes:
                    os.write(descriptor, nbytes.to_bytes(8, "little", signed=True))
                status = os.fstat(descriptor)
                if status.st_size <= 8 and nbytes:  # the first: count what lay there before it
                    before = sum(entry.nbytes for entry in scan(self.path.parent))
                    os.write(descriptor, before.to_bytes(8, "little", signed=True))
                    status = os.fstat(descriptor)
                inode, length = self._seen
                if inode != status.st_ino or length > status.st_size:
                    length, self._total = 0, 0
                new = os.pread(descriptor, status.st_size - length, length)
                new = new[: len(new) - len(new) % 8]
                self._total += sum(array.array("q", new))
                self._seen = status.st_ino, length + len(new)
            finally:
                os.close(descriptor)
            return self._total, status.st_ino

    def mark(self) -> int:
        """How many bytes of notes there are now."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    def reset(self, nbytes: int, mark: int) -> None:
        """Write the exact sum in place of the notes up to `mark`, keeping those made since."""
        try:
            since = self.path.read_bytes()[mark:]
        except FileNotFoundError:
            since = b""
        files.write(self.path, nbytes.to_bytes(8, "little", signed=True) + since)


@dataclass(slots=True)
class Found:
    """An entry as the folder shows it.

    Attributes:
        stamp: when it was last used (ns), 0 without a mark.
        newest: when one of its files was last changed (ns).
    """

    folder: str
    stem: str
    nbytes: int = 0
    stamp: int = 0
    newest: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def mark(self) -> Path:
        return Path(self.folder, f"{self.stem}.json")


def scan(base: Path) -> Iterator[Found]:
    """All entries below a folder, and files that belong to none. What vanishes is left out."""
    for vendor in _folders(str(base)):
        for arch in _folders(vendor):
            for kernel in _folders(arch):
                yield from _scan_folder(kernel)


def _folders(path: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(path) as there:
        return sorted(
            e.path for e in there if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)
        )
    return []


def _scan_folder(folder: str) -> Iterator[Found]:
    found: dict[str, Found] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as there:
        for file in there:
            name = file.name
            stem, _, suffix = name.partition(".")
            key = name if name.startswith(".") else stem
            try:
                status = file.stat(follow_symlinks=False)
            except OSError:
                continue
            entry = found.get(key)
            if entry is None:
                entry = found[key] = Found(folder, key)
            entry.names.append(name)
            entry.nbytes += status.st_size
            entry.newest = max(entry.newest, status.st_mtime_ns)
            if suffix == "json":
                entry.stamp = status.st_mtime_ns
    yield from found.values()


def sweep(base: Path, usage: Usage, max_bytes: int | None = None, room: int = 0) -> int | None:
    """Remove the least recently used entries until the rest fits; the number removed. None, at
    once, when another process is at it.

    Args:
        max_bytes: keep this much, instead of a part of the cap.
        room: bytes below the cap that shall be free.
    """
    cap = usage.max_bytes
    with lock.try_hold(lock_path(base, _SWEEP_LOCK)) as alone:
        if not alone:  # nobody ever waits for this lock
            return None
        goal = max_bytes
        if goal is None and cap is not None:
            goal = max(0, min(int(_KEEP * cap), cap - room))
        mark = usage.mark()
        entries = list(scan(base))
        total = sum(entry.nbytes for entry in entries)
        now, removed, freed = time.time_ns(), 0, 0
        for entry in entries:
            orphan = not entry.stamp and now - entry.newest > _ORPHANED * 1e9
            if orphan and remove(base, entry):
                total -= entry.nbytes
        if goal is not None and total > goal:
            # a stamp of the future (another host's clock) is as good as now
            entries = [entry for entry in entries if entry.stamp]
            entries.sort(key=lambda entry: min(entry.stamp, now))
            for entry in entries:
                if total <= goal:
                    break
                if remove(base, entry):
                    total -= entry.nbytes
                    freed += entry.nbytes
                    removed += 1
        with contextlib.suppress(OSError):
            usage.reset(total, mark)
    stats.count(evictions=removed, evicted_bytes=freed)
    return removed


def make_room(base: Path, usage: Usage, nbytes: int, cap: int) -> int | None:
    """Note that `nbytes` will be written, once they fit below the cap. Waits for another process
    that makes room, for a moment.

    Returns:
        the generation of the note, or None if there is no room to be had.

    Raises:
        OSError: as `Usage.add`.
    """
    total, generation = usage.add(nbytes)
    deadline, sweeps = time.monotonic() + _WAIT_FOR_ROOM, 0
    while total > cap:
        if sweeps == 2 or time.monotonic() > deadline:  # what is there is in use
            usage.add(-nbytes)
            return None
        if sweep(base, usage, room=nbytes) is None:
            time.sleep(0.01)
        else:
            sweeps += 1
        total, current = usage.add(0)
        if current != generation:  # our note went with the old ones
            total, generation = usage.add(nbytes)
    return generation


def remove(base: Path, entry: Found) -> bool:
    """Remove an entry unless somebody reads it, writes it, or has used it since it was found."""
    with lock.try_hold(lock_path(base, entry.stem.lstrip("."))) as alone:
        if not alone:
            return False
        descriptor = None
        try:
            if entry.stamp:
                descriptor, status = files.open_file(entry.mark)
                if status.st_mtime_ns != entry.stamp:
                    return False
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_mtime_ns != entry.stamp:
                    return False
            # the mark first: without it there is no entry
            for name in sorted(entry.names, key=lambda name: not name.endswith(".json")):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(entry.folder, name))
        except OSError:
            return False
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return True
