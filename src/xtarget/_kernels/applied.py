"""Kernels that are given a device function: one kernel serves every operator of its form.

`file:kernel(file:function)` is the kernel whose global `operator` is that function. It goes by the
function's name: in binaries, in profilers, in the cache. The function may be made of others
(`composed`).
"""

from __future__ import annotations

import hashlib
import re
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._values.errors import CompileError
from .._values.types import KernelSource, SourceText

__all__ = ["applied", "parts_of"]

_FORM = re.compile(r"([\w.]+:\w+)\(([\w.]+:\w+(?:\(.*>\w+)?)\)")
#: The kernel's global in whose place the function comes.
_PLACE = "operator"


def parts_of(text: str) -> tuple[str, str] | None:
    """Kernel and function of a source text; None where it names a kernel alone."""
    match = _FORM.fullmatch(text)
    return (match[1], match[2]) if match else None


def applied(kernel: KernelSource, function: KernelSource, library: tuple[str, str]) -> KernelSource:
    """The kernel with the function: made from what both are made from.

    Args:
        library: where other processes find it (`KernelSource.library`).
    """
    total = hashlib.sha256()
    for source in (kernel, function):
        total.update(f"{len(source.name)}:{source.name}:{source.digest}:".encode())
    return KernelSource(
        name=function.name,
        digest=total.hexdigest(),
        path=function.path,
        load=lambda: _copy(kernel, function),
        parts=_labelled("kernel", kernel) + _labelled("function", function),
        unidentified=kernel.unidentified or function.unidentified,
        again=lambda: applied(_again(kernel), _again(function), library),
        library=library,
        holds=_both(kernel.holds, function.holds),
        places="\n".join(source.places for source in (kernel, function) if source.places),
        text=_text(kernel.text, function.text),
    )


def _text(kernel: SourceText | None, function: SourceText | None) -> SourceText | None:
    if kernel is None or function is None:
        return None
    return replace(kernel, given=(*kernel.given, (_PLACE, function)))


def _labelled(what: str, source: KernelSource) -> tuple[tuple[str, str], ...]:
    return tuple((f"{what}: {label}", text) for label, text in source.parts)


def _again(source: KernelSource) -> KernelSource:
    return source if source.again is None else source.again()


def _both(
    first: Callable[[], bool] | None, second: Callable[[], bool] | None
) -> Callable[[], bool] | None:
    if first is None or second is None:
        return first or second
    return lambda: first() and second()


def _copy(kernel: KernelSource, function: KernelSource) -> Any:
    """A Triton function of the kernel's code, which sees the function under the global's name."""
    general, device = kernel.load(), function.load()
    inner = general.fn
    if _PLACE not in inner.__globals__:
        raise CompileError(
            f"{kernel.path}: the kernel {kernel.name} takes the function {function.name} in the "
            f"place of its global {_PLACE!r}, and the file has no such global. Define one, any "
            f"@triton.jit function, and call it in {kernel.name}."
        )
    values = {**inner.__globals__, _PLACE: device}
    copy = types.FunctionType(inner.__code__, values, function.name, inner.__defaults__)
    copy.__kwdefaults__, copy.__annotations__ = inner.__kwdefaults__, inner.__annotations__
    copy.__qualname__, copy.__module__ = function.name, inner.__module__
    made = type(general)(copy)
    if hasattr(general, "debug"):  # not what Triton's interpreter makes
        made.debug = general.debug
    return made
