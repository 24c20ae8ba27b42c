"""Descriptions of bound calls for the compiled core, which then makes the next ones of a layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from .._arrays import AllocatesInC, MakesNatively, PointsToStream, view_of
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
from .outs import Outs
from .overlap import Overlaps
from .passing import Chained, Passing
from .untold import UntoldError
from .updates import limits_of

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
    known = libraries.keywords_known()
    made, guard = core.start(run, *offers, _failed, known, doc.encode())
    return made, (offers, run, known, guard)


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


def _own(
    kernel: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments at their places, and the options by the kernel's own names; None: an option
    says how the call is made."""
    if "compile" in options or not WORDS.isdisjoint(options):
        return None
    return placed(kernel, args, options)


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

    @property
    def all_arrays(self) -> Sequence[Any]:
        """The same, those for several outputs one by one."""
        return (*self.args, *self.out) if type(self.out) is Outs else self.arrays


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
    """Tell the core of a call what `describe` gives; `unknown`: it has no key."""
    own = _own(kernel, args, options)
    if own is None:
        return unknown
    args, options = own
    if type(out) is tuple:
        out = Outs(out)
    arrays = args if out is None else (*args, out)
    key = _key(names, kernel, arrays, out, device, options)
    if key is None:
        return unknown
    return describe(_Asked(names, kernel, args, out, device, stream, options, key))


def _call(asked: _Asked) -> Any:
    """The description with which the core makes such a call (`fill` in `_core/entry.c`). The call
    is bound for good, if it was not. None: Python has to make it each time.
    """
    try:
        call = asked.names["call_of"](
            asked.key, asked.kernel, asked.args, asked.out, asked.device, asked.options,
            asked.stream,
        )  # fmt: skip
    except (CompileError, UntoldError):
        return None  # NumPy's reference has made it (`chosen.run_by_host`), or values are asked
    return described(call, asked.all_arrays, given=asked.out is not None, written=call.written)


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
    outputs, grid, sizes, overlaps, limits, _ = passing.steps.results
    layouts_made = () if given else outputs
    apart = (*overlaps, *(one[2:] for one in limits))
    flat = replace(passing.steps, results=(grid, layouts_made, apart, sizes)).flat()
    against = (
        *((index, call.takes - 1, 0, 0, in_place, None) for index, in_place in call._against),
        *((index, other, 0, 0, False, None) for index, other, _, _ in limits),
    )
    assert passing.start is not None
    alone = passing if isinstance(passing, Passing) else None
    told = flat and _for_core(
        call, passing.start, against, () if given else _class_makers(passing),
        launches_of_class(passing), written=call.written,
    )  # fmt: skip
    if told is None:
        return None
    places = alone and tuple(alone.places)
    dimensions = tuple(len(shape) for shape, _ in layouts_made)
    return told, flat, dimensions, places, layouts.sizes, partial(_again, unloaded)


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


def described(
    call: BoundCall, arrays: Sequence[Any], *, given: bool, written: Callable[[Any], None] | None
) -> Any:
    """A bound call as the core reads it (`fill` in `_core/entry.c`); None: it is Python's.

    Args:
        arrays: all that it has, for their layouts.
        given: it has an `out`.
        written: tells the library of `out`, where that is one array, that it is written to.
    """
    if call.start is None:
        return None
    out = call.takes - 1
    overlaps = [
        (index, out, low, high, in_place, shared.at)
        for index, low, high, shared, in_place in call._checks
    ]
    for index, other, low, high in limits_of([at for at, _ in call.updated], call.spans):
        pair = view_of(arrays[index]).type, view_of(arrays[other]).type
        overlaps.append((index, other, low, high, False, Overlaps(partial(_known, pair)).at))
    makers = () if given else tuple(_maker(call, type_) for type_ in call.outputs)
    return _for_core(call, call.start, tuple(overlaps), makers, launches_of(call), written=written)


def _known(pair: tuple[ArrayType, ArrayType]) -> tuple[ArrayType, ArrayType]:
    return pair


def _told(written: Callable[[Any], None] | None) -> int:
    """How a library hears of a write; negative: Python tells it."""
    if written is None:
        return _NOT
    name = getattr(getattr(written, "__self__", None), "name", "")
    return {"torch": _TORCH, "xtarget": _OWN}.get(name, -1)


def _for_core(
    call: BoundCall,
    start: Callable[..., None],
    overlaps: tuple[tuple[int, int, int, int, bool, Any], ...],
    makers: tuple[tuple[Callable[..., Any], Any, Any], ...],
    native: Any,
    *,
    written: Callable[[Any], None] | None,
) -> Any:
    writes = [(index, _told(own)) for index, own in call.updated]
    if not makers and written is not None:
        writes.append((call.takes - 1, _told(written)))
    where = _ASKED
    if call.current_stream is None:
        where = _ON_THEIRS if call._tracks_streams else -1
    consents = [getattr(consent, "__self__", None) for consent in call.consents]
    known = all(getattr(kind, "name", "") == "torch" for kind in consents)
    if where < 0 or not known or any(told < 0 for _, told in writes):
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
        tuple(one for one in writes if one[1] != _NOT),
        overlaps,
        where,
        call.current_stream,
        pointed,
        None if call.current_stream is None else partial(_on, call),
        call.device.default_stream,
        makers,
        native,
    )


def _on(call: BoundCall, stream: Any, args: Sequence[Any], out: Any) -> Stream | None:
    """Where the caller wants a launch, which the arrays' libraries know then; None: some cannot be
    told, and Python keeps their arrays."""
    on = streams.resolve(call.device, stream)
    outputs = out if type(out) is tuple or type(out) is Outs else () if out is None else (out,)
    if not call.synchronous and call.hold(args, outputs, on, explicit=True):
        return None
    return on


def _maker(call: BoundCall, type_: ArrayType) -> tuple[Callable[..., Any], Any, Any]:
    """The maker of a result, what it takes beside the call's arguments (None: nothing at all), and
    how the core makes the result without it."""
    made = _native_maker(call, type_.dtype)
    if made is None:
        return call.new_output, type_, None
    return partial(made, type_.shape), None, _made_in(call, type_.dtype, type_.shape)


def _class_makers(passing: Passing | Chained) -> tuple[tuple[Callable[..., Any], Any, Any], ...]:
    return tuple([_class_maker(passing.call, dtype) for dtype in passing.dtypes])


def _class_maker(call: BoundCall, dtype: str) -> tuple[Callable[..., Any], Any, Any]:
    """The maker of a result from shape and strides, beside the call's arguments; None: from a shape
    alone."""
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
