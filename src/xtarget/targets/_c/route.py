"""Shared by the routes that compile C: the translation of a request, or why there is none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

from ..._system.package import FOLDER
from ..._values.errors import CompileError, UnknownTargetError
from ..._values.types import CompileRequest, Target
from .._host import contents
from ..optional import Route
from .dialects import DIALECTS, Dialect
from .translate import Translated, translate
from .values import RefusedError
from .written import written

__all__ = ["check_arch", "fingerprint", "refusal", "translated"]


def fingerprint(own: Sequence[str]) -> str:
    """The files of xtarget that decide the text.

    Args:
        own: paths in its package; the last part may be `*.py`.
    """
    files = []
    for pattern in own:
        folder, _, last = pattern.rpartition("/")
        where = os.path.join(FOLDER, folder)
        names = contents.names_in(where)[0] if last == "*.py" else [last]
        files += [(f"{folder}/{n}", os.path.join(where, n)) for n in names if n.endswith(".py")]
    return f"xtarget {contents.of_files(f'route {FOLDER} {tuple(own)}', files)[:32]}"


@lru_cache(maxsize=64)
def _of(request: CompileRequest, language: str, warp_size: int) -> Translated | str:
    """The text, or why there is none. The digest of the request's source stands for its text."""
    chosen = DIALECTS[language]
    threads = request.num_warps * warp_size
    own = {source.suffix: source for source in request.source.written}
    for suffix in chosen.suffixes:
        if suffix in own:
            try:
                return written(own[suffix], request, chosen, threads, warp_size)
            except RefusedError as why:
                return f"{why}."
    source = request.source.text
    if source is None:
        return (
            "what its Triton function reads is not written out in its file, so no other compiler "
            "can know it."
        )
    try:
        return translate(source, request, chosen, threads)
    except RefusedError as why:
        return f"it cannot be written in {chosen.name}: {why}."


def check_arch(route: Route, target: Target) -> None:
    """Raises UnknownTargetError if a route does not compile for a target."""
    if target.arch not in route.archs():
        raise UnknownTargetError(
            f"the route {route.name} does not know {target}. It knows {', '.join(route.archs())}."
        )


def _made(request: CompileRequest, dialect: Dialect, warp_size: int) -> Translated | str:
    return _of(request, dialect.name, warp_size)


def refusal(request: CompileRequest, dialect: Dialect, warp_size: int) -> str:
    """Why a request cannot be translated, as a sentence; empty if it can."""
    made = _made(request, dialect, warp_size)
    return made if isinstance(made, str) else ""


def translated(request: CompileRequest, dialect: Dialect, warp_size: int) -> Translated:
    """The kernel's text.

    Raises:
        CompileError: there is none.
    """
    made = _made(request, dialect, warp_size)
    if isinstance(made, str):
        raise CompileError(f"kernel {request.source.name} ({request.source.path}): {made}")
    return made
