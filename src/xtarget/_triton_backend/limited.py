"""`XTARGET_COMPILE_SECONDS` for Triton's own launching: its front end obeys the limit here, all
that comes after in a child process.

A kernel of a program (`__main__`), in a function or behind a lambda is nothing that another process
could import. But what Triton's front end makes of it, a tenth of the time, is text; the child gets
that. The front end is Python, and is stopped between two nodes of the kernel's tree.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from triton.compiler import code_generator, compiler

from .._children.frames import pack
from .._compile.limited import ask_child, given_up
from .._devices import registry
from .._system.progress import progress
from .._values.environment import compile_seconds
from ..targets._spirv.frontend.backend import Options
from ..targets._triton import files
from .tunable import not_built

__all__ = ["limit", "limit_front_end"]

#: What is left to a child in any case, of a limit that the front end has nearly used.
_LEAST_SECONDS = 0.1
#: Of a block, which stages read again.
_BLOCK = ("num_warps", "warp_size")

_here = threading.local()


class _Late(BaseException):
    """Triton's front end makes an error of its own of any `Exception`."""


# ------------------------------------------------------------------------------------ the front end


@cache
def limit_front_end() -> None:
    """Let Triton's front end in this process obey the limit, where it works for our back end."""
    make_ir, visit = compiler.ASTSource.make_ir, code_generator.CodeGenerator.visit

    def limited_make_ir(self: Any, *args: Any, **kwargs: Any) -> Any:
        seconds = compile_seconds()
        ours = any(isinstance(given, Options) for given in (*args, *kwargs.values()))
        if seconds is None or not ours or files.is_inside():
            return make_ir(self, *args, **kwargs)
        began = time.thread_time()
        before, _here.until = getattr(_here, "until", None), began + seconds
        try:
            return make_ir(self, *args, **kwargs)
        except _Late:
            with not_built():
                raise given_up(f"kernel {self.name} for spirv", seconds, "") from None
        finally:
            _here.until, _here.spent = before, time.thread_time() - began

    def limited_visit(self: Any, node: Any) -> Any:
        until = getattr(_here, "until", None)
        if until is not None and time.thread_time() > until:
            raise _Late
        return visit(self, node)

    compiler.ASTSource.make_ir = limited_make_ir
    code_generator.CodeGenerator.visit = limited_visit


# ------------------------------------------------------------------------------ the stages after it


def limit(stages: dict[str, Any], options: Options, seconds: float) -> None:
    """Let a child do these stages, all that are left at once, within so many seconds of its time.

    Args:
        stages: Triton's, by name; changed in place.
    """
    elsewhere = _Elsewhere(tuple(stages), options, seconds)
    stages.update({name: elsewhere.stage(name) for name in stages})


class _Elsewhere:
    """The stages of one compilation."""

    def __init__(self, names: tuple[str, ...], options: Options, seconds: float) -> None:
        self._names, self._options, self._seconds = names, options, seconds
        self._made: dict[str, str | bytes] = {}
        self._last: Any = None
        self._name = "a kernel"

    def stage(self, name: str) -> Callable[[Any, dict[str, Any]], str | bytes]:
        def build(module: Any, metadata: dict[str, Any]) -> str | bytes:
            # what Triton passes on is what it got, or IR that the user has put in its place
            if self._last is None or module is not self._last:
                self._ask(name, module, metadata)
            made = self._last = self._made[name]
            return made

        return build

    def _ask(self, name: str, module: Any, metadata: dict[str, Any]) -> None:
        if not isinstance(module, str):
            self._name = module.get_entry_func_name()
        what = f"kernel {self._name} for spirv"
        options = {field.name: getattr(self._options, field.name) for field in fields(Options)}
        asked = {
            "what": what,
            "toolchain": registry.compiler("cpu").fingerprint,
            "stages": self._names[self._names.index(name) :],
            "text": module if isinstance(module, str) else module.str(),
            "options": options,
            "block": {part: metadata[part] for part in _BLOCK},
        }
        spent, _here.spent = getattr(_here, "spent", 0.0), 0.0
        left = max(self._seconds - spent, _LEAST_SECONDS)
        with progress(f"compiling {self._name} for spirv"):
            answer, parts = ask_child(what, pack(asked, default=_plain), left, self._seconds)
        self._made.update(answer["texts"])
        self._made.update(zip(answer["binaries"], parts, strict=True))
        metadata.update(answer["metadata"])


def _plain(value: Any) -> Any:
    """A number of NumPy's."""
    return value.item()
