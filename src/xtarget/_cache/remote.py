"""The store behind: asked when this machine has no entry, believed as little as any file, and never
in the way. Each question has a time limit; a store that fails is left alone for a while.
"""

from __future__ import annotations

import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from .. import _env
from .._errors import UntrustedError, XTargetError
from .counters import count
from .entry import DAMAGE, MAX_BLOB_BYTES, SCHEMA, Entry, Place, pack, unpack
from .store import warn

if TYPE_CHECKING:
    from .._trust import Trust

__all__ = ["Breaker", "Remote"]

_T = TypeVar("_T")
#: Errors in a row after which the store is left alone; one question without an answer is enough.
_MOST_ERRORS: Final = 3
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
    """Whether to ask at all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._errors = 0
        self._pause = _PAUSE[0]
        self._closed_until = -float("inf")

    def allows(self) -> bool:
        with self._lock:
            return self._clock() >= self._closed_until

    def succeeded(self) -> None:
        with self._lock:
            self._errors, self._pause = 0, _PAUSE[0]

    def failed(self, *, hung: bool) -> float | None:
        """The seconds that the store is left alone from now on, None if it is asked again."""
        with self._lock:
            self._errors += 1
            if not hung and self._errors < _MOST_ERRORS:
                return None
            pause = self._pause
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
        self.shown = _env.without_password(url)
        self._url = url
        self._seconds = seconds
        self._writable = writable
        self._trust = trust
        self._backend = backend
        self._unusable = False
        self._breaker = Breaker()
        self._lock = threading.Lock()
        self._dropped: set[str] = set()  # names that gave something wrong: not asked again
        self._hung = 0

    def read(self, place: Place) -> Entry | None:
        """The entry of a place, checked."""
        name = _name(place)
        if name in self._dropped:
            return None
        blob = self._ask(lambda backend: backend.get(name))
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

        def put(backend: Backend) -> bool:
            backend.put(_name(place), blob)
            return True

        if self._ask(put):
            count(remote_writes=1)

    def _ask(self, question: Callable[[Backend], _T]) -> _T | None:
        """The answer, or None where there is none in time."""
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
            warn(f"the remote cache {self.shown} is not used: {error}")
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

        done = threading.Event()
        with self._lock:
            self._hung += 1
        threading.Thread(target=work, name="xtarget remote cache", daemon=True).start()
        in_time = done.wait(self._seconds)
        if in_time and not errors:
            self._breaker.succeeded()
            return answers[0]
        what = (
            f"{type(errors[0]).__name__}: {errors[0]}"
            if errors
            else f"no answer in {self._seconds:g} s (XTARGET_CACHE_REMOTE_SECONDS)"
        )
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
    return _Fsspec(url)


class _Redis:
    def __init__(self, url: str, seconds: float) -> None:
        try:
            import redis
        except ImportError as error:
            raise XTargetError(
                'redis-py is not installed. Install it with pip install "xtarget[remote]"'
            ) from error
        self._redis: Any = redis.Redis.from_url(
            url, socket_timeout=seconds, socket_connect_timeout=seconds
        )

    def get(self, name: str) -> bytes | None:
        key = f"xtarget/{name}"
        size = self._redis.strlen(key)
        if size > MAX_BLOB_BYTES:
            raise ValueError(f"{name} has {size} bytes")
        data = self._redis.get(key) if size else None
        return None if data is None else bytes(data)

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
                return bytes(answer.read(MAX_BLOB_BYTES + 1))
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            raise

    def put(self, name: str, data: bytes) -> None:
        with self._open(name, data):
            pass


class _Fsspec:
    """Any other URL: s3://, gs://, az://, file://, a folder."""

    def __init__(self, url: str) -> None:
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
                return bytes(file.read(MAX_BLOB_BYTES + 1))
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        if "file" in self._files.protocol:  # object stores write whole objects, folders do not
            from pathlib import Path

            from . import files

            Path(path).parent.mkdir(parents=True, exist_ok=True)
            files.write(Path(path), data, shared=True)
        else:
            self._files.pipe_file(path, data)
