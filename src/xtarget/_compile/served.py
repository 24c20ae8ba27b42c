"""Compiling by a compile server (`XTARGET_COMPILE_SERVER`): what is asked, and what is believed.

The unit is that of the executors: the files of the kernel's closure as text, the specialization,
the target. The answer is an entry of the server's cache. Its key is not the server's word: it is
computed here, of what was asked and of the tool chain that the server names.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache

from .. import _cache
from .._artifacts.entry import DAMAGE
from .._cache.remote import Breaker
from .._executors.asking import Lost, answered
from .._executors.posting import AwayError, Server, SettingError, post
from .._system.life import in_forked_child
from .._values import environment
from .._values.errors import CompileError, UntrustedError, XTargetError
from .._values.types import Artifact, CompileRequest, Target
from .apart import SECONDS
from .finding import where_found
from .keys import TOOLCHAIN
from .units import unit_of

__all__ = ["compile_there"]


@lru_cache(maxsize=8)
def _breaker(server: Server) -> Breaker:
    return Breaker()


in_forked_child(_breaker.cache_clear)  # its lock may be held for ever


def compile_there(
    request: CompileRequest, target: Target, parts: Sequence[tuple[str, str]]
) -> Artifact | str:
    """The artifact that the server has made, checked and kept; or why there is none, as a sentence
    (empty if there is no server).

    Args:
        parts: of the key here; the server's tool chain takes the place of the one in them.

    Raises:
        CompileError: the kernel does not compile.
        ArgumentError: the settings of the server cannot be used.
    """
    given = environment.compile_server()
    if given is None:
        return ""
    server = Server(*given)
    breaker = _breaker(server)
    if not breaker.allows():
        return f"{server.shown} did not answer before, and is left alone for a while."
    try:
        made = _asked(server, request, target, parts)
    except SettingError:
        raise
    except AwayError as away:
        pause = breaker.failed(hung=not away.busy)
        return _said(str(away), "" if pause is None else f" It is not asked for {pause:g} s.")
    except (UntrustedError, *DAMAGE) as error:
        return _said(f"{server.shown} sent what is not used: {error}.")
    breaker.succeeded()
    if isinstance(made, str):
        return _said(made)
    return made


def _asked(
    server: Server, request: CompileRequest, target: Target, parts: Sequence[tuple[str, str]]
) -> Artifact | str:
    what = f"{request.source.name} for {target}"
    toolchain = dict(parts)[TOOLCHAIN]
    seconds = min(environment.compile_seconds() or SECONDS, server.seconds)
    try:
        where = where_found(request.source, what)
        unit = unit_of(where, request, target, seconds, toolchain)
    except XTargetError as error:
        return f"{what} cannot travel to {server.url}: {error}"
    blob = post(server, unit)
    try:
        frame = answered(blob, _digest(unit))
    except XTargetError as error:
        return f"{server.shown} refuses: {error}"
    if isinstance(frame, Lost):
        raise ValueError(frame.why)
    header, contents = frame
    for refusal in ("away", "later"):
        if refusal in header:
            return f"{server.shown} does not compile it: {str(header[refusal]).rstrip('.')}."
    if "error" in header:
        raise CompileError(str(header["error"]))
    theirs, (entry,) = str(header["toolchain"]), contents
    if toolchain not in ("", theirs):
        raise ValueError("it was made by another tool chain than was asked for")
    asked_for = [(label, theirs if label == TOOLCHAIN else text) for label, text in parts]
    return _cache.default_cache().take(target, request.source.name, asked_for, entry)


def _digest(unit: bytes) -> str:
    import hashlib

    return hashlib.sha256(unit).hexdigest()


_warned: set[str] = set()


def _said(why: str, then: str = "") -> str:
    """The reason; each is a warning once."""
    if why not in _warned:
        _warned.add(why)
        logging.getLogger("xtarget").warning(
            "%s%s What it was asked for is made without it, if it can be.", why, then
        )
    return why
