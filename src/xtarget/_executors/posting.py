"""A unit sent to a compile server over HTTP, by a local socket or the network, and its answer.

The answer to `POST /v1/compile` is a stream of frames: notes, which say that the server works, then
the one that answers the unit. What is no answer has a status other than 200 and a sentence.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from .._children.frames import pack, unpack
from .._system import files
from .._values.errors import ArgumentError
from .._values.text import shown_url

__all__ = [
    "BUNDLE",
    "BUSY",
    "COMPILE",
    "HEADER",
    "MOST_UNIT_BYTES",
    "PROTOCOL",
    "SILENCE",
    "AwayError",
    "Server",
    "SettingError",
    "post",
    "token_of",
]

PROTOCOL: Final = "1"
HEADER: Final = "Xtarget-Protocol"
COMPILE: Final = "/v1/compile"
#: Of programs without Python (`_serve.bundles`).
BUNDLE: Final = "/v1/bundle"
#: Of the files of a kernel and what is said of them.
MOST_UNIT_BYTES: Final = 64 << 20
#: Seconds without a byte from a server that works on a unit; it sends notes more often.
SILENCE: Final = 10.0
#: Statuses of a server that has too much to do.
BUSY: Final = (429, 503)

_CONNECT_SECONDS: Final = 5.0
_CHUNK: Final = 1 << 16
#: An entry may have 64 MiB.
_MOST_ANSWER: Final = 65 << 20
_MOST_SENTENCE: Final = 2000
_MOST_TOKEN_FILE: Final = 1 << 20


#: What bytes raise that are no frames.
_NO_FRAMES: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class AwayError(Exception):
    """There is no answer. The text is a sentence.

    Attributes:
        busy: the server is there, and has too much to do.
    """

    def __init__(self, why: str, *, busy: bool = False) -> None:
        super().__init__(why)
        self.busy = busy


class SettingError(ArgumentError):
    """A file that a variable of this process names cannot be used; no server is asked."""


class Server(NamedTuple):
    """Where a compile server is, and how it knows who asks.

    Attributes:
        url: `unix:PATH`, `http://host:port` or `https://host:port`.
        token: a file with the token; None for a socket, whose permissions say who may ask.
        ca: a file of certificates (PEM) that are believed, in place of the system's.
        seconds: that an answer may take.
    """

    url: str
    token: Path | None
    ca: Path | None
    seconds: float

    @property
    def shown(self) -> str:
        return f"The compile server {shown_url(self.url)}"


class _Local(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def token_of(path: Path) -> str:
    """The token of a client: the last word of the file's first line.

    Raises:
        SettingError: there is none.
    """
    try:
        text = files.read_regular(path, _MOST_TOKEN_FILE).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"the token file {path} (XTARGET_COMPILE_TOKEN) cannot be read: {_reason(error)}."
        ) from error
    words = text.split("\n", 1)[0].split()
    if not words or not words[-1].isascii():
        raise SettingError(
            f"the first line of the token file {path} has no token of ASCII characters. Make one "
            "with `openssl rand -hex 32`."
        )
    return words[-1]


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _connection(server: Server) -> http.client.HTTPConnection:
    scheme, _, rest = server.url.partition(":")
    if scheme == "unix":
        return _Local(rest)
    parts = urllib.parse.urlsplit(server.url)
    host = parts.hostname or ""
    if scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=_CONNECT_SECONDS)
    import ssl

    try:
        context = ssl.create_default_context(cafile=server.ca)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise SettingError(
            f"the certificates of {server.ca} (XTARGET_COMPILE_CA) cannot be read: "
            f"{_reason(error)}. Name a file of certificates in PEM."
        ) from error
    return http.client.HTTPSConnection(host, parts.port, timeout=_CONNECT_SECONDS, context=context)


def post(server: Server, unit: bytes, going: Callable[[], bool] = lambda: True) -> bytes:
    """The frame that answers a unit.

    Args:
        going: says whether anybody still wants it; asked with each note.

    Raises:
        SettingError: the token file or the file of certificates cannot be used.
        AwayError: there is no server, it refuses to answer, is too slow, or dies.
    """
    headers = {HEADER: PROTOCOL, "Content-Type": "application/octet-stream"}
    if server.token is not None:
        headers["Authorization"] = f"Bearer {token_of(server.token)}"
    if len(unit) > MOST_UNIT_BYTES:
        raise AwayError(f"the files of the kernel have more than {MOST_UNIT_BYTES} bytes.")
    deadline = time.monotonic() + server.seconds
    connecting = _connection(server)
    try:
        with contextlib.closing(connecting) as connection:
            connection.connect()
            connection.sock.settimeout(min(SILENCE, server.seconds))
            with _hung_up(connection.sock, deadline):
                # a server that refuses answers before it has read all, and its answer counts
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.request("POST", COMPILE, unit, headers)
                answer = connection.getresponse()
                if _past(deadline):  # what was hung up on can look like an answer without headers
                    raise _late(server)
                _check(server, answer)
                return _streamed(server, answer, deadline, going)
    except TimeoutError as error:
        raise AwayError(
            f"{server.shown} says nothing for {min(SILENCE, server.seconds):g} s."
        ) from error
    except (OSError, http.client.HTTPException, *_NO_FRAMES) as error:
        if _past(deadline):
            raise _late(server) from error
        doubt = getattr(error, "verify_message", "")  # of ssl's, which is loaded for TLS only
        if doubt:
            raise AwayError(
                f"{server.shown} shows a certificate that is not believed here: "
                f"{doubt.rstrip('.')}. Renew it there, or name what is to be believed in "
                "XTARGET_COMPILE_CA."
            ) from error
        if getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":
            raise AwayError(
                f"{server.shown} does not speak TLS. Write http:// for one on this machine that "
                "was started without --tls-cert."
            ) from error
        said = _reason(error) or type(error).__name__
        hint = ""
        if isinstance(error, ConnectionResetError) and server.url.startswith("http:"):
            hint = " If it was started with --tls-cert, write https://."
        raise AwayError(f"{server.shown} does not answer ({said}).{hint}") from error


@contextlib.contextmanager
def _hung_up(connection: socket.socket, deadline: float) -> Iterator[None]:
    """Hang up at the deadline: a server that sends a byte now and then is never silent."""

    def hang_up() -> None:
        with contextlib.suppress(OSError):  # it has ended
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(deadline - time.monotonic(), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _past(deadline: float) -> bool:
    return time.monotonic() >= deadline


def _late(server: Server) -> AwayError:
    return AwayError(
        f"{server.shown} has no answer after {server.seconds:g} s (XTARGET_COMPILE_SERVER_SECONDS)."
    )


def _check(server: Server, answer: http.client.HTTPResponse) -> None:
    """Raises:
    AwayError: it is no answer to the unit.
    """
    spoken = answer.getheader(HEADER)
    if spoken is None:
        raise AwayError(f"{server.shown} is none: what answers there is something else.")
    if spoken != PROTOCOL:
        raise AwayError(
            f"{server.shown} speaks version {spoken[:20]} of the protocol, and this xtarget "
            f"version {PROTOCOL}. Install the same xtarget on both."
        )
    if answer.status != 200:
        text = answer.read(_MOST_SENTENCE).decode("utf-8", "replace").strip()
        raise AwayError(
            f"{server.shown} refuses ({answer.status}): {text}", busy=answer.status in BUSY
        )


def _streamed(
    server: Server,
    answer: http.client.HTTPResponse,
    deadline: float,
    going: Callable[[], bool],
) -> bytes:
    data = bytearray()
    total = 0
    while chunk := answer.read1(_CHUNK):
        data += chunk
        total += len(chunk)
        if total > _MOST_ANSWER:
            raise ValueError("it sends more than an entry can have")
        while (frame := unpack(data)) is not None:
            if "note" not in frame[0]:
                return pack(*frame)
            total = len(data)
        if not going():
            raise AwayError("nobody waits for it any more.")
        if _past(deadline):
            raise _late(server)
    if _past(deadline):
        raise _late(server)
    raise AwayError(f"{server.shown} ended in the middle of an answer.")
