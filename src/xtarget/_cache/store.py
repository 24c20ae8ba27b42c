"""One folder of entries on disk. The caller gets no errors: a failed read is a miss with a cause, a
failed write is left out with one warning. Modules for writing are imported at the first write, so a
process that finds its kernels starts faster."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from .._artifacts import entry as format_
from .._artifacts.entry import DAMAGE, MAX_MARK_BYTES, SCHEMA, Entry, Place
from .._system import files
from .._system.locks import Lock
from .._values.errors import UntrustedError
from .counters import count

if TYPE_CHECKING:
    from .._artifacts.signatures import Trust
    from .usage import Usage

__all__ = ["Cause", "Store", "warn"]

Cause: TypeAlias = Literal["absent", "damaged", "unreadable", "refused"]

QUARANTINE: Final = ".quarantine"
LOCKS: Final = ".locks"
_FOR_SWEEP: Final = (
    0.5  # seconds; a slice of a sweep takes far less, unless its process was stopped
)
#: What opening answers when the file is not there or is none; all else says nothing of the entry.
_WRONG_FILE: Final = (errno.ENOENT, errno.ELOOP, errno.EINVAL)
_MOST_QUARANTINED: Final = 32  # files; enough to see what happens, too few to fill a disk

_warned: set[str] = set()
_said_lock = Lock()


def warn(message: str, *, once: str | None = None) -> None:
    """Warn once per process and message (or `once`)."""
    with _said_lock:
        if (once or message) in _warned:
            return
        _warned.add(once or message)
    _say(message)


def _say(message: str) -> None:
    import logging  # only a process with something to say pays for it

    from .._values.text import printable

    logging.getLogger("xtarget.cache").warning("%s.", printable(message))


class Store:
    """A cache folder.

    Attributes:
        writable: entries, stamps and quarantine are written; a read-only layer is only read.
        shared: folders that others may write are accepted.
        trust: signers to believe, or None to believe what the user alone may write.
        max_bytes: the size cap, or None.
    """

    def __init__(
        self,
        root: Path,
        *,
        writable: bool = True,
        shared: bool = False,
        trust: Trust | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self.root = root
        self.base = root / SCHEMA
        self.writable = writable
        self.shared = shared
        self.trust = trust
        self.max_bytes = max_bytes
        self._tidied: set[Path] = set()

    @property
    def _anyone(self) -> bool:
        """True if an entry may have any writer."""
        return self.shared or self.trust is not None

    @cached_property
    def usage(self) -> Usage:
        from .usage import Usage

        return Usage(self.base, self.max_bytes)

    def folder(self, place: Place) -> Path:
        return self.base.joinpath(*place.folders)

    def mark_path(self, place: Place) -> Path:
        return self.folder(place) / f"{place.stem}.json"

    # ------------------------------------------------------------------------------------ reading

    def read(self, place: Place) -> Entry | Cause:
        """Return the checked entry, or the cause of the miss. A damaged entry is set aside."""
        try:
            return self.check(place)
        except DAMAGE as error:
            return self._damaged(place, error)

    def check(self, place: Place) -> Entry | Cause:
        """Read an entry as `read` does; a damaged one is an error.

        Raises:
            one of DAMAGE: it is not what was written.
        """
        path = self.mark_path(place)
        descriptor = -1
        try:
            if not self._anyone:
                files.check_folders(self.root, (SCHEMA, *place.folders))
            descriptor, status = files.open_file(path)
            if not self._anyone:
                files.check_owner(status, str(path))
        except FileNotFoundError:
            return "absent"
        except files.FolderError as error:
            if descriptor >= 0:
                files.close(descriptor)
            warn(
                f"the cache {self.root} is not used: {error}. XTARGET_CACHE_SHARED=1 allows it; "
                "XTARGET_TRUST=keyfile believes signed entries wherever they are"
            )
            return "refused"
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ValueError("it is a symbolic link") from error
            return self._unreadable(error)
        try:
            return self._read_open(path, place, descriptor, status)
        except (UntrustedError, files.FolderError) as error:
            warn(f"the cache entry {path} is refused: {error}", once=f"{path} {error}")
            return "refused"
        except OSError as error:
            return self._unreadable(error)
        finally:
            files.close(descriptor, locked=True)

    def _unreadable(self, error: OSError) -> Cause:
        warn(
            f"the cache folder {self.root} cannot be read ({error.strerror or error}); it is "
            "passed over. Name one that can be read in XTARGET_CACHE_DIR or XTARGET_CACHE_PATH",
            once=f"{self.root} {error.errno}",
        )
        return "unreadable"

    def _read_open(
        self, path: Path, place: Place, descriptor: int, status: os.stat_result
    ) -> Entry | Cause:
        with contextlib.suppress(OSError):
            # keeps evictions away while the files are read; readers do not wait for anything
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink == 0:
            return "absent"
        if not 0 < status.st_size <= MAX_MARK_BYTES:
            raise ValueError(f"its mark has {status.st_size} bytes")
        if self.writable:
            with contextlib.suppress(OSError):
                os.utime(descriptor)  # the stamp that evictions go by
        text = files.read(descriptor, status.st_size)
        body = format_.read_mark(text, self.trust)
        content = {}
        for suffix, (size, digest) in format_.check_mark(body, place).items():
            try:
                data = self._content(path.with_suffix(f".{suffix}"), suffix, size)
            except OSError as error:
                if os.fstat(descriptor).st_nlink == 0:
                    return "absent"  # removed by hand between the two
                if error.errno not in _WRONG_FILE:
                    raise
                raise ValueError(f".{suffix} cannot be read ({error.strerror})") from error
            format_.check_file(suffix, data, size, digest)
            content[suffix] = data
        found = Entry(text, body, content)
        if place.kind == "artifact":
            found.artifact()
        elif "bin" not in content:
            raise ValueError("it has no .bin")
        return found

    def _content(self, path: Path, suffix: str, size: int) -> bytes:
        descriptor, status = files.open_file(path)
        try:
            if not self._anyone:
                files.check_owner(status, str(path))
            if status.st_size != size:
                raise ValueError(f".{suffix} has {status.st_size} bytes, not {size}")
            return files.read(descriptor, size)
        finally:
            files.close(descriptor)

    def with_equal_parts(
        self, place: Place, parts: Sequence[tuple[str, str]], ignore: str
    ) -> Entry | None:
        """An entry of the kernel whose key parts equal `parts` in all but the one called
        `ignore`."""
        wanted = [list(part) for part in parts if part[0] != ignore]
        for _, body in self.bodies(place):
            have = body.get("key_parts")
            if not isinstance(have, list) or not all(isinstance(p, list) for p in have):
                continue
            if [p for p in have if p[:1] != [ignore]] != wanted:
                continue
            key = body.get("key")
            if not format_.is_key(key):
                continue
            found = self.read(Place(place.target, place.kernel, str(key)))
            if isinstance(found, Entry):
                return found
        return None

    def bodies(self, place: Place) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The marks of a kernel's entries and their contents, in order of name. Unreadable ones are
        left out."""
        try:
            names = sorted(
                name
                for name in os.listdir(self.folder(place))
                if name.startswith(place.prefix) and name.endswith(".json")
            )
        except OSError:
            return
        for name in names:
            with contextlib.suppress(OSError, UntrustedError, *DAMAGE):
                path = self.folder(place) / name
                yield path, self.body(path)

    def body(self, path: Path) -> dict[str, Any]:
        """Return the content of a mark.

        Raises:
            OSError, UntrustedError, or one of DAMAGE.
        """
        descriptor, status = files.open_file(path)
        try:
            text = files.read(descriptor, min(status.st_size, MAX_MARK_BYTES))
        finally:
            files.close(descriptor)
        return format_.read_mark(text, self.trust)

    # ------------------------------------------------------------------------------------ writing

    def write(self, place: Place, entry: Entry) -> bool:
        """Store an entry: its files, then the mark. Returns False if this failed, for whatever
        reason."""
        from . import evict, lock

        cap = self.usage.max_bytes
        if cap is not None and entry.nbytes > cap:
            warn(
                f"an entry of {entry.nbytes} bytes ({place.kernel} for {place.target}) is larger "
                f"than the whole cache may be ({cap} bytes); nothing of that size is kept. Set "
                "XTARGET_CACHE_SIZE to more",
                once=f"{self.root} cap",
            )
            return False
        try:
            folder = files.make_folders(self.root, (SCHEMA, *place.folders), shared=self.shared)
            generation: tuple[int, int] | None
            if cap is None:  # noted all the same, for processes with a cap
                _, generation = self.usage.add(entry.nbytes)
            else:
                generation = evict.make_room(self.base, self.usage, entry.nbytes, cap)
            if generation is None:
                warn(
                    f"the cache {self.root} is full and nothing in it could be removed: its "
                    "entries are in use, or its file system has no locks. What is compiled now is "
                    "not kept. Set XTARGET_CACHE_SIZE to more",
                    once=f"{self.root} full",
                )
                return False
            with contextlib.suppress(FileExistsError):
                files.make_folder(self.base / LOCKS, shared=self.shared)
            self._tidy(folder)
            mark = folder / f"{place.stem}.json"
            with (
                lock.brief(evict.writers_path(self.base), fcntl.LOCK_SH, _FOR_SWEEP),
                # first, so that nobody takes the entry's files for those of a killed writer
                files.temporary(mark) as (descriptor, name),
            ):
                for suffix, data in entry.files.items():
                    files.write(folder / f"{place.stem}.{suffix}", data, shared=self.shared)
                files.fill(descriptor, entry.mark, 0o666 if self.shared else None)
                files.patiently(os.replace, name, mark)
            if self.usage.add(0)[1] != generation:
                # a sweep may have missed both note and files
                self.usage.add(entry.nbytes)
                if cap is not None:
                    evict.keep_below(self.base, self.usage, cap)
        except OSError as error:
            count(failed_writes=1)
            warn(
                f"the cache folder {self.root} cannot be written ({error.strerror or error}); "
                "kernels are compiled again in every process. Set XTARGET_CACHE_DIR to a folder "
                "that can be written",
                once=f"{self.root} {error.errno}",
            )
            return False
        count(writes=1)
        return True

    def _tidy(self, folder: Path) -> None:
        """Remove the leftovers of killed writers from a folder, at the first write there."""
        from . import evict

        if folder in self._tidied:
            return
        self._tidied.add(folder)
        for name in files.remove_leftovers(folder):
            stem, mark, _ = name[1:].partition(".json.")
            if mark:
                evict.remove_orphans(self.base, folder, stem)

    @contextlib.contextmanager
    def flight(self, place: Place, patience: float) -> Iterator[None]:
        """One process at a time for an entry; see `lock.hold`."""
        from . import evict, lock

        path = evict.lock_path(self.base, place.stem)
        with contextlib.suppress(OSError):
            files.make_folders(self.root, (SCHEMA, LOCKS), shared=self.shared)
        mark = self.mark_path(place)
        with lock.hold(path, patience, lambda: os.path.exists(mark)):
            yield

    # --------------------------------------------------------------------------------- quarantine

    def _damaged(self, place: Place, why: Exception) -> Entry | Cause:
        """Read an entry again under its lock, and set it aside if it is still damaged."""
        from . import evict, lock

        path = self.mark_path(place)
        said = f"({type(why).__name__}: {why})"
        if not self.writable:
            warn(f"the cache entry {path} is damaged {said}; it is not used", once=str(path))
            return "damaged"
        with lock.try_hold(evict.lock_path(self.base, place.stem)) as alone:
            if not alone:  # whoever holds it is about to replace the entry
                return "damaged"
            try:
                return self.check(place)  # a writer was in between, or a file system was stale
            except DAMAGE:
                self._set_aside(path, said)
        return "damaged"

    def set_aside(self, place: Place, why: str) -> None:
        """Put an entry into quarantine, although its files are as they were written."""
        from . import evict, lock

        path = self.mark_path(place)
        if not self.writable:
            warn(f"the cache entry {path} is wrong ({why}); it cannot be set aside", once=str(path))
            return
        with lock.try_hold(evict.lock_path(self.base, place.stem)) as alone:
            if alone and path.exists():
                self._set_aside(path, f"({why})")

    def _set_aside(self, path: Path, said: str) -> None:
        aside = self.base / QUARANTINE
        _say(
            f"the cache entry {path.with_suffix('')} is damaged {said}; it was set aside in "
            f"{aside} and the kernel is compiled again"
        )
        try:
            files.make_folders(self.root, (SCHEMA, QUARANTINE), shared=self.shared)
            parts = sorted(path.parent.glob(f"{path.stem}.*"), key=lambda p: p.suffix != ".json")
            for part in parts:  # the mark first: without it there is no entry
                os.replace(part, aside / part.name)
            count(quarantines=1)
            kept = sorted(aside.iterdir(), key=lambda p: p.lstat().st_ctime_ns)
            for old in kept[:-_MOST_QUARANTINED]:
                old.unlink(missing_ok=True)
        except OSError as error:
            warn(f"a damaged entry could not be set aside in {aside} ({error.strerror})")
