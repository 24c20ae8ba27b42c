"""The launches of a fused function, run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._arrays import is_scalar, kind_of, view_of
from .._arrays.dtypes import numpy_dtype
from .._launch import lookup
from .._launch import run as _run
from .launches import Launch, Program

__all__ = ["OtherRows", "execute", "reach"]


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


def execute(
    program: Program, values: list[Any], outs: tuple[Any, ...], device: Any, stream: Any
) -> Any:
    known = [*values, *(None,) * (program.values - len(values))]
    for launch in program.launches:
        args = [
            own
            if how == "constant"
            else numpy_dtype(dtype).type(known[own])
            if how == "number"
            else known[own]
            for how, own, dtype in launch.operands
        ]
        if launch.rows:
            _check_rows(launch, args)
        given = tuple(None if end < 0 else outs[end] for end in launch.results)
        several = len(given) > 1
        ready = all(own is not None for own in given) and (not several or bool(launch.text))
        apart = several or not launch.whole or not ready or not meets(given[0], args)
        named = {"device": device, "stream": stream, **launch.options}
        made: Any
        if ready and apart:  # of several, none shares memory with anything else of the call
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


def reach(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    layout = view_of(array).type
    address = kind_of(lookup.adopted("", "", array, written=False)).describe(array)[0]
    low, high = layout.span
    return address + low * layout.itemsize, address + high * layout.itemsize


def meets(out: Any, args: Sequence[Any]) -> bool:
    """Whether a result may share memory with an argument."""
    low, high = reach(out)
    others = (reach(arg) for arg in args if arg is not None and not is_scalar(arg))
    return any(low < end and begin < high for begin, end in others)


def _into(out: Any, value: Any, device: Any, stream: Any) -> Any:
    """A result in the caller's array for it; None: it stays where it is."""
    if out is None:
        return value
    dtype = view_of(value).type.dtype
    return _run.run("cast", value, out=out, dtype=dtype, device=device, stream=stream)
