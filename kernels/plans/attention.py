"""From call to launches: attention."""

from __future__ import annotations

from collections.abc import Sequence

from xtarget.spec import (
    ABSENT,
    ArgumentError,
    ArrayType,
    Call,
    Input,
    Plan,
)

from .attended import Fusion
from .attention_launch import Attention
from .layouts import broadcast_strides
from .options import heads_first
from .outer_attention import OuterAttention
from .tuning import outer_products

__all__ = [
    "attention",
    "floating",
    "grouped",
    "moved",
    "multi_head",
    "paged",
    "ragged",
    "refuse_large",
    "split_heads",
    "starts",
]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
#: The largest size of a head.
_LARGEST = 256


def moved(array: ArrayType, order: Sequence[int]) -> ArrayType:
    """The array with its axes in another order."""
    return ArrayType(
        array.dtype,
        tuple(array.shape[axis] for axis in order),
        tuple(array.strides[axis] for axis in order),
    )


def _given(call: Call, index: int) -> ArrayType | None:
    if index >= len(call.args) or call.args[index] is ABSENT:
        return None
    return call.array(index)


def _of_heads(
    call: Call,
    query: ArrayType,
    key: ArrayType,
    value: ArrayType,
    out: ArrayType,
    own: int,
    way: type[Attention] = Attention,
    fusion: Fusion | None = None,
) -> Attention:
    """Attention of queries in groups, one for each of the `own` heads of keys and values."""
    if outer_products(call.vendor) and (fusion is None or "score" not in fusion.steps):
        way = OuterAttention
    work = way(
        call,
        split_heads(query, own),
        grouped(call, query, key, "key"),
        grouped(call, query, value, "value"),
        split_heads(out, own),
    )
    if fusion is not None:
        work.fusion = fusion.viewed(
            query=lambda array: split_heads(array, own),
            key=lambda array: grouped(call, query, array, "key"),
            value=lambda array: grouped(call, query, array, "value"),
            out=lambda array: split_heads(array, own),
            score=lambda array: split_heads(array, own),
        )
    return work


def attention(call: Call, way: type[Attention] = Attention, fusion: Fusion | None = None) -> Plan:
    """The plan of scaled dot product attention.

    Args:
        way: makes the launches.
        fusion: what is done to arrays and result, seen as the arguments and the result are.
    """
    heads_before = heads_first(call)
    arrays = [call.array(index) for index in range(3)]
    least = 2 if heads_before else 3
    for name, array in zip(("query", "key", "value"), arrays, strict=True):
        if array.ndim != arrays[0].ndim or array.ndim < least:
            raise ArgumentError(
                f"{call.kernel}: query has {arrays[0].ndim} dimensions and {name} {array.ndim}; "
                f"they need as many, and {least} or more."
            )
    ndim = arrays[0].ndim
    order = list(range(ndim))
    if not heads_before:
        order[-3], order[-2] = order[-2], order[-3]
    out = call.output((*arrays[0].shape[:-1], arrays[2].shape[-1]), floating(call, 3))
    if fusion is not None:
        fusion = fusion.viewed(
            **dict.fromkeys(("query", "key", "value", "out"), lambda array: moved(array, order))
        )
    views = (moved(array, order) for array in (*arrays, out))
    return _planned(call, *views, out, way, fusion)


def multi_head(call: Call, way: type[Attention] = Attention, fusion: Fusion | None = None) -> Plan:
    """The plan of attention of heads that lie side by side in the last axis: (batch, sequence,
    heads * size). Arguments as of `attention`.
    """
    heads, others = (_count(call, name) for name in ("heads", "kv_heads"))
    others = others or heads
    views = []
    for index, (name, own) in enumerate((("query", heads), ("key", others), ("value", others))):
        array = call.array(index)
        if array.ndim < 2 or array.shape[-1] % own:
            raise ArgumentError(
                f"{call.kernel}: {name} has shape {array.shape}; its last axis has to be {own} "
                "heads of one size, after the axis of the sequence."
            )
        views.append(_in_heads(array, own))
    query, value = call.array(0), call.array(2)
    last = value.shape[-1] // others * heads
    out = call.output((*query.shape[:-1], last), floating(call, 3))
    if fusion is not None:
        fusion = fusion.viewed(
            query=lambda array: _in_heads(array, heads),
            key=lambda array: _in_heads(array, others),
            value=lambda array: _in_heads(array, others),
            out=lambda array: _in_heads(array, heads),
        )
    return _planned(call, *views, _in_heads(out, heads), out, way, fusion)


def _in_heads(array: ArrayType, heads: int) -> ArrayType:
    *front, length, last = array.shape
    *over, step, inner = array.strides
    size = last // heads
    return ArrayType(array.dtype, (*front, heads, length, size), (*over, size * inner, step, inner))


def _count(call: Call, name: str) -> int:
    value = call.options[name]
    if value is None:
        return 0
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be 1 or more.")
    return int(value.__index__())


def floating(call: Call, count: int) -> str:
    for index in range(count):
        if call.array(index).dtype not in _FLOATS:
            raise ArgumentError(
                f"{call.kernel}: argument {index + 1} is {call.array(index).dtype}; attention "
                f"takes {', '.join(_FLOATS)}."
            )
    return call.rules.promote(*(call.array(index).dtype for index in range(count)))


def grouped(call: Call, query: ArrayType, array: ArrayType, name: str) -> ArrayType:
    """`array` with a head for each of the query's: those that share one have a step of 0 between
    them, as an axis of its own.
    """
    *front, length, size = array.shape
    *over, step, inner = array.strides
    if not front:
        return array
    *batch, own = front
    heads = query.shape[-3]
    if own != heads and (own == 0 or heads % own):
        raise ArgumentError(
            f"{call.kernel}: query has {heads} heads and {name} {own}; the query's have to be a "
            "multiple of those."
        )
    if tuple(batch) != query.shape[:-3] and any(
        n not in (1, wanted) for n, wanted in zip(batch, query.shape[:-3], strict=True)
    ):
        raise ArgumentError(
            f"{call.kernel}: query has shape {query.shape} and {name} {array.shape}, heads and "
            "sequence as the last axes but one; the axes before these have to be the same."
        )
    steps = [0 if n == 1 else s for n, s in zip(batch, over[:-1], strict=True)]
    return ArrayType(
        array.dtype,
        (*query.shape[:-3], own, heads // max(own, 1), length, size),
        (*steps, over[-1], 0, step, inner),
    )


def split_heads(array: ArrayType, own: int) -> ArrayType:
    """An array with one head for each of the query's, in groups: an axis for the groups."""
    *front, length, size = array.shape
    *over, step, inner = array.strides
    if not front:
        return array
    group = front[-1] // max(own, 1)
    return ArrayType(
        array.dtype,
        (*front[:-1], own, group, length, size),
        (*over[:-1], over[-1] * group, over[-1], step, inner),
    )


def _broadcast(call: Call, index: int, name: str, shape: tuple[int, ...]) -> ArrayType | None:
    """Argument `index` as an array of `shape`."""
    array = _given(call, index)
    if array is None:
        return None
    missing = len(shape) - array.ndim
    if missing < 0 or any(
        own not in (1, wanted) for own, wanted in zip(array.shape, shape[missing:], strict=True)
    ):
        raise ArgumentError(
            f"{call.kernel}: {name} has shape {array.shape}, which does not broadcast to {shape}."
        )
    return ArrayType(array.dtype, shape, broadcast_strides(array, shape))


def _planned(
    call: Call,
    query: ArrayType,
    key: ArrayType,
    value: ArrayType,
    view: ArrayType,
    out: ArrayType,
    way: type[Attention],
    fusion: Fusion | None,
) -> Plan:
    """The plan of arrays whose last axes are heads, sequence and size; so is `view`, of `out`."""
    key_length, size = key.shape[-2:]
    if size != query.shape[-1]:
        raise ArgumentError(
            f"{call.kernel}: query has heads of size {query.shape[-1]} and key of {size}; they "
            "need the same."
        )
    if value.shape[:-1] != key.shape[:-1]:
        raise ArgumentError(
            f"{call.kernel}: key has shape {key.shape} and value {value.shape}, heads and sequence "
            "as the last axes but one; they need the same except in the last one."
        )
    refuse_large(call, size, value.shape[-1])
    scores = (*query.shape[:-1], key_length)
    mask = _broadcast(call, 3, "mask", scores)
    slopes = _broadcast(call, 4, "slopes", query.shape[:-2])
    own = key.shape[-3] if key.ndim > 2 else 1
    work = _of_heads(call, query, key, value, view, own, way, fusion)
    if mask is not None:
        work.add("mask", Input(3), split_heads(mask, own), "ml", "mn")
    if slopes is not None:
        wide = ArrayType(slopes.dtype, (*slopes.shape, 1, 1), (*slopes.strides, 0, 0))
        work.add("slopes", Input(4), split_heads(wide, own), "sr", "")
    return work.plan(out)


def refuse_large(call: Call, *sizes: int) -> None:
    for size in sizes:
        if size > _LARGEST:
            raise ArgumentError(
                f"{call.kernel}: heads have the size {size}; the largest that a tile holds is "
                f"{_LARGEST}."
            )


def starts(call: Call, index: int, name: str, least: int = 2) -> int:
    """How many parts there are of which argument `index` says where each starts, and where the last
    one ends.
    """
    array = call.array(index)
    if array.ndim != 1 or array.shape[0] < least or not array.dtype.startswith("int"):
        raise ArgumentError(
            f"{call.kernel}: {name} is {array.dtype} of shape {array.shape}; it has to be a vector "
            "of int32 or int64: where each starts, and at last where the last one ends."
        )
    if array.strides[0] != 1 and array.shape[0] > 1:
        raise ArgumentError(f"{call.kernel}: {name} is not contiguous. Give a contiguous vector.")
    return array.shape[0] - 1


def ragged(call: Call) -> Plan:
    """The plan of attention of sequences that lie one after the other: (token, head, size) each."""
    arrays = [call.array(index) for index in range(3)]
    for name, array in zip(("query", "key", "value"), arrays, strict=True):
        if array.ndim != 3:
            raise ArgumentError(
                f"{call.kernel}: {name} has shape {array.shape}; it has to be (tokens, heads, "
                "size), the tokens of all sequences one after the other."
            )
    query, key, value = arrays
    if key.shape[:2] != value.shape[:2] or key.shape[2] != query.shape[2]:
        raise ArgumentError(
            f"{call.kernel}: query has shape {query.shape}, key {key.shape} and value "
            f"{value.shape}; key and value need the same but for the last axis, and key the "
            "query's last axis."
        )
    count, others = (starts(call, 3 + i, name) for i, name in enumerate(("starts_q", "starts_k")))
    if count != others:
        raise ArgumentError(
            f"{call.kernel}: starts_q are those of {count} sequences and starts_k of {others}."
        )
    refuse_large(call, key.shape[-1], value.shape[-1])
    out = call.output((*query.shape[:-1], value.shape[-1]), floating(call, 3))
    query, key, value, view = (moved(array, (1, 0, 2)) for array in (query, key, value, out))
    own = key.shape[0]
    work = _of_heads(call, query, key, value, view, own)
    work.in_sequences(count, Input(3), Input(4))
    return work.plan(out)


def paged(call: Call) -> Plan:
    """The plan of attention over keys and values in pages: (pages, page, heads, size) each, and for
    each sequence the numbers of its pages and how many keys it has.
    """
    query, keys, values = (call.array(index) for index in range(3))
    table, lengths = call.array(3), call.array(4)
    if query.ndim not in (3, 4) or keys.ndim != 4 or values.ndim != 4:
        raise ArgumentError(
            f"{call.kernel}: query, key and value have {query.ndim}, {keys.ndim} and "
            f"{values.ndim} dimensions; they are (sequence, head, size), or (sequence, query, "
            "head, size), and (page, key, head, size)."
        )
    batch = query.shape[0]
    for array, name, shape in ((table, "table", (batch, -1)), (lengths, "lengths", (batch,))):
        if array.ndim != len(shape) or array.shape[0] != batch:
            raise ArgumentError(
                f"{call.kernel}: {name} has shape {array.shape}, and there are {batch} sequences; "
                f"it needs {'a row' if len(shape) > 1 else 'a number'} for each."
            )
        if not array.dtype.startswith("int"):
            raise ArgumentError(
                f"{call.kernel}: {name} is {array.dtype}; it has to be int32 or int64."
            )
    if keys.shape[:3] != values.shape[:3] or keys.shape[-1] != query.shape[-1]:
        raise ArgumentError(
            f"{call.kernel}: query has shape {query.shape}, key {keys.shape} and value "
            f"{values.shape}; key and value need the same but for the last axis, and key the "
            "query's last axis."
        )
    refuse_large(call, keys.shape[-1], values.shape[-1])
    out = call.output((*query.shape[:-1], values.shape[-1]), floating(call, 3))
    order = (0, 2, 1, 3)
    rows = [_with_queries(array) for array in (query, out)]
    own, length = keys.shape[2], table.shape[1] * keys.shape[1]

    def pages(array: ArrayType) -> ArrayType:
        # the pages' own step is the kernel's; here a page is as long as all of them
        shape = (batch, own, length, array.shape[3])
        return ArrayType(
            array.dtype, shape, (0, array.strides[2], array.strides[1], array.strides[3])
        )

    whole = moved(rows[0], order)
    work = Attention(
        call,
        split_heads(whole, own),
        grouped(call, whole, pages(keys), "key"),
        grouped(call, whole, pages(values), "value"),
        split_heads(moved(rows[1], order), own),
    )
    heads = whole.shape[1]
    numbers = ArrayType(
        table.dtype, (batch, heads, 1, table.shape[1]), (table.strides[0], 0, 0, table.strides[1])
    )
    counts = ArrayType(lengths.dtype, (batch, heads, 1, 1), (lengths.strides[0], 0, 0, 0))
    work.add("table", Input(3), split_heads(numbers, own), "", "tn")
    work.add("lengths", Input(4), split_heads(counts, own), "", "")
    work.numbers |= {
        "page": keys.shape[1],
        "pages": keys.shape[0],
        "kp": keys.strides[0],
        "vp": values.strides[0],
    }
    return work.plan(out)


def _with_queries(array: ArrayType) -> ArrayType:
    """(sequence, head, size) with an axis of one query in the second place."""
    if array.ndim == 4:
        return array
    shape, strides = array.shape, array.strides
    return ArrayType(array.dtype, (shape[0], 1, *shape[1:]), (strides[0], 0, *strides[1:]))
