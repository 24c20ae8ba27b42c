"""The launches of a call as the compiled core starts them: `native_new` in `_core/native.c`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from .._arrays import AllocatesInC
from .._values.types import LaunchConfig
from ..targets._objects.scalars import PACK
from ..targets._objects.tensor_maps import map_of
from ..targets.base import Function, Value
from ..targets.optional import NativeLaunch, StartsNatively
from .call import BoundCall
from .passing import Chained, Passing

__all__ = ["launches_of", "launches_of_class"]

#: Of `_core/launch.h`: how a parameter is passed.
_AS_WORD, _AS_SIZE, _AS_MAP = 0, 4, 7
_ROUNDED = {"float16": 5, "bfloat16": 6}
_PASSED = {"i1": 1, "u1": 1, "fp32": 2, "fp64": 3} | {
    f"{sign}{bits}": _AS_WORD for sign in "iu" for bits in (8, 16, 32, 64)
}
#: DLPack's number of the devices that torch calls `cuda`.
_DLPACK = {"nvidia": 2, "amd": 10}
#: Of `_core/entry.h`: `GRID_FIRST`, `MOST_LINKS`, `MOST_PIECES`.
_GRID_FIRST, _MOST_LINKS, _MOST_PIECES = -1, 32, 16
_ANY_GRID = (1, 1, 1)
#: Bytes of the words that `NativeLaunch.fills` repeat.
_WIDTHS, _NO_FILLS = (1, 2, 4), (0, 0, 0)

#: The value of each parameter; None: of the call's values, the pieces of memory, and the sizes, in
#: one row, that at this place.
_Given = Sequence[tuple[Value | None, int]]
#: A function, its grid, where the class's grid is, its parameters, and by place the half precision
#: that a number is rounded to.
_Link = tuple[Function | None, tuple[int, int, int], int, _Given, Mapping[int, str]]


def launches_of(call: BoundCall) -> Any:
    """Those of a layout; None: Python has to make them."""
    if not call.launches_only:
        return None
    pieces = [type_.size * type_.itemsize for type_ in call._temporaries]
    filled = [type_.size * type_.itemsize for type_ in call.outputs]
    links: list[_Link] = []
    for launch in call._launches:
        if launch.values is None:
            return None
        first = call.takes + len(pieces)
        order = [place if place >= 0 else first - 1 - place for place in launch.order]
        places = iter(order)
        given = [(value, next(places) if value is None else -1) for value in launch.values]
        halves = {order[at]: dtype for at, dtype in launch.halves}
        links.append((launch.function, launch.grid, _GRID_FIRST, given, halves))
        pieces += launch.scratch
    return _for_core(call, pieces, filled, links)


def launches_of_class(passing: Passing | Chained) -> Any:
    """Those of a class, whose program gives grids, sizes, and the bytes of each piece."""
    call = passing.call
    if isinstance(passing, Passing):
        given = _placed(passing.fixed, passing.places)
        halves = dict(passing.halves)
        return _for_core(call, (), (), [(passing.function, _ANY_GRID, _GRID_FIRST, given, halves)])
    links = [
        (
            function,
            _ANY_GRID,
            link.grid,
            _placed(link.fixed, link.picks),
            {link.picks[at]: dtype for at, dtype in link.halves},
        )
        for function, link in zip(passing.functions, passing.links, strict=True)
    ]
    return _for_core(call, (0,) * passing.pieces, (0,) * passing.filled, links)


def _placed(fixed: Sequence[Value | None], places: Sequence[int]) -> _Given:
    left = iter(places)
    return [(value, next(left) if value is None else -1) for value in fixed]


def _for_core(
    call: BoundCall, pieces: Sequence[int], filled: Sequence[int], links: Sequence[_Link]
) -> Any:
    """The description that the core takes, or None.

    Args:
        pieces, filled: bytes of the memory that the launches use, and of the outputs.
    """
    if call.synchronous or len(links) > _MOST_LINKS or len(pieces) > _MOST_PIECES:
        return None
    takes, fills = call.takes + len(pieces), _NO_FILLS
    found: list[Any] = []
    for function, grid, grid_at, given, halves in links:
        if not isinstance(function, StartsNatively):
            return None
        made: NativeLaunch | None = function.native(LaunchConfig(grid))
        if made is None:
            return None
        parameters = _parameters(function.artifact.parameters, given, halves, takes)
        if parameters is None:
            return None
        fills = made.fills
        found.append(_link(made, grid, grid_at, parameters))
    first = call.takes - len(call.outputs)
    fillings = [
        *_fillings(call.filling.patterns, filled, first, len(pieces)),
        *_fillings(call.clearing.patterns, pieces, call.takes, 0),
    ]
    if any(not width or not fills[_WIDTHS.index(width)] for *_, width in fillings):
        return None
    info, kind, place = call.device.info, call.kind, None
    if pieces and isinstance(kind, AllocatesInC):
        place = kind.place_in_c("uint8", info)
    return (
        _DLPACK.get(info.vendor, 0),
        info.ordinal,
        fills,
        call.unloaded().memory if pieces else None,
        place,
        tuple(pieces),
        tuple(fillings),
        tuple(found),
    )


def _link(
    made: NativeLaunch,
    grid: tuple[int, int, int],
    grid_at: int,
    parameters: Sequence[tuple[int, int, int]],
) -> tuple[Any, ...]:
    fields = made.fields or ((0, 8),) * len(parameters)
    entry, core = made.entry, _core.native()
    if made.extended and core is not None:
        entry = core.early(made.extended)
    return (
        entry,
        made.function,
        made.current_context,
        made.context,
        grid,
        grid_at,
        made.block,
        made.shared_bytes,
        made.buffer_bytes,
        made.encode,
        tuple((*how, *field) for how, field in zip(parameters, fields, strict=True)),
        made.module,
        made.code,
        made.closings,
    )


def _fillings(
    patterns: Sequence[bytes | None], sizes: Sequence[int], place: int, size_at: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """The fillings of a call: the place in its values and the pieces, in one row, its bytes, where
    these are among a class's sizes, the word, and how wide that is; 0: no entry takes it.

    Args:
        place, size_at: of the first.
    """
    for number, (pattern, nbytes) in enumerate(zip(patterns, sizes, strict=False)):
        if pattern is not None:
            while len(pattern) > 1 and pattern[: len(pattern) // 2] * 2 == pattern:
                pattern = pattern[: len(pattern) // 2]
            word, width = int.from_bytes(pattern, "little"), len(pattern)
            if width not in _WIDTHS:
                word = width = 0
            yield place + number, nbytes, size_at + number, word, width


def _parameters(
    parameters: Sequence[Any], given: _Given, halves: Mapping[int, str], count: int
) -> tuple[tuple[int, int, int], ...] | None:
    """How each parameter is passed; None: there is one that only Python passes."""
    found = []
    for parameter, (value, place) in zip(parameters, given, strict=True):
        described = map_of(parameter.type)
        if described is not None:
            if value is not None or place >= count:
                return None
            found.append((_AS_MAP, place, described.word))
            continue
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
