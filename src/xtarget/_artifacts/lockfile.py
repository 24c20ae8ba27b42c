"""Lock files: the binaries that a program may load (`xtarget lock`, `XTARGET_LOCK`).

A lock is JSON: each binary by kernel, target and sha256, with the digest of its source and the tool
chain that made it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._system import files
from .._values.errors import LoadError
from .._values.types import Artifact
from .entry import is_key

__all__ = ["Locked", "check", "text_of", "tools_of"]

_FORMAT = 1
_MOST_BYTES = 64 << 20
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, order=True)
class Locked:
    """A binary of a lock.

    Attributes:
        sha256: of its bytes.
        source: digest of the kernel's source; empty if it is not known.
        tools: the tool chain (`tools_of`).
    """

    kernel: str
    target: str
    route: str
    sha256: str
    nbytes: int
    source: str
    tools: str


def tools_of(fingerprint: str) -> str:
    """A tool chain in one word."""
    return hashlib.sha256(fingerprint.encode()).hexdigest()[:16] if fingerprint else _UNKNOWN


def text_of(binaries: Iterable[Locked], tools: Mapping[str, str], version: str) -> bytes:
    """The content of a lock file, the same for the same binaries.

    Args:
        tools: what the words of tool chains stand for.
        version: of xtarget.
    """
    listed = sorted(set(binaries))
    used = {one.tools for one in listed}
    body = {
        "xtarget_lock": _FORMAT,
        "xtarget": version,
        "tools": {word: text.splitlines() for word, text in sorted(tools.items()) if word in used},
        "binaries": [asdict(one) for one in listed],
    }
    return json.dumps(body, indent=1).encode() + b"\n"


def check(path: Path, made: Artifact, kernel: str, tools: Callable[[], str]) -> None:
    """That a lock has a binary.

    Args:
        tools: gives the tool chain that compiles here, for a message.

    Raises:
        LoadError: it has not, or cannot be read.
    """
    known = _read(path, _state(path))
    sha256 = hashlib.sha256(made.binary).hexdigest()
    if any(one.sha256 == sha256 and one.kernel == kernel for one in known):
        return
    same = [one for one in known if one.kernel == kernel and one.target == str(made.target)]
    if not same:
        there = ", ".join(sorted({one.target for one in known if one.kernel == kernel}))
        why = f"it has {kernel} for {there} only" if there else f"it has no kernel {kernel}"
    else:
        # those of a bundle do not say who made them
        here, wanted = tools_of(tools()), sorted({one.tools for one in same} - {_UNKNOWN})
        why = (
            f"it has {len(same)} of {kernel} with other contents: they are for other arguments or "
            "of another source"
        )
        if wanted and here not in (*wanted, _UNKNOWN):
            why = (
                f"those of {kernel} in it were made with another tool chain ({', '.join(wanted)}) "
                f"than the one here ({here})"
            )
    raise LoadError(
        f"the lock {path} does not have the binary of {kernel} for {made.target} that was to be "
        f"loaded (sha256 {sha256[:16]}...): {why}. Install what the lock was made with, or make it "
        "anew with xtarget lock."
    )


def _state(path: Path) -> tuple[int, int]:
    try:
        seen = path.stat()
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from error
    return seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=4)
def _read(path: Path, state: tuple[int, int]) -> tuple[Locked, ...]:
    """The binaries of a lock file.

    Raises:
        LoadError: it is none, or of a later version.
    """
    try:
        body = json.loads(files.read_regular(path, _MOST_BYTES))
        if body["xtarget_lock"] != _FORMAT:
            raise _unreadable(
                path, f"it has the format {body['xtarget_lock']!r}, known is {_FORMAT}"
            )
        return tuple(_locked(one) for one in body["binaries"])
    except OSError as error:
        raise _unreadable(path, str(error.strerror or error)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(path, f"it is not a lock ({type(error).__name__}: {error})") from error


def _locked(fields: Any) -> Locked:
    found = Locked(**fields)
    if not is_key(found.sha256):
        raise ValueError(f"{str(found.sha256)[:80]!r} is not a sha256")
    return found


def _unreadable(path: Path, why: str) -> LoadError:
    return LoadError(
        f"the lock {path} that XTARGET_LOCK names cannot be used: {why}. Write one with xtarget "
        "lock, or unset the variable."
    )
