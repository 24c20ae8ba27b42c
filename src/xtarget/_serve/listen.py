"""How a compile server is reached: HTTP on a local socket, or on a port with a token and TLS."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import logging
import os
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

from .._children.frames import pack
from .._executors.asking import versions
from .._executors.posting import BUNDLE, COMPILE, HEADER, MOST_UNIT_BYTES, PROTOCOL
from .._values.environment_parsing import MOST_SOCKET_PATH, is_this_machine
from .._values.errors import ArgumentError, XTargetError
from . import bundles
from .credentials import hashed, tls_of, tokens_of
from .work import Work

__all__ = ["CompileServer", "opened"]

STATUS = "/v1/status"
#: Seconds in which a client has to send the head of its request, and what it announced, and to take
#: what it asked for.
_PATIENCE = 30.0
#: Seconds between notes to a client that waits; below `posting.SILENCE`.
_NOTE = 2.0
#: Seconds for what a client that is refused still sends.
_LINGER = 2.0
_MOST_CONNECTIONS = 256
_CHUNK = 1 << 16
_log = logging.getLogger("xtarget.serve")


class _RefusedError(Exception):
    """A status and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "xtarget"
    sys_version = ""
    timeout = _PATIENCE
    server: CompileServer

    def setup(self) -> None:
        if self.server.tls is not None:  # in the thread of the connection: others do not wait
            self.request.settimeout(_PATIENCE)
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        # who sends a byte now and then is never silent for long, and needs no token so far
        self._late = threading.Timer(_PATIENCE, self._hang_up)
        self._late.daemon = True
        self._late.start()
        super().setup()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):  # of the connection itself: TLS is another thread's
            socket.socket.shutdown(self.request, socket.SHUT_RDWR)

    def parse_request(self) -> bool:
        whole = super().parse_request()
        self._late.cancel()
        return whole

    def finish(self) -> None:
        self._late.cancel()
        try:
            super().finish()
        finally:
            self.request.close()  # with TLS it is another object than the server's

    def do_POST(self) -> None:
        self._answered(self._work)

    def do_GET(self) -> None:
        self._answered(self._status)

    def _answered(self, answer: Any) -> None:
        self.close_connection = True
        try:
            answer(self._client())
        except _RefusedError as refused:
            self._send(refused.status, "text/plain; charset=utf-8", str(refused).encode())
            self._linger()

    def _linger(self) -> None:
        """Take what still comes: a connection that is closed with bytes nobody has read is reset,
        and the client's system drops an answer that the client has not read."""
        left, deadline = MOST_UNIT_BYTES, time.monotonic() + _LINGER
        self.connection.settimeout(_LINGER)
        with contextlib.suppress(OSError):
            while left > 0 and time.monotonic() < deadline:
                part = self.rfile.read1(_CHUNK)
                if not part:
                    return
                left -= len(part)

    def _client(self) -> str:
        """A client that asks.

        Raises:
            _RefusedError: it has no right to, or speaks another protocol.
        """
        tokens = self.server.tokens
        client = "of the socket"
        if tokens:
            kind, _, token = self.headers.get("Authorization", "").partition(" ")
            if kind != "Bearer" or not token:
                raise _RefusedError(
                    401, "it asks for a token. Name its file: XTARGET_COMPILE_TOKEN."
                )
            given = hashed(token.strip())
            found = [name for known, name in tokens.items() if hmac.compare_digest(known, given)]
            if not found:
                raise _RefusedError(401, "the token is wrong. Ask for one of this server's.")
            (client,) = found
        spoken = self.headers.get(HEADER, PROTOCOL)
        if spoken != PROTOCOL:
            raise _RefusedError(
                426,
                f"this server speaks version {PROTOCOL} of the protocol (xtarget "
                f"{versions()['xtarget']}), and who asks version {spoken[:20]}. Install the same "
                "xtarget on both.",
            )
        return client

    def _work(self, client: str) -> None:
        if self.path not in (COMPILE, BUNDLE):
            raise _RefusedError(404, f"there is nothing at {self.path[:80]}.")
        compute: Callable[[str, bytes], bytes]
        if self.path == BUNDLE:
            note, compute = bundles.NOTE, self._bundle
        else:
            note, compute = pack({"note": {"works": True}}), self._compile
        asked = self._body()
        answers: list[bytes] = []
        done = threading.Event()

        def work() -> None:
            try:
                answers.append(compute(client, asked))
            finally:
                done.set()
                self.server.left()

        self.server.entered()
        threading.Thread(target=work, daemon=True).start()
        self.server.entered()  # until the answer is sent: the work may outlive who asked
        try:
            self._begin(200, "application/octet-stream")
            while not done.wait(_NOTE):
                self.wfile.write(note)
            self.wfile.write(answers[0])
        finally:
            self.server.left()

    def _compile(self, client: str, unit: bytes) -> bytes:
        try:
            return self.server.work.answer(client, unit)
        except Exception as error:
            _log.exception("a unit of the client %s", client)
            why = f"it is no unit that this server knows ({type(error).__name__})"
            return pack({"away": why, "unit": hashlib.sha256(unit).hexdigest()})

    def _bundle(self, client: str, request: bytes) -> bytes:
        try:
            return bundles.packed(self.server.work.bundle(client, request))
        except XTargetError as error:
            return bundles.refused(str(error))
        except Exception as error:
            _log.exception("a request for a bundle of the client %s", client)
            why = f"it is no request that this server knows ({type(error).__name__})."
            return bundles.refused(why)

    def _body(self) -> bytes:
        """Raises:
        _RefusedError: it is too long, or does not come.
        """
        given = self.headers.get("Content-Length", "")
        if not given.isdecimal() or len(given) > 12:
            raise _RefusedError(411, "the request does not say its length.")
        left = int(given)
        if left > MOST_UNIT_BYTES:
            raise _RefusedError(413, f"a request may have {MOST_UNIT_BYTES} bytes, not {left}.")
        parts, deadline = [], time.monotonic() + _PATIENCE
        while left:
            part = self.rfile.read1(min(left, _CHUNK))
            if not part or time.monotonic() > deadline:
                raise _RefusedError(
                    408, "the request does not come as long as it says, or in time."
                )
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _status(self, client: str) -> None:
        if self.path != STATUS:
            raise _RefusedError(404, f"there is nothing at {self.path[:80]}.")
        facts = {**versions(), "protocol": PROTOCOL, **self.server.work.counts}
        self._send(200, "application/json", json.dumps(facts).encode())

    def _begin(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header(HEADER, PROTOCOL)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def _send(self, status: int, kind: str, text: bytes) -> None:
        self._begin(status, kind, len(text))
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        _log.info(format, *args)


class CompileServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A listening server.

    Attributes:
        tokens: clients by the sha256 of their tokens; none: whoever reaches it may ask.
        shown: its address, as clients write it.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128
    _families: ClassVar[Mapping[bool, int]] = {
        False: socket.AF_INET,
        True: socket.AF_INET6,
    }

    def __init__(
        self,
        listen: str | tuple[str, int],
        work: Work,
        tokens: Mapping[bytes, str],
        tls: ssl.SSLContext | None,
    ) -> None:
        self.work, self.tokens, self.tls = work, tokens, tls
        self._room = threading.Semaphore(_MOST_CONNECTIONS)
        self._changed = threading.Condition()
        self._inside = 0
        self.last = time.monotonic()
        if isinstance(listen, str):
            self.address_family = socket.AF_UNIX
        else:
            self.address_family = self._families[":" in listen[0]]
        super().__init__(listen, _Handler)  # type: ignore[arg-type]  # a path for AF_UNIX

    @property
    def shown(self) -> str:
        if self.address_family == socket.AF_UNIX:
            return f"unix:{self.server_address!s}"
        host, port = self.socket.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        return f"http{'s' if self.tls else ''}://{name}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.info("a connection ended", exc_info=True)

    # ------------------------------------------------------------------------------- what runs

    def entered(self) -> None:
        with self._changed:
            self._inside += 1

    def left(self) -> None:
        with self._changed:
            self._inside -= 1
            self.last = time.monotonic()
            self._changed.notify_all()

    @property
    def idle_seconds(self) -> float:
        """Since the last answer; 0 while one is in work."""
        with self._changed:
            return 0.0 if self._inside else time.monotonic() - self.last

    def drain(self, seconds: float) -> bool:
        """Wait for what is in work, and for its answers; whether all were sent in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._inside, seconds)


@contextlib.contextmanager
def opened(
    listen: str, work: Work, tokens: Path | None, certificate: Path | None, key: Path | None
) -> Iterator[CompileServer]:
    """A server that listens, until the end.

    Args:
        listen: `unix:PATH` or `host:port`; port 0 takes a free one.
        tokens: the token file.
        certificate, key: of TLS (PEM).

    Raises:
        ArgumentError: the address is none, or would be open to all who reach it.
        XTargetError: the address is in use, or cannot be taken.
    """
    known = {} if tokens is None else tokens_of(tokens)
    tls = tls_of(certificate, key)
    if listen.startswith("unix:"):
        path = Path(listen.removeprefix("unix:"))
        if not path.is_absolute():
            raise ArgumentError(f"--listen {listen} names no absolute path. Write unix:/PATH.")
        if len(os.fsencode(path)) > MOST_SOCKET_PATH:
            raise ArgumentError(
                f"--listen {listen} cannot be taken: the path of a socket has up to "
                f"{MOST_SOCKET_PATH} bytes. Choose a shorter one."
            )
        with _socket_at(path, work, known) as server:
            yield server
        return
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]")
    if not (colon and host and port.isdecimal() and int(port) < 1 << 16):
        raise ArgumentError(f"--listen {listen} is no address. Write unix:/PATH or host:port.")
    if not known:
        raise ArgumentError(
            f"--listen {listen} lets every process that reaches it run code here. Give --token "
            "FILE (openssl rand -hex 32 > FILE; chmod 600 FILE), or listen on unix:/PATH."
        )
    if tls is None and not is_this_machine(host):
        raise ArgumentError(
            f"--listen {listen} would send tokens and kernels unprotected over the network. Give "
            "--tls-cert and --tls-key, or listen on localhost or unix:/PATH."
        )
    try:
        server = CompileServer((host, int(port)), work, known, tls)
    except OSError as error:
        raise _taken(listen, error) from error
    with server:
        yield server


def _taken(listen: str, error: OSError) -> XTargetError:
    """Why an address cannot be listened at."""
    hints = {
        errno.EADDRINUSE: " Something else has it: choose another one, or stop that.",
        errno.ENOENT: " Make the folder first.",
    }
    why, hint = error.strerror or error, hints.get(error.errno or 0, "")
    return XTargetError(f"--listen {listen} cannot be taken: {why}.{hint}")


@contextlib.contextmanager
def _socket_at(path: Path, work: Work, tokens: Mapping[bytes, str]) -> Iterator[CompileServer]:
    """A server on a socket that only this user reaches."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink(missing_ok=True)  # its server is gone
            else:
                raise XTargetError(f"another server listens at {path} already. Stop it first.")
    before = os.umask(0o177)
    try:
        server = CompileServer(str(path), work, tokens, None)
    except OSError as error:
        raise _taken(f"unix:{path}", error) from error
    finally:
        os.umask(before)
    own = os.stat(path)
    try:
        with server:
            yield server
    finally:
        with contextlib.suppress(OSError):
            now = os.stat(path)
            if (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino):
                path.unlink()
