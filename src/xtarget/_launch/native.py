"""What the compiled core is told of a bound call, so that it makes the next one of its layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from .._arrays import MakesNatively
from .._values.types import LaunchConfig
from ..targets._objects.scalars import PACK
from ..targets.base import NativeLaunch, StartsNatively, Stream
from .call import BoundCall, BoundLaunch
from .interrupts import settle, unfinished

__all__ = ["described", "install"]

#: Of `_core/entry.c`: how the library of `out` hears of the write, and where a call is launched.
_NOT, _TORCH, _OWN = 0, 1, 2
_ASKED, _ON_THEIRS, _ON_TORCHS = 0, 1, 2
#: Of `_core/launch.h`: how a parameter is passed.
_PASSED = {"i1": 1, "u1": 1, "fp32": 2, "fp64": 3} | {
    f"{sign}{bits}": 0 for sign in "iu" for bits in (8, 16, 32, 64)
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
    offer = partial(_offer, names)
    code = run.__code__
    keywords = "".join(
        f"{name}=None, " for name in code.co_varnames[1 : 1 + code.co_kwonlyargcount]
    )
    doc = f"run(kernel, /, *args, {keywords}**options)\n--\n\n{run.__doc__}"
    made, guard = core.start(run, names, offer, _failed, doc.encode())
    return made, (offer, run, guard)


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
    """What the core needs to make such a call (`fill` in `_core/entry.c`).

    Returns:
        False: it is not remembered; None: Python has to make it each time.
    """
    key: list[Hashable] = [kernel, device]
    for value in (*args, *(() if out is None else (out,))):
        describe = names["_describers"].get(type(value))
        if describe is None:
            return False
        key.append(describe(value)[1])
    if out is not None:
        key.append("out")
    if options:
        key.append(names["_options_key"](options))
    known = tuple(key)
    call = names["_calls"].get(known) or names["_checked"].get(known)
    return False if call is None else described(call, given=out is not None, written=call.written)


def described(call: BoundCall, *, given: bool, written: Callable[[Any], None] | None) -> Any:
    """A bound call as the core reads it (`fill` in `_core/entry.c`); None: it is Python's.

    Args:
        given: it has an `out`.
        written: tells the library of `out` that it is written to.
    """
    told = 0
    if given and written is not None:
        told = {"torch": _TORCH, "xtarget": _OWN}.get(call.kind.name, -1)
    where = _ASKED
    if call.current_stream is None:
        where = _ON_THEIRS if given and call._tracks_streams else -1
    consents = [getattr(consent, "__self__", None) for consent in call.consents]
    known = all(getattr(kind, "name", "") == "torch" for kind in consents)
    if call.direct is None or told < 0 or where < 0 or not known:
        return None
    native = _native(call)
    if native is not None and call.kind.name == "torch":
        where = _ON_TORCHS
    overlaps = tuple((index, low, high, in_place) for index, low, high, _, in_place in call._checks)
    return (
        call.direct,
        True if call.synchronous else None,
        call.chosen_by,
        call.checks,
        bool(consents),
        told,
        overlaps,
        where,
        call.current_stream,
        call.device.default_stream,
        *_maker(call),
        native,
    )


def _maker(call: BoundCall) -> tuple[Callable[..., Any], Any]:
    """What makes a result, and what it takes beside the call's arguments; None: nothing at all."""
    kind, type_ = call.kind, call.outputs[0]
    if isinstance(kind, MakesNatively) and call.like is not None:
        place = call.device.info if call.like in call._on_device else None
        return kind.maker(type_, place), None
    return call.new_output, type_


def _native(call: BoundCall) -> Any:
    """The launch as `_core/entry.c` reads it, or None."""
    (launch,) = call._launches
    function, info = launch.function, call.device.info
    if not isinstance(function, StartsNatively) or launch.values is None or call.synchronous:
        return None
    made: NativeLaunch | None = function.native(LaunchConfig(launch.grid))
    parameters = None if made is None else _parameters(launch, function.artifact.parameters)
    if made is None or parameters is None:
        return None
    return (
        made.entry,
        made.function,
        made.current_context,
        made.context,
        launch.grid,
        made.block,
        made.shared_bytes,
        parameters,
        made.module,
        made.code,
        _DLPACK.get(info.vendor, 0),
        info.ordinal,
    )


def _parameters(
    launch: BoundLaunch, parameters: Sequence[Any]
) -> tuple[tuple[int, int, int], ...] | None:
    """How each parameter is passed; None: there is one that only Python passes."""
    order, found = iter(launch.order), []
    for parameter, value in zip(parameters, launch.values or (), strict=True):
        type_ = "u64" if parameter.type.startswith("*") else parameter.type
        passed = _PASSED.get(type_)
        if value is not None:
            found.append((0, -1, int.from_bytes(PACK[type_](value), "little")))
        elif passed is None:
            return None
        else:
            found.append((passed, next(order), 0))
    return tuple(found)


def _failed(stream: Stream, args: tuple[Any, ...], result: Any) -> None:
    """A launch of the core's has raised; it may run. As `run` does then."""
    unfinished.append(entry := [stream, args, result])
    settle(entry)
