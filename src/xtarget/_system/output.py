"""Files that a user asks for: `-o` of every command writes through here.

A file is written whole or not at all, where a link leads to, with the mode that was there. What is
no regular file (a device, a pipe, a socket, a folder) is refused and never replaced or waited for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

from .._values.errors import XTargetError
from . import files

__all__ = ["check_output", "write_output"]

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def check_output(path: Path) -> None:
    """Check that a file can be written there. Makes the folder.

    Raises:
        XTargetError: it cannot; said before any work is done.
    """
    with _errors_about(path):
        place, _ = _place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        with files.temporary(place):
            pass


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a user named, and remove the leftovers of killed writers beside it.

    Raises:
        XTargetError: it cannot be written; what was there is unchanged.
    """
    with _errors_about(path):
        place, mode = _place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        files.remove_leftovers(place.parent, place.name)
        files.write(place, data, made=0o666, mode=mode)


class _errors_about(contextlib.AbstractContextManager[None]):
    """An OSError as a sentence about a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise XTargetError(
                f"{self._path} cannot be written: {error.strerror or error}. Choose another "
                "path, or make room or the folder writable."
            ) from error


def _place(path: Path) -> tuple[Path, int | None]:
    """Return the path behind all links, and the mode of the file there; None if it does not exist.

    Raises:
        XTargetError: a file cannot be written there.
        OSError: the path cannot be read.
    """
    target = Path(os.path.realpath(path))
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    if status is None:
        if os.path.lexists(target):  # a link that changed meanwhile
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return target, None
    for is_kind, word in _KINDS:
        if is_kind(status.st_mode):
            raise XTargetError(
                f"{path} cannot be written: it is {word}, and only a regular file is replaced. "
                "Choose another path."
            )
    # a descriptor (/proc/self/fd/3) of a file that has no name any more
    if not os.path.samestat(status, os.stat(target)):
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    return target, stat.S_IMODE(status.st_mode)
