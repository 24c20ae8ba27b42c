"""Kernels whose lanes part, or lie in memory in unusual ways. Imported where Triton is."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl
from spirv_cases import Case, empty, normal

CASES: dict[str, Case] = {}


def _with_a_number(
    kernel: Any, number: int, sizes: tuple[int, int], block: int, expected: Any
) -> Case:
    """A call of `kernel(x, o, number)`; `sizes` are the elements of `x` and `o`."""
    types = dict(zip(kernel.arg_names, ("*fp32", "*fp32", "i32"), strict=False))
    return Case(
        kernel,
        types,
        {"B": block},
        lambda: [normal(sizes[0]), empty(sizes[1]), number],
        expected,
    )


@triton.jit
def last_lanes(x, o, k, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = i >= k
    tl.store(o + i, tl.load(x + (i - k), mask=mask, other=-1.0), mask=i < 2 * B)


def _last_lanes(x: Any, o: Any, k: int) -> list[tuple[int, Any]]:
    return [(1, np.concatenate([np.full(k, -1, np.float32), x[: 32 - k]]))]


for _k in (0, 5, 16, 21, 32):
    CASES[f"last_lanes_{_k}"] = _with_a_number(last_lanes, _k, (32, 32), 32, _last_lanes)


@triton.jit
def every_third(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i * 3, mask=i * 3 < n, other=7.0)
    tl.store(o + i * 2, value, mask=(i % 3 != 1) & (i < n))


def _every_third(x: Any, o: Any, n: int) -> list[tuple[int, Any]]:
    expected = o.copy()
    for i in range(64):
        if i % 3 != 1 and i < n:
            expected[2 * i] = x[3 * i] if 3 * i < n else 7
    return [(1, expected)]


for _n in (0, 1, 40, 192):
    CASES[f"every_third_{_n}"] = _with_a_number(every_third, _n, (192, 128), 64, _every_third)


@triton.jit
def by_table(x, table, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + tl.load(table + i), tl.load(x + i))


CASES["by_table"] = Case(
    by_table,
    {"x": "*fp32", "table": "*i32", "o": "*fp32"},
    {"B": 64},
    lambda: [normal(64), np.random.default_rng(1).permutation(64).astype(np.int32), empty(64)],
    lambda x, table, o: [(2, x[np.argsort(table)])],
)


@triton.jit
def quotient(x, y, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = i < n
    a = tl.load(x + i, mask=mask, other=1)
    b = tl.load(y + i, mask=mask, other=1)
    tl.store(o + i, a // b, mask=mask)


CASES["quotient"] = Case(
    quotient,
    {"x": "*i32", "y": "*i32", "o": "*i32", "n": "i32"},
    {"B": 64},
    lambda: [
        np.arange(64, dtype=np.int32), np.arange(50, -14, -1, dtype=np.int32),
        empty(64, dtype=np.int32), 50,
    ],
    lambda x, y, o, n: [(2, np.concatenate([x[:50] // y[:50], o[50:]]))],
)  # fmt: skip


@triton.jit
def row_sums(x, o, rows, n, B: tl.constexpr):
    for row in range(rows):
        total = tl.zeros([B], tl.float32)
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            total += tl.load(x + row * n + i, mask=i < n, other=0.0)
        tl.store(o + row, tl.sum(total, 0))


CASES["row_sums"] = Case(
    row_sums,
    {"x": "*fp32", "o": "*fp32", "rows": "i32", "n": "i32"},
    {"B": 32},
    lambda: [normal(5, 75), empty(5), 5, 75],
    lambda x, o, rows, n: [(1, x.astype(np.float64).sum(1))],
    tolerance=1e-5,
)


@triton.jit
def past_the_caches(x, o, first, n, B: tl.constexpr):
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        value = tl.load(x + i, mask=i < n) + 1.0
        tl.store(o + first + i, value, mask=i < n, cache_modifier=".cs")


def _past_the_caches(x: Any, o: Any, first: int, n: int) -> list[tuple[int, Any]]:
    return [(1, np.concatenate([o[:first], x + np.float32(1), o[first + n :]]))]


for _first in (0, 1, 16):
    CASES[f"past_the_caches_from_{_first}"] = Case(
        past_the_caches,
        {"x": "*fp32", "o": "*fp32", "first": "i32", "n": "i32"},
        {"B": 64},
        lambda first=_first: [normal(300), empty(330), first, 300],
        _past_the_caches,
    )


@triton.jit
def past_the_caches_at(x, o, FIRST: tl.constexpr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + FIRST + i, tl.load(x + i, mask=i < n), mask=i < n, cache_modifier=".cs")


@triton.jit
def every_second_past_the_caches(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + 2 * i, tl.load(x + i, mask=i < n), mask=i < n, cache_modifier=".cs")


CASES["every_second_past_the_caches"] = Case(
    every_second_past_the_caches,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 64},
    lambda: [normal(64), empty(128), 50],
    lambda x, o, n: [(1, np.concatenate([np.stack([x, o[1::2]], 1).reshape(-1)[:100], o[100:]]))],
)
