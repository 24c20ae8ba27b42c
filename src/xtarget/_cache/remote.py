"""The store behind: asked when this machine has no entry, believed as little as any file, and never
in the way. Each question has a time limit; a store that fails is left alone for a while.
"""

from __future__ import annotations

import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from .._artifacts.entry import DAMAGE, MAX_BLOB_BYTES, SCHEMA, Entry, Place, pack, unpack
from .._system.locks import Lock
from .._values.errors import UntrustedError, XTargetError
from .._values.text import hide_secrets, shown_url
from .counters import count
from .store import warn

if TYPE_CHECKING:
    from .._artifacts.signatures import Trust

__all__ = ["Breaker", "Remote"]

_T = TypeVar("_T")
#: What a store may owe before it is left alone. An error costs 1, no answer in time costs all of
#: it, and every answer the share of the time limit that it took; an entry earns 1, and an answer
#: that there is none a little. One that is quick and has nothing is asked for ever; one that is
#: slow, fails and has nothing by turns is not.
_CREDIT: Final = 3.0
_EARNED, _EARNED_BY_NONE = 1.0, 0.1
#: Owed when it is asked again after a pause.
_ON_TRIAL: Final = 2.0
#: Seconds that it is left alone, doubled each time up to the second number.
_PAUSE: Final = (30.0, 600.0)
_MOST_HUNG: Final = 4


class Backend(Protocol):
    """A way to a store: bytes by name."""

    def get(self, name: str) -> bytes | None:
        """At most `MAX_BLOB_BYTES`; None when there is nothing of that name."""
        ...

    def put(self, name: str, data: bytes) -> None: ...


class Breaker:
    """A circuit breaker: it decides whether to ask the remote store at all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._owed = 0.0
        self._pause = _PAUSE[0]
        self._closed_until = -float("inf")

    def allows(self) -> bool:
        with self._lock:
            return self._clock() >= self._closed_until

    def succeeded(self, share: float = 0.0, *, useful: bool = True) -> float | None:
        """Note an answer.

        Args:
            share: of the time limit, that it took.
            useful: it was an entry.

        Returns:
            as `failed`.
        """
        with self._lock:
            self._owed += share - (_EARNED if useful else _EARNED_BY_NONE)
            if self._owed <= 0:
                self._owed, self._pause = 0.0, _PAUSE[0]
            return self._judge()

    def failed(self, *, hung: bool) -> float | None:
        """The seconds that the store is left alone from now on, None if it is asked again."""
        with self._lock:
            self._owed += _CREDIT if hung else 1.0
            return self._judge()

    def _judge(self) -> float | None:
        if self._owed < _CREDIT:
            return None
        pause, self._owed = self._pause, _ON_TRIAL
        self._closed_until = self._clock() + pause
        self._pause = min(2 * pause, _PAUSE[1])
        return pause


class Remote:
    """A remote store behind a time limit, a breaker and the checks of every entry."""

    def __init__(
        self,
        url: str,
        *,
        seconds: float,
        writable: bool = False,
        trust: Trust | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.shown = shown_url(url)
        self._url = url
        self._seconds = seconds
        self._writable = writable
        self._trust = trust
        self._backend = backend
        self._unusable = False
        self._breaker = Breaker()
        self._lock = Lock()
        self._dropped: set[str] = set()  # names that gave something wrong: not asked again
        self._hung = 0

    def read(self, place: Place) -> Entry | None:
        """The entry of a place, checked."""
        name = _name(place)
        if name in self._dropped:
            return None
        blob = self._ask(lambda backend: backend.get(name), waiting=True)
        if blob is None:
            return None
        try:
            if len(blob) > MAX_BLOB_BYTES:
                raise ValueError("it is too large")
            entry = unpack(blob, place, self._trust)
            if place.kind == "artifact":
                entry.artifact()
        except (UntrustedError, *DAMAGE) as error:
            self._dropped.add(name)
            count(remote_dropped=1)
            warn(f"the entry {name} of the remote cache {self.shown} is not used: {error}")
            return None
        return entry

    def write(self, place: Place, entry: Entry) -> None:
        """Store an entry there, if that is allowed."""
        if not self._writable:
            return
        blob = pack(entry)
        if len(blob) > MAX_BLOB_BYTES:
            warn(f"an entry of {len(blob)} bytes is too large for the remote cache {self.shown}")
            return

        def put(backend: Backend) -> bool:
            backend.put(_name(place), blob)
            return True

        if self._ask(put):
            count(remote_writes=1)

    def _ask(self, question: Callable[[Backend], _T], *, waiting: bool = False) -> _T | None:
        """The answer, or None where there is none in time.

        Args:
            waiting: a kernel waits for the answer, and may have waited in vain.
        """
        if self._unusable:
            return None
        if self._hung >= _MOST_HUNG or not self._breaker.allows():
            count(remote_skipped=1)
            return None
        try:
            with self._lock:
                if self._backend is None:
                    self._backend = _backend(self._url, self._seconds)
        except (ImportError, ValueError, XTargetError) as error:
            self._unusable = True
            why = hide_secrets(str(error), self._url)
            warn(f"the remote cache {self.shown} is not used: {why}")
            return None
        backend = self._backend
        count(remote_asked=1)
        answers: list[_T] = []
        errors: list[Exception] = []

        def work() -> None:
            try:
                answers.append(question(backend))
            except Exception as error:  # reported below, whatever a library raises
                errors.append(error)
            finally:
                done.set()
                with self._lock:
                    self._hung -= 1

        done, start = threading.Event(), time.monotonic()
        with self._lock:
            self._hung += 1
        threading.Thread(target=work, name="xtarget remote cache", daemon=True).start()
        in_time = done.wait(self._seconds)
        if in_time and not errors:
            share = (time.monotonic() - start) / max(self._seconds, 0.001) if waiting else 0.0
            pause = self._breaker.succeeded(min(share, 1.0), useful=answers[0] is not None)
            if pause is not None:
                warn(
                    f"the remote cache {self.shown} is slow or fails too often for what it has; "
                    f"it is not asked for {pause:g} s",
                    once=f"{self.shown} slow {pause}",
                )
            return answers[0]
        what = (
            f"{type(errors[0]).__name__}: {errors[0]}"
            if errors
            else f"no answer in {self._seconds:g} s (XTARGET_CACHE_REMOTE_SECONDS)"
        )
        what = hide_secrets(what, self._url)
        count(remote_errors=1)
        pause = self._breaker.failed(hung=not in_time)
        then = "" if pause is None else f"; it is not asked for {pause:g} s"
        warn(f"the remote cache {self.shown} failed ({what}){then}", once=f"{self.shown}{pause}")
        return None


def _name(place: Place) -> str:
    """`v1/nvidia/sm_90/add-<key>.xte`: made of checked parts and a digest only."""
    return "/".join((SCHEMA, *place.folders, f"{place.stem}.xte"))


# ---------------------------------------------------------------------------------- ways to a store


def _backend(url: str, seconds: float) -> Backend:
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
    """Read a stream to its end, within limits: the end may never come.

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
    """A socket that reads no more for one command than an entry has, and no longer than allowed:
    redis-py reads what the server announces, however much that is.
    """

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
    """GET and PUT. Not through fsspec: its answer has no bound but the server's word."""

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
