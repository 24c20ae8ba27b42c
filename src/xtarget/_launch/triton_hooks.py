"""Triton's launch hooks (`triton.knobs.runtime.launch_enter_hook`), for our launches.

Triton calls them round `kernel[grid](...)`. While there are any, an observer calls them round the
launches of `run`, of kernel objects and of prepared launches too; else there is none.
"""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .._arrays import view_of
from .._kernels import libraries
from .._kernels.triton_wrappers import Tensor
from .._system.locks import Lock
from ..spec import ArrayType

if TYPE_CHECKING:
    from .._values.types import CompileRequest
    from .hooks import Hook
    from .launched import Launched
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
    told = launch.launched
    request = None if told is None else told.launch.request
    if told is not None and request is not None:
        library = request.source.library  # no function of our own has metadata
        if library is None or library[0] != str(libraries.own_folder()):
            asked = getattr(request.source.load(), "launch_metadata", None)
            if asked is not None:
                said.add(asked, (launch.grid, _metadata(request, told), _arguments(told)))
    _call(_chains()[0], said)


def _arguments(told: Launched) -> dict[str, Any]:
    import triton

    from ..targets._triton.compile import constant_of  # is seldom needed

    given = {name: constant_of(value, triton) for name, value in told.arguments().items()}
    for name in told.arrays():
        if not hasattr(given[name], "numel"):  # torch's, as such functions expect
            layout = given[name]
            layout = layout if isinstance(layout, ArrayType) else view_of(layout).type
            given[name] = Tensor(layout)
    return given


def _metadata(request: CompileRequest, told: Launched) -> SimpleNamespace:
    """The part of Triton's own metadata of a compiled kernel that programs ask for."""
    assert told.launch.function is not None
    artifact = told.launch.function.artifact
    known = {
        "name": artifact.entry,
        "num_warps": artifact.num_warps,
        "num_ctas": artifact.cluster,
        "num_stages": request.num_stages,
        "shared": artifact.shared_bytes,
        "warp_size": artifact.warp_size,
    }
    return SimpleNamespace(**{**dict(request.options), **known})


def _leave(launch: Record) -> None:
    opened = _here.__dict__.get("open", [])
    if opened and opened[-1][0] is launch:  # else they have come while it ran
        _, said = opened.pop()
        _call(_chains()[1], said)


def _call(chain: Any, said: Any) -> None:
    if chain is not None:
        chain(said)
