"""Work in units: each a frame that a worker answers with a frame.

A unit that a lost worker had is asked once more; then it is lost, and the others go on.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from typing import Any

from .._children.frames import Frame, pack, unpack
from .._values.errors import XTargetError, shortened_text
from .._values.value_classes import value_class

__all__ = ["Lost", "answer", "answered", "answers", "asked", "versions", "whole"]

#: Units that are submitted at the same time: more than workers of a large cluster, and not all.
_AHEAD = 256
#: How often a unit is asked whose worker was lost.
_TRIES = 2
#: Seconds without an answer after which it is looked whether there are workers, and seconds for
#: which none are waited for: a cluster may start its first ones when it is asked.
_LOOK, _WORKERLESS = 5.0, 300.0


@value_class(frozen=True, slots=True)
class Lost:
    """A unit without an answer.

    Attributes:
        why: what the executor says.
        broken: the executor takes no units any more.
    """

    why: str
    broken: bool


def versions() -> dict[str, str]:
    """Versions that have to be equal on both sides."""
    package = sys.modules[__name__.partition(".")[0]]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"xtarget": str(package.__version__), "Python": python}


def asked(header: dict[str, Any], parts: list[bytes]) -> bytes:
    """A unit, with the versions of who asks."""
    return pack({**header, "versions": versions()}, parts)


def whole(data: bytes) -> Frame:
    """The one frame of `data`.

    Raises:
        ValueError: it is none.
    """
    rest = bytearray(data)
    frame = unpack(rest)
    if frame is None or rest or not isinstance(frame[0], dict):
        raise ValueError("it is no message")
    return frame


def answer(data: bytes, do: Callable[[dict[str, Any], list[bytes]], Frame]) -> bytes:
    """On the worker: the answer to a unit, or the sentence that refuses it.

    Args:
        do: the work; its XTargetErrors are the unit's result.
    """
    header, parts = whole(data)
    here, there = versions(), header.pop("versions")
    machine = socket.gethostname()
    about = {"unit": hashlib.sha256(data).hexdigest(), "machine": machine}
    if here != there:
        refusal = (
            f"the worker on {machine} has {_listed(here)}, and who asks has {_listed(there)}. "
            "Install the same versions on both."
        )
        return pack({**about, "refused": refusal})
    try:
        found, contents = do(header, parts)
    except XTargetError as error:
        return pack({**about, "error": str(error)})
    return pack({**found, **about}, contents)


def _listed(versions: dict[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in versions.items())


def answers(
    executor: Executor,
    function: Callable[[bytes], bytes],
    count: int,
    unit: Callable[[int], bytes],
) -> Iterator[tuple[int, Frame | Lost]]:
    """Have units answered; gives (index, its answer) in the order of their ends.

    Args:
        function: of a module that the workers can import.
        unit: makes a unit when its turn comes; a unit that cannot be made is lost.

    Raises:
        XTargetError: a worker refuses, because it is another version; there are no workers, and
            none come.
    """
    todo, tries = deque(range(count)), Counter[int]()
    running: dict[Future[bytes], tuple[int, str]] = {}
    workers = _Workers(executor)
    broken = ""
    try:
        while todo or running:
            while todo and not broken and len(running) < _AHEAD:
                index = todo.popleft()
                try:
                    data = unit(index)
                except XTargetError as error:  # its files are gone, or cannot travel
                    yield index, Lost(str(error), False)
                    continue
                try:
                    future = executor.submit(function, data)
                except Exception as error:  # it was shut down, or its machines are gone
                    broken = _said(error)
                    todo.appendleft(index)
                else:
                    running[future] = index, hashlib.sha256(data).hexdigest()
            if broken:
                while todo:
                    yield todo.popleft(), Lost(broken, True)
            if not running:
                continue
            done = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED).done
            workers.look(bool(done))
            for future in done:
                index, digest = running.pop(future)
                tries[index] += 1
                try:
                    result = future.result()
                except (Exception, CancelledError) as error:  # whatever an executor raises
                    if isinstance(error, BrokenExecutor | CancelledError):  # we cancel none here
                        broken = _said(error)
                        yield index, Lost(broken, True)
                    elif tries[index] < _TRIES:
                        todo.append(index)
                    else:
                        yield index, Lost(_said(error), False)
                else:
                    yield index, answered(result, digest)
    finally:  # also when the caller has enough
        for future in running:
            future.cancel()


class _Workers:
    """Whether an executor has any; `without_workers` of those that `opening` opens says it."""

    def __init__(self, executor: Executor) -> None:
        self._missing: Callable[[], str] | None = getattr(executor, "without_workers", None)
        self._since = 0.0

    def look(self, answered: bool) -> None:
        """Warn of a lack of workers when it begins.

        Raises:
            XTargetError: it lasts.
        """
        why = "" if answered or self._missing is None else self._missing()
        if not why:
            self._since = 0.0
        elif not self._since:
            self._since = time.monotonic()
            logging.getLogger("xtarget").warning(
                "%s; they are waited for, for %g s at most.", why, _WORKERLESS
            )
        elif time.monotonic() - self._since > _WORKERLESS:
            raise XTargetError(f"{why}, and do it again: none came in {_WORKERLESS:g} s.")


def answered(result: object, digest: str) -> Frame | Lost:
    """A worker's answer.

    Args:
        digest: sha256 (hex) of the unit that it was given.

    Raises:
        XTargetError: it refuses the unit, because it is another version.
    """
    try:
        if not isinstance(result, bytes):
            raise TypeError(f"it is of the type {type(result).__name__}")
        frame = whole(result)
        if frame[0]["unit"] != digest:
            raise ValueError("it answers another unit")
    except (ValueError, TypeError, KeyError, UnicodeDecodeError, RecursionError) as error:
        return Lost(f"a worker's answer cannot be used: {shortened_text(str(error), 300)}", False)
    if "refused" in frame[0]:
        raise XTargetError(str(frame[0]["refused"]))
    return frame


def _said(error: BaseException) -> str:
    if isinstance(error, CancelledError):
        return "it was shut down, or its scheduler is gone"
    text = f"{type(error).__name__}: {shortened_text(str(error), 300)}".rstrip(": ")
    package = __name__.partition(".")[0]
    if isinstance(error, AttributeError) or (
        isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == package
    ):
        return f"{text} (the worker has no such xtarget: install this version there)"
    return text
