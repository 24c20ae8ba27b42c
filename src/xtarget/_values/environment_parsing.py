"""From the text of an environment variable to its value: each function raises ValueError with the
second half of a sentence, and says what to write.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

__all__ = [
    "MOST_SOCKET_PATH",
    "Parse",
    "boolean",
    "choice",
    "count",
    "file",
    "files",
    "folders",
    "is_this_machine",
    "kernels",
    "names",
    "nbytes",
    "parse_bytes",
    "path",
    "paths",
    "program",
    "seconds",
    "server",
    "store",
    "text",
    "words",
]

Parse = Callable[[str], Any]

#: Bytes that the path of a Unix socket may have: what `sockaddr_un` has room for, less the NUL.
MOST_SOCKET_PATH: Final = 107

_YES: Final = ("1", "true", "yes", "on")
_NO: Final = ("0", "false", "no", "off")
#: More seconds than anybody waits; five times that is as many milliseconds as a poll may take.
_MOST_SECONDS: Final = 400_000.0
_NO_SIZE: Final = (
    "is not a size. Write bytes, or a number with K, M, G or T (of 1024), for example 500M or "
    "2GiB; none means no limit."
)
_MOST_COUNT: Final = 2**63 - 1
#: More than any machine has, and what the system takes as a limit.
_MOST_BYTES: Final = 1 << 60


def text(given: str) -> str:
    return given


def path(given: str) -> Path:
    if given.startswith("~"):  # a folder of that name would be made in the current one
        raise ValueError("begins with ~, which a shell did not expand. Write the whole path.")
    return Path(given)


def paths(given: str) -> tuple[Path, ...]:
    """Separated like PATH."""
    return tuple(path(part) for part in given.split(os.pathsep) if part)


def folders(given: str) -> tuple[Path, ...]:
    found = paths(given)
    for folder in found:
        if not _is(folder, Path.is_dir):
            raise ValueError(
                f"names {_short(folder)}, which is not a folder. Make it, or leave it out."
            )
    return found


def file(given: str) -> Path:
    return files(given, os.sep)[0]


def files(given: str, separator: str = os.pathsep) -> tuple[Path, ...]:
    found = paths(given) if separator == os.pathsep else (path(given),)
    for one in found:
        if not _is(one, Path.is_file):
            raise ValueError(f"names {_short(one)}, which is not a file. Correct the path.")
    return found


def _short(name: Path | str) -> str:
    shown = str(name)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _is(path: Path, kind: Callable[[Path], bool]) -> bool:
    try:
        return kind(path)
    except OSError:  # its name is too long
        return False


def program(given: str) -> str:
    from .._system.tools import find_tool

    if find_tool(given) is None:
        raise ValueError(f"names {_short(given)}, which is not a program. Correct the path.")
    return given


def store(given: str) -> str:
    """The URL of a remote store, or an absolute path; anything else would be looked for in the
    current folder."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(//|:)", given) and not os.path.isabs(given):
        raise ValueError(
            "is not a URL. Write one, for example redis://host/0 or s3://bucket/cache, or the "
            "absolute path of a folder."
        )
    return given


def server(given: str) -> str:
    """Where a compile server is. The token of an unprotected connection would be readable on its
    way, so it may go to this machine only."""
    import urllib.parse

    scheme, _, rest = given.partition(":")
    if scheme == "unix" and os.path.isabs(rest):
        if len(os.fsencode(rest)) > MOST_SOCKET_PATH:
            raise ValueError(
                f"names no socket: its path has up to {MOST_SOCKET_PATH} bytes. Choose a shorter "
                "one."
            )
        return given
    try:
        parts = urllib.parse.urlsplit(given)
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    plain = parts.scheme in ("http", "https") and parts.hostname and port
    if not plain or parts.path.strip("/") or parts.query or parts.username:
        raise ValueError(
            "is not an address of a compile server. Write unix:/PATH, https://host:port or "
            "http://localhost:port."
        )
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        raise ValueError(
            "would send the token unprotected over the network. Use https://, or a server on this "
            "machine (localhost)."
        )
    return given.rstrip("/")


def is_this_machine(host: str) -> bool:
    """Whether a host's name, or address, is the loopback's."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names(given: str) -> tuple[str, ...]:
    """Separated by commas, each once."""
    found = tuple(part.strip().lower() for part in given.split(",") if part.strip())
    if len(set(found)) < len(found) or not all(part.isidentifier() for part in found):
        raise ValueError("is not a list of names. Write each once, separated by commas.")
    return found


def boolean(given: str) -> bool:
    if given.lower() not in (*_YES, *_NO):
        raise ValueError("means nothing. Write 1 or 0.")
    return given.lower() in _YES


def choice(*choices: str, folder: str = "") -> Parse:
    """One of some words.

    Args:
        folder: the variable to set where a path is given.
    """

    def parse(given: str) -> str:
        if given not in choices:
            other = f"; a folder is given by {folder}" if folder and os.sep in given else ""
            raise ValueError(f"means nothing. Write {' or '.join(choices)}{other}.")
        return given

    return parse


def words(*known: str) -> Parse:
    """A set of words, separated by commas."""

    def parse(given: str) -> frozenset[str]:
        found = frozenset(part.strip() for part in given.split(",") if part.strip())
        if not found or not found <= {*known}:
            raise ValueError(f"means nothing. Write {' or '.join(known)}.")
        return found

    return parse


def seconds(example: float, *, least: float = 0.001, none: bool = False) -> Parse:
    """A finite number of seconds.

    Args:
        example: for the message.
        least: that is allowed.
        none: the word `none` is allowed, and is None.
    """

    def parse(given: str) -> float | None:
        if none and given.lower() == "none":
            return None
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not least <= value <= _MOST_SECONDS:
            also = ", or none for no limit" if none else ""
            raise ValueError(
                f"is not a time. Write seconds, {least:g} to {_MOST_SECONDS:.0f}, for example "
                f"{example:g}{also}."
            )
        return value

    return parse


def count(least: int, most: int = _MOST_COUNT, what: str = "number") -> Parse:
    """A whole number; `2e10` is one."""

    def parse(given: str) -> int:
        value = -1
        if re.fullmatch(r"[0-9_]{1,25}", given) and given.strip("_"):
            value = int(given.replace("_", ""))
        elif re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,20})?[eE]\+?[0-9]{1,2}", given):
            value = int(float(given)) if float(given).is_integer() else -1
        if not least <= value <= most:
            to = f" to {most}" if most != _MOST_COUNT else " or more"
            raise ValueError(f"is not a {what}. Write {least}{to}.")
        return value

    return parse


def fraction(given: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("is not a share. Write a number from 0 to 1, for example 0.01.")
    return value


def nbytes(least: int = 0, *, zero: bool = False, instead: str = "") -> Parse:
    """A number of bytes; `none` is None.

    Args:
        least: that is of use: less is a number whose unit was forgotten.
        zero: 0 is one too.
        instead: what else to write, as a sentence.
    """

    def parse(given: str) -> int | None:
        try:
            value = parse_bytes(given)
        except ValueError:
            raise ValueError(_NO_SIZE) from None
        if value is None or (value == 0 and zero):
            return value
        if not least <= value <= _MOST_BYTES:
            raise ValueError(
                f"is {value} bytes, too {'few' if value < least else 'many'}. Write a number with "
                f"K, M, G or T (of 1024), {least >> 20}M or more, for example 500M or 2GiB; none "
                f"is not a limit.{' ' if instead else ''}{instead}"
            )
        return value

    return parse


def kernels(most: int, least_bytes: int) -> Parse:
    """A number of kernels, a size of all of them (None: no limit), or both.

    Args:
        most: where only a size is given.
        least_bytes: less is a number whose unit was forgotten.
    """

    def parse(given: str) -> tuple[int, int | None]:
        first, both, second = (part.strip() for part in given.partition(","))
        if not both and not first.isdecimal():
            try:
                return count(1)(first), None
            except ValueError:
                return most, nbytes(least_bytes)(first)
        return count(1)(first), nbytes(least_bytes)(second) if both else None

    return parse


def parse_bytes(given: str) -> int | None:
    """`500M`, `2GiB`, `4096`; `none` is None.

    Raises:
        ValueError: it is not a size.
    """
    if given.lower() == "none":
        return None
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(?:i?b)?", given.lower())
    if match is None:
        raise ValueError(f"{given!r} {_NO_SIZE}")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " "))
