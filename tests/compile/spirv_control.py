"""Control flow, parameters of all kinds, atomics, calls and printing."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from spirv_cases import Case, empty, normal

erf = np.vectorize(math.erf)
CASES: dict[str, Case] = {}


@triton.jit
def control(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    k = 0
    while k < n:
        if k % 2 == 0:
            total += tl.load(x + k * B + i, mask=i < 100, other=0.0)
        else:
            total -= tl.load(x + k * B + i, mask=i < 100, other=1.0)
        k += 1 + tl.program_id(2)
    tl.store(o + i + tl.program_id(1) * B, total + tl.num_programs(1), mask=i < 120)


def _control(x: Any, o: Any, n: int) -> Any:
    rows = x.reshape(5, 128).astype(np.float64)
    total = np.where(np.arange(128) < 100, rows[0] - rows[1] + rows[2] - rows[3] + rows[4], -2) + 3
    return [(1, np.tile(np.where(np.arange(128) < 120, total, 77), 3))]


CASES["control"] = Case(
    control,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 128},
    lambda: [normal(5 * 128), empty(3 * 128), 5],
    _control,
    1e-5,
    grid=(1, 3, 1),
)


@triton.jit
def scalars(x, o, f, h, b, d, c, s, wide, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    if f:
        v += h.to(tl.float32) + b.to(tl.float32) + d.to(tl.float32) + c + s + wide
    tl.store(o + i, v)


CASES["scalars"] = Case(
    scalars,
    {"x": "*fp32", "o": "*fp32", "f": "i1", "h": "fp16", "b": "bf16", "d": "fp64", "c": "i8",
     "s": "i16", "wide": "i64"},
    {"B": 32},
    lambda: [normal(32), empty(32), 1, 2.5, 3.0, 4.25, -5, 600, -70000],
    lambda x, o, *rest: [(1, x + np.float32(2.5 + 3 + 4.25 - 5 + 600 - 70000))],
    1e-6,
)  # fmt: skip


@triton.jit
def tuples(x, o, shape, strides, nothing, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.program_id(0).to(tl.int64)
    m = i < shape[1]
    v = tl.load(x + row * strides[0] + i * strides[1], m) * len(shape) + len(nothing)
    tl.store(o + row * shape[1] + i, v, m)


CASES["tuples"] = Case(
    tuples,
    {"x": "*fp32", "o": "*fp32", "shape": ("i32", "i32"), "strides": ("i64", "i64"), "nothing": ()},
    {"B": 64},
    lambda: [normal(50, 7), empty(7 * 50), 7, 50, 1, 7],
    lambda x, o, *rest: [(1, (x.T * 2).reshape(-1))],
    grid=(7, 1, 1),
)


@triton.jit
def descriptors(x, o, m, n, B: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [m, n], [n, 1], [B, B])
    c = tl.make_tensor_descriptor(o, [m, n], [n, 1], [B, B])
    at = [tl.program_id(0) * B, tl.program_id(1) * B]
    c.store(at, a.load(at) * 2)


CASES["descriptors"] = Case(
    descriptors,
    {"x": "*fp32", "o": "*fp32", "m": "i32", "n": "i32"},
    {"B": 16},
    lambda: [normal(20, 36), empty(20, 36), 20, 36],
    lambda x, o, *rest: [(1, x * 2)],
    grid=(2, 3, 1),
)


@triton.jit
def atomics(i32, f32, f16, f64, i64, b16, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(i32 + i % 8, i)
    tl.atomic_max(i32 + 8 + i % 8, i)
    tl.atomic_xchg(i32 + 16 + i, i)
    tl.atomic_cas(i32 + 16 + B, 77, 5)
    tl.atomic_add(f32 + i % 4, 1.0)
    tl.atomic_max(f32 + 4 + i % 4, i.to(tl.float32))
    tl.atomic_min(f32 + 8 + i % 4, i.to(tl.float32) - 5)
    tl.atomic_add(f16 + i % 4, tl.full([B], 0.5, tl.float16))
    tl.atomic_add(f64 + i % 4, i.to(tl.float64))
    tl.atomic_add(i64 + i % 4, i.to(tl.int64))
    tl.atomic_add(b16 + i % 4, tl.full([B], 1.0, tl.bfloat16))
    tl.debug_barrier()
    tl.atomic_add(i32 + 16 + B, 1, sem="relaxed", scope="cta")
    tl.atomic_add(i32 + 16 + B, 1, sem="release", scope="sys")


def _atomics(*given: Any) -> Any:
    i = np.arange(64)
    by8, by4 = i.reshape(8, 8), i.reshape(16, 4)
    words = np.concatenate([77 + by8.sum(0), np.maximum(77, by8.max(0)), i, [5 + 2]])
    floats = np.concatenate([[93.0] * 4, [77.0] * 4, by4.min(0) - 5])
    return [(0, words), (1, floats), (2, [85.0] * 4), (3, 77 + by4.sum(0)), (4, 77 + by4.sum(0)),
            (5, [93.0] * 4)]  # fmt: skip


CASES["atomics"] = Case(
    atomics,
    {"i32": "*i32", "f32": "*fp32", "f16": "*fp16", "f64": "*fp64", "i64": "*i64", "b16": "*bf16"},
    {"B": 64},
    lambda: [empty(81, dtype=np.int32), empty(12), empty(4, dtype=np.float16),
             empty(4, dtype=np.float64), empty(4, dtype=np.int64),
             empty(4, dtype=ml_dtypes.bfloat16)],
    _atomics,
)  # fmt: skip


@triton.jit
def random_numbers(o, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.rand(seed, i))
    tl.store(o + B + i, tl.randn(seed, i))


CASES["random_numbers"] = Case(random_numbers, {"o": "*fp32", "seed": "i32"}, {"B": 256})


@triton.jit
def printing(x, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_print("value", tl.load(x + i), i)


CASES["printing"] = Case(printing, {"x": "*fp32"}, {"B": 16})


@triton.jit(noinline=True)
def _twice(v):
    return v * 2


@triton.jit
def calls(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) + _twice(n))


CASES["calls"] = Case(
    calls,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 64},
    lambda: [normal(64), empty(64), 21],
    lambda x, o, n: [(1, x + 42)],
)


@triton.jit
def many_fields(x, o, n, B: tl.constexpr):
    """Several tensors of several types live through a loop."""
    i = tl.arange(0, B)
    best = tl.full((B,), float("-inf"), tl.float32)
    where = tl.zeros((B,), tl.int64)
    half = tl.zeros((B,), tl.bfloat16)
    for k in range(n):
        v = tl.load(x + k * B + i)
        where = tl.where(v > best, k, where)
        best = tl.maximum(v, best)
        half = (half + 1.0).to(tl.bfloat16)
    tl.store(o + i, best)
    tl.store(o + B + i, where.to(tl.float32))
    tl.store(o + 2 * B + i, half.to(tl.float32))


CASES["many_fields"] = Case(
    many_fields,
    {"x": "*fp32", "o": "*fp32", "n": "i32"},
    {"B": 64},
    lambda: [normal(9, 64), empty(192), 9],
    lambda x, o, n: [(1, np.concatenate([x.max(0), x.argmax(0), np.full(64, 9.0)]))],
)
