"""The bytes in use below a folder, without looking at every file.

Every writer appends eight bytes to `.usage`, the size of what it is about to write. The sum is an
estimate; it errs upwards when a writer dies. A sweep begins the file anew, with a random number and
its negative: the number says which notes these are, where file systems give an inode's number to
the next file.
"""

from __future__ import annotations

import array
import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

from .._system import files
from .._system.locks import Lock
from .scan import scan

__all__ = ["Usage"]

#: Most bytes of notes: with more the file is not ours, or nobody has swept for a million writes.
_MOST_NOTES: Final = 8 << 20


class Usage:
    """Bytes in use below a folder, as far as its `.usage` knows."""

    def __init__(self, base: Path, max_bytes: int | None) -> None:
        self.path = base / ".usage"
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._seen = ((0, 0), 0)  # generation and length of what `_total` is the sum of
        self._total = 0

    def add(self, nbytes: int) -> tuple[int, tuple[int, int]]:
        """Note the size of a coming write.

        Returns:
            the sum of all notes, and which generation of notes this is: a sweep begins a new one.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            descriptor = files.open_lock(self.path, os.O_APPEND)
            try:
                if nbytes:
                    os.write(descriptor, nbytes.to_bytes(8, "little", signed=True))
                status = os.fstat(descriptor)
                if status.st_size > _MOST_NOTES:
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, nbytes.to_bytes(8, "little", signed=True))
                    status, self._seen = os.fstat(descriptor), ((0, 0), 0)
                if status.st_size <= 8 and nbytes:  # the first: count what lay there before it
                    before = sum(entry.nbytes for entry in scan(self.path.parent))
                    os.write(descriptor, before.to_bytes(8, "little", signed=True))
                    status = os.fstat(descriptor)
                now = status.st_ino, int.from_bytes(os.pread(descriptor, 8, 0), "little")
                generation, length = self._seen
                if generation != now or length > status.st_size:
                    length, self._total = 0, 0
                new = os.pread(descriptor, status.st_size - length, length)
                new = new[: len(new) - len(new) % 8]
                self._total += sum(array.array("q", new))
                self._seen = now, length + len(new)
            finally:
                files.close(descriptor)
            return self._total, now

    def mark(self) -> int:
        """Return the size of the notes now, in bytes."""
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
        mode = files.mode_below(self.path.parent)
        number = secrets.randbits(62)
        notes = array.array("q", [number, -number, nbytes]).tobytes()
        files.write(self.path, notes + since, mode=mode)
