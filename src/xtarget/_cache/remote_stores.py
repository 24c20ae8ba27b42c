"""Access to the stores that a remote cache can use: Redis, HTTP, and those that fsspec supports.

Each call ends within a time limit, and takes no more bytes than a blob may have.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable
from typing import Any, Final, Protocol

from .._artifacts.entry import MAX_BLOB_BYTES
from .._values.errors import XTargetError

__all__ = ["RemoteStore", "open_store"]


class RemoteStore(Protocol):
    """Access to a store: bytes by name."""

    def get(self, name: str) -> bytes | None:
        """At most `MAX_BLOB_BYTES`; None when there is nothing of that name."""
        ...

    def put(self, name: str, data: bytes) -> None: ...


def open_store(url: str, seconds: float) -> RemoteStore:
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme in ("redis", "rediss", "unix"):
        return _Redis(url, seconds)
    if scheme in ("http", "https"):
        return _Http(url, seconds)
    return _Fsspec(url, seconds)


_CHUNK: Final = 1 << 20
#: What an answer may have beside an entry: lengths, line ends, the greeting of a connection.
_BESIDE: Final = 1 << 20


def _all_of(read: Callable[[int], bytes], seconds: float) -> bytes:
    """Read a stream to its end, within limits of size and time.

    Raises:
        ValueError: the stream is longer than an entry can be.
        TimeoutError: the stream does not end in time, and nobody waits for it any more.
    """
    parts, size, deadline = [], 0, time.monotonic() + seconds
    while part := read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > MAX_BLOB_BYTES:
            raise ValueError(f"it sends more than {MAX_BLOB_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError(f"its answer did not end in {seconds:g} s")
    return b"".join(parts)


class _Bounded:
    """A socket with limits on the bytes and the time of one command. redis-py reads as many bytes
    as the server announces, without a limit."""

    def __init__(self, socket: Any, seconds: float) -> None:
        self._socket = socket
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        self._left = MAX_BLOB_BYTES + _BESIDE
        self._deadline = time.monotonic() + self._seconds

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise OSError(f"it sends more than {MAX_BLOB_BYTES} bytes")
        if time.monotonic() > self._deadline:
            raise OSError(f"its answer did not end in {self._seconds:g} s")

    def recv(self, *args: Any) -> bytes:
        data: bytes = self._socket.recv(*args)
        self._count(len(data))
        return data

    def recv_into(self, *args: Any) -> int:
        size: int = self._socket.recv_into(*args)
        self._count(size)
        return size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def _bounded(connection: Any, seconds: float) -> Any:
    """A class of redis-py's connections whose sockets are bounded."""

    class Connection(connection):  # type: ignore[misc]  # whichever the URL asks for
        def _connect(self) -> Any:
            return _Bounded(super()._connect(), seconds)

        def send_packed_command(self, *args: Any, **named: Any) -> Any:
            if isinstance(self._sock, _Bounded):
                self._sock.begin()
            return super().send_packed_command(*args, **named)

    return Connection


class _Redis:
    def __init__(self, url: str, seconds: float) -> None:
        try:
            import redis
        except ImportError as error:
            raise XTargetError(
                'redis-py is not installed. Install it with pip install "xtarget[remote]"'
            ) from error
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        pool: Any = redis.ConnectionPool.from_url(
            url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=Retry(NoBackoff(), 0)
        )
        pool.connection_class = _bounded(pool.connection_class, seconds)
        self._redis: Any = redis.Redis(connection_pool=pool)

    def get(self, name: str) -> bytes | None:
        key = f"xtarget/{name}"
        size = self._redis.strlen(key)
        if size > MAX_BLOB_BYTES:
            raise ValueError(f"{name} has {size} bytes")
        data = self._redis.getrange(key, 0, MAX_BLOB_BYTES) if size else None
        return bytes(data) if data else None

    def put(self, name: str, data: bytes) -> None:
        self._redis.set(f"xtarget/{name}", data)


class _Http:
    """HTTP with GET and PUT. fsspec is not used, because it reads as many bytes as the server
    sends."""

    def __init__(self, url: str, seconds: float) -> None:
        self._url = url.rstrip("/")
        self._seconds = seconds

    def _open(self, name: str, data: bytes | None = None) -> Any:
        import urllib.request

        request = urllib.request.Request(
            f"{self._url}/{name}", data=data, method="GET" if data is None else "PUT"
        )
        return urllib.request.urlopen(request, timeout=self._seconds)

    def get(self, name: str) -> bytes | None:
        import urllib.error

        try:
            with self._open(name) as answer:
                return _all_of(answer.read1, self._seconds)
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            raise

    def put(self, name: str, data: bytes) -> None:
        with self._open(name, data):
            pass


class _Fsspec:
    """Any other URL: s3://, gs://, az://, file://, a folder."""

    def __init__(self, url: str, seconds: float) -> None:
        self._seconds = seconds
        self._tidied: set[Any] = set()  # folders without leftovers of killed writers
        try:
            import fsspec
        except ImportError as error:
            raise XTargetError(
                'fsspec is not installed. Install it with pip install "xtarget[remote]"'
            ) from error
        self._files, root = fsspec.url_to_fs(url)
        self._root = str(root).rstrip("/")

    def get(self, name: str) -> bytes | None:
        try:
            with self._files.open(f"{self._root}/{name}", "rb") as file:
                return _all_of(file.read, self._seconds)
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        if "file" in self._files.protocol:  # object stores write whole objects, folders do not
            from pathlib import Path

            from .._system import files

            folder = Path(path).parent
            folder.mkdir(parents=True, exist_ok=True)
            if folder not in self._tidied:
                self._tidied.add(folder)
                files.remove_leftovers(folder)
            files.write(Path(path), data, made=0o666)  # for whom the umask says
        else:
            self._files.pipe_file(path, data)
