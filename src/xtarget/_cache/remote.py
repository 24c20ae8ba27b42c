"""The remote store. It is asked if this machine has no entry, and its entries are checked like any
file. Each question has a time limit; a store that fails is left alone for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from .._artifacts.entry import DAMAGE, MAX_BLOB_BYTES, SCHEMA, Entry, Place, pack, unpack
from .._system.locks import Lock
from .._values.errors import UntrustedError, XTargetError
from .._values.text import hide_secrets, shown_url
from .counters import count
from .remote_stores import RemoteStore, open_store
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
        backend: RemoteStore | None = None,
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

        def put(backend: RemoteStore) -> bool:
            backend.put(_name(place), blob)
            return True

        if self._ask(put):
            count(remote_writes=1)

    def _ask(self, question: Callable[[RemoteStore], _T], *, waiting: bool = False) -> _T | None:
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
                    self._backend = open_store(self._url, self._seconds)
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
