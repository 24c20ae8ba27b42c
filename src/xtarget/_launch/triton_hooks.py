"""Triton's launch hooks (`triton.knobs.runtime.launch_enter_hook`), for our launches.

Triton calls them round `kernel[grid](...)`. While there are any, an observer calls them round the
launches of `run`, of kernel objects and of prepared launches too; else there is none.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from .._system.locks import Lock

if TYPE_CHECKING:
    from .hooks import Hook
    from .records import Record

__all__ = ["follow"]

_here = threading.local()
_lock = Lock()
_hook: Hook | None = None


def _chains() -> tuple[Any, Any]:
    """Triton's hooks before and after a launch; None for each where Triton is not loaded."""
    runtime = getattr(sys.modules.get("triton.knobs"), "runtime", None)
    return (
        getattr(runtime, "launch_enter_hook", None),
        getattr(runtime, "launch_exit_hook", None),
    )


def follow() -> None:
    """Call Triton's hooks from now on if there are any, and else no longer."""
    global _hook
    wanted = any(getattr(chain, "calls", None) for chain in _chains())
    if not wanted and _hook is None:
        return
    from . import observe  # is seldom needed
    from .hooks import Hook

    with _lock:
        if wanted and _hook is None:
            _hook = Hook(_enter, _leave, stays=True)
            observe.add(_hook)
        elif not wanted and _hook is not None:
            observe.remove(_hook)
            _hook = None


def _enter(launch: Record) -> None:
    from triton.compiler.compiler import LazyDict

    said = LazyDict({"name": launch.entry, "function": None, "stream": launch.stream.handle})
    _here.__dict__.setdefault("open", []).append((launch, said))
    _call(_chains()[0], said)


def _leave(launch: Record) -> None:
    opened = _here.__dict__.get("open", [])
    if opened and opened[-1][0] is launch:  # else they have come while it ran
        _, said = opened.pop()
        _call(_chains()[1], said)


def _call(chain: Any, said: Any) -> None:
    if chain is not None:
        chain(said)
