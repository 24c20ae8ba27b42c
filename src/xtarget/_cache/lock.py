"""Who compiles: one process for each entry; the others wait, but not for ever.

The lock is the operating system's (flock, through filelock), so it ends with its owner. An owner on
another host, or one that was stopped, may never end: who has seen the same owner for long enough
unlinks the lock's file and takes a new one. That costs at most a second compilation: an entry is
written whole, and two writers of one key write the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import files
from .counters import count

__all__ = ["brief", "hold", "try_hold"]

_POLL = 0.01
_LOOK = 0.2  # seconds between looks at the entry and at the owner


@contextlib.contextmanager
def hold(path: Path, patience: float, ready: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock file `path`, or go on without it when `ready` (somebody else has done the work)
    or where files cannot be locked.

    Args:
        patience: seconds that one owner may keep it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600, thread_local=False)
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
    """Whether no lock has that name any more."""
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
def try_hold(path: Path) -> Iterator[bool]:
    """The same lock, at once or not at all: True if it is held. Without filelock, whose own
    bookkeeping takes 0.2 ms.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, flags, 0o600)
    except OSError:
        yield False
        return
    try:
        held = False
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(descriptor).st_nlink > 0
        try:
            yield held
        finally:
            if held:
                _removed(path)
    finally:
        files.close(descriptor, locked=True)


@contextlib.contextmanager
def brief(path: Path, how: int, patience: float) -> Iterator[bool]:
    """A lock that nobody holds for long, shared (`fcntl.LOCK_SH`) or alone (`LOCK_EX`); its file
    stays. False, and nothing is held, when it cannot be had within `patience` seconds, or there
    are no locks.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
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
                    break
                time.sleep(0.001)
            except OSError:  # ENOLCK: a file system without locks
                break
        yield held
    finally:
        files.close(descriptor, locked=True)
