"""Attention against its formula in float64: what queries see, heads, layouts, pages, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import check
from refusals import refused

import xtarget


def f(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return sample(dtype, *shape, seed=seed)


def heads(
    batch: int, own: int, of_keys: int, length: int, keys: int, size: int, dtype: str = "float32"
) -> list[Any]:
    """Queries, keys and values."""
    return [
        f(batch, own, length, size, dtype=dtype),
        f(batch, of_keys, keys, size, seed=1, dtype=dtype),
        f(batch, of_keys, keys, size, seed=2, dtype=dtype),
    ]


_MORE = ("nvidia:sm_90", "amd:gfx1100", "intel:spirv64")
SLOPES = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
SHORT: list[tuple[list[Any], dict[str, Any]]] = [
    ([f(9, 16), f(9, 16, seed=1), f(9, 16, seed=2)], {"causal": True, "lse": True}),
    (heads(2, 4, 2, 17, 23, 12), {"window": (5, 7), "softcap": 2.0, "scale": 0.3}),
    ([*heads(1, 2, 2, 17, 17, 16), f(17, 17, dtype="bool")], {"lse": True}),
    ([*heads(2, 4, 1, 9, 11, 16), f(2, 1, 9, 11, seed=5), SLOPES], {}),
    (heads(1, 4, 2, 1, 1100, 16), {"causal": True, "offset": None, "lse": True}),
    (heads(1, 4, 2, 1, 1, 16), {"lse": True}),
    (heads(1, 2, 2, 5, 0, 16), {"lse": True}),
]
LONG: list[tuple[list[Any], dict[str, Any]]] = [
    (heads(2, 4, 2, 37, 53, 24), {"causal": True, "lse": True}),
    (heads(2, 4, 1, 37, 53, 40), {"causal": True, "offset": None, "window": (5, 0)}),
    ([*heads(1, 4, 2, 1, 3000, 64), f(4, 1, 3000, seed=7), SLOPES], {"lse": True}),
    (heads(1, 2, 2, 5, 70, 256), {}),
    (heads(1, 2, 2, 5, 7, 1), {}),
    (heads(1, 4, 2, 33, 40, 40, "bfloat16"), {"causal": True}),
    (heads(1, 4, 2, 33, 40, 80, "float16"), {"causal": True}),
    (heads(1, 4, 2, 33, 40, 40, "float64"), {"causal": True}),
]


@pytest.mark.parametrize(
    ("args", "options"),
    [
        SHORT[0],
        *(pytest.param(*c, marks=pytest.mark.large) for c in SHORT[1:]),
        *(pytest.param(*c, marks=pytest.mark.long) for c in LONG),
    ],
)
def test_attention(device: str, args: Any, options: Any) -> None:
    check("attention", *args, device=device, **options)


@pytest.mark.large
@examples(6)
@given(
    shape=st.tuples(*[st.integers(1, 40)] * 2, st.integers(1, 16), *[st.integers(1, 3)] * 3),
    left=st.integers(0, 20),
    right=st.integers(0, 20),
    offset=st.one_of(st.none(), st.integers(-10, 30)),
    turned=st.booleans(),
)
def test_any_lengths_and_windows(
    device: str, shape: Any, left: int, right: int, offset: int | None, turned: bool
) -> None:
    """Queries that see no key among them; views of any strides."""
    length, keys, size, batch, of_keys, group = shape
    arrays = heads(batch, of_keys * group, of_keys, length, keys, size)
    if turned:
        arrays = [np.ascontiguousarray(array.T).T[..., ::-1, :] for array in arrays]
    options = {"window": (left, right), "offset": offset, "lse": True}
    check("attention", *arrays, device=device, **options)


@pytest.mark.large
def test_heads_behind_the_sequence(device: str) -> None:
    arrays = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in heads(2, 4, 2, 9, 11, 16)]
    check("attention", *arrays, layout="bshd", lse=True, device=device)


@pytest.mark.large
def test_heads_side_by_side(device: str) -> None:
    arrays = [f(2, 9, 32), f(2, 11, 16, seed=1), f(2, 11, 16, seed=2)]
    check("multi_head_attention", *arrays, heads=4, kv_heads=2, causal=True, device=device)


@pytest.mark.parametrize("values", [3, 16, 32])
@pytest.mark.parametrize("size", [32, 64])
def test_half_types_with_narrow_values_and_keys_that_lie_in_any_way(
    device: str, size: int, values: int
) -> None:
    q, v = f(2, 3, 40, size, dtype="float16"), f(2, 3, 64, values, seed=2, dtype="float16")
    turned = f(2, 3, size, 70, seed=1, dtype="float16").swapaxes(2, 3)[:, :, :64]
    uneven = f(2, 3, 64, size + 1, seed=3, dtype="float16")[..., 1:]
    for keys in (turned, uneven):
        check("attention", q, keys, v, device=device)


@pytest.mark.parametrize("queries", [0, pytest.param(2, marks=pytest.mark.large)])
def test_keys_in_pages(device: str, queries: int) -> None:
    """A page that is none of the cache's is not read; a sequence without keys gives 0."""
    table = np.array([[3, 1, 7], [2, -1, 9], [0, 4, 5]], np.int32)
    lengths = np.array([11, 9, 0], np.int32)
    query = f(3, 4, 16) if not queries else f(3, queries, 4, 16)
    cache = f(9, 4, 2, 16, seed=1), f(9, 4, 2, 16, seed=2)
    cache[0][0], cache[1][0] = np.nan, np.inf  # nobody's but of the sequence without keys
    check("paged_attention", query, *cache, table, lengths, causal=True, lse=True, device=device)


STARTS = np.array([0, 5, 5, 30, 31, 40], np.int32)
KEYS = np.array([0, 9, 20, 30, 30, 33], np.int32)


def in_a_row(heads: int = 4, of_keys: int = 2, size: int = 24) -> list[Any]:
    """Queries, keys and values of the sequences of STARTS and KEYS."""
    return [
        f(40, heads, size),
        f(33, of_keys, size, seed=1),
        f(33, of_keys, 16, seed=2),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"causal": True, "lse": True},
        pytest.param({"window": (3, 2), "softcap": 3.0}, marks=pytest.mark.large),
        pytest.param({"causal": True, "offset": 0}, marks=pytest.mark.large),
    ],
)
def test_sequences_one_after_the_other(device: str, options: Any) -> None:
    check("attention_varlen", *in_a_row(), STARTS, KEYS, device=device, **options)


@pytest.mark.large
@examples(8)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=5),
    before=st.integers(0, 4),
)
def test_any_sequences_one_after_the_other(device: str, pairs: Any, before: int) -> None:
    """Tokens in front of the first sequence are of none: their result is 0."""
    lengths = np.array([(before, before), *pairs], np.int64).cumsum(0)
    queries, keys = lengths[-1]
    arrays = [f(queries, 2, 8), f(keys, 2, 8, seed=1), f(keys, 2, 8, seed=2)]
    starts = [np.ascontiguousarray(column) for column in lengths.T]
    check("attention_varlen", *arrays, *starts, causal=True, lse=True, device=device)


@pytest.mark.large
@pytest.mark.parametrize("wild", [[9, -100, 3000, 2, 7, 10**6], [38, 3, 30, 1, 5, 2]])
def test_starts_that_are_none_reach_nothing_outside(device: str, wild: list[int]) -> None:
    wrong = np.array(wild, np.int32)
    for starts in ((wrong, KEYS), (STARTS, wrong), (wrong, wrong)):
        out = xtarget.run("attention_varlen", *in_a_row(), *starts, device=device)
        assert np.abs(out).max() < 10


@pytest.mark.large
def test_a_query_that_sees_nothing_gives_zero(device: str) -> None:
    query, key, value = heads(1, 1, 1, 3, 4, 16)
    mask = np.array([[True] * 4, [False] * 4, [True] * 4])
    out, lse = xtarget.run("attention", query, key, value, mask, lse=True, device=device)
    assert not out[0, 0, 1].any()
    assert lse[0, 0, 1] == -np.inf
    value[0, 0, 2, 3] = np.nan
    out = xtarget.run("attention", query, key, value, device=device)
    assert np.isnan(out[0, 0, :, 3]).all()
    assert not np.isnan(out[0, 0, :, :3]).any()


@pytest.mark.parametrize(
    "target",
    ["nvidia:sm_80", "amd:gfx942", *(pytest.param(t, marks=pytest.mark.long) for t in _MORE)],
)
def test_tiles_fit_the_shared_memory(target: str) -> None:
    """99 KiB on NVIDIA's chips, 64 on AMD's."""
    arrays = [np.zeros((1, 2, 64, 128), np.float16)] * 3
    for artifact in xtarget.compile("attention", *arrays, causal=True, target=target):
        assert artifact.shared_bytes <= (64 if target.startswith("amd") else 99) * 1024


MANY: list[tuple[list[Any], dict[str, Any]]] = [
    (heads(1, 4, 2, 17, 530, 20), {"causal": True, "offset": None, "lse": True, "softcap": 2.0}),
    (heads(2, 2, 1, 33, 600, 72, "bfloat16"), {"window": (40, 3)}),
    ([*heads(1, 4, 2, 19, 40, 33, "float64"), f(19, 40, dtype="bool"), SLOPES], {"lse": True}),
    ([x.swapaxes(-1, -2) for x in heads(1, 2, 2, 24, 24, 24, "float16")], {}),
]


@pytest.mark.usefixtures("a_cpu")
@pytest.mark.parametrize(("args", "options"), MANY)
def test_tiles_of_queries_on_a_cpu(args: Any, options: Any) -> None:
    """Panels whose last one is not full; more keys than a tile keeps the powers of."""
    check("attention", *args, device="cpu:0", **options)


@pytest.mark.usefixtures("a_cpu")
@pytest.mark.parametrize("options", [{"causal": True, "lse": True}, {"window": (3, 200)}])
def test_sequences_that_begin_within_a_panel_on_a_cpu(options: Any) -> None:
    starts = np.array([0, 21, 21, 60], np.int32)
    keys = np.array([0, 45, 50, 620], np.int32)
    arrays = [f(60, 4, 24), f(620, 2, 24, seed=1), f(620, 2, 40, seed=2)]
    check("attention_varlen", *arrays, starts, keys, device="cpu:0", **options)


WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("attention", heads(1, 3, 2, 4, 4, 8), {}, "query has 3 heads and key 2; the query's have"),
    ("attention", [f(4, 8), f(4, 9), f(4, 8)], {}, "heads of size 8 and key of 9"),
    ("attention", [f(4, 8), f(4, 8), f(5, 8)], {}, r"key has shape \(4, 8\) and value \(5, 8\)"),
    ("attention", [f(4, 8), f(1, 4, 8), f(4, 8)], {}, "query has 2 dimensions and key 3"),
    ("attention", [f(4, 300)] * 3, {}, "heads have the size 300; the largest .* is 256"),
    ("attention", [f(4, 8)] * 3, {"layout": "sbhd"}, "layout is 'sbhd'; it has to be 'bhsd'"),
    ("attention", [f(4, 8)] * 3, {"window": 3}, "window is 3; it has to be None or two integers"),
    ("attention", [f(4, 8)] * 3, {"window": (-2, 1)}, r"window is \(-2, 1\); .* -1 for all"),
    ("attention", [f(4, 8)] * 3, {"softcap": -1.0}, r"softcap is -1\.0; .* above 0, or None"),
    ("attention", [f(4, 8)] * 3, {"offset": 1.5}, r"offset is 1\.5; it has to be the place"),
    ("attention", [f(4, 8)] * 3, {"causal": "yes"}, "causal='yes' is not a bool"),
    ("attention", [f(4, 8)] * 3, {"scale": "x"}, "scale is 'x'; it has to be a number"),
    ("attention", [*[f(4, 8)] * 3, f(5, 4)], {}, r"mask has shape \(5, 4\), which does not"),
    ("attention", [f(4, 8, dtype="bool")] * 3, {}, "argument 1 is bool; attention takes float16"),
    ("multi_head_attention", [f(4, 9)] * 3, {"heads": 2}, "last axis has to be 2 heads of one"),
    ("multi_head_attention", [f(4, 8)] * 3, {"heads": 0}, "heads is 0; it has to be 1 or more"),
    ("attention_varlen", [*in_a_row(), STARTS, KEYS[1:]], {}, "those of 5 sequences and .* of 4"),
    ("attention_varlen", [*in_a_row(), STARTS[:1], KEYS], {}, "starts_q is int32 of shape"),
    ("attention_varlen", [f(4, 8)] * 3 + [STARTS] * 2, {}, r"has to be \(tokens, heads, size\)"),
    ("paged_attention", [f(2, 2, 8), *[f(3, 4, 2, 8)] * 2, np.zeros((3, 2), np.int32),
     np.zeros(2, np.int32)], {}, r"table has shape \(3, 2\), and there are 2 sequences"),
    ("paged_attention", [f(2, 2, 8), *[f(3, 4, 2, 8)] * 2, f(2, 2), np.zeros(2, np.int32)], {},
     "table is float32; it has to be int32 or int64"),
]  # fmt: skip


test_what_does_not_fit_is_said = refused(WRONG)
