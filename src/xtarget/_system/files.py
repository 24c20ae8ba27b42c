"""Files: reading without following links, writing all or nothing; folders for one user or for
several.

A file is written under a temporary name beside it, then renamed. The writer holds a lock (flock) on
the temporary file, so whoever finds one can tell whether its writer lives: a process id would say
nothing once it is used again, or on another host. Its name says which running kernel made it,
because a lock may not reach other hosts; what another host left has to be old as well.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = [
    "FolderError",
    "check_folders",
    "check_owner",
    "close",
    "fill",
    "held_by_name",
    "is_temporary",
    "make_folder",
    "make_folders",
    "mode_below",
    "open_file",
    "open_lock",
    "patiently",
    "read",
    "read_regular",
    "remove_leftovers",
    "temporary",
    "write",
]

_T = TypeVar("_T")

#: Answers of network file systems that are other ones a moment later.
_PASSING: Final = (errno.ESTALE, errno.EBUSY, errno.EINTR, errno.EAGAIN)
_PAUSES: Final = (0.005, 0.02, 0.1)
#: Seconds after which a temporary file is abandoned where no lock says so.
_ABANDONED: Final = 3600.0
_TAG, _RANDOM = 8, 12  # hexadecimal digits
_LONGEST_NAME: Final = 200  # bytes; file systems take 255, and the temporary name is longer


class FolderError(Exception):
    """Other users may have written in a folder. The message names the folder and says how to
    continue."""


def patiently(call: Callable[..., _T], *args: Any, **named: Any) -> _T:
    """Repeat a call, three times at most, while the file system asks for patience."""
    for pause in _PAUSES:
        try:
            return call(*args, **named)
        except OSError as error:
            if error.errno not in _PASSING:
                raise
            time.sleep(pause)
    return call(*args, **named)


def open_file(path: Path) -> tuple[int, os.stat_result]:
    """A descriptor of a plain file; a link, pipe or device is refused and never waited for.

    Raises:
        FileNotFoundError, OSError: there is none, or it cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor: int = patiently(os.open, path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
    except BaseException:
        close(descriptor)
        raise
    return descriptor, status


def read_regular(path: Path, most: int) -> bytes:
    """The first `most` bytes of a regular file, also where a link leads to it.

    A pipe or a device is refused and never waited for.

    Raises:
        OSError: it is something else, or cannot be read.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor: int = patiently(os.open, path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return read(descriptor, most)
    finally:
        close(descriptor)


def close(descriptor: int, *, locked: bool = False) -> None:
    """Close a descriptor that was only read or locked. An error of `close` is ignored: the
    descriptor is closed all the same.

    Args:
        locked: give the lock back first: a child that was forked meanwhile has the file open too.
    """
    if locked:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)


def read(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, fewer if it is shorter."""
    chunks, left = [], size
    while left > 0:
        chunk = patiently(os.read, descriptor, left)
        if not chunk:
            break
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


# ----------------------------------------------------------------------------------------- writing


@cache
def _tag() -> str:
    """Identify the running kernel of the system. Its locks hold only among its own processes."""
    import hashlib

    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        import platform

        text = platform.node()
    return hashlib.sha256(text.encode()).hexdigest()[:_TAG]


def _prefix(name: str) -> str:
    """Return the prefix of the names of a file's temporary files."""
    if len(os.fsencode(name)) > _LONGEST_NAME:
        import hashlib

        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return f".{name}."


def is_temporary(name: str) -> bool:
    """Check whether a name has the form of a file made by `temporary`, now or in older versions."""
    stem, _, end = name.rpartition(".")
    digits = len(end) in (_RANDOM, _TAG + _RANDOM) and not set(end) - set("0123456789abcdef")
    return digits and len(stem) > 1 and stem.startswith(".")


@contextlib.contextmanager
def temporary(path: Path, mode: int = 0o600) -> Iterator[tuple[int, Path]]:
    """An empty, locked file beside `path`, to write and to rename. It is removed if it still exists
    afterwards.

    Gives:
        its descriptor and its path.

    Raises:
        OSError: it cannot be made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        name = path.with_name(f"{_prefix(path.name)}{_tag()}{os.urandom(_RANDOM // 2).hex()}")
        descriptor: int = patiently(os.open, name, flags, mode)
        try:
            held = True
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held = False
            except OSError:  # no locks there: it is abandoned once it is old
                pass
            # somebody may have come between making and locking, and have removed it
            if held and os.fstat(descriptor).st_nlink > 0:
                yield descriptor, name
                return
        finally:
            with contextlib.suppress(OSError):
                if held_by_name(descriptor, name):
                    name.unlink()
            close(descriptor, locked=True)


def held_by_name(descriptor: int, path: Path) -> bool:
    """Check whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def write(
    path: Path, data: bytes, *, shared: bool = False, made: int = 0o600, mode: int | None = None
) -> None:
    """Write a file so that a reader sees either all of it or nothing, also after a power loss.

    Args:
        shared: for every user, whatever the umask.
        made: the file's mode, less the umask.
        mode: the file's mode, whatever the umask.

    Raises:
        OSError: nothing was changed.
    """
    with temporary(path, made) as (descriptor, name):
        fill(descriptor, data, 0o666 if shared else mode)
        patiently(os.replace, name, path)


def fill(descriptor: int, data: bytes, mode: int | None = None) -> None:
    """Write the content of a temporary file, through to the disk.

    Args:
        mode: the file's mode, whatever the umask.

    Raises:
        OSError: it is not all there.
    """
    if mode is not None:
        os.fchmod(descriptor, mode)
    left = memoryview(data)
    while left:
        left = left[patiently(os.write, descriptor, left) :]
    os.fsync(descriptor)


def remove_leftovers(folder: Path, name: str | None = None) -> list[str]:
    """Remove temporary files whose writers have ended.

    Args:
        name: those of this file only.

    Returns:
        the names that were removed.
    """
    prefix, clock, removed = None if name is None else _prefix(name), None, []
    try:
        names = [each for each in os.listdir(folder) if each[:1] == "." and is_temporary(each)]
    except OSError:
        return []
    for each in names:
        if prefix is not None and each[: -_TAG - _RANDOM] != prefix:
            continue
        path = folder / each
        try:
            # for writing: NFS gives an exclusive lock to nobody else
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(path, flags)
        except OSError:  # gone, or somebody else's
            continue
        try:
            locked = True
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # its writer lives
                continue
            except OSError:
                locked = False
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                continue
            mine = each[-_RANDOM - _TAG - 1 : -_RANDOM] == f".{_tag()}"
            if not (locked and mine):
                clock = _clock(folder) if clock is None else clock
                if clock - status.st_mtime < _ABANDONED:
                    continue
            if held_by_name(descriptor, path):
                path.unlink()
                removed.append(each)
        except OSError:
            continue
        finally:
            close(descriptor, locked=True)
    return removed


def _clock(folder: Path) -> float:
    """The time by the clock of the folder's file system, which may be another host's."""
    try:
        with temporary(folder / "clock") as (descriptor, _):
            return os.fstat(descriptor).st_mtime
    except OSError:
        return time.time()


def open_lock(path: Path, flags: int = 0) -> int:
    """A descriptor of a file that several processes open, made where there is none, for whom its
    folder is for.

    Raises:
        OSError: it cannot be opened.
    """
    flags |= os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor: int = patiently(os.open, path, flags, 0o600)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        wanted = mode_below(path.parent)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != wanted:
            os.fchmod(descriptor, wanted)
    except BaseException:
        close(descriptor)
        raise
    return descriptor


def mode_below(folder: Path) -> int:
    """The mode of files that all users of a folder may write."""
    return 0o600 | os.stat(folder).st_mode & 0o066


def make_folder(folder: Path, *, shared: bool) -> None:
    """Make one folder, for this user alone or for every user, whatever the umask.

    Raises:
        FileExistsError: something of that name is there.
        OSError: it cannot be made.
    """
    os.mkdir(folder, 0o777 if shared else 0o700)
    if shared:
        special = stat.S_IMODE(os.stat(folder).st_mode) & 0o7000  # the group comes from above
        os.chmod(folder, 0o777 | special)


def make_folders(root: Path, names: tuple[str, ...], *, shared: bool = False) -> Path:
    """Make `root` and the folders below it."""
    folder = root
    root.parent.mkdir(parents=True, exist_ok=True)
    for name in ("", *names):
        folder = folder / name
        try:
            make_folder(folder, shared=shared)
        except FileExistsError:
            # below the root a link leads out of the cache, and files are removed there
            status = os.lstat(folder) if name else os.stat(folder)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(folder)) from None
    return folder


# ------------------------------------------------------------------------------------ who may write


def check_folders(root: Path, names: tuple[str, ...]) -> None:
    """Check that no other user could have put an entry there.

    Raises:
        OSError: the folder does not exist, or cannot be read.
        FolderError: somebody could.
    """
    path, user = os.fspath(root), os.geteuid()
    status = os.stat(path)  # the user may keep the folder behind a link
    for name in (None, *names):
        if name is not None:
            path = f"{path}/{name}"
            status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            raise FolderError(f"{path} is a symbolic link")
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        if status.st_mode & 0o022:
            raise FolderError(f"others may write in {path}: run chmod go-w on it")
        if status.st_uid not in (user, 0):
            raise FolderError(f"{path} belongs to user {status.st_uid}, not to you or root")


def check_owner(status: os.stat_result, what: str) -> None:
    """Check that no other user could have written an open file. A folder that belongs to the user
    alone now may have belonged to another user before.

    Raises:
        FolderError: somebody could.
    """
    if status.st_mode & 0o022:
        raise FolderError(f"others may write {what}: remove it, or run chmod go-w on it")
    if status.st_uid not in (os.geteuid(), 0):
        raise FolderError(f"{what} belongs to user {status.st_uid}, not to you or root: remove it")
