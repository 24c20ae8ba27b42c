"""The error of a call that would compile under `XTARGET_COMPILE=error`: it names the class of the
call, and the guards that keep the call from the kernels that are loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._arrays import View, is_scalar, view_of
from .._values.errors import FrozenError, shortened
from .._values.symbols import Tracer
from .outs import Outs

__all__ = ["class_text", "frozen_call", "warmed_up"]

#: Classes that a message tells.
_MOST = 3
#: By kernel and class, the guards of what a warm-up has made ready.
_warm: dict[tuple[str, str], list[Tracer]] = {}


def class_text(
    args: Sequence[Any],
    views: Sequence[View | None],
    out: View | None,
    options: Mapping[str, Any],
) -> str:
    """A class of calls: `float32 1d, float32 2d strided, out float32 2d; axis=0`."""
    parts = [
        type(arg).__name__ if view is None else _array(view)
        for arg, view in zip(args, views, strict=True)
    ]
    if out is not None:
        parts.append(f"out {_array(out)}")
    chosen = ", ".join(f"{name}={shortened(value)}" for name, value in sorted(options.items()))
    return ", ".join(parts) + (f"; {chosen}" if chosen else "")


def _array(view: View) -> str:
    strided = "" if view.type.contiguous else " strided"
    unaligned = " not aligned to 16 bytes" if view.address % 16 else ""
    return f"{view.type.dtype} {view.type.ndim}d{strided}{unaligned}"


def warmed_up(kernel: str, text: str, tracer: Tracer) -> None:
    """A warm-up has made a class ready."""
    _warm.setdefault((kernel, text), []).append(tracer)


def frozen_call(
    error: FrozenError,
    kernel: str,
    args: Sequence[Any],
    out: Any,
    options: Mapping[str, Any],
    bound: Sequence[Tracer],
) -> FrozenError:
    """The error, with what the caller has to know of the call.

    Args:
        bound: the guards of the call's class that this process has bound.
    """
    views = [None if arg is None or is_scalar(arg) else view_of(arg) for arg in args]
    out_view = None if out is None or type(out) is Outs else view_of(out)
    text = class_text(args, views, out_view, options)
    sizes: list[int] = []
    for view in (*views, out_view):
        if view is not None:
            sizes += view.type.shape
            sizes += () if view.type.contiguous else view.type.strides
    shapes = ", ".join(str(view.type.shape) for view in views if view is not None)
    told = [
        f"{' and '.join(failing)} does not hold"
        for tracer in (*bound, *_warm.get((kernel, text), ()))
        if (failing := tracer.failing(sizes))
    ]
    why = "no call of this class was warmed up or made before in this process"
    if told:
        why = "what is loaded of this class does not serve it: " + "; ".join(
            list(dict.fromkeys(told))[:_MOST]
        )
    return FrozenError(f"{kernel}({text}) of shapes {shapes}: {why}. {error}")
