"""`XTARGET_LOG=info`: what xtarget says on stderr, and from which level on."""

from __future__ import annotations

import logging

from .._system import spans
from .._system.locks import Lock
from .._system.spans import Span
from .._values import environment
from . import observe
from .records import CallRecord, Record

__all__ = ["begin_from_environment"]

_log = logging.getLogger("xtarget")
#: Steps that compile or load something; others are told with the calls.
_SLOW = frozenset({"compile", "load"})


class _Calls:
    """Logs each call, at `debug`."""

    wants_times = wants_places = wants_launched = False

    def entered(self, launch: Record) -> None:
        pass

    def launched(self, launch: Record) -> None:
        pass

    def timed(self, launch: Record) -> None:
        pass

    def called(self, call: CallRecord) -> None:
        _log.debug(
            "call %s(%s) on %s: %.1f ms", call.kernel, call.layouts, call.device, call.seconds * 1e3
        )


def _stepped(step: Span) -> None:
    level = logging.INFO if step.step in _SLOW else logging.DEBUG
    if not _log.isEnabledFor(level):
        return
    details = "".join(f", {name} {value}" for name, value in step.details.items())
    _log.log(level, "%s %s%s: %.1f ms", step.step, step.name, details, step.seconds * 1e3)


_lock = Lock()
_begun = False


def begin_from_environment() -> None:
    """Have the level that `XTARGET_LOG` names, once in a process.

    Raises:
        ArgumentError: it is no level.
    """
    global _begun
    with _lock:
        if _begun:
            return
        level = environment.log_level()
        if level is None:
            return
        _begun = True
    _log.setLevel(level.upper())
    if not _log.hasHandlers():  # else the program decides where it goes
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("xtarget: %(levelname)s: %(message)s"))
        _log.addHandler(handler)
    if _log.isEnabledFor(logging.INFO):
        spans.listen(_stepped)
    if _log.isEnabledFor(logging.DEBUG):
        observe.add(_Calls())
