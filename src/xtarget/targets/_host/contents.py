"""sha256 of files that are too large to read at every start: remembered by what the file system
says of them (size, times, inode), so that only a file that may have changed is read again.

What is remembered lies in `contents.json` of the cache's folder. It is believed where the user owns
it and nobody else may write to it. `save` writes it, once for all that a key was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from ..._system.locks import Lock
from ..._values.environment import cache_settings

__all__ = [
    "known",
    "names_in",
    "of_file",
    "of_files",
    "of_folder",
    "python_files",
    "remember",
    "save",
    "written_version",
]

_NAME = "contents.json"
_MOST_BYTES = 1 << 20
_MOST_ENTRIES = 512
#: A file that was changed within this time may change again without another time stamp.
_SETTLED_NS = 2_000_000_000
_CHUNK = 8 << 20
#: Below this size a file is read by one thread.
_LARGE = 4 * _CHUNK

#: What a file system says of a file or a folder that has not changed.
_State = tuple[int, int, int, int, int]

_guard = Lock()
#: Digests and listings of this process, with the states that they were made from. Only what has
#: settled is here, so that an equal state means an equal content.
_files_seen: dict[str, tuple[_State, str]] = {}
_groups_seen: dict[str, tuple[list[tuple[str, str]], list[_State | None], str]] = {}
_folders_seen: dict[str, tuple[_State, list[str], list[str]]] = {}
_trees_seen: dict[
    tuple[str, frozenset[str]], tuple[list[tuple[str, _State]], list[tuple[str, str]]]
] = {}
_known: dict[str, tuple[str, str]] = {}
_read_from: Path | None = None
#: The list that lacks something of `_known`.
_behind: Path | None = None


def of_file(path: str | Path) -> str:
    """Return a file's digest; `absent` if no readable file exists."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return "absent"
    if not stat.S_ISREG(state.st_mode):
        return "absent"
    name = str(path)
    seen = _files_seen.get(name)
    if seen is not None and seen[0] == _state(state):
        return seen[1]
    digest = _remembered(os.path.realpath(path), _signature(state), [state], lambda: _read(path))
    if _are_settled([state]):
        _files_seen[name] = _state(state), digest
    return digest


def of_files(name: str, files: Iterable[tuple[str, str]]) -> str:
    """Digest of many files, remembered as one.

    Args:
        name: under which it is remembered.
        files: (name that goes into the digest, path), in an order that is always the same.
    """
    listed = list(files)
    found: list[os.stat_result | None] = []
    for _, path in listed:
        try:
            found.append(os.stat(path))
        except OSError:
            found.append(None)
    now: list[_State | None] = [None if state is None else _state(state) for state in found]
    seen = _groups_seen.get(name)
    if seen is not None and seen[1] == now and seen[0] == listed:
        return seen[2]
    signature = hashlib.sha256()
    for (inner, _), state in zip(listed, found, strict=True):
        text = "absent" if state is None else _signature(state)
        signature.update(f"{inner} {text}\n".encode())

    def read() -> str:
        total = hashlib.sha256()
        for inner, path in listed:
            total.update(f"{inner} {_read(path)}\n".encode())
        return total.hexdigest()

    states = [state for state in found if state is not None]
    digest = _remembered(name, signature.hexdigest(), states, read)
    if _are_settled(states):
        _groups_seen[name] = listed, now, digest
    return digest


def of_folder(folder: str | Path) -> str:
    """Digest of all files below a folder, by their names in it."""
    root = str(folder)
    found = [
        (os.path.relpath(os.path.join(place, name), root), os.path.join(place, name))
        for place, _, names in os.walk(root)
        for name in names
    ]
    return of_files(f"folder {os.path.realpath(root)}", sorted(found))


def python_files(root: str | Path, without: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """(path in the folder, path) of every Python file below it, in order.

    Args:
        without: names of folders that are left out.
    """
    start = str(root)
    seen = _trees_seen.get((start, without))
    if seen is not None and all(_state_of(folder) == state for folder, state in seen[0]):
        return seen[1]
    folders = [start]
    found = []
    for folder in folders:
        files, inner = names_in(folder)
        found += [f"{folder}/{name}" for name in files if name.endswith(".py")]
        folders += [f"{folder}/{n}" for n in inner if n != "__pycache__" and n not in without]
    listed = sorted((path[len(start) + 1 :], path) for path in found)
    if all(folder in _folders_seen for folder in folders):
        _trees_seen[start, without] = [(f, _folders_seen[f][0]) for f in folders], listed
    return listed


def _state_of(path: str) -> _State | None:
    try:
        return _state(os.stat(path))
    except OSError:
        return None


def names_in(folder: str) -> tuple[list[str], list[str]]:
    """Names of the files and of the folders in a folder, in order; none where it cannot be read.

    A folder's time changes with its names, so that it is read again only then.
    """
    try:
        now = os.stat(folder)
        seen = _folders_seen.get(folder)
        if seen is not None and seen[0] == _state(now):
            return seen[1], seen[2]
        files: list[str] = []
        folders: list[str] = []
        with os.scandir(folder) as there:
            for entry in there:
                (folders if entry.is_dir() else files).append(entry.name)
    except OSError:
        return [], []
    files.sort()
    folders.sort()
    if _are_settled([now]):
        _folders_seen[folder] = _state(now), files, folders
    return files, folders


def _state(state: os.stat_result) -> _State:
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev


def _are_settled(states: Iterable[os.stat_result]) -> bool:
    """Return whether another change would get a different time stamp."""
    now = time.time_ns()
    return all(now - max(s.st_ctime_ns, s.st_mtime_ns) >= _SETTLED_NS for s in states)


def _signature(state: os.stat_result) -> str:
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino} {state.st_dev}"


def _in_threads(part: Callable[[int], bytes], starts: Iterable[int]) -> list[bytes]:
    """`part` of each, in this thread where no other can begin: at the end of the process, and at
    the limit of its user.
    """
    try:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(part, starts))
    except RuntimeError:
        return list(map(part, starts))


def _read(path: str | Path) -> str:
    """sha256 over the sha256 of each 8 MiB, which several threads can make."""
    try:
        size = os.stat(path).st_size
        starts = range(0, max(size, 1), _CHUNK)
        with open(path, "rb") as file:

            def part(start: int) -> bytes:
                return hashlib.sha256(os.pread(file.fileno(), _CHUNK, start)).digest()

            if size < _LARGE:
                parts = list(map(part, starts))
            else:
                parts = _in_threads(part, starts)
    except OSError:
        return "absent"
    return hashlib.sha256(b"".join(parts)).hexdigest()


# -------------------------------------------------------------------------------- remembered facts


def _remembered(
    name: str, signature: str, states: Iterable[os.stat_result], read: Callable[[], str]
) -> str:
    found = known(name, signature)
    if found is not None:
        return found
    digest = read()
    if not _are_settled(states):
        return digest
    remember(name, signature, digest)
    return digest


def known(name: str, signature: str) -> str | None:
    """Return the text that `remember` got for this name, if it came with this signature."""
    with _guard:
        _load()
        found = _known.get(name)
    return found[1] if found is not None and found[0] == signature else None


def remember(name: str, signature: str, text: str) -> None:
    """Keep what costs time to find out: in this process, and for others from the next `save` on.

    Args:
        signature: all that it was found out from.
    """
    global _behind
    with _guard:
        _load()
        if _behind != _read_from:  # the cache's folder is another one since
            _save()
        _known[name] = signature, text
        _behind = _read_from


def save() -> None:
    """Write what was remembered since the last time, for other processes."""
    if _behind is not None:
        with _guard:
            _save()


def _file() -> Path | None:
    settings = cache_settings()
    return None if settings.mode == "off" else settings.folder / _NAME


def _load() -> None:
    global _read_from
    path = _file()
    if path == _read_from:
        return
    _read_from = path
    if path is not None:
        _known.update(_listed(path))


def _listed(path: Path) -> dict[str, tuple[str, str]]:
    try:
        with open(path, "rb", opener=_open) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_BYTES:
                return {}
            if state.st_uid != os.geteuid() or state.st_mode & 0o022:
                return {}
            listed = json.load(file)
        return {
            str(name): (str(signature), str(digest)) for name, (signature, digest) in listed.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO would wait for somebody to write


def _save() -> None:
    """Only a speed-up for the next process: what cannot be written is left out."""
    global _behind
    path, _behind = _behind, None
    if path is None or cache_settings().mode != "readwrite":
        return
    import tempfile  # a warm process writes nothing

    merged = {**_listed(path), **_known}
    if len(merged) > _MOST_ENTRIES:
        merged = dict(_known)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{_NAME}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(merged, file, indent=0, sort_keys=True)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


@cache
def written_version(file: Path) -> str:
    """Return the version that a package's Python file names, without importing it; `?` if none."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return "?"
    found = re.search(r"^(?:__version__|version_version) *= *['\"]([^'\"]+)", text, re.MULTILINE)
    return found[1] if found else "?"
