"""A file of events in Chrome's trace format (a JSON array) that is whole after each write.

Every write replaces the closing bracket by further events and a new bracket, in one call of the
system. So the file can be opened while the process runs, and after it was killed.

Source: "Trace Event Format" (Google), sections "JSON Array Format" and "Complete Events".
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .life import in_forked_child
from .locks import Lock

__all__ = ["TraceFile"]

_END = b"\n]\n"
#: Bytes and seconds after which events are written.
_MOST, _PAUSE = 1 << 15, 0.05


class TraceFile:
    """The file.

    A process that finds the file in use by another one, and the child of a fork, write files of
    their own, whose names have the process id: `trace-4711.json`.

    Args:
        path: where; what an earlier process has written there is replaced.

    Raises:
        OSError: it cannot be written.
        ValueError: there is a file that is not a trace, or no regular file.
    """

    def __init__(self, path: Path) -> None:
        self._wanted = path
        self._lock = Lock()
        self._events: list[str] = []
        self._size, self._written = 0, 0.0
        self._file: int | None = None
        #: Where the closing bracket is, and whether nothing stands before it.
        self._end, self._empty = 1, True
        self._open(path)
        in_forked_child(self._in_forked_child)

    def _open(self, path: Path) -> None:
        file = _taken(path)
        if file is None:
            path = self._own_path()
            file = _taken(path)
        if file is None:  # another object of this process has it
            raise ValueError("is being written already. Name another file.")
        self.path, self._file, self._end, self._empty = path, file, 1, True

    def _own_path(self) -> Path:
        return self._wanted.with_stem(f"{self._wanted.stem}-{os.getpid()}")

    def _in_forked_child(self) -> None:
        """The parent goes on writing; the lock stays its own."""
        file, self._file = self._file, None
        self._events.clear()
        self._size = 0
        if file is not None:
            os.close(file)

    def add(self, event: Mapping[str, Any], *, now: bool = False) -> None:
        """Add an event.

        Args:
            now: write it at once, with those before it.
        """
        text = json.dumps(event, default=str, separators=(",", ":"), allow_nan=False)
        with self._lock:
            self._events.append(text)
            self._size += len(text)
            late = time.monotonic() - self._written > _PAUSE
            if now or late or self._size > _MOST:
                self._flush()

    def flush(self) -> None:
        """Write what has been added.

        Raises:
            OSError: it cannot be written. What was written before stays whole.
        """
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if not self._events:
            return
        if self._file is None:  # the child of a fork
            self._open(self._own_path())
        events, self._events, self._size = self._events, [], 0
        assert self._file is not None
        begin = b"\n" if self._empty else b",\n"
        data = begin + ",\n".join(events).encode("ascii") + _END
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._file, data[done:], self._end + done)
        except OSError:
            os.ftruncate(self._file, self._end)
            os.pwrite(self._file, _END, self._end)
            raise
        self._end += len(data) - len(_END)
        self._empty, self._written = False, time.monotonic()

    def close(self) -> None:
        """Write what has been added, and end."""
        try:
            self.flush()
        finally:
            file, self._file = self._file, None
            if file is not None:
                os.close(file)


def _taken(path: Path) -> int | None:
    """Open a file and begin it; None: another process writes it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
    file = os.open(path, flags, 0o666)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a regular file. Name a file that can be made anew.")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:  # a file system without locks
            pass
        if found.st_size and os.pread(file, 1, 0) != b"[":
            raise ValueError("is a file that is not a trace. Name another one, or remove it.")
        os.ftruncate(file, 0)
        os.pwrite(file, b"[" + _END, 0)
    except BaseException:
        os.close(file)
        raise
    return file
