"""What the compiled core is told of a bound call, so that it makes the next one of its layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .._arrays import MakesNatively, PointsToStream
from .._kernels import libraries
from .._values.types import LaunchConfig
from ..spec import ArrayType
from ..targets._objects.scalars import PACK
from ..targets.base import Function, NativeLaunch, StartsNatively, Stream, Value
from .arguments import placed
from .call import BoundCall, device_text
from .classes import layouts_of
from .interrupts import settle, unfinished
from .passing import Chained, Passing

__all__ = ["described", "install"]

#: Of `_core/entry.c`: how the library of `out` hears of the write, and where a call is launched.
_NOT, _TORCH, _OWN = 0, 1, 2
_ASKED, _ON_THEIRS, _ON_TORCHS, _POINTED_AT = 0, 1, 2, 3
#: Of `_core/launch.h`: how a parameter is passed.
_AS_WORD, _AS_SIZE = 0, 4
_ROUNDED = {"float16": 5, "bfloat16": 6}
_PASSED = {"i1": 1, "u1": 1, "fp32": 2, "fp64": 3} | {
    f"{sign}{bits}": _AS_WORD for sign in "iu" for bits in (8, 16, 32, 64)
}
#: DLPack's number of the devices that torch calls `cuda`.
_DLPACK = {"nvidia": 2, "amd": 10}


def install(core: Any, run: Callable[..., Any], names: dict[str, Any]) -> tuple[Any, Any]:
    """Have the core make calls.

    Args:
        run: makes them in Python.
        names: the names of its module.

    Returns:
        the same function as the core makes it, for everybody but a debugger; and what the core
        lives with, for the module to keep.
    """
    offers = partial(_offer, names), partial(_offer_class, names)
    code = run.__code__
    keywords = "".join(
        f"{name}=None, " for name in code.co_varnames[1 : 1 + code.co_kwonlyargcount]
    )
    doc = f"run(kernel, /, *args, {keywords}**options)\n--\n\n{run.__doc__}"
    made, guard = core.start(run, names, *offers, _failed, doc.encode())
    return made, (offers, run, guard)


def _key(
    names: Mapping[str, Any],
    kernel: str,
    arrays: Sequence[Any],
    out: Any,
    device: Any,
    options: Mapping[str, Any],
) -> tuple[Hashable, ...] | None:
    """The key of a call, as `run` makes it; None: one of its arguments has none."""
    key: list[Hashable] = [kernel, device]
    for value in arrays:
        describe = names["_describers"].get(type(value))
        if describe is None:
            return None
        key.append(describe(value)[1])
    if out is not None:
        key.append("out")
    if options:
        key.append(names["_options_key"](options))
    return tuple(key)


def _own_options(kernel: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """The options by the kernel's own names; None: one of them is an argument, where the core does
    not look, or says how the call is made."""
    keywords = libraries.keywords(kernel)
    if "compile" in options or any(type(keywords.get(name)) is int for name in options):
        return None
    return placed(kernel, (), options)[1]


def _offer(
    names: Mapping[str, Any],
    kernel: str,
    /,
    *args: Any,
    out: Any = None,
    device: Any = None,
    stream: Any = None,
    **options: Any,
) -> Any:
    """What the core needs to make such a call (`fill` in `_core/entry.c`). It is bound for good, if
    it was not.

    Returns:
        False: it is not remembered; None: Python has to make it each time.
    """
    arrays = args if out is None else (*args, out)
    own = _own_options(kernel, options)
    known = None if own is None else _key(names, kernel, arrays, out, device, own)
    if known is None:
        return False
    call = names["call_of"](known, kernel, args, out, device, own, stream)
    return described(call, given=out is not None, written=call.written)


def _offer_class(
    names: Mapping[str, Any],
    kernel: str,
    /,
    *args: Any,
    out: Any = None,
    device: Any = None,
    stream: Any = None,
    **options: Any,
) -> Any:
    """What the core needs to make such calls with other sizes too (`entry_of_class` in
    `_core/classes.c`); None: it cannot.
    """
    arrays = args if out is None else (*args, out)
    own = _own_options(kernel, options)
    known = None if own is None else _key(names, kernel, arrays, out, device, own)
    if known is None:
        return None
    layouts = layouts_of(known, arrays, device_text() if device is None else None)
    if layouts is None:
        return None
    passing: Passing | Chained | None = names["_classes"].passing(layouts)
    if passing is None:
        return None
    given = out is not None
    call = passing.call
    (shape, strides), grid, sizes, overlaps = passing.steps.results
    layout = () if given else (shape, strides)
    flat = replace(passing.steps, results=(grid, layout, overlaps, sizes)).flat()
    against = tuple((index, 0, 0, in_place) for index, in_place in call._against)
    assert passing.start is not None
    alone = passing if isinstance(passing, Passing) else None
    told = flat and _told(
        call, passing.start, against, _class_maker(passing),
        alone and _native_class(alone), given=given, written=call.written,
    )  # fmt: skip
    if told is None:
        return None
    places = alone and tuple(alone.places)
    return told, flat, 0 if given else len(shape), places, layouts.sizes


def described(call: BoundCall, *, given: bool, written: Callable[[Any], None] | None) -> Any:
    """A bound call as the core reads it (`fill` in `_core/entry.c`); None: it is Python's.

    Args:
        given: it has an `out`.
        written: tells the library of `out` that it is written to.
    """
    if call.direct is None:
        return None
    overlaps = tuple((index, low, high, in_place) for index, low, high, _, in_place in call._checks)
    return _told(
        call, call.direct, overlaps, _maker(call), _native(call), given=given, written=written
    )


def _told(
    call: BoundCall,
    start: Callable[..., None],
    overlaps: tuple[tuple[int, int, int, bool], ...],
    maker: tuple[Callable[..., Any], Any],
    native: Any,
    *,
    given: bool,
    written: Callable[[Any], None] | None,
) -> Any:
    told = 0
    if given and written is not None:
        told = {"torch": _TORCH, "xtarget": _OWN}.get(call.kind.name, -1)
    where = _ASKED
    if call.current_stream is None:
        where = _ON_THEIRS if given and call._tracks_streams else -1
    consents = [getattr(consent, "__self__", None) for consent in call.consents]
    known = all(getattr(kind, "name", "") == "torch" for kind in consents)
    if told < 0 or where < 0 or not known:
        return None
    pointed = None
    if native is not None and call.kind.name == "torch":
        where = _ON_TORCHS
    elif native is not None and isinstance(call.kind, PointsToStream) and call.current_stream:
        where, pointed = _POINTED_AT, call.kind.stream_object(call.device)
    return (
        start,
        True if call.synchronous else None,
        call.chosen_by,
        call.checks,
        bool(consents),
        told,
        overlaps,
        where,
        call.current_stream,
        pointed,
        call.device.default_stream,
        *maker,
        native,
    )


def _maker(call: BoundCall) -> tuple[Callable[..., Any], Any]:
    """What makes a result, and what it takes beside the call's arguments; None: nothing at all."""
    type_ = call.outputs[0]
    made = _native_maker(call, type_.dtype)
    return (call.new_output, type_) if made is None else (partial(made, type_.shape), None)


def _class_maker(passing: Passing | Chained) -> tuple[Callable[..., Any], Any]:
    """What makes a result from shape and strides, beside the call's arguments; None: from a shape
    alone."""
    call, dtype = passing.call, passing.dtype
    made = _native_maker(call, dtype)
    if made is not None:
        return made, None
    return lambda layout, args: call.new_output(ArrayType(dtype, *layout), args), True


def _native_maker(call: BoundCall, dtype: str) -> Callable[..., Any] | None:
    kind = call.kind
    if not isinstance(kind, MakesNatively) or call.like is None:
        return None
    return kind.maker(dtype, call.device.info if call.like in call._on_device else None)


def _native(call: BoundCall) -> Any:
    """The launch as `_core/entry.c` reads it, or None."""
    if not call.alone:
        return None
    (launch,) = call._launches
    if launch.values is None:
        return None
    order = iter(launch.order)
    given = [(value, next(order) if value is None else -1) for value in launch.values]
    halves = {launch.order[place]: dtype for place, dtype in launch.halves}
    return _native_launch(call, launch.function, launch.grid, given, halves)


def _native_class(passing: Passing) -> Any:
    """The same of a class, whose program gives the grid."""
    places = iter(passing.places)
    given = [(value, next(places) if value is None else -1) for value in passing.fixed]
    grid, halves = (1, 1, 1), dict(passing.halves)
    return _native_launch(passing.call, passing.function, grid, given, halves)


def _native_launch(
    call: BoundCall,
    function: Function | None,
    grid: tuple[int, int, int],
    given: Sequence[tuple[Value | None, int]],
    halves: Mapping[int, str],
) -> Any:
    """Args:
    given: the value of each parameter; None: of the call's values that at this place, or of the
        sizes, which come after them.
    halves: by place, the half precision that a number is rounded to.
    """
    info = call.device.info
    if not isinstance(function, StartsNatively) or call.synchronous:
        return None
    made: NativeLaunch | None = function.native(LaunchConfig(grid))
    if made is None:
        return None
    parameters = _parameters(function.artifact.parameters, given, halves, call.takes)
    if parameters is None:
        return None
    fields = made.fields or ((0, 8),) * len(parameters)
    return (
        made.entry,
        made.function,
        made.current_context,
        made.context,
        grid,
        made.block,
        made.shared_bytes,
        made.buffer_bytes,
        tuple((*how, *field) for how, field in zip(parameters, fields, strict=True)),
        made.module,
        made.code,
        _DLPACK.get(info.vendor, 0),
        info.ordinal,
    )


def _parameters(
    parameters: Sequence[Any],
    given: Sequence[tuple[Value | None, int]],
    halves: Mapping[int, str],
    count: int,
) -> tuple[tuple[int, int, int], ...] | None:
    """How each parameter is passed; None: there is one that only Python passes."""
    found = []
    for parameter, (value, place) in zip(parameters, given, strict=True):
        type_ = "u64" if parameter.type.startswith("*") else parameter.type
        passed = _PASSED.get(type_)
        if place in halves:
            passed = _ROUNDED[halves[place]] if type_ == "fp32" else None
        if value is not None:
            found.append((0, -1, int.from_bytes(PACK[type_](value), "little")))
        elif passed is None or (place >= count and passed != _AS_WORD):
            return None
        else:
            found.append((_AS_SIZE, place - count, 0) if place >= count else (passed, place, 0))
    return tuple(found)


def _failed(stream: Stream, args: tuple[Any, ...], result: Any) -> None:
    """A launch of the core's has raised; it may run. As `run` does then."""
    unfinished.append(entry := [stream, args, result])
    settle(entry)
