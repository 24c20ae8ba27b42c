"""Attention: of whole sequences, and of keys and values in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import attention as plans
from ..plans import hopper_attention as hopper
from .row import implementation, row
from .rules import FLOATS

__all__ = ["HOPPER", "IMPLEMENTATIONS", "ROWS", "visible"]

_Shape = tuple[int, ...]


def visible(np: Any, length: int, keys: int, options: Mapping[str, Any], begin: Any = None) -> Any:
    """The mask of the keys that each query sees."""
    if begin is None:
        begin = options.get("offset", 0)
        begin = keys - length if begin is None else begin
    place, key = np.arange(length)[:, None] + begin, np.arange(keys)[None, :]
    left, right = options.get("window") or (-1, -1)
    right = 0 if options.get("causal") else right
    seen = np.ones((length, keys), bool)
    if left >= 0:
        seen &= key >= place - left
    if right >= 0:
        seen &= key <= place + right
    return seen, np.abs(place - key)


def _heads(np: Any, query: Any, array: Any) -> Any:
    if query.ndim < 3:
        return array
    return np.repeat(array, query.shape[-3] // max(array.shape[-3], 1), -3)


def _of_scores(np: Any, scores: Any, value: Any) -> tuple[Any, Any]:
    """The softmax times the values, 0 where no key is seen; and the log of the softmax's sum."""
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    power = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = power.sum(-1, keepdims=True)
    lse = (np.where(np.isneginf(top), 0, top) + np.log(total))[..., 0]
    return power @ value / np.where(total == 0, 1, total), lse


def _attended(
    np: Any, query: Any, key: Any, value: Any, mask: Any, slopes: Any, options: Mapping[str, Any],
    begin: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    scale, cap = options.get("scale"), options.get("softcap")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    key, value = _heads(np, query, key), _heads(np, query, value)
    scores = query @ np.swapaxes(key, -1, -2) * scale
    scores = np.tanh(scores / cap) * cap if cap else scores
    seen, apart = visible(np, query.shape[-2], key.shape[-2], options, begin)
    if slopes is not None:
        scores = scores - slopes[..., None, None] * apart
    if mask is not None:
        masked = np.asarray(mask)
        scores = np.where(masked, scores, -np.inf) if masked.dtype == bool else scores + masked
    return _of_scores(np, np.where(seen, scores, -np.inf), value)


def _attention(
    query: Any, key: Any, value: Any, mask: Any = None, slopes: Any = None, *,
    layout: str = "bhsd", lse: bool = False, **options: Any,
) -> Any:  # fmt: skip
    import numpy as np

    arrays = (query, key, value)
    if layout == "bshd":
        arrays = tuple(np.swapaxes(array, -3, -2) for array in arrays)
    with np.errstate(all="ignore"):
        out, sums = _attended(np, *arrays, mask, slopes, options)
    out = np.swapaxes(out, -3, -2) if layout == "bshd" else out
    return (out, sums) if lse else out


def _multi_head(
    query: Any, key: Any, value: Any, mask: Any = None, slopes: Any = None, *,
    heads: int = 1, kv_heads: int | None = None, lse: bool = False, **options: Any,
) -> Any:  # fmt: skip
    import numpy as np

    def split(array: Any, count: int) -> Any:
        return np.swapaxes(array.reshape(*array.shape[:-1], count, -1), -3, -2)

    others = kv_heads or heads
    arrays = split(query, heads), split(key, others), split(value, others)
    with np.errstate(all="ignore"):
        out, sums = _attended(np, *arrays, mask, slopes, options)
    out = np.swapaxes(out, -3, -2)
    out = out.reshape(*out.shape[:-2], -1)
    return (out, sums) if lse else out


def _paged(
    query: Any, key: Any, value: Any, table: Any, lengths: Any, *, lse: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    import numpy as np

    queries = query if query.ndim == 4 else query[:, None]
    out = np.zeros((*queries.shape[:-1], value.shape[-1]))
    sums = np.full((queries.shape[0], queries.shape[2], queries.shape[1]), -np.inf)
    page = key.shape[1]
    for one, own in enumerate(np.asarray(queries)):
        count = min(int(lengths[one]), table.shape[1] * page)
        where = np.arange(max(count, 0))
        pages = np.asarray(table)[one][where // page]
        there = (pages >= 0) & (pages < key.shape[0])
        keys, values = (
            np.swapaxes(  # what is in no page is not read, nor is what stands in another
                np.where(there[:, None, None], x[np.where(there, pages, 0), where % page], 0), 0, 1
            )
            for x in (key, value)
        )
        mask = np.broadcast_to(there, (1, own.shape[0], max(count, 0)))
        with np.errstate(all="ignore"):
            found = _attended(
                np, np.swapaxes(own, 0, 1), keys, values, mask, None, options, count - own.shape[0]
            )
        out[one], sums[one] = np.swapaxes(found[0], 0, 1), found[1]
    out = out if query.ndim == 4 else out[:, 0]
    return (out, sums) if lse else out


def _ragged(
    query: Any, key: Any, value: Any, starts_q: Any, starts_k: Any, *, lse: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    import numpy as np

    out = np.zeros((*query.shape[:-1], value.shape[-1]))
    sums = np.full(query.shape[1::-1], -np.inf)
    heads = [np.swapaxes(array, 0, 1) for array in (query, key, value)]

    def clipped(starts: Any, most: int) -> Any:
        return np.clip(np.asarray(starts).astype(np.int64), 0, most)

    firsts, keys = clipped(starts_q, len(query)), clipped(starts_k, len(key))
    for one in range(len(firsts) - 1):
        own, others = (slice(x[one], max(x[one + 1], x[one])) for x in (firsts, keys))
        with np.errstate(all="ignore"):
            found = _attended(
                np, heads[0][:, own], heads[1][:, others], heads[2][:, others], None, None, options
            )
        out[own], sums[:, own] = np.swapaxes(found[0], 0, 1), found[1]
    return (out, sums) if lse else out


def _three(shape: _Shape) -> Sequence[_Shape]:
    """Queries, keys and values of one head size, of at most 64."""
    front = shape[:-1] or (1,)
    size = min((shape or (1,))[-1], 64)
    return [(*front, size)] * 3


def _in_pages(shape: _Shape) -> Sequence[_Shape]:
    """Two pages of 4 keys for each sequence; heads of at most 64."""
    batch, size = (shape or (1,))[0] if len(shape) > 1 else 1, min((shape or (1,))[-1], 64)
    cache = (4, 4, 2, size)
    return [(batch, 2, size), cache, cache, (batch, 2), (batch,)]


def _in_a_row(shape: _Shape) -> Sequence[_Shape]:
    """Tokens of one sequence; heads of at most 64."""
    whole = shape or (1,)
    one = (whole[0], 2, min(whole[-1], 64))
    return [one, one, one, (2,), (2,)]


_OPTIONS: Mapping[str, Any] = {
    "causal": False, "window": None, "scale": None, "softcap": None, "lse": False,
}  # fmt: skip
_ALL: Any = {"category": "attention", "dtypes": FLOATS, "tolerance": None}

ROWS: tuple[KernelSpec, ...] = (
    row("attention", "query key value mask? slopes?", plans.attention, "softmax(query key^T scale) "
        "value: causal, in a window of keys, with a mask (bool, or added), with ALiBi's slopes; "
        "keys may have fewer heads", _attention, _three,
        "scaled_dot_product_attention dot_product_attention dot_product_attention_v2 "
        "flash_attention flash_attention_forward self_attention grouped_query_attention "
        "sliding_window_attention "
        "multi_query_attention sdpa", options={**_OPTIONS, "offset": 0, "layout": "bhsd"},
        apart=("mask", "slopes"), **{**_ALL, "dtypes": ("bool", *FLOATS)}),
    row("multi_head_attention", "query key value mask? slopes?", plans.multi_head, "attention of "
        "heads that lie side by side in the last axis", _multi_head, _three,
        "onnx_multi_head_attention",
        options={**_OPTIONS, "offset": 0, "heads": 1, "kv_heads": None},
        apart=("mask", "slopes"), **{**_ALL, "dtypes": ("bool", *FLOATS)}),
    row("attention_varlen", "query key value starts_q starts_k", plans.ragged, "attention of "
        "sequences whose tokens lie one after the other: (tokens, heads, size); starts say where "
        "each begins, and the last one ends; offset None: its last query is at its last key",
        _ragged, _in_a_row, "flash_attn_varlen_func varlen_attention",
        options={**_OPTIONS, "offset": None}, apart=("starts_q", "starts_k"), complete=False,
        **{**_ALL, "dtypes": ("int32", "int64", *FLOATS)}),
    row("paged_attention", "query key value table lengths", plans.paged, "attention of the last "
        "queries of sequences whose keys and values are in pages (pages, page, heads, size); table "
        "has the pages of each, lengths how many keys it has", _paged, _in_pages,
        "decode_attention paged_attention_v1 paged_attention_v2", options=_OPTIONS,
        apart=("table", "lengths"), **{**_ALL, "dtypes": ("int32", "int64", *FLOATS)}),
)  # fmt: skip

#: What the implementation for sm_90 is good for, and the targets that it serves.
HOPPER: tuple[str, tuple[str, ...]] = (
    "a group of warps fetches while two compute: half types, without mask and slopes; other calls "
    "are the row's", ("nvidia:sm_90",),
)  # fmt: skip

IMPLEMENTATIONS: tuple[KernelSpec, ...] = (
    implementation("attention", ROWS, "hopper", hopper.attention, *HOPPER, preferred=True),
    implementation("multi_head_attention", ROWS, "hopper", hopper.multi_head, *HOPPER,
        preferred=True),
)  # fmt: skip
