"""Descriptions of bound calls for the compiled core, which then makes the next ones of a layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from .._arrays import AllocatesInC, MakesNatively, PointsToStream
from .._devices import streams
from .._kernels import libraries
from .._values.errors import CompileError
from .._values.types import LaunchConfig
from .._values.value_classes import value_class
from ..spec import ArrayType
from ..targets.base import Stream
from .arguments import placed
from .call import BoundCall, device_text
from .chosen import WORDS
from .classes import Late, Unloaded, layouts_of
from .interrupts import settle, unfinished
from .native_launches import launches_of, launches_of_class
from .passing import Chained, Passing

__all__ = ["described", "install"]

#: Of `_core/entry.c`: how the library of `out` hears of the write, and where a call is launched.
_NOT, _TORCH, _OWN = 0, 1, 2
_ANY = LaunchConfig((1, 1, 1))
_ASKED, _ON_THEIRS, _ON_TORCHS, _POINTED_AT = 0, 1, 2, 3


def install(core: Any, run: Callable[..., Any], names: dict[str, Any]) -> tuple[Any, Any]:
    """Have the core make calls.

    Args:
        run: makes them in Python.
        names: the names of its module.

    Returns:
        the same function as the core makes it, for everybody but a debugger; and what the core
        lives with, for the module to keep.
    """
    offers = partial(_offer, names, _call, False), partial(_offer, names, _class, None)
    code = run.__code__
    keywords = "".join(
        f"{name}=None, " for name in code.co_varnames[1 : 1 + code.co_kwonlyargcount]
    )
    doc = f"run(kernel, /, *args, {keywords}**options)\n--\n\n{run.__doc__}"
    made, guard = core.start(run, *offers, _failed, doc.encode())
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
    if "compile" in options or not WORDS.isdisjoint(options):
        return None
    if any(type(keywords.get(name)) is int for name in options):
        return None
    return placed(kernel, (), options)[1]


@value_class(frozen=True, slots=True)
class _Asked:
    """A call that the core asks about.

    Attributes:
        names: of the module of `run`.
        options: by the kernel's own names.
        key: as `run` makes it.
    """

    names: Mapping[str, Any]
    kernel: str
    args: Sequence[Any]
    out: Any
    device: Any
    stream: Any
    options: dict[str, Any]
    key: tuple[Hashable, ...]

    @property
    def arrays(self) -> Sequence[Any]:
        return self.args if self.out is None else (*self.args, self.out)


def _offer(
    names: Mapping[str, Any],
    describe: Callable[[_Asked], Any],
    unknown: Literal[False] | None,
    kernel: str,
    /,
    *args: Any,
    out: Any = None,
    device: Any = None,
    stream: Any = None,
    **options: Any,
) -> Any:
    """What `describe` tells the core of a call; `unknown`: it has no key."""
    own = _own_options(kernel, options)
    arrays = args if out is None else (*args, out)
    key = None if own is None else _key(names, kernel, arrays, out, device, own)
    if own is None or key is None:
        return unknown
    return describe(_Asked(names, kernel, args, out, device, stream, own, key))


def _call(asked: _Asked) -> Any:
    """The description with which the core makes such a call (`fill` in `_core/entry.c`). The call
    is bound for good, if it was not. None: Python has to make it each time.
    """
    try:
        call = asked.names["call_of"](
            asked.key, asked.kernel, asked.args, asked.out, asked.device, asked.options,
            asked.stream,
        )  # fmt: skip
    except CompileError:  # NumPy's reference has made it: `chosen.run_by_host`
        return None
    return described(call, given=asked.out is not None, written=call.written)


def _class(asked: _Asked) -> Any:
    """The description with which the core makes such calls with other sizes too (`entry_of_class`
    in `_core/classes.c`); None: it cannot.
    """
    chosen_by = device_text() if asked.device is None else None
    layouts = layouts_of(asked.key, asked.arrays, chosen_by)
    if layouts is None:
        return None
    found: tuple[Passing | Chained, Unloaded] | None = asked.names["_classes"].passing(layouts)
    if found is None:
        return None
    passing, unloaded = found
    given = asked.out is not None
    call = passing.call
    (shape, strides), grid, sizes, overlaps = passing.steps.results
    layout = () if given else (shape, strides)
    flat = replace(passing.steps, results=(grid, layout, overlaps, sizes)).flat()
    against = tuple((index, 0, 0, in_place) for index, in_place in call._against)
    assert passing.start is not None
    alone = passing if isinstance(passing, Passing) else None
    told = flat and _for_core(
        call, passing.start, against, _class_maker(passing),
        launches_of_class(passing), given=given, written=call.written,
    )  # fmt: skip
    if told is None:
        return None
    places = alone and tuple(alone.places)
    return told, flat, 0 if given else len(shape), places, layouts.sizes, partial(_again, unloaded)


def _again(unloaded: Unloaded) -> Any:
    """The code of a class that was unloaded: `entry_load` in `_core/entry.c`.

    Raises:
        XTargetError: it cannot be loaded.
    """
    launches, codes = unloaded.launches(), []
    for launch in launches:
        function: Any = launch.function
        made = function.native(_ANY)
        codes.append((made.function, made.module, made.code))
    return Late(unloaded, launches), tuple(codes)


def described(call: BoundCall, *, given: bool, written: Callable[[Any], None] | None) -> Any:
    """A bound call as the core reads it (`fill` in `_core/entry.c`); None: it is Python's.

    Args:
        given: it has an `out`.
        written: tells the library of `out` that it is written to.
    """
    if call.direct is None:
        return None
    overlaps = tuple((index, low, high, in_place) for index, low, high, _, in_place in call._checks)
    native = launches_of(call)
    return _for_core(
        call, call.direct, overlaps, _maker(call), native, given=given, written=written
    )


def _for_core(
    call: BoundCall,
    start: Callable[..., None],
    overlaps: tuple[tuple[int, int, int, bool], ...],
    maker: tuple[Callable[..., Any], Any, Any],
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
        where = _ON_THEIRS if call._tracks_streams else -1
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
        None if call.current_stream is None else partial(_on, call),
        call.device.default_stream,
        *maker,
        native,
    )


def _on(call: BoundCall, stream: Any, args: Sequence[Any], out: Any) -> Stream | None:
    """Where the caller wants a launch, which the arrays' libraries know then; None: some cannot be
    told, and Python keeps their arrays."""
    on = streams.resolve(call.device, stream)
    if not call.synchronous and call.hold(args, (out,), on, explicit=True):
        return None
    return on


def _maker(call: BoundCall) -> tuple[Callable[..., Any], Any, Any]:
    """The maker of a result, what it takes beside the call's arguments (None: nothing at all), and
    how the core makes the result without it."""
    type_ = call.outputs[0]
    made = _native_maker(call, type_.dtype)
    if made is None:
        return call.new_output, type_, None
    return partial(made, type_.shape), None, _made_in(call, type_.dtype, type_.shape)


def _class_maker(passing: Passing | Chained) -> tuple[Callable[..., Any], Any, Any]:
    """The maker of a result from shape and strides, beside the call's arguments; None: from a shape
    alone."""
    call, dtype = passing.call, passing.dtype
    made = _native_maker(call, dtype)
    if made is not None:
        return made, None, _made_in(call, dtype, ())
    return lambda layout, args: call.new_output(ArrayType(dtype, *layout), args), True, None


def _made_in(call: BoundCall, dtype: str, shape: tuple[int, ...]) -> Any:
    """`read_output` in `_core/entry.c`."""
    kind = call.kind
    if not isinstance(kind, AllocatesInC) or call.like is None:
        return None
    place = kind.place_in_c(dtype, call.device.info if call.like in call._on_device else None)
    return None if place is None else (place, shape)


def _native_maker(call: BoundCall, dtype: str) -> Callable[..., Any] | None:
    kind = call.kind
    if not isinstance(kind, MakesNatively) or call.like is None:
        return None
    return kind.maker(dtype, call.device.info if call.like in call._on_device else None)


def _failed(stream: Stream, args: tuple[Any, ...], result: Any) -> None:
    """A launch of the core's has raised; it may run. As `run` does then."""
    unfinished.append(entry := [stream, args, result])
    settle(entry)
