"""Files of the cache: read without following anything, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = [
    "FolderError",
    "check_folders",
    "close",
    "make_folders",
    "open_file",
    "patiently",
    "read",
    "write",
]

_T = TypeVar("_T")

#: Answers of network file systems that are other ones a moment later.
_PASSING: Final = (errno.ESTALE, errno.EBUSY, errno.EINTR, errno.EAGAIN)
_PAUSES: Final = (0.005, 0.02, 0.1)


class FolderError(Exception):
    """A folder in which others may have written; says which and how to go on."""


def patiently(call: Callable[..., _T], *args: Any, **named: Any) -> _T:
    """Call again, three times at most, when the file system asks for patience."""
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


def close(descriptor: int, *, locked: bool = False) -> None:
    """Close what was only read or locked: whatever that answers, it is closed.

    Args:
        locked: give the lock back first: a child that was forked meanwhile has the file open too.
    """
    if locked:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):
        os.close(descriptor)


def read(descriptor: int, size: int) -> bytes:
    """`size` bytes from the start of a file, fewer where it ends."""
    chunks, left = [], size
    while left > 0:
        chunk = patiently(os.read, descriptor, left)
        if not chunk:
            break
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def write(path: Path, data: bytes, *, shared: bool = False) -> None:
    """Write a file so that a reader sees all of it or nothing, also after a power loss.

    Raises:
        OSError: nothing was changed.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = patiently(os.open, temporary, flags, 0o666 if shared else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        patiently(os.replace, temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def make_folders(root: Path, names: tuple[str, ...], *, shared: bool = False) -> Path:
    """Make `root` and the folders below it, for this user alone."""
    mode, folder = 0o777 if shared else 0o700, root
    root.parent.mkdir(parents=True, exist_ok=True)
    for name in ("", *names):
        folder = folder / name
        try:
            os.mkdir(folder, mode)
        except FileExistsError:
            # below the root a link leads out of the cache, and files are removed there
            status = os.lstat(folder) if name else os.stat(folder)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(folder)) from None
    return folder


def check_folders(root: Path, names: tuple[str, ...]) -> None:
    """That nobody else could have put an entry there.

    Raises:
        OSError: there is no such folder, or none that can be looked at.
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
