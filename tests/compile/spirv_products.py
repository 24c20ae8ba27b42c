"""Dots of every kind: of three axes, scaled, of small types. Cases as in `spirv_kernels`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from spirv_cases import VERSION, Case, empty, normal, rng

CASES: dict[str, Case] = {}


@triton.jit
def dot(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
        A: tl.constexpr, D: tl.constexpr):  # fmt: skip
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    total = tl.dot(x, y, input_precision=P, max_num_imprecise_acc=A, out_dtype=D)
    tl.store(c + m[:, None] * N + n[None, :], total)


E5, E4 = ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn
E5B16, E4B8 = ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3fnuz
FLOAT8 = {"fp8e5": E5, "fp8e4nv": E4, "fp8e5b16": E5B16, "fp8e4b8": E4B8}

for _name, _type, _out, _precision, _imprecise, _acc, _dtype, _odtype, _tolerance in (
    ("tf32x3", "fp32", "fp32", "tf32x3", None, tl.float32, np.float32, np.float32, 5e-5),
    ("bf16x3", "fp32", "fp32", "bf16x3", None, tl.float32, np.float32, np.float32, 1e-3),
    ("bf16x6", "fp32", "fp32", "bf16x6", None, tl.float32, np.float32, np.float32, 5e-5),
    ("fp16_out", "fp16", "fp16", "ieee", None, tl.float16, np.float16, np.float16, 2e-2),
    ("fp8e5", "fp8e5", "fp32", "ieee", 0, tl.float32, E5, np.float32, 5e-5),
    ("fp8e4nv", "fp8e4nv", "fp32", "ieee", 32, tl.float32, E4, np.float32, 5e-5),
    ("fp8e4b8", "fp8e4b8", "fp32", "ieee", 32, tl.float32, E4B8, np.float32, 5e-5),
    ("fp8e5b16", "fp8e5b16", "fp32", "ieee", None, tl.float32, E5B16, np.float32, 5e-5),
):
    CASES[f"dot_{_name}"] = Case(
        dot,
        {"a": "*" + _type, "b": "*" + _type, "c": "*" + _out},
        {"M": 16, "N": 16, "K": 32, "P": _precision, "A": _imprecise, "D": _acc},
        lambda d=_dtype, e=_odtype: [np.abs(normal(16, 32) * 5).astype(d),
                                     np.abs(normal(32, 16) * 5).astype(d), empty(16, 16, dtype=e)],
        lambda a, b, c: [(2, a.astype(np.float64) @ b.astype(np.float64))],
        _tolerance,
    )  # fmt: skip


@triton.jit
def dot3d(a, b, c, P: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    p = tl.arange(0, P)[:, None, None]
    m = tl.arange(0, M)[None, :, None]
    k = tl.arange(0, K)[None, None, :]
    x = tl.load(a + (p * M + m) * K + k)
    y = tl.load(b + (p * K + tl.arange(0, K)[None, :, None]) * M + tl.arange(0, M)[None, None, :])
    z = (p * M + m) * M + tl.arange(0, M)[None, None, :]
    tl.store(c + z, tl.dot(x, y, out_dtype=tl.float32))


def dot3d_case(size: int) -> Case:
    return Case(
        dot3d,
        {"a": "*fp16", "b": "*fp16", "c": "*fp32"},
        {"P": 2, "M": size, "K": size},
        lambda: [
            normal(2, size, size, dtype=np.float16),
            normal(2, size, size, dtype=np.float16),
            empty(2, size, size),
        ],
        lambda a, b, c: [(2, a.astype(np.float64) @ b.astype(np.float64))],
        5e-5,
    )


CASES["dot3d"] = dot3d_case(16)


@triton.jit
def dot_scaled(a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
               A: tl.constexpr, B: tl.constexpr):  # fmt: skip
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    ka = tl.arange(0, K // 2 if A == "e2m1" else K)
    kb = tl.arange(0, K // 2 if B == "e2m1" else K)
    s = tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * (K // 2 if A == "e2m1" else K) + ka[None, :])
    y = tl.load(b + kb[:, None] * N + n[None, :])
    p = tl.load(sa + m[:, None] * (K // 32) + s[None, :])
    q = tl.load(sb + n[:, None] * (K // 32) + s[None, :])
    total = tl.dot_scaled(x, p, A, y, q, B)
    tl.store(c + m[:, None] * N + n[None, :], total)


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float64)


def _values(x: Any, kind: str, axis: int) -> Any:
    if kind != "e2m1":
        return x.astype(np.float64)
    low, high = x & 15, x >> 4
    both = np.stack([low, high], axis + 1)
    shape = list(x.shape)
    shape[axis] *= 2
    nibbles = both.reshape(shape)
    return np.where(nibbles & 8, -1, 1) * _E2M1[nibbles & 7]


def _scaled(kinds: tuple[str, str]) -> Any:
    def expect(a: Any, sa: Any, b: Any, sb: Any, c: Any) -> Any:
        x = _values(a, kinds[0], 1) * np.repeat(np.exp2(sa.astype(np.float64) - 127), 32, 1)
        y = _values(b, kinds[1], 0) * np.repeat(np.exp2(sb.astype(np.float64) - 127), 32, 1).T
        return [(4, x @ y)]

    return expect


def _operand(kind: str, *shape: int) -> Any:
    if kind == "e2m1":
        return rng.integers(0, 256, shape).astype(np.uint8)
    return normal(*shape).astype({"e4m3": E4, "e5m2": E5, "bf16": ml_dtypes.bfloat16}[kind])


_SIGNATURE = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "bf16": "*bf16"}
for _kinds in (("e4m3", "e5m2"), ("e2m1", "e4m3"), ("e2m1", "e2m1"), ("bf16", "e4m3")):
    if VERSION >= (3, 8):
        CASES[f"dot_scaled_{_kinds[0]}_{_kinds[1]}"] = Case(
            dot_scaled,
            {"a": _SIGNATURE[_kinds[0]], "sa": "*u8", "b": _SIGNATURE[_kinds[1]], "sb": "*u8",
             "c": "*fp32"},
            {"M": 16, "N": 16, "K": 64, "A": _kinds[0], "B": _kinds[1]},
            lambda k=_kinds: [_operand(k[0], 16, 32 if k[0] == "e2m1" else 64),
                              rng.integers(124, 131, (16, 2)).astype(np.uint8),
                              _operand(k[1], 32 if k[1] == "e2m1" else 64, 16),
                              rng.integers(124, 131, (16, 2)).astype(np.uint8), empty(16, 16)],
            _scaled(_kinds),
            2e-2,
        )  # fmt: skip
