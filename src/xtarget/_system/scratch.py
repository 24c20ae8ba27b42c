"""Places for temporary files, and for files of other packages, on machines where the usual places
are read-only: containers with a read-only root, users without a home."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from types import TracebackType

__all__ = ["Folder", "cache_of", "can_write", "make_room"]

_PREFIX = "xtarget-tmp-"
#: Folders of temporary folders that this process has looked through for leftovers.
_swept: set[str] = set()


def can_write(folder: str | os.PathLike[str]) -> bool:
    """Check whether a folder can be written. It is made if it does not exist."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def make_room() -> None:
    """Give `tempfile` a folder if it finds none: in memory, else in the cache's folder. Triton and
    the compilers' tools use `tempfile` as well."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        from .._values.environment import cache_dir

        for folder in ("/dev/shm", cache_dir() / "temporary"):
            if can_write(folder):
                tempfile.tempdir = str(folder)
                return


def cache_of(package: str, usual: str | os.PathLike[str]) -> str | None:
    """Return a folder where a package may keep its files instead of its usual one.

    Return None if the usual folder can be written, or if no folder can.
    """
    if can_write(usual):
        return None
    from .._values.environment import cache_dir

    make_room()
    with contextlib.suppress(OSError):
        folder = cache_dir() / package
        if can_write(folder):
            return str(folder)
        user = os.getuid()
        folder = Path(tempfile.gettempdir()) / f"{package}-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()  # others may make one of that name
        if state.st_uid == user and not state.st_mode & 0o022 and not folder.is_symlink():
            return str(folder)
    return None


class Folder:
    """A temporary folder of this process. `close` removes it, as does dropping the object and the
    end of the process. If the process is killed, the next process of the same user that makes such
    a folder removes it.

    The owner holds a lock on it (`flock`), which ends with the process however that ends, and is
    seen across containers that share the folder.

    Args:
        what: it is for, part of its name.
    """

    def __init__(self, what: str) -> None:
        make_room()
        parent = tempfile.gettempdir()
        if parent not in _swept:
            _swept.add(parent)
            _sweep(parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{what}-", dir=parent))
            descriptor = _locked(self.path)
            if descriptor is not None:
                break  # else somebody swept it before it was locked
        self._close = weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _remove(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:  # not a fork's child
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """A descriptor of the folder that holds its lock; None where another process holds it, or the
    folder is gone. Where the file system has no locks nobody can sweep it either.
    """
    import fcntl  # not on the path of `import xtarget`

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    kept = False
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
        with contextlib.suppress(FileNotFoundError):
            kept = os.path.samestat(os.fstat(descriptor), os.lstat(path))
        return descriptor if kept else None
    finally:
        if not kept:
            os.close(descriptor)


def _sweep(parent: str) -> None:
    """Remove folders of processes that are gone."""
    import fcntl

    found = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in found:
        with contextlib.suppress(OSError):  # another user's, somebody's at work, or gone
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.getuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
