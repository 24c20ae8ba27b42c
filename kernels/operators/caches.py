"""Caches of keys and values, written in place. They have no result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import caches as plans
from .row import moving, row
from .rules import ALL

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _sizes(shape: _Shape) -> tuple[int, int]:
    """How many tokens, and the size of a head."""
    whole = shape or (1,)
    return whole[0], min(whole[-1], 128)


def _slots(shape: _Shape) -> Sequence[_Shape]:
    tokens, size = _sizes(shape)
    cache = (tokens // 4 + 1, 4, 2, size)
    return [(tokens, 2, size)] * 2 + [cache] * 2 + [(tokens,)]


def _positions(shape: _Shape) -> Sequence[_Shape]:
    tokens, size = _sizes(shape)
    return [(2, 2, tokens, size)] * 2 + [(2, 2, tokens + 3, size)] * 2 + [(2,)]


_ALL: Any = {
    "category": "cache", "dtypes": ALL, "complete": False, "updates": ("key_cache", "value_cache"),
}  # fmt: skip

_ROWS = (
    row("kv_cache_update", "key value key_cache value_cache positions", plans.at_positions, "keys "
        "and values written in place at positions of their sequences; one without a place (below "
        "0, or past the end) is left out", None, _positions, "static_kv_cache_update",
        options={"layout": "bhsd"}, apart=("positions",), **_ALL),
    row("kv_scatter", "key value key_cache value_cache slots", plans.at_slots, "keys and values "
        "written in place to slots of a cache in pages (pages, slots, heads, size); one whose slot "
        "is none (-1) is left out, and of two for one slot any may stay", None, _slots,
        "reshape_and_cache paged_kv_cache_update", apart=("slots",), **_ALL),
)  # fmt: skip

ROWS: tuple[KernelSpec, ...] = moving(_ROWS)
