"""The size cap: which entries are removed when the cache is too large, and how.

Above the cap one process looks at all entries (`scan`), removes the least recently used ones, and
notes what that freed (`usage`). The stamp of an entry is the modification time of its mark, which
every reader sets; access times are not used.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .._system import files
from . import lock
from .counters import count
from .scan import Found, arch_folders, scan, scan_folder
from .usage import Usage

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = [
    "keep_below",
    "lock_path",
    "make_room",
    "remove",
    "remove_all",
    "remove_leftovers",
    "remove_orphans",
    "sweep",
    "wait_for_sweeper",
    "writers_path",
]

#: Down to this share of the cap, so that the next sweep is far away.
_KEEP: Final = 0.8
#: Up to so many entries a sweep measures them all; above, it goes by the notes, which the next
#: `xtarget cache prune` makes exact.
_EXACT: Final = 20_000
#: Names that entries have, and nothing else in a folder.
_OURS: Final = re.compile(
    r"\w{1,80}-(?:[a-z]{1,10}-)?[0-9a-f]{24}",
    re.ASCII,
)
_SWEEP_LOCK: Final = "sweep"
#: Seconds for which entries are removed while nobody writes, and how long that is waited for.
_SLICE: Final = 0.02
_FOR_WRITERS: Final = 0.05
_WAIT_FOR_ROOM: Final = 3.0
#: Seconds without a sign of life after which a sweeper was stopped. It shows one at every slice and
#: every few entries that it looks at.
_STALLED: Final = 2.0
_FEW_LOOKS: Final = 500
#: Threads that remove entries: a disk's waits for its journal overlap (10,000 of 100,000 entries on
#: ext4: 2.1 s with one thread, 1.5 with four).
_REMOVERS: Final = 4
_FEW: Final = 100


def lock_path(base: Path, stem: str) -> Path:
    return base / ".locks" / f"{stem}.lock"


def writers_path(base: Path) -> Path:
    """The lock that writers share. A process that removes entries holds it alone, for a slice of
    time."""
    return base / ".locks" / "writers"


def sweep(base: Path, usage: Usage, max_bytes: int | None = None, room: int = 0) -> int | None:
    """Remove the least recently used entries until the rest fits. Returns the number removed, or
    None at once if another process is sweeping.

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
            entries = list(_with_beats(scan(base), alone))
        finally:
            if collects:
                gc.enable()
        now, removed, freed = time.time_ns(), 0, 0
        marked = [entry for entry in entries if entry.stamp]
        remove_leftovers(base, alone)
        if max_bytes is not None or len(entries) <= _EXACT:
            total = sum(entry.nbytes for entry in _with_beats(scan(base), alone))
        else:
            mark = usage.mark()
            total = usage.add(0)[0]
        with contextlib.suppress(OSError):
            usage.reset(total, mark)
            if len(entries) <= _EXACT:
                # a writer that finished between the count and the new notes is in neither
                found = sum(entry.nbytes for entry in _with_beats(scan(base), alone))
                missed = found - usage.add(0)[0]
                if missed > 0:
                    total = usage.add(missed)[0]
        if goal is not None and total > goal:
            # a stamp of the future (another host's clock) is as good as now
            marked.sort(key=lambda entry: min(entry.stamp, now))
            told = 0

            def tell(freed: int) -> bool:  # writers who wait for room go on
                nonlocal told
                with contextlib.suppress(OSError):
                    usage.add(told - freed)
                    told = freed
                return alone.beat()

            removed, freed = remove_all(base, marked, total - goal, tell)
    count(evictions=removed, evicted_bytes=freed)
    return removed


def _with_beats(entries: Iterable[Found], held: lock.Held) -> Iterator[Found]:
    """Yield the entries, and give signs of life meanwhile."""
    for number, entry in enumerate(entries):
        if number % _FEW_LOOKS == 0:
            held.beat()
        yield entry


#: Who is watched, by folder: a process waits once for a sweeper that was stopped, not each time.
_watches: dict[Path, lock.Watch] = {}


def wait_for_sweeper(base: Path) -> bool:
    """Wait a moment for another process that sweeps; a stopped one loses its lock. Returns False at
    once if the file system has no locks."""
    path = lock_path(base, _SWEEP_LOCK)
    if not lock.works(path):
        return False
    watch = _watches.setdefault(base, lock.Watch(path, _STALLED))
    if not watch.take_over():
        time.sleep(0.01)  # nothing tells when another process is done
    return True


def remove_leftovers(base: Path, held: lock.Held) -> list[str]:
    """Remove the leftovers of killed processes below a folder: temporary files, files of entries
    without a mark, lock files. The files of running processes stay, because these hold locks on
    them.

    Returns:
        the names of what was removed.
    """
    removed = files.remove_leftovers(base)
    for folder in map(Path, arch_folders(base)):
        held.beat()
        removed += files.remove_leftovers(folder)
        lost = {found.stem for found in scan_folder(str(folder)) if not found.stamp}
        for stem in sorted(stem for stem in lost if _OURS.fullmatch(stem)):
            removed += remove_orphans(base, folder, stem)
    with contextlib.suppress(OSError):
        for name in os.listdir(base / ".locks"):
            if name.endswith(".lock") and name != f"{_SWEEP_LOCK}.lock":
                held.beat()
                with lock.try_hold(base / ".locks" / name) as mine:
                    removed += [name] if mine else []
    return removed


def remove_orphans(base: Path, folder: Path, stem: str) -> list[str]:
    """Remove the files of an entry that has no mark, unless a process is about to write the mark.
    Such a writer has the entry's lock, or shares the writers' lock, and makes the mark's temporary
    file first."""
    removed: list[str] = []
    with (
        lock.try_hold(lock_path(base, stem)) as mine,
        lock.brief(writers_path(base), fcntl.LOCK_EX, _FOR_WRITERS) as alone,
        contextlib.suppress(OSError),
    ):
        names, mark = os.listdir(folder) if mine or alone else [], f"{stem}.json"
        if any(name == mark or name.startswith(f".{mark}.") for name in names):
            return []
        for name in names:
            if name.partition(".")[0] == stem:
                os.unlink(folder / name)
                removed.append(name)
    return removed


def make_room(base: Path, usage: Usage, nbytes: int, cap: int) -> tuple[int, int] | None:
    """Note `nbytes` of coming writes as soon as they fit below the cap. Waits a moment for another
    process that makes room.

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
        if sweep(base, usage, room=nbytes) is not None:
            sweeps += 1
        elif not wait_for_sweeper(base):
            sweeps = 2
        total, current = usage.add(0)
        if current != generation:  # our note went with the old ones
            total, generation = usage.add(nbytes)
    return generation


def keep_below(base: Path, usage: Usage, cap: int) -> None:
    """Sweep until what is noted fits below the cap. Waits a moment for another process that sweeps:
    it may have counted before the last entry was there.

    Raises:
        OSError: as `Usage.add`.
    """
    deadline = time.monotonic() + _WAIT_FOR_ROOM
    while usage.add(0)[0] > cap and time.monotonic() < deadline:
        if sweep(base, usage) is not None or not wait_for_sweeper(base):
            return


def remove_all(
    base: Path,
    entries: Iterable[Found],
    goal: int | None = None,
    tell: Callable[[int], bool | None] = lambda freed: None,
) -> tuple[int, int]:
    """Remove entries, in slices between which others write.

    Args:
        goal: stop when so many bytes are free.
        tell: called after each slice with the bytes that are free by then; False ends it.

    Returns:
        the number of entries removed, and their bytes.
    """
    from concurrent.futures import ThreadPoolExecutor  # a start without evictions goes on

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
                # all of them, before writers go on
                more = all(_at_once(threads, removers, partial(some, end, alone)))
            if tell(freed) is False:  # another process does it now
                break
    return removed, freed


def _at_once(threads: Executor, count: int, job: Callable[[], bool]) -> list[bool]:
    """Run a job in several threads and return the results; in this thread, if none can start."""
    from concurrent.futures import wait

    begun: list[Future[bool]] = []
    with contextlib.suppress(RuntimeError):  # the interpreter ends, or there is no thread left
        for _ in range(count):
            begun.append(threads.submit(job))
    wait(begun)
    return [future.result() for future in begun] or [job()]


def remove(base: Path, entry: Found, *, alone: bool = False) -> int | None:
    """Remove an entry. Returns the bytes that this frees, or None if the entry stays, because a
    process reads it, writes it, or has used it since it was found.

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
            # for writing: NFS gives an exclusive lock to nobody else
            flags, path = (
                os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                f"{entry.folder}/{entry.stem}",
            )
            try:
                descriptor = os.open(f"{path}.json", flags | os.O_RDWR)
            except PermissionError:  # a mark that was copied here for reading
                descriptor = os.open(f"{path}.json", flags | os.O_RDONLY)
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
