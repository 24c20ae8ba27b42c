"""The size cap: how much is used without looking at every file, and what goes when it is too much.

Every writer appends eight bytes to `.usage`, the size of what it is about to write; the sum is an
estimate that errs upwards when a writer dies. Above the cap one process looks at all entries,
removes the least recently used ones, and notes what that freed. The stamp of an entry is the
modification time of its mark, which every reader sets; access times are not looked at.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import files, lock
from .counters import count

__all__ = [
    "Found",
    "Usage",
    "lock_path",
    "make_room",
    "remove",
    "remove_all",
    "scan",
    "sweep",
    "writers_path",
]

#: Down to this share of the cap, so that the next sweep is far away.
_KEEP: Final = 0.8
#: Files without a mark are what a killed writer left, once they are this old (seconds).
_ORPHANED: Final = 3600.0
#: Up to so many entries a sweep measures them all; above, it goes by the notes, which the next
#: `xtarget cache prune` makes exact.
_EXACT: Final = 20_000
#: Bytes of notes; more are no notes of ours, or nobody has swept for a million writes.
_MOST_NOTES: Final = 8 << 20
#: Names that entries, their files while they are written, and nothing else in a folder have.
_OURS: Final = re.compile(
    r"\w{1,80}-(?:[a-z]{1,10}-)?[0-9a-f]{24}|\.[\w-]{1,130}\.[A-Za-z0-9]{1,16}\.[0-9a-f]{12}",
    re.ASCII,
)
_SWEEP_LOCK: Final = "sweep"
#: Seconds for which entries are removed while nobody writes, and how long that is waited for.
_SLICE: Final = 0.02
_FOR_WRITERS: Final = 0.05
_WAIT_FOR_ROOM: Final = 3.0
#: Threads that remove entries: a disk's waits for its journal overlap (10,000 of 100,000 entries on
#: ext4: 2.1 s with one thread, 1.5 with four).
_REMOVERS: Final = 4
_FEW: Final = 100


def lock_path(base: Path, stem: str) -> Path:
    return base / ".locks" / f"{stem}.lock"


def writers_path(base: Path) -> Path:
    """The lock that writers share, and that who removes entries has alone for a slice."""
    return base / ".locks" / "writers"


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
                if status.st_size > _MOST_NOTES:
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, nbytes.to_bytes(8, "little", signed=True))
                    status, self._seen = os.fstat(descriptor), (0, 0)
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
                files.close(descriptor)
            return self._total, status.st_ino

    def mark(self) -> int:
        """How many bytes of notes there are now."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    def reset(self, nbytes: int, mark: int) -> None:
        """Write the exact sum in place of the notes up to `mark`, keeping those made since."""
        since = b""
        with contextlib.suppress(FileNotFoundError):
            descriptor, status = files.open_file(self.path)
            try:
                if mark < status.st_size <= _MOST_NOTES:
                    since = os.pread(descriptor, status.st_size - mark, mark)
            finally:
                files.close(descriptor)
        files.write(self.path, nbytes.to_bytes(8, "little", signed=True) + since)


@dataclass(slots=True)
class Found:
    """An entry as the folder shows it.

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
    """All entries below a folder, and files that belong to none. What vanishes is left out, and
    nothing is looked for behind a link."""
    if os.path.islink(base):
        return
    for vendor in _folders(str(base)):
        for arch in _folders(vendor):
            yield from _scan_folder(arch)


def _folders(path: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(path) as there:
        return sorted(
            e.path for e in there if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)
        )
    return []


def _scan_folder(folder: str) -> Iterator[Found]:
    """Looks at the marks only: their stamps are all that most of the entries are asked for."""
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
        collects = gc.isenabled()
        gc.disable()  # it would walk through 100,000 new objects again and again: half of the time
        try:
            entries = list(scan(base))
        finally:
            if collects:
                gc.enable()
        now, removed, freed = time.time_ns(), 0, 0
        marked = []
        for entry in entries:
            if entry.stamp:
                marked.append(entry)
            elif now - entry.measure()[1] > _ORPHANED * 1e9:
                remove(base, entry)
        if max_bytes is not None or len(entries) <= _EXACT:
            total = sum(entry.nbytes for entry in scan(base))
        else:
            mark = usage.mark()
            total = usage.add(0)[0]
        with contextlib.suppress(OSError):
            usage.reset(total, mark)
            if len(entries) <= _EXACT:
                # a writer that finished between the count and the new notes is in neither
                missed = sum(entry.nbytes for entry in scan(base)) - usage.add(0)[0]
                if missed > 0:
                    total = usage.add(missed)[0]
        if goal is not None and total > goal:
            # a stamp of the future (another host's clock) is as good as now
            marked.sort(key=lambda entry: min(entry.stamp, now))
            told = 0

            def tell(freed: int) -> None:  # writers who wait for room go on
                nonlocal told
                with contextlib.suppress(OSError):
                    usage.add(told - freed)
                    told = freed

            removed, freed = remove_all(base, marked, total - goal, tell)
    count(evictions=removed, evicted_bytes=freed)
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


def remove_all(
    base: Path,
    entries: Iterable[Found],
    goal: int | None = None,
    tell: Callable[[int], None] = lambda freed: None,
) -> tuple[int, int]:
    """Remove entries, in slices between which others write.

    Args:
        goal: stop when so many bytes are free.
        tell: called after each slice with the bytes that are free by then.

    Returns:
        the number of entries removed, and their bytes.
    """
    from concurrent.futures import ThreadPoolExecutor, wait  # a start without evictions goes on

    chosen = list(entries)
    rest, removed, freed = iter(chosen), 0, 0
    # of few entries, not one goes that need not
    removers = _REMOVERS if len(chosen) > _FEW else 1

    def some(end: float, alone: bool) -> bool:
        """Remove one, and more until then; False when nothing is left to do. What is freed above
        the goal is an entry of each thread at most.
        """
        nonlocal removed, freed
        while goal is None or freed < goal:
            with counting:
                entry = next(rest, None)
            if entry is None:
                return False
            nbytes = remove(base, entry, alone=alone)
            if nbytes is not None:
                with counting:
                    removed, freed = removed + 1, freed + nbytes
            if time.monotonic() > end:
                return goal is None or freed < goal
        return False

    counting, more = threading.Lock(), True
    with ThreadPoolExecutor(removers, "xtarget-evict") as threads:
        while more:
            with lock.brief(writers_path(base), fcntl.LOCK_EX, _FOR_WRITERS) as alone:
                end = time.monotonic() + _SLICE
                slices = [threads.submit(some, end, alone) for _ in range(removers)]
                wait(slices)  # all of them, before writers go on
                more = all(each.result() for each in slices)
            tell(freed)
    return removed, freed


def remove(base: Path, entry: Found, *, alone: bool = False) -> int | None:
    """Remove an entry; the bytes that are free now. None, and nothing is done, if somebody reads
    it, writes it, or has used it since it was found.

    Args:
        alone: nobody writes now.
    """
    if alone:
        return _unlink(entry)
    with lock.try_hold(lock_path(base, entry.stem.lstrip("."))) as held:
        return _unlink(entry) if held else None


def _unlink(entry: Found) -> int | None:
    if not _OURS.fullmatch(entry.stem):  # the folder is somebody else's too
        return None
    descriptor = None
    try:
        if entry.stamp:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(f"{entry.folder}/{entry.stem}.json", flags)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_mtime_ns != entry.stamp:
                return None
        nbytes = entry.nbytes
        # the mark first: without it there is no entry
        for name in sorted(entry.names, key=_mark_first):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{entry.folder}/{name}")
    except OSError:
        return None
    finally:
        if descriptor is not None:
            files.close(descriptor, locked=True)
    return nbytes


def _mark_first(name: str) -> bool:
    return not name.endswith(".json")
