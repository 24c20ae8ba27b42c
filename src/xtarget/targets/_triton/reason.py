"""Find out why a back end of Triton failed. Its passes and assemblers give the reason on standard
error only, and raise "PassManager::run failed". So the stages run again in a child process, and its
standard error is read.

This module is that child too. A failure here leaves the message poorer, never the compilation
different.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._children.child import Child, ChildLostError, NoChildError
from ..._children.frames import pack
from ..._children.limits import deadline
from ..._children.serve import serve
from .parsing import new_context, parse_module

__all__ = ["errors_of", "read_module", "reason", "says_nothing", "told"]

_SECONDS = 60.0
#: The log starts with the errors; dumps of whole modules follow.
_LOG_BYTES = 64 << 20
_ERROR = re.compile(r'^(?:loc\(")?(?P<where>[^\n]*?)"?\)?: error: (?P<said>.*)$', re.M)
_PLACE = re.compile(r'"?(?P<path>[^"(]+?)"?:(?P<line>\d+):\d+')
_ASSERTION = re.compile(r"Assertion `(.*)' failed", re.S)
#: What LLVM adds to every failure.
_NO_NEWS = re.compile(r"Failures have been detected|A signal was caught")
#: All that AMD's linker has to say where Triton 3.8 and older have assembled nothing.
_NO_OBJECT = re.compile(r"target emulation unknown")
#: Messages of exceptions that leave the reason to standard error.
_EMPTY = re.compile(r"PassManager::run failed|assembler rejected|LLD failed to link")


def says_nothing(message: str) -> bool:
    """Return whether Triton's message contains no reason."""
    return _EMPTY.search(message) is not None


def reason(
    text: str, *, backend: str, arch: int | str, warp_size: int, options: Mapping[str, Any]
) -> str:
    """Return what a back end's stages say about a module before they fail; empty if nothing.

    Args:
        text: the front end's module, with locations.
        backend, arch, warp_size: Triton's `GPUTarget`.
        options: of the back end.
    """
    wanted = {"text": text, "target": (backend, arch, warp_size), "options": dict(options)}
    return errors_of(__name__, wanted)


def errors_of(module: str, request: dict[str, Any]) -> str:
    """Return what passes write in a child process that runs `module`, as `told` reads it.

    Args:
        request: what the child answers, or ends with.
    """
    child = Child(module, _LOG_BYTES)
    try:
        child.ask(pack(request), deadline(_SECONDS))
        return told(child.log())
    except ChildLostError as lost:
        if lost.late:
            return f"(the reason could not be found out: the child process {lost})"
        return told(lost.log)
    except (NoChildError, OSError, TypeError) as error:
        return f"(the reason could not be found out: {error})"
    finally:
        child.end(kill=True)


def told(log: str) -> str:
    """The errors in what passes wrote, each once, with file and line."""
    found = []
    for match in _ERROR.finditer(log):
        place = _PLACE.search(match["where"])
        where = f"{Path(place['path']).name}:{place['line']}: " if place else ""
        if _NO_NEWS.search(match["said"]):
            continue
        if _NO_OBJECT.search(match["said"]):
            found.append(
                "the assembler refuses an instruction (of inline assembly, most often), and this "
                "version of Triton does not say which"
            )
            continue
        if (text := where + match["said"].strip()) not in found:
            found.append(text)
    if broken := _ASSERTION.search(log):
        found.append(f"an assertion of Triton failed: {broken[1]}")
    return "; ".join(found)


def read_module(text: str, load_dialects: Any) -> Any:
    """Triton's module of its text, in a context of its own."""
    return parse_module(new_context(load_dialects), text)


def _run(wanted: dict[str, Any], _: list[bytes]) -> bytes:
    """In the child: run all stages of what is wanted."""
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    target = GPUTarget(*wanted["target"])
    backend = make_backend(target)
    options = backend.parse_options(wanted["options"])
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    made = read_module(wanted["text"], backend.load_dialects)
    metadata = {"hash": "", "target": target, **options.__dict__}
    for run in stages.values():
        made = run(made, metadata)
    return pack({})


if __name__ == "__main__":
    serve(lambda: _run)
