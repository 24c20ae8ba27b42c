"""Every call of the operating system fails once, and from some moment on for ever: the caller gets
his kernel all the same, and nothing that is wrong."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from xtarget import Artifact, Target
from xtarget._cache import Cache, key_of
from xtarget._system import files
from xtarget._values.environment import CacheSettings

TARGET = Target("nvidia", "sm_90")
PARTS = [("n", "0")]
KEY = key_of(PARTS)
ARTIFACT = Artifact(TARGET, "cubin", "k", bytes(1000), 4, 32, 0, parameters=())
CALLS = (
    *("open", "read", "write", "close", "fsync", "fdopen", "replace", "mkdir", "unlink", "utime"),
    *("stat", "lstat", "fstat", "pread", "scandir", "listdir", "chmod", "fchmod"),
)


def opened(folder: Path) -> Cache:
    return Cache(folder, CacheSettings(folder, max_bytes=6_000, wait_seconds=0.02))


def use(folder: Path) -> Artifact:
    """As `_compile.functions.artifact` does it, with a compiler that takes no time."""
    cache = opened(folder)
    found = cache.get(TARGET, "k", KEY)
    if found is None:
        with cache.flight(TARGET, "k", KEY):
            found = cache.get(TARGET, "k", KEY, again=True)
            if found is None:
                found = ARTIFACT
                cache.put("k", KEY, PARTS, found)
    return found


def nothing(folder: Path) -> None:
    pass


def an_entry(folder: Path) -> None:
    opened(folder).put("k", KEY, PARTS, ARTIFACT)


def a_damaged_entry(folder: Path) -> None:
    an_entry(folder)
    (path,) = folder.glob("v1/*/*/*.cubin")
    path.write_bytes(bytes(999) + b"x")


def no_room(folder: Path) -> None:
    cache = opened(folder)
    for n in range(4):
        parts = [("n", str(n + 1))]
        cache.put("other", key_of(parts), parts, replace(ARTIFACT, binary=bytes(1000)))


def a_stalled_owner(folder: Path) -> None:
    """A process that is stopped while it compiles."""
    with opened(folder).flight(TARGET, "k", KEY):
        (name,) = folder.glob("v1/.locks/*.lock")
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _held.append(descriptor)


_held: list[int] = []


class Fault:
    """The call with this number fails, or that one and all after it."""

    def __init__(self, number: int, code: int, for_ever: bool) -> None:
        self.number, self.code, self.for_ever = number, code, for_ever
        self.calls = 0

    def wrap(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self.calls += 1
            wrong = self.calls >= self.number if self.for_ever else self.calls == self.number
            if wrong and name != "close":  # one that fails has closed all the same (Linux)
                raise OSError(self.code, os.strerror(self.code))
            result = real(*args, **named)
            if wrong:
                raise OSError(self.code, os.strerror(self.code))
            return result

        return call


Check = Callable[[Callable[[Path], None], int, bool], None]


def _counted_sleep(pauses: list[float], sleep: Callable[[float], None], seconds: float) -> None:
    pauses.append(seconds)
    sleep(seconds)


@pytest.fixture
def check_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Let the file system fail at each of its calls in turn."""
    monkeypatch.setattr(logging.getLogger("xtarget.cache"), "disabled", True)
    monkeypatch.setattr(files, "_PAUSES", (0.0,))
    monkeypatch.setattr("xtarget._cache.lock._LOOK", 0.01)  # so long it polls what it cannot lock
    monkeypatch.setattr(os, "fsync", lambda _: None)

    def check(before: Callable[[Path], None], code: int, for_ever: bool) -> None:
        number = 0
        while True:
            number += 1
            folder = tmp_path / str(number)
            before(folder)
            fault = Fault(number, code, for_ever)
            pauses: list[float] = []
            with monkeypatch.context() as patch:
                for name in CALLS:
                    patch.setattr(os, name, fault.wrap(getattr(os, name), name))
                patch.setattr(fcntl, "flock", fault.wrap(fcntl.flock, "flock"))
                patch.setattr(time, "sleep", partial(_counted_sleep, pauses, time.sleep))
                assert use(folder) == ARTIFACT
            assert sum(pauses) < 5, "it waited"
            assert use(folder) == ARTIFACT
            assert use(folder) == ARTIFACT
            while _held:
                os.close(_held.pop())
            if fault.calls < number:
                break
        assert number > 5

    return check


@pytest.mark.sample(2, each=("before", "code", "for_ever"))
@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize(
    "code",
    [
        errno.ENOSPC,
        errno.ESTALE,
        *(
            pytest.param(code, marks=pytest.mark.long)
            for code in (errno.EIO, errno.EACCES, errno.EROFS, errno.EBUSY)
        ),
    ],
)
@pytest.mark.parametrize(
    "before", [nothing, an_entry, a_damaged_entry, no_room], ids=lambda f: f.__name__
)
def test_no_fault_of_a_file_system_is_the_callers(
    check_faults: Check, before: Callable[[Path], None], code: int, for_ever: bool
) -> None:
    check_faults(before, code, for_ever)


@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize("code", [errno.EROFS, pytest.param(errno.EIO, marks=pytest.mark.long)])
def test_no_fault_while_a_stalled_owner_is_waited_for_is_the_callers(
    check_faults: Check, code: int, for_ever: bool
) -> None:
    check_faults(a_stalled_owner, code, for_ever)
