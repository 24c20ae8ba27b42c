"""Kernels that are given a device function: one kernel serves every operator of its form.

`file:kernel(file:function)` is the kernel whose global `operator` is that function. It goes by the
function's name: in binaries, in profilers, in the cache. The function may be made of others
(`composed`). `file:kernel[steps]` and `file:kernel(steps)[steps]` are kernels whose global `before`
is what the steps in brackets make; `[name=steps]` stands for the global of that name, and there may
be several.
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

__all__ = ["COMPOSED", "applied", "parts_of"]

_FORM = re.compile(r"([\w.]+:\w+)\(([\w.]+:\w+(?:\(.*>\w+)?)\)")
_BEFORE = re.compile(
    r"([\w.]+:\w+(?:\(.*>\w+\))?(?:\[[^\[\]]*\])*)\[(?:(\w+)=)?([\w.]+:\w+\([^\[\]]*>\w+)\]"
)
#: The kernel's global in whose place the function comes.
_OPERATOR, _FIRST = "operator", "before"
#: The text of a function that is made of steps (`steps`) has it, and no other does.
COMPOSED = ">"
#: Characters of a kernel's name that is made of two.
_LONGEST = 80


def parts_of(text: str) -> tuple[str, str, str] | None:
    """Kernel and function of a source text, and the global that the function stands for; None where
    it names a kernel alone."""
    match = _BEFORE.fullmatch(text)
    if match:
        return match[1], match[3], match[2] or _FIRST
    match = _FORM.fullmatch(text)
    return (match[1], match[2], _OPERATOR) if match else None


def applied(
    kernel: KernelSource, function: KernelSource, place: str, library: tuple[str, str]
) -> KernelSource:
    """The kernel with the function: made from what both are made from.

    Args:
        place: the global that the function stands for.
        library: where other processes find it (`KernelSource.library`).
    """
    total = hashlib.sha256()
    for source in (kernel, function):
        total.update(f"{len(source.name)}:{source.name}:{source.digest}:".encode())
    name = function.name
    if place != _OPERATOR:
        total.update(place.encode())
        name = f"{name}_{kernel.name.removeprefix('fused_')}"[:_LONGEST]
    return KernelSource(
        name=name,
        digest=total.hexdigest(),
        path=function.path,
        load=lambda: _copy(kernel, function, place, name),
        parts=_labelled("kernel", kernel) + _labelled("function", function),
        unidentified=kernel.unidentified or function.unidentified,
        again=lambda: applied(_again(kernel), _again(function), place, library),
        library=library,
        holds=_both(kernel.holds, function.holds),
        places="\n".join(source.places for source in (kernel, function) if source.places),
        text=_text(kernel.text, function.text, place),
    )


def _text(kernel: SourceText | None, function: SourceText | None, place: str) -> SourceText | None:
    if kernel is None or function is None:
        return None
    return replace(kernel, given=(*kernel.given, (place, function)))


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


def _copy(kernel: KernelSource, function: KernelSource, place: str, name: str) -> Any:
    """A Triton function of the kernel's code, which sees the function under the global's name."""
    general, device = kernel.load(), function.load()
    inner = general.fn
    if place not in inner.__globals__:
        raise CompileError(
            f"{kernel.path}: the kernel {kernel.name} takes the function {function.name} in the "
            f"place of its global {place!r}, and the file has no such global. Define one, any "
            f"@triton.jit function, and call it in {kernel.name}."
        )
    values = {**inner.__globals__, place: device}
    copy = types.FunctionType(inner.__code__, values, name, inner.__defaults__)
    copy.__kwdefaults__, copy.__annotations__ = inner.__kwdefaults__, inner.__annotations__
    copy.__qualname__, copy.__module__ = name, inner.__module__
    made = type(general)(copy)
    if hasattr(general, "debug"):  # not what Triton's interpreter makes
        made.debug = general.debug
    return made
