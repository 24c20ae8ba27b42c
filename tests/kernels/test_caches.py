"""Keys and values written in place to positions and to slots of pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import sample
from refusals import refused

import xtarget


def f(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return sample(dtype, *shape, seed=seed)


@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(d, marks=pytest.mark.large) for d in ("bfloat16", "uint8"))]
)
def test_slots_of_pages(device: str, dtype: str) -> None:
    """A slot that is none is left out; no other slot changes."""
    key, value = f(5, 2, 8, dtype=dtype), f(5, 2, 6, dtype=dtype)
    caches = [f(3, 4, 2, 8, seed=1, dtype=dtype), f(3, 4, 2, 6, seed=1, dtype=dtype)]
    slots = np.array([3, 11, -1, 12, 0])
    right = [cache.copy() for cache in caches]
    for own, tokens in zip(right, (key, value), strict=True):
        for token, slot in enumerate(slots):
            if 0 <= slot < 12:
                own[slot // 4, slot % 4] = tokens[token]
    assert xtarget.run("kv_scatter", key, value, *caches, slots, device=device) is None
    for cache, own in zip(caches, right, strict=True):
        np.testing.assert_array_equal(cache, own)


@pytest.mark.large
def test_slots_without_pages_and_caches_of_any_strides(device: str) -> None:
    key, value = f(2, 3, 2, 8)[:, ::-1], f(2, 3, 2, 8, seed=3)
    caches = [np.zeros((8, 2, 9), np.float32).T[::-1] for _ in range(2)]
    slots = np.array([[0, 7, 2], [8, 99, -5]], np.int32)
    xtarget.run("kv_scatter", key, value, *caches, slots, device=device)
    for cache, tokens in zip(caches, (key, value), strict=True):
        right = np.zeros(cache.shape, np.float32)
        for place in ((0, 0), (0, 1), (0, 2), (1, 0)):
            right[slots[place]] = tokens[place]
        np.testing.assert_array_equal(cache, right)


@pytest.mark.parametrize(
    ("positions", "layout"),
    [
        (np.array([1, 7]), "bhsd"),
        *(
            pytest.param(one, layout, marks=pytest.mark.large)
            for one in (
                np.array([[1, 0, 5, -1], [8, 9, 2, -3]], np.int32),
                np.array(2),
                np.array([-1, 3], np.int16),
            )
            for layout in ("bhsd", "bshd")
        ),
    ],
)
def test_positions_of_sequences(device: str, positions: Any, layout: str) -> None:
    """The first position of each sequence, or that of each token; nothing past the end."""
    arrays = [f(2, 3, 4, 8), f(2, 3, 4, 6), f(2, 3, 9, 8, seed=1), f(2, 3, 9, 6, seed=1)]
    right = [array.copy() for array in arrays[2:]]
    for own, tokens in zip(right, arrays, strict=False):
        for batch, token in np.ndindex(2, 4):
            place = np.broadcast_to(positions, (2, 4) if positions.ndim > 1 else (2,))[batch]
            place = place[token] if positions.ndim > 1 else place + token * (place >= 0)
            if 0 <= place < 9:
                own[batch, :, place] = tokens[batch, :, token]
    if layout == "bshd":
        arrays = [np.ascontiguousarray(array.swapaxes(1, 2)) for array in arrays]
    xtarget.run("kv_cache_update", *arrays, positions, layout=layout, device=device)
    for cache, own in zip(arrays[2:], right, strict=True):
        cache = cache.swapaxes(1, 2) if layout == "bshd" else cache
        np.testing.assert_array_equal(cache, own)


@pytest.mark.large
def test_nothing_to_write(device: str) -> None:
    cache = f(1, 2, 9, 8)
    before = cache.copy()
    none = np.zeros((1, 2, 0, 8), np.float32)
    other = cache.copy()
    xtarget.run("kv_cache_update", none, none, cache, other, np.array([0]), device=device)
    np.testing.assert_array_equal(cache, before)


TOKENS, CACHE, SLOTS = f(2, 2, 4), f(3, 4, 2, 4), np.zeros(2, np.int64)
WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("kv_scatter", [TOKENS, TOKENS, CACHE, CACHE.copy(), SLOTS[:1]], {}, "a slot for each token"),
    ("kv_scatter", [TOKENS, TOKENS, CACHE, CACHE[..., :3].copy(), SLOTS], {}, "heads and size"),
    ("kv_scatter", [TOKENS, TOKENS, CACHE.astype(np.float64), CACHE, SLOTS], {}, "need the same"),
    ("kv_scatter", [TOKENS, TOKENS, CACHE, CACHE.copy(), TOKENS[:, 0, 0]], {}, "of integers"),
    ("kv_cache_update", [TOKENS, TOKENS, CACHE, CACHE.copy(), SLOTS], {}, "four dimensions"),
    ("kv_cache_update", [CACHE, CACHE.copy(), CACHE.copy(), CACHE.copy(), SLOTS], {},
     r"they need \(3, 2\)"),
    ("kv_cache_update", [CACHE] * 4 + [SLOTS], {"layout": "x"}, "layout is 'x'"),
]  # fmt: skip


test_what_does_not_fit_is_said = refused(WRONG)
