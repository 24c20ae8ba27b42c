"""The launches of a fused function, run."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from .._arrays import is_scalar, view_of
from .._arrays.dtypes import numpy_dtype
from .._launch import run as _run
from .._values.errors import ArgumentError
from .given import outs_of
from .launches import Launch, Program
from .reaches import meets

__all__ = ["OtherRows", "execute", "replay", "seen_of"]

#: Classes of arrays that have a dtype and a shape to look a call up by, found as calls are made.
_arrays: set[type] = set()


class OtherRows(Exception):
    """Arrays of a section over rows are of other lengths beside each other than when traced."""


def _check_rows(launch: Launch, args: Sequence[Any]) -> None:
    """The arrays that have elements for each of a row have the same number; the others have one.

    Raises:
        OtherRows: they do not.
    """
    lengths = set()
    for index, wide, axes in launch.rows:
        if axes is None:  # it is traced for each shape
            continue
        shape = getattr(args[index], "shape", None)
        if shape is None:
            shape = view_of(args[index]).type.shape
        last = math.prod(shape[axis] for axis in axes)
        if wide:
            lengths.add(last)
        elif last != 1:
            raise OtherRows
    if len(lengths) > 1:
        raise OtherRows


def seen_of(values: Sequence[Any], *, learn: bool = False) -> Hashable:
    """By what a call is known to be as an earlier one: classes, dtypes and shapes of arrays. None:
    it has other arguments than arrays and floats.

    Args:
        learn: their classes may be new ones.
    """
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in _arrays:
            found += (kind, value.dtype, value.shape)
        elif kind is float:
            found.append(kind)
        elif learn and _is_array(value):
            _arrays.add(kind)
            found += (kind, value.dtype, value.shape)
        else:
            return None
    return tuple(found)


def _is_array(value: Any) -> bool:
    """Whether an array says itself what it is, in objects that have a hash."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None or is_scalar(value):
        return False
    return type(dtype).__hash__ is not None


def replay(
    name: str, program: Program, values: Sequence[Any], out: Any, device: Any, stream: Any
) -> Any:
    """Run what has run before, with arrays of the same shapes.

    Args:
        name: of the function.
        out: of the call.
    """
    alone = program.alone
    if alone is None or isinstance(out, tuple | list):
        outs = outs_of(name, program, out, values)
        return execute(program, values, outs, device, stream, known_rows=True)
    args = _args_of(alone, values)
    if out is not None and alone.whole:
        return _run_whole(alone, args, out, device, stream)
    if device is None and stream is None and not alone.options:
        return (
            _run.run(alone.kernel, *args) if out is None else _run.run(alone.kernel, *args, out=out)
        )
    return _run.run(alone.kernel, *args, out=out, device=device, stream=stream, **alone.options)


def _args_of(launch: Launch, known: Sequence[Any]) -> list[Any]:
    if launch.straight is not None:
        return [known[place] for place in launch.straight]
    return [
        own
        if how == "constant"
        else numpy_dtype(dtype).type(known[own])
        if how == "number"
        else known[own]
        for how, own, dtype in launch.operands
    ]


def _run_whole(launch: Launch, args: Sequence[Any], out: Any, device: Any, stream: Any) -> Any:
    """A launch with `out`, which goes through memory of its own where it shares some with an
    argument."""
    named = {"device": device, "stream": stream, **launch.options}
    try:
        return _run.run(launch.kernel, *args, out=out, **named)
    except ArgumentError:  # before anything is launched
        if not meets(out, args):
            raise
    return _into(out, _run.run(launch.kernel, *args, **named), device, stream)


def execute(
    program: Program,
    values: Sequence[Any],
    outs: tuple[Any, ...],
    device: Any,
    stream: Any,
    *,
    known_rows: bool = False,
) -> Any:
    """Run the launches.

    Args:
        outs: for the function's results, None for each where the caller has none.
        known_rows: arrays of these shapes have been taken before.

    Raises:
        OtherRows: the program does not hold for such rows.
    """
    known = [*values, *(None,) * (program.values - len(values))]
    for launch in program.launches:
        args = _args_of(launch, known)
        if launch.rows and not known_rows:
            _check_rows(launch, args)
        given = tuple(None if end < 0 else outs[end] for end in launch.results)
        several = len(given) > 1
        ready = all(own is not None for own in given) and (not several or bool(launch.text))
        named = {"device": device, "stream": stream, **launch.options}
        made: Any
        if ready and not several and launch.whole:
            made = _run_whole(launch, args, given[0], device, stream)
        elif ready:  # of several, none shares memory with anything else of the call
            made = _run.run(launch.kernel, *args, out=given if several else given[0], **named)
        else:  # the caller may have memory for some of several results only
            made = _run.run(launch.kernel, *args, **named)
            if several:
                pairs = zip(given, made, strict=True)
                made = [_into(own, value, device, stream) for own, value in pairs]
            else:
                made = _into(given[0], made, device, stream)
        for place, value in zip(launch.places, made if several else (made,), strict=True):
            known[place] = value
        for place in launch.last:
            known[place] = None
    return program.form([known[place] for place in program.returned])


def _into(out: Any, value: Any, device: Any, stream: Any) -> Any:
    """A result in the caller's array for it; None: it stays where it is."""
    if out is None:
        return value
    dtype = view_of(value).type.dtype
    return _run.run("cast", value, out=out, dtype=dtype, device=device, stream=stream)
