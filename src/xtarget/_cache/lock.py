"""Locks that let one process compile each entry while the others wait, for a limited time.

The lock is the operating system's (flock, through filelock), so it ends with its owner. An owner on
another host, or one that was stopped, may never end. A process that has seen the same owner for
long enough unlinks the lock's file and takes a new one. This costs at most a second compilation: an
entry is written whole, and two writers of one key write the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .._system import files
from .counters import count

__all__ = ["Held", "Watch", "brief", "hold", "try_hold", "works"]

_POLL = 0.01
_LOOK = 0.2  # seconds between looks at the entry and at the owner


class Held:
    """A lock that this process holds."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def beat(self) -> bool:
        """Show that this process works. False if another process has taken the lock over."""
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)
            return os.fstat(self._descriptor).st_nlink > 0
        return True


class Watch:
    """Watch whether the holder of a lock still works. The holder calls `Held.beat` regularly.

    Args:
        patience: seconds without a beat after which the lock is taken over.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._seen: tuple[int, ...] | None = None
        self._since = 0.0

    def take_over(self) -> bool:
        """Look at the holder. Return whether the lock was taken from a holder that had stopped."""
        try:
            status = os.stat(self._path)
        except OSError:
            self._seen = None
            return False
        seen, now = (status.st_dev, status.st_ino, status.st_mtime_ns), time.monotonic()
        if seen != self._seen:
            self._seen, self._since = seen, now
            return False
        if now - self._since < self._patience or not _removed(self._path):
            return False
        self._seen = None
        count(takeovers=1)
        return True


@contextlib.contextmanager
def hold(path: Path, patience: float, ready: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock file `path`. Continue without it if `ready` (another process has done the
    work), if files cannot be locked, and in the last moments of the interpreter.

    Args:
        patience: seconds that one owner may keep it.
    """
    try:
        from filelock import FileLock, Timeout
    except RuntimeError:  # it begins threads, which nobody can at the end of the interpreter
        yield
        return
    mode = 0o600
    with contextlib.suppress(OSError):
        mode = files.mode_below(path.parent)
    lock = FileLock(path, mode=mode, thread_local=False)
    waited, since, owner = False, time.monotonic(), _owner(path)
    while True:
        try:
            lock.acquire(timeout=_LOOK, poll_interval=_POLL)
            break
        except Timeout:
            if not waited:
                waited = True
                count(waits=1)
            if ready():
                break
            current = _owner(path)
            if current != owner:
                since, owner = time.monotonic(), current
            elif time.monotonic() - since > patience:
                if not _removed(path):
                    break
                count(takeovers=1)
                since, owner = time.monotonic(), None
        except (OSError, NotImplementedError):
            break  # no locks there (read-only, full, ENOLCK): compile, at worst twice
    mine = _owner(path) if lock.is_locked else None
    try:
        yield
    finally:
        if mine is not None:
            # unlinked while it is held, so that nobody locks a file without a name (filelock looks
            # at the link count); not when somebody took over and the name is theirs now
            if _owner(path) == mine:
                _removed(path)
            with contextlib.suppress(OSError):
                lock.release()


def _removed(path: Path) -> bool:
    """Remove a lock's file. Return whether no lock has that name any more."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _owner(path: Path) -> tuple[int, int, int] | None:
    """Identity of the lock's file: each owner makes a new one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


@contextlib.contextmanager
def try_hold(path: Path) -> Iterator[Held | None]:
    """Take the same lock at once; None if another process holds it. This does not use filelock,
    whose own bookkeeping takes 0.2 ms."""
    try:
        try:
            descriptor = files.open_lock(path)
        except FileNotFoundError:
            shared = bool(os.stat(path.parent.parent).st_mode & 0o002)
            with contextlib.suppress(FileExistsError):
                files.make_folder(path.parent, shared=shared)
            descriptor = files.open_lock(path)
    except OSError:
        yield None
        return
    try:
        held = False
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(descriptor).st_nlink > 0
        try:
            yield Held(descriptor) if held else None
        finally:
            # not when somebody took over and the name is theirs now
            if held and files.held_by_name(descriptor, path):
                _removed(path)
    finally:
        files.close(descriptor, locked=True)


def works(path: Path) -> bool:
    """Check whether the file system supports locks; some do not."""
    try:
        descriptor = files.open_lock(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    except OSError:
        return False
    finally:
        files.close(descriptor, locked=True)
    return True


@contextlib.contextmanager
def brief(path: Path, how: int, patience: float) -> Iterator[bool]:
    """Take a short lock, shared (`fcntl.LOCK_SH`) or exclusive (`LOCK_EX`). Its file stays.

    Yield False, without the lock, if it is not free within `patience` seconds, or if the file
    system has no locks. A caller that wants to share the lock and waited that long takes it from
    its holder, which was stopped. So the next caller does not wait.
    """
    try:
        descriptor = files.open_lock(path)
    except OSError:
        yield False
        return
    try:
        deadline, held = time.monotonic() + patience, False
        while True:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
                held = True
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    if how == fcntl.LOCK_SH and files.held_by_name(descriptor, path):
                        count(takeovers=1)
                        _removed(path)
                    break
                time.sleep(0.001)  # flock has no time limit
            except OSError:  # ENOLCK: a file system without locks
                break
        yield held
    finally:
        files.close(descriptor, locked=True)
