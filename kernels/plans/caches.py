"""From call to launches: keys and values written to their places in a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xtarget import spec

from .layouts import broadcast_strides, broadcasts, collapse
from .movement import flat_launch
from .options import heads_first

__all__ = ["at_positions", "at_slots"]

_Ints = tuple[int, ...]


class _Cache(NamedTuple):
    """Places of a cache that an element of the tokens may go to.

    Attributes:
        strides: of the cache, along the tokens' axes; 0 along those that `index` says.
        count, page, to_page, step: as of `movement:place`.
    """

    strides: _Ints
    count: int
    page: int
    to_page: int
    step: int


def _launch(
    call: spec.Call, places: Sequence[int], cache: _Cache, index: _Ints, following: _Ints
) -> list[spec.Launch]:
    """One launch of `movement:place`; none where there is nothing to write.

    Args:
        places: of tokens, cache and indices among the arguments.
        index: strides of the indices along the tokens' axes.
        following: 1 along the axis whose indices follow each other.
    """
    tokens = call.array(places[0])
    if not tokens.size or not call.array(places[1]).size:
        return []
    space = collapse(tokens.shape, cache.strides, tokens.strides, index, following)
    launch = flat_launch(
        call,
        "place",
        space.size,
        {
            "index": spec.Input(places[2]),
            "x": spec.Input(places[0]),
            "out": spec.Input(places[1]),
            "n": space.size,
            "count": cache.count,
            "page": cache.page,
            "to_page": cache.to_page,
            "step": cache.step,
            **space.named("so", "sx", "si", "st"),
        },
    )
    return [launch]


def _indices(call: spec.Call, name: str) -> spec.ArrayType:
    index = call.array(4)
    if not index.dtype.startswith(("int", "uint")):
        raise spec.ArgumentError(
            f"{call.kernel}: {name} is {index.dtype}; it has to be of integers."
        )
    return index


def _same(call: spec.Call, name: str, tokens: spec.ArrayType, cache: spec.ArrayType) -> None:
    if tokens.dtype != cache.dtype:
        raise spec.ArgumentError(
            f"{call.kernel}: {name} is {tokens.dtype} and {name}_cache {cache.dtype}; they need "
            "the same. Convert what is written."
        )


def at_slots(call: spec.Call) -> spec.Plan:
    """The plan of kv_scatter: each token goes to the slot of its number, in a cache of pages (page,
    slot, head, size) or of slots only.
    """
    index = _indices(call, "slots")
    launches: list[spec.Launch] = []
    for number, name in enumerate(("key", "value")):
        tokens, cache = call.array(number), call.array(2 + number)
        _same(call, name, tokens, cache)
        if tokens.ndim < 2 or tokens.shape[:-2] != index.shape:
            raise spec.ArgumentError(
                f"{call.kernel}: {name} has shape {tokens.shape} and slots {index.shape}; it has "
                "to be that, followed by heads and their size: a slot for each token."
            )
        if cache.ndim not in (3, 4) or cache.shape[-2:] != tokens.shape[-2:]:
            raise spec.ArgumentError(
                f"{call.kernel}: {name} has shape {tokens.shape} and {name}_cache {cache.shape}; "
                "the cache is (pages, slots of a page, heads, size) or (slots, heads, size), with "
                f"the {name}'s heads and size."
            )
        page = cache.shape[-3]
        pages, to_page = (cache.shape[0], cache.strides[0]) if cache.ndim == 4 else (1, 0)
        front = (0,) * index.ndim
        own = _Cache((*front, *cache.strides[-2:]), pages * page, page, to_page, cache.strides[-3])
        launches += _launch(
            call, (number, 2 + number, 4), own, (*index.strides, 0, 0), (0,) * tokens.ndim
        )
    return spec.Plan((), tuple(launches))


def at_positions(call: spec.Call) -> spec.Plan:
    """The plan of kv_cache_update: tokens go to positions of their own row of the cache;
    those of a sequence without positions of their own follow each other from its position on.
    """
    index = _indices(call, "positions")
    along = 2 if heads_first(call) else 1
    launches: list[spec.Launch] = []
    for number, name in enumerate(("key", "value")):
        tokens, cache = call.array(number), call.array(2 + number)
        _same(call, name, tokens, cache)
        fits = tokens.ndim == cache.ndim == 4 and all(
            n == own
            for axis, (n, own) in enumerate(zip(tokens.shape, cache.shape, strict=True))
            if axis != along
        )
        if not fits:
            raise spec.ArgumentError(
                f"{call.kernel}: {name} has shape {tokens.shape} and {name}_cache {cache.shape}; "
                f"they need four dimensions, and the same lengths except along axis {along}, that "
                "of the sequence."
            )
        batch, length = tokens.shape[0], tokens.shape[along]
        wanted = (batch, length) if index.ndim == 2 else (batch,)
        if not broadcasts(index.shape, wanted):
            raise spec.ArgumentError(
                f"{call.kernel}: positions have shape {index.shape}; they need ({batch}, "
                f"{length}), one for each token, or ({batch},), the first one of each sequence."
            )
        steps = broadcast_strides(index, wanted)
        over, own = (0,) * 4, list(cache.strides)
        own[along] = 0
        places = tuple(
            steps[0] if axis == 0 else steps[1] if axis == along and len(steps) == 2 else 0
            for axis in range(4)
        )
        if index.ndim < 2:
            over = tuple(int(axis == along) for axis in range(4))
        count = cache.shape[along]
        room = _Cache(tuple(own), count, max(count, 1), 0, cache.strides[along])
        launches += _launch(call, (number, 2 + number, 4), room, places, over)
    return spec.Plan((), tuple(launches))
